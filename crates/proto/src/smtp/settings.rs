//! What the configuration says: `app-layer.protocols.smtp`.

use crate::files::Windows;
use gabion_record::Tree;

/// Settings of SMTP.
#[derive(Clone, Debug)]
pub struct Settings {
    /// A mail's raw text is a file of its own (`rawmsg`); excludes decoding.
    pub raw_extraction: bool,
    /// Mails are decoded.
    pub decode_mime: bool,
    /// How.
    pub mime: MimeSettings,
    /// When file data is due for inspection.
    pub windows: Windows,
}

/// Settings of decoding.
#[derive(Clone, Debug)]
pub struct MimeSettings {
    /// Base64 is decoded.
    pub base64: bool,
    /// Quoted-printable is decoded.
    pub quoted_printable: bool,
    /// Bytes kept of a header value's line.
    pub header_value_depth: usize,
    /// URLs are looked for in texts.
    pub extract_urls: bool,
    /// Their schemes, lower case, with `://`.
    pub schemes: Vec<Vec<u8>>,
    /// URLs are kept with their scheme.
    pub log_scheme: bool,
    /// MD5 of bodies.
    pub body_md5: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            raw_extraction: false,
            decode_mime: true,
            mime: MimeSettings {
                base64: true,
                quoted_printable: true,
                header_value_depth: 2000,
                extract_urls: true,
                schemes: vec![b"http://".to_vec()],
                log_scheme: false,
                body_md5: false,
            },
            windows: Windows { content_limit: 100_000, min_size: 32_768, window: 4_096 },
        }
    }
}

impl Settings {
    /// Reads `app-layer.protocols.smtp`; what is missing or wrong keeps Suricata's default.
    pub fn from_config(config: Option<&Tree>) -> Settings {
        let mut s = Settings::default();
        let Some(c) = config else { return s };
        let set = |slot: &mut bool, path: &str| *slot = c.flag(path).unwrap_or(*slot);
        set(&mut s.raw_extraction, "raw-extraction");
        set(&mut s.decode_mime, "mime.decode-mime");
        set(&mut s.mime.base64, "mime.decode-base64");
        set(&mut s.mime.quoted_printable, "mime.decode-quoted-printable");
        set(&mut s.mime.extract_urls, "mime.extract-urls");
        set(&mut s.mime.log_scheme, "mime.log-url-scheme");
        set(&mut s.mime.body_md5, "mime.body-md5");
        // Both at once is a mistake which Suricata answers by decoding.
        s.raw_extraction &= !s.decode_mime;
        if let Some(n) = c.number("mime.header-value-depth") {
            s.mime.header_value_depth = usize::try_from(n).unwrap_or(usize::MAX);
        }
        if let Some(list) = c.get("mime.extract-urls-schemes") {
            let names = list.children.iter().filter_map(|(_, t)| t.value.as_deref());
            s.mime.schemes =
                names.map(|n| [n.to_ascii_lowercase().as_bytes(), b"://"].concat()).collect();
        }
        let size = |slot: &mut u64, name: &str| {
            *slot = c.size(&format!("inspected-tracker.{name}")).unwrap_or(*slot);
        };
        size(&mut s.windows.content_limit, "content-limit");
        size(&mut s.windows.min_size, "content-inspect-min-size");
        size(&mut s.windows.window, "content-inspect-window");
        s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suricata_defaults_and_changes() {
        let s = Settings::from_config(None);
        assert!(s.decode_mime && !s.raw_extraction);
        let mut t = Tree::default();
        for (path, value) in [
            ("raw-extraction", "yes"),
            ("mime.extract-urls-schemes.0", "FTP"),
            ("mime.header-value-depth", "3"),
            ("inspected-tracker.content-limit", "100kb"),
        ] {
            t.set(path, value);
        }
        let s = Settings::from_config(Some(&t));
        assert!(!s.raw_extraction, "decoding wins");
        assert_eq!(s.mime.schemes, [b"ftp://".to_vec()]);
        assert_eq!((s.mime.header_value_depth, s.windows.content_limit), (3, 102_400));
        t.set("mime.decode-mime", "no");
        assert!(Settings::from_config(Some(&t)).raw_extraction);
    }
}
