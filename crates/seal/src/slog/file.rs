//! The file that slog's server stores: a line a record, each with the hash of the line before.
//!
//! `ts,version,compress,bloblen,crc,wrap,blob`: time in clear, "1", whether the blob is packed, its length,
//! CRC-32 of what is encrypted, the storage password under RSA, and the encrypted record. slog starts its
//! chain again wherever a line says it is the first; ours counts that as spliced. A cut end shows in no
//! line, only against a number of lines or a last hash known from elsewhere.
//!
//! slog opens the password of every line with RSA, though all are the same; ours tries the last one
//! first, and opens another only where that fails.

use super::blob;
use crate::format::tree::{empty_root, sha256};
use crate::limits::{SLOG_LINE_MAX, SLOG_PLAIN_MAX};
use crate::recipient::SecretKey;
use flate2::bufread::GzDecoder;
use gabion_record::base64::from_base64;
use gabion_record::hex::{from_hex, to_hex};
use serde::Deserialize;
use std::borrow::Cow;
use std::io::{Cursor, Read};
use zeroize::Zeroizing;

macro_rules! faults {
    ($($name:ident, $text:literal, $meaning:literal;)+) => {
        /// What is wrong with a line.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Fault { $(#[doc = $meaning] $name,)+ }

        impl Fault {
            /// As it stands in output.
            #[must_use]
            pub const fn name(self) -> &'static str { match self { $(Fault::$name => $text,)+ } }

            /// What it means.
            #[must_use]
            pub const fn meaning(self) -> &'static str { match self { $(Fault::$name => $meaning,)+ } }
        }
    };
}

// The one table: name, name in output, meaning.
faults! {
    Fields, "fields", "not seven fields";
    Wrap, "wrap", "this key does not open the file";
    Password, "password", "the password is not the one given";
    Timestamp, "timestamp", "the time in clear is invalid";
    Version, "version", "not version 1";
    Length, "length", "the blob is not as long as the line says";
    Packing, "packing", "the blob does not unpack";
    Cipher, "cipher", "the blob does not open";
    Json, "json", "the decrypted text is not a record";
    Time, "time", "the time in clear is not the record's";
    Checksum, "crc", "the checksum differs";
    Previous, "previous-hash", "chain broken (the previous line has another hash)";
    NoStart, "no-start", "the first line is not a start of the chain";
    Spliced, "spliced", "a second start of the chain";
}

/// A record of slog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlogRecord {
    /// When slog received it, as it wrote that.
    pub received_at: String,
    /// Address of the sender.
    pub source_ip: String,
    /// `TCP` or `UDP`.
    pub protocol: String,
    /// Came as plain syslog.
    pub is_syslog: bool,
    /// What came over the wire.
    pub data: String,
    /// What slog opened, or the wire text again.
    pub decrypted: String,
    /// slog could not open it when it came.
    pub is_suspicious: bool,
    /// Host of slog's server.
    pub server: String,
}

/// A line that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The record, when it could be opened.
    pub record: Option<SlogRecord>,
    /// What is wrong with the line; nothing when it is empty.
    pub faults: Vec<Fault>,
}

/// What all lines together are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Lines.
    pub lines: u64,
    /// Lines with a fault.
    pub suspicious: u64,
    /// Records that slog had flagged when they came.
    pub suspicious_in: u64,
    /// Starts of the chain after the first line.
    pub spliced: u64,
    /// Passwords opened with RSA.
    pub unwrapped: u64,
}

impl Summary {
    /// The line that slog prints.
    #[must_use]
    pub fn slog_line(&self) -> String {
        format!(
            "Replay Summary: {{\"Total lines processed\": {}, \"Replay Suspicious Lines\": {}, \"Suspicious packets (When data arrived)\": {}}}",
            self.lines, self.suspicious, self.suspicious_in
        )
    }
}

/// Reads a file line by line.
pub struct Import<'a> {
    key: &'a SecretKey,
    wanted: Option<Zeroizing<Vec<u8>>>,
    checks_wraps: bool,
    password: Option<Zeroizing<Vec<u8>>>,
    previous: Option<[u8; 32]>,
    unpacker: Unpacker,
    /// What was found so far.
    pub summary: Summary,
}

