//! Whether the type of what came back fits the ending of the path that was asked for.
//!
//! A program that fetches its next stage as a picture is seen by it. Only endings that name one kind of
//! content are looked at, and only types that say something: `application/octet-stream` is no statement,
//! and what a server says when it refuses or redirects is not what was asked for.

use gabion_record::logs::Http;

/// Endings, and how types that fit them begin.
const FITTING: &[(&[&str], &[&str])] = &[
    (&["png", "gif", "jpg", "jpeg", "jpe", "bmp", "webp", "ico", "tif", "tiff"], &["image/"]),
    (&["svg"], &["image/", "text/", "application/xml"]),
    (&["pdf"], &["application/pdf", "application/x-pdf"]),
    (&["mp3", "ogg", "wav", "m4a", "flac"], &["audio/", "video/", "application/ogg"]),
    (&["mp4", "webm", "avi", "mov", "mkv", "mpg", "mpeg"], &["video/", "audio/"]),
    (
        &["woff", "woff2", "ttf", "otf", "eot"],
        &["font/", "application/font", "application/x-font", "application/vnd.ms-"],
    ),
    (
        &["zip", "jar", "apk", "docx", "xlsx", "pptx"],
        &[
            "application/zip",
            "application/x-zip",
            "application/java-archive",
            "application/x-java",
            "application/vnd.",
        ],
    ),
    (&["gz", "tgz"], &["application/gzip", "application/x-gzip", "application/x-tar"]),
    (
        &["exe", "dll", "scr", "sys"],
        &[
            "application/x-dosexec",
            "application/x-ms",
            "application/x-exe",
            "application/x-winexe",
            "application/vnd.microsoft.portable-executable",
        ],
    ),
    (
        &["htm", "html", "css", "js", "json", "xml", "txt", "csv", "php", "asp", "aspx", "jsp"],
        &[
            "text/",
            "application/json",
            "application/javascript",
            "application/x-javascript",
            "application/ecmascript",
            "application/xml",
            "application/xhtml",
            "application/rss",
            "application/atom",
            "application/soap",
        ],
    ),
];

/// The ending of a URI's path, without its dot.
fn ending(uri: &[u8]) -> Option<&[u8]> {
    let path = uri.split(|b| matches!(b, b'?' | b'#')).next()?;
    let name = path.rsplit(|b| *b == b'/').next()?;
    let dot = name.iter().rposition(|b| *b == b'.')?;
    name.get(dot + 1..).filter(|e| (2..=5).contains(&e.len()))
}

fn begins(text: &[u8], with: &str) -> bool {
    text.get(..with.len()).is_some_and(|head| head.eq_ignore_ascii_case(with.as_bytes()))
}

/// Whether an answer that was given has a type that its path does not fit.
pub(crate) fn is_mismatched(h: &Http<'_>) -> bool {
    if h.resp_mime_types.raw.is_empty() || !(h.status == 0 || (200..300).contains(&h.status)) {
        return false;
    }
    let Some(ending) = ending(h.uri) else { return false };
    let is = |known: &&str| ending.eq_ignore_ascii_case(known.as_bytes());
    let Some((_, fitting)) = FITTING.iter().find(|(endings, _)| endings.iter().any(&is)) else {
        return false;
    };
    let mut types = h
        .resp_mime_types
        .iter()
        .filter(|t| t.contains(&b'/') && !begins(t, "application/octet-stream"));
    let mut some = false;
    let fits = types.any(|t| {
        some = true;
        fitting.iter().any(|with| begins(t, with))
    });
    some && !fits
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_record::logs::List;

    fn mismatched(uri: &str, types: &str, status: u16) -> bool {
        let resp_mime_types = List { raw: types.as_bytes(), is_json: false };
        is_mismatched(&Http { uri: uri.as_bytes(), resp_mime_types, status, ..Http::default() })
    }

    #[test]
    fn a_program_that_is_called_a_picture_is_seen() {
        assert!(mismatched("/a/logo.png", "application/x-dosexec", 200));
        assert!(mismatched("/a.b/logo.JPG?v=1.html", "text/plain", 206));
        assert!(mismatched("/x.js", "application/x-dosexec", 0));
        assert!(mismatched("/x.exe", "image/png", 200));
    }

    #[test]
    fn what_fits_says_nothing_or_is_unknown_is_none() {
        for (uri, types, status) in [
            ("/logo.png", "image/jpeg", 200),
            ("/logo.png", "text/html", 404),
            ("/logo.png", "text/html", 302),
            ("/logo.png", "application/octet-stream", 200),
            ("/logo.png", "", 200),
            ("/logo.png", "-", 200),
            ("/x.js", "text/plain", 200),
            ("/x.zip", "text/html,application/zip", 200),
            ("/x.exe", "application/x-dosexec", 200),
            ("/x.unheard", "application/x-dosexec", 200),
            ("/logo.png/", "application/x-dosexec", 200),
            ("/logo", "application/x-dosexec", 200),
        ] {
            assert!(!mismatched(uri, types, status), "{uri} {types} {status}");
        }
    }

    #[test]
    fn odd_paths_break_nothing() {
        let long = format!("/{}.png", "a.".repeat(5000));
        for uri in ["", ".", "/.", "..", "?", "#.png", "\u{e9}.\u{e9}\u{e9}", long.as_str()] {
            assert_eq!(mismatched(uri, "application/x-dosexec", 200), uri == long, "{uri}");
        }
    }
}
