//! What a file is by its first bytes, in the words of libmagic 5.4x, which Suricata asks.
//!
//! An own table of what rules ask for and what travels most: programs, documents, images, archives,
//! media, scripts and text. What it does not know is `data`, as there; details that libmagic reads
//! from deep inside a file (dates, authors, encodings of images) are left out.

mod program;
mod text;

use std::borrow::Cow;

/// Bytes at the front of a file that are examined: headers of programs lie within.
pub const HEAD_BYTES: usize = 1024;

/// Bytes of an open file from which on it is examined: Suricata's own.
pub const MIN_BYTES: u64 = 512;

/// A literal at an offset, and what it shows.
type Sign = (usize, &'static [u8], &'static str);

/// Files known by a literal alone. The first that fits counts.
const SIGNS: &[Sign] = &[
    (0, b"X5O!P%@AP[4\\PZX54(P^)7CC)7}$EICAR", "EICAR virus test files"),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "Composite Document File V2 Document"),
    (0, b"{\\rtf1", "Rich Text Format data, version 1"),
    (0, b"{\\rtf", "Rich Text Format data"),
    (0, b"%!PS-Adobe", "PostScript document text"),
    (0, b"%!", "PostScript document text"),
    (0, b"%FDF-", "FDF document"),
    (0, b"ITSF", "MS Windows HtmlHelp Data"),
    (0, b"L\0\0\0\x01\x14\x02\0", "MS Windows shortcut"),
    (0, b"regf", "MS Windows registry file, NT/2000 or above"),
    (0, b"MSCF\0\0\0\0", "Microsoft Cabinet archive data"),
    (0, b"\x1f\x8b", "gzip compressed data"),
    (0, b"\x1f\x9d", "compress'd data"),
    (0, b"\xfd7zXZ\0", "XZ compressed data"),
    (0, b"\x28\xb5\x2f\xfd", "Zstandard compressed data (v0.8+)"),
    (0, b"\x04\x22\x4d\x18", "LZ4 compressed data (v1.4+)"),
    (0, b"LZIP", "lzip compressed data"),
    (0, b"]\0\0", "LZMA compressed data"),
    (0, b"Rar!\x1a\x07\x01\0", "RAR archive data, v5"),
    (0, b"Rar!\x1a\x07\0", "RAR archive data, v4"),
    (0, b"!<arch>\ndebian", "Debian binary package"),
    (0, b"!<arch>\n", "current ar archive"),
    (0, b"\xed\xab\xee\xdb", "RPM"),
    (257, b"ustar  \0", "POSIX tar archive (GNU)"),
    (257, b"ustar\0", "POSIX tar archive"),
    (0x8001, b"CD001", "ISO 9660 CD-ROM filesystem data"),
    (0, b"II*\0", "TIFF image data, little-endian"),
    (0, b"MM\0*", "TIFF image data, big-endian"),
    (0, b"BM", "PC bitmap"),
    (0, b"\0\0\x01\0", "MS Windows icon resource"),
    (0, b"\0\0\x02\0", "MS Windows cursor resource"),
    (0, b"8BPS", "Adobe Photoshop Image"),
    (0, b"OggS", "Ogg data"),
    (0, b"fLaC", "FLAC audio bitstream data"),
    (0, b"MThd", "Standard MIDI data"),
    (0, b"FLV\x01", "Macromedia Flash Video"),
    (0, b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", "Microsoft ASF"),
    (0, b"\0\0\x01\xba", "MPEG sequence, v2, program multiplex"),
    (0, b"\0\0\x01\xb3", "MPEG sequence"),
    (0, b"wOFF", "Web Open Font Format"),
    (0, b"wOF2", "Web Open Font Format (Version 2)"),
    (0, b"OTTO", "OpenType font data"),
    (0, b"\0\x01\0\0\0", "TrueType Font data"),
    (0, b"\xd4\xc3\xb2\xa1", "pcap capture file, microsecond ts (little-endian)"),
    (0, b"\xa1\xb2\xc3\xd4", "pcap capture file, microsecond ts (big-endian)"),
    (0, b"\x0a\x0d\x0d\x0a", "pcapng capture file"),
    (0, b"SQLite format 3\0", "SQLite 3.x database"),
    (4, b"\x01\0\0\0Standard Jet DB", "Microsoft Access Database"),
    (0, b"-----BEGIN CERTIFICATE-----", "PEM certificate"),
    (0, b"-----BEGIN CERTIFICATE REQ", "PEM certificate request"),
    (0, b"-----BEGIN RSA PRIVATE", "PEM RSA private key"),
    (0, b"-----BEGIN OPENSSH PRIVATE", "OpenSSH private key"),
    (0, b"-----BEGIN PGP MESSAGE", "PGP message"),
    (0, b"-----BEGIN PGP PUBLIC KEY", "PGP public key block"),
    (0, b"\0asm", "WebAssembly (wasm) binary module version 0x1 (MVP)"),
    (0, b"dex\n", "Dalvik dex file"),
];