impl<'a> Import<'a> {
    /// With slog's storage key; `wanted` is the password that every line must be under.
    #[must_use]
    pub fn new(key: &'a SecretKey, wanted: Option<Vec<u8>>, checks_wraps: bool) -> Import<'a> {
        let wanted = wanted.map(Zeroizing::new);
        Import {
            key,
            wanted,
            checks_wraps,
            password: None,
            previous: None,
            unpacker: Unpacker::default(),
            summary: Summary::default(),
        }
    }

    /// Hash of the last line, as the next would name it.
    #[must_use]
    pub fn last_hash(&self) -> Option<[u8; 32]> {
        self.previous
    }

    /// Reads a line, without its end.
    pub fn line(&mut self, line: &[u8]) -> Imported {
        self.summary.lines += 1;
        let mut faults = Vec::new();
        let opened = self.open(line, &mut faults);
        let before = self.previous.replace(sha256(line));
        let named = opened.as_ref().and_then(|(_, previous)| from_hex(previous.as_bytes()));
        let is_start = named.as_deref() == Some(&empty_root()[..]);
        match before {
            None if !is_start && opened.is_some() => faults.push(Fault::NoStart),
            Some(_) if is_start => {
                faults.push(Fault::Spliced);
                self.summary.spliced += 1;
            }
            Some(before) if opened.is_some() && named.as_deref() != Some(&before[..]) => {
                faults.push(Fault::Previous);
            }
            _ => {}
        }
        let record = opened.map(|(record, _)| record);
        self.summary.suspicious += u64::from(!faults.is_empty());
        self.summary.suspicious_in += u64::from(record.as_ref().is_some_and(|r| r.is_suspicious));
        Imported { record, faults }
    }

    /// The record of a line and the hash it names.
    fn open(&mut self, line: &[u8], faults: &mut Vec<Fault>) -> Option<(SlogRecord, String)> {
        let text = if line.len() <= SLOG_LINE_MAX {
            std::str::from_utf8(line).unwrap_or_default()
        } else {
            ""
        };
        let fields: Vec<&str> = text.split(',').collect();
        let [time, version, packed, len, crc, wrap, blob] = fields.as_slice() else {
            faults.push(Fault::Fields);
            return None;
        };
        if !is_time(time) {
            faults.push(Fault::Timestamp);
        }
        if *version != "1" {
            faults.push(Fault::Version);
        }
        if len.parse() != Ok(blob.len()) {
            faults.push(Fault::Length);
        }
        let Some(blob) = self.unpacker.unpack(packed, blob) else {
            faults.push(Fault::Packing);
            return None;
        };
        let plain = self.decrypt(wrap, &blob, faults)?;
        let mut check = flate2::Crc::new();
        check.update(&plain);
        if crc.parse() != Ok(check.sum()) {
            faults.push(Fault::Checksum);
        }
        let json = from_base64(plain.trim_ascii());
        let Some((record, previous)) = json.as_deref().and_then(record) else {
            faults.push(Fault::Json);
            return None;
        };
        if short_time(&record.received_at).as_deref() != Some(*time) {
            faults.push(Fault::Time);
        }
        Some((record, previous))
    }

    /// Opens the blob with the password of the lines before, or else with the line's own.
    fn decrypt(&mut self, wrap: &str, blob: &[u8], faults: &mut Vec<Fault>) -> Option<Vec<u8>> {
        if !self.checks_wraps
            && let Some(plain) = self.password.as_ref().and_then(|p| blob::open(blob, p))
        {
            return Some(plain);
        }
        self.summary.unwrapped += 1;
        let unwrapped = from_base64(wrap.as_bytes()).and_then(|w| self.key.decrypt_oaep_sha512(&w));
        let Some(password) = unwrapped else {
            faults.push(Fault::Wrap);
            return None;
        };
        if self.wanted.as_ref().is_some_and(|w| **w != *password) {
            faults.push(Fault::Password);
        }
        let plain = blob::open(blob, &password);
        match plain {
            Some(plain) => {
                self.password = Some(password);
                Some(plain)
            }
            None => {
                faults.push(Fault::Cipher);
                None
            }
        }
    }
}

/// Unpacks blobs one after another with the same memory: a decoder's own is larger than most lines.
#[derive(Default)]
struct Unpacker {
    gunzip: Option<GzDecoder<Cursor<Vec<u8>>>>,
    text: Vec<u8>,
}

impl Unpacker {
    /// Hex, or base64 of gzip of hex.
    fn unpack(&mut self, packed: &str, blob: &str) -> Option<Vec<u8>> {
        match packed {
            "false" => from_hex(blob.as_bytes()),
            "true" => {
                let bytes = Cursor::new(from_base64(blob.as_bytes())?);
                let gunzip = match &mut self.gunzip {
                    Some(used) => {
                        used.reset(bytes);
                        used
                    }
                    none => none.insert(GzDecoder::new(bytes)),
                };
                self.text.clear();
                gunzip.take(SLOG_PLAIN_MAX as u64).read_to_end(&mut self.text).ok()?;
                from_hex(&self.text)
            }
            _ => None,
        }
    }
}

/// What slog encrypts, as its Go program names the fields.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sealed<'a> {
    #[serde(borrow)]
    wire_data: Wire<'a>,
    #[serde(borrow, default)]
    decrypted_data: Cow<'a, str>,
    #[serde(default)]
    suspicious_in: bool,
    #[serde(borrow, default)]
    server_hostname: Cow<'a, str>,
    #[serde(borrow, default)]
    previous_hash: Cow<'a, str>,
}

