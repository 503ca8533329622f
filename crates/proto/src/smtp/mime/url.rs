//! URLs in texts.

use super::super::limits::reached;
use super::super::settings::MimeSettings;

/// URLs found, without their schemes unless these are wanted.
#[derive(Clone, Debug, Default)]
pub struct Urls {
    list: Vec<Vec<u8>>,
    bytes: usize,
}

impl Urls {
    /// The URLs, latest first: the order in which Suricata lists them.
    pub fn latest_first(&self) -> impl Iterator<Item = &[u8]> {
        self.list.iter().rev().map(Vec::as_slice)
    }

    /// The URL of that number, oldest first.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        self.list.get(index).map(Vec::as_slice)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Bytes held.
    pub fn bytes_held(&self) -> usize {
        self.bytes + self.list.capacity() * size_of::<Vec<u8>>()
    }

    /// Looks for URLs in a line (with its line end, which Suricata takes for a part of a URL). What
    /// follows a scheme up to a blank, quote or bracket is a URL, even when nothing does; one pass a
    /// scheme.
    pub fn search(&mut self, line: &[u8], settings: &MimeSettings) {
        if memchr::memmem::find(line, b"://").is_none() {
            return;
        }
        for scheme in &settings.schemes {
            let mut rest = line;
            while let Some(at) = find_nocase(rest, scheme) {
                let text = &rest[at + scheme.len()..];
                let end = text.iter().position(|b| ends_url(*b)).unwrap_or(text.len());
                let keep = if settings.log_scheme { scheme.as_slice() } else { b"" };
                if reached::URLS_MAX.has_room(self.list.len())
                    && reached::URL_BYTES_MAX.holds(self.bytes + keep.len() + end)
                {
                    let url = [keep, &text[..end]].concat();
                    self.bytes += url.len();
                    self.list.push(url);
                }
                rest = &text[end..];
            }
        }
    }
}

/// Bytes at which a URL ends: measured with each of the 255.
fn ends_url(b: u8) -> bool {
    matches!(b, b'\t' | b' ' | b'"' | b'\'' | b'<' | b'>' | b']')
}

/// Position of `scheme` (lower case, ends in `://`) in any case of letters.
fn find_nocase(text: &[u8], scheme: &[u8]) -> Option<usize> {
    let name = scheme.len().checked_sub(3)?;
    let mut finder = memchr::memmem::find_iter(text, b"://");
    finder.find_map(|at| {
        let from = at.checked_sub(name)?;
        text.get(from..at)?.eq_ignore_ascii_case(&scheme[..name]).then_some(from)
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::settings::Settings;
    use super::*;

    #[test]
    fn urls_as_suricata_finds_them() {
        let mut s = Settings::default().mime;
        // `email.url` of Suricata 8.0.7, which lists the latest first.
        for (line, urls) in [
            (
                "xhttp://a.b http:///c http:/d http://e http://f.g\r\n",
                &["f.g\r\n", "e", "/c", "a.b"][..],
            ),
            ("<a href='http://o.p/q'>http://r.s</a>\r\n", &["r.s", "o.p/q"]),
            ("HTTP://A.b/C \r\n", &["A.b/C"]),
            ("http://a/http://b/c http://d\r\n", &["d\r\n", "a/http://b/c"]),
            ("http:// x\r\n", &[""]),
            ("http://[fe80::1]/ \r\n", &["[fe80::1"]),
            ("https://a.b\r\n", &[]),
        ] {
            let mut found = Urls::default();
            found.search(line.as_bytes(), &s);
            let got: Vec<_> = found.latest_first().map(String::from_utf8_lossy).collect();
            assert_eq!(got, urls, "{line}");
        }
        s.schemes = ["https://", "http://", "ftp://"].map(|t| t.as_bytes().to_vec()).to_vec();
        s.log_scheme = true;
        let mut found = Urls::default();
        found.search(b"http://a.exe https://b.c/ ftp://d http://e/ \r\n", &s);
        let got: Vec<_> = found.latest_first().map(String::from_utf8_lossy).collect();
        assert_eq!(got, ["ftp://d", "http://e/", "http://a.exe", "https://b.c/"]);
    }

    #[test]
    fn a_line_of_schemes_costs_one_pass() {
        let line = b"http://".repeat(20_000);
        let mut found = Urls::default();
        found.search(&line, &Settings::default().mime);
        assert_eq!(found.len(), 1);
    }
}