/// What a file that begins with these bytes is. `is_whole`: there are no others.
pub fn describe(head: &[u8], is_whole: bool) -> Cow<'static, str> {
    if head.is_empty() {
        return "empty".into();
    }
    if is_whole && head.len() < 2 {
        return "very short file (no magic)".into();
    }
    program::describe(head)
        .or_else(|| document(head))
        .or_else(|| archive(head))
        .or_else(|| image(head))
        .or_else(|| media(head))
        .or_else(|| {
            let fits = |(at, sign, _): &&Sign| head.get(*at..).is_some_and(|b| b.starts_with(sign));
            SIGNS.iter().find(fits).map(|(_, _, what)| Cow::Borrowed(*what))
        })
        .or_else(|| text::describe(head, is_whole))
        .unwrap_or("data".into())
}

/// Digits of a version as `1.5` from an offset on.
fn version(head: &[u8], at: usize) -> Option<&str> {
    let rest = head.get(at..head.len().min(at + 8))?;
    let len = rest.iter().take_while(|b| b.is_ascii_digit() || **b == b'.').count();
    std::str::from_utf8(rest.get(..len)?).ok().filter(|v| !v.is_empty())
}

fn document(head: &[u8]) -> Option<Cow<'static, str>> {
    if head.starts_with(b"%PDF-") {
        let version = version(head, 5)?;
        return Some(format!("PDF document, version {version}").into());
    }
    let flash = match head.get(..3)? {
        b"FWS" => "",
        b"CWS" => " (compressed)",
        b"ZWS" => " (lzma compressed)",
        _ => return None,
    };
    let version = *head.get(3)?;
    (version < 64).then(|| format!("Macromedia Flash data{flash}, version {version}").into())
}

/// Entries by which office documents and programs in zip archives are known.
const INSIDE_ZIP: &[(&[u8], &str)] = &[
    (b"word/", "Microsoft Word 2007+"),
    (b"xl/", "Microsoft Excel 2007+"),
    (b"ppt/", "Microsoft PowerPoint 2007+"),
    (b"visio/", "Microsoft Visio 2013+"),
    (b"META-INF/", "Java archive data (JAR)"),
    (b"AndroidManifest.xml", "Android package (APK), with AndroidManifest.xml"),
];

fn archive(head: &[u8]) -> Option<Cow<'static, str>> {
    if head.starts_with(b"BZh") {
        let level = head.get(3).filter(|b| (b'1'..=b'9').contains(b))?;
        return Some(format!("bzip2 compressed data, block size = {}00k", level - b'0').into());
    }
    if head.starts_with(b"7z\xbc\xaf\x27\x1c") {
        let (major, minor) = (head.get(6)?, head.get(7)?);
        return Some(format!("7-zip archive data, version {major}.{minor}").into());
    }
    if head.starts_with(b"PK\x05\x06") {
        return Some("Zip archive data (empty)".into());
    }
    if !head.starts_with(b"PK\x03\x04") {
        return None;
    }
    let name = |at: usize| head.get(at + 30..);
    let first = name(0)?;
    if first.starts_with(b"mimetypeapplication/vnd.oasis.opendocument.text") {
        return Some("OpenDocument Text".into());
    }
    if first.starts_with(b"mimetypeapplication/vnd.oasis.opendocument.spreadsheet") {
        return Some("OpenDocument Spreadsheet".into());
    }
    if first.starts_with(b"mimetypeapplication/epub+zip") {
        return Some("EPUB document".into());
    }
    let is_office = first.starts_with(b"[Content_Types].xml") || first.starts_with(b"_rels/.rels");
    let entries = memchr::memmem::find_iter(head, b"PK\x03\x04").filter_map(name);
    for entry in entries {
        if let Some((_, what)) = INSIDE_ZIP.iter().find(|(sign, _)| entry.starts_with(sign)) {
            return Some((*what).into());
        }
    }
    if is_office {
        return Some("Microsoft OOXML".into());
    }
    let needs = *head.get(4)?;
    Some(format!("Zip archive data, at least v{}.{} to extract", needs / 10, needs % 10).into())
}

fn be32(head: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(head.get(at..at + 4)?.try_into().ok()?))
}

fn le16(head: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(head.get(at..at + 2)?.try_into().ok()?))
}

fn le32(head: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(head.get(at..at + 4)?.try_into().ok()?))
}