/// What slog says of a message that came.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Wire<'a> {
    #[serde(borrow)]
    received_at: Cow<'a, str>,
    #[serde(borrow, default)]
    source_ip: Cow<'a, str>,
    #[serde(borrow, default)]
    protocol: Cow<'a, str>,
    #[serde(default)]
    syslog_data: bool,
    #[serde(borrow)]
    data: Cow<'a, str>,
}

fn record(json: &[u8]) -> Option<(SlogRecord, String)> {
    let sealed: Sealed<'_> = serde_json::from_slice(json).ok()?;
    let wire = sealed.wire_data;
    let record = SlogRecord {
        received_at: wire.received_at.into_owned(),
        source_ip: wire.source_ip.into_owned(),
        protocol: wire.protocol.into_owned(),
        is_syslog: wire.syslog_data,
        data: wire.data.into_owned(),
        decrypted: sealed.decrypted_data.into_owned(),
        is_suspicious: sealed.suspicious_in,
        server: sealed.server_hostname.into_owned(),
    };
    Some((record, sealed.previous_hash.into_owned()))
}

/// Whether a text is a time as slog writes it: `2006-01-02T15:04:05.0000-07`.
fn is_time(text: &str) -> bool {
    let form = b"dddd-dd-ddTdd:dd:dd.dddd+dd";
    text.len() == form.len()
        && text.bytes().zip(form).all(|(c, f)| match f {
            b'd' => c.is_ascii_digit(),
            b'+' => c == b'+' || c == b'-',
            other => c == *other,
        })
}

/// An RFC 3339 time in slog's form: fraction cut to four digits, hours of the offset alone.
fn short_time(text: &str) -> Option<String> {
    let (seconds, rest) = text.split_at_checked(19)?;
    let zone_at = rest.find(['+', '-', 'Z'])?;
    let (fraction, zone) = rest.split_at(zone_at);
    let digits = fraction.strip_prefix('.').unwrap_or_default();
    let fraction: String = digits.chars().chain("0000".chars()).take(4).collect();
    let zone = if zone == "Z" { "+00" } else { zone.get(..3)? };
    Some(format!("{seconds}.{fraction}{zone}"))
}

/// Nanoseconds since 1970 of an RFC 3339 time; `None` when it is none.
#[must_use]
pub fn unix_ns(text: &str) -> Option<u64> {
    let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<i64>().ok();
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    let rest = text.get(19..)?;
    let zone_at = rest.find(['+', '-', 'Z'])?;
    let (fraction, zone) = rest.split_at(zone_at);
    let digits: String = fraction
        .strip_prefix('.')
        .unwrap_or("0")
        .chars()
        .chain("000000000".chars())
        .take(9)
        .collect();
    let offset = if zone == "Z" {
        0
    } else {
        let part = |r: std::ops::Range<usize>| zone.get(r)?.parse::<i64>().ok();
        let seconds = part(1..3)? * 3_600 + part(4..6).unwrap_or(0) * 60;
        if zone.starts_with('-') { -seconds } else { seconds }
    };
    // Days since 1970 of a civil date (Hinnant's algorithm), March-based years.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let era = y.div_euclid(400);
    let year_of_era = y.rem_euclid(400);
    let day_of_year = (153 * m + 2) / 5 + day - 1;
    let days = era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100
        + day_of_year
        - 719_468;
    let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second - offset;
    u64::try_from(seconds).ok()?.checked_mul(1_000_000_000)?.checked_add(digits.parse().ok()?)
}

/// Hash of a line as the next one names it, in hex.
#[must_use]
pub fn line_hash(line: &[u8]) -> String {
    to_hex(&sha256(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_slog() {
        assert_eq!(
            short_time("2021-01-15T20:22:07.5+01:00").unwrap(),
            "2021-01-15T20:22:07.5000+01"
        );
        assert_eq!(
            short_time("2021-01-15T20:22:07.123456Z").unwrap(),
            "2021-01-15T20:22:07.1234+00"
        );
        assert_eq!(short_time("2021-01-15T20:22:07-05:30").unwrap(), "2021-01-15T20:22:07.0000-05");
        assert!(is_time("2021-01-15T20:22:07.5000+01") && !is_time("2021-01-15T20:22:07.5000"));
        // `date -u -d 2021-01-15T19:22:07 +%s` gives 1610738527.
        assert_eq!(unix_ns("2021-01-15T20:22:07.5+01:00"), Some(1_610_738_527_500_000_000));
        assert_eq!(unix_ns("2024-02-29T00:00:00Z"), Some(1_709_164_800_000_000_000));
        assert_eq!(unix_ns("nonsense"), None);
    }
}