fn image(head: &[u8]) -> Option<Cow<'static, str>> {
    if head.starts_with(b"GIF8") {
        let version = std::str::from_utf8(head.get(3..6)?).ok()?;
        let (w, h) = (le16(head, 6)?, le16(head, 8)?);
        return Some(format!("GIF image data, version {version}, {w} x {h}").into());
    }
    if head.starts_with(b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR") {
        let (w, h) = (be32(head, 16)?, be32(head, 20)?);
        let color = match head.get(25)? {
            0 => " grayscale",
            2 => "/color RGB",
            3 => " colormap",
            4 => " gray+alpha",
            6 => "/color RGBA",
            _ => "",
        };
        let lace = if *head.get(28)? == 0 { "non-interlaced" } else { "interlaced" };
        let bits = head.get(24)?;
        return Some(format!("PNG image data, {w} x {h}, {bits}-bit{color}, {lace}").into());
    }
    if head.starts_with(b"\xff\xd8\xff") {
        return Some(match head.get(6..11) {
            Some(b"JFIF\0") => {
                let (major, minor) = (head.get(11)?, head.get(12)?);
                format!("JPEG image data, JFIF standard {major}.{minor:02}").into()
            }
            Some(b"Exif\0") => "JPEG image data, Exif standard".into(),
            _ => "JPEG image data".into(),
        });
    }
    None
}

fn media(head: &[u8]) -> Option<Cow<'static, str>> {
    if head.starts_with(b"RIFF") {
        return Some(match head.get(8..12)? {
            b"WEBP" => "RIFF (little-endian) data, Web/P image".into(),
            b"WAVE" => "RIFF (little-endian) data, WAVE audio".into(),
            b"AVI " => "RIFF (little-endian) data, AVI".into(),
            _ => "RIFF (little-endian) data".into(),
        });
    }
    if head.starts_with(b"ID3") {
        let (major, minor) = (head.get(3)?, head.get(4)?);
        return Some(format!("Audio file with ID3 version 2.{major}.{minor}").into());
    }
    if head.get(4..8) == Some(b"ftyp") {
        return Some(match head.get(8..12)? {
            b"qt  " => "ISO Media, Apple QuickTime movie, Apple QuickTime (.MOV/QT)".into(),
            b"M4A " => "ISO Media, Apple iTunes ALAC/AAC-LC (.M4A) Audio".into(),
            b"isom" => "ISO Media, MP4 Base Media v1 [ISO 14496-12:2003]".into(),
            b"mp42" => "ISO Media, MP4 v2 [ISO 14496-14]".into(),
            b"avif" => "ISO Media, AVIF Image".into(),
            b"heic" => "ISO Media, HEIF Image HEVC Main or Main Still Picture Profile".into(),
            _ => "ISO Media".into(),
        });
    }
    if head.starts_with(b"\x1a\x45\xdf\xa3") {
        let is_web = memchr::memmem::find(head.get(..64)?, b"webm").is_some();
        return Some(if is_web { "WebM" } else { "Matroska data" }.into());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts as `file` 5.46 and Suricata's records have them.
    #[test]
    fn files_are_known_by_their_beginning() {
        let cases: &[(&[u8], &str)] = &[
            (b"", "empty"),
            (b"a", "very short file (no magic)"),
            (b"%PDF-1.5\n%\xb5", "PDF document, version 1.5"),
            (b"GIF89a\x01\0\x01\0\x80", "GIF image data, version 89a, 1 x 1"),
            (
                b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0",
                "PNG image data, 1 x 1, 8-bit/color RGBA, non-interlaced",
            ),
            (b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01", "JPEG image data, JFIF standard 1.01"),
            (b"PK\x03\x04\x14\0", "Zip archive data, at least v2.0 to extract"),
            (b"\x1f\x8b\x08", "gzip compressed data"),
            (b"hello\n", "ASCII text"),
            (b"hello\r\n", "ASCII text, with CRLF line terminators"),
            (b"hello", "ASCII text, with no line terminators"),
            ("h\u{e9}llo\n".as_bytes(), "Unicode text, UTF-8 text"),
            (b"h\xe9llo\n", "ISO-8859 text"),
            (b"\x01\x02\x03\x04", "data"),
            (b"<!DOCTYPE html>\n<p>\n", "HTML document, ASCII text"),
            (b"#!/bin/sh\necho\n", "POSIX shell script, ASCII text executable"),
        ];
        for (head, what) in cases {
            let head = if head.starts_with(b"PK") {
                // An entry's name follows its header.
                &[head, &[0; 24][..], b"a.txt"].concat()
            } else {
                *head
            };
            assert_eq!(describe(head, true), *what, "{head:?}");
        }
    }

    #[test]
    fn any_bytes_are_something() {
        for sign in SIGNS.iter().map(|s| s.1).chain([
            &b"MZ"[..],
            b"\x7fELF",
            b"PK\x03\x04",
            b"\xca\xfe\xba\xbe",
        ]) {
            for len in 0..80 {
                let mut bytes = sign.to_vec();
                bytes.resize(sign.len() + len, 0xff);
                assert!(!describe(&bytes, false).is_empty());
                bytes.truncate(len);
                assert!(!describe(&bytes, true).is_empty());
            }
        }
    }
}
