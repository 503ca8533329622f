//! Keywords of TLS that are neither buffers nor numbers: versions, message kinds, dates, and the
//! older forms of subject, issuer and fingerprint.
//!
//! Values are taken as the rule language hands them over, quotes taken off and a leading `!` kept.

use super::limits::DATE_BYTES_MAX;
use super::tables::{ANYTIME, ON_CERT, ON_SERVER_CERT};
use super::tx::TlsTx;
use super::version;
use gabion_record::Direction;
use gabion_record::applayer::{ConditionDef, ConditionError, TxCondition};
use gabion_record::calendar::days_from_date;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// The keywords.
pub(super) const CONDITIONS: &[ConditionDef] = &[
    ConditionDef { name: "tls.version", aliases: &[], parse: tls_version, hooks: ANYTIME },
    ConditionDef { name: "ssl_version", aliases: &[], parse: ssl_version, hooks: ANYTIME },
    ConditionDef { name: "ssl_state", aliases: &[], parse: ssl_state, hooks: ANYTIME },
    ConditionDef { name: "tls.subject", aliases: &[], parse: subject, hooks: ON_CERT },
    ConditionDef { name: "tls.fingerprint", aliases: &[], parse: fingerprint, hooks: ON_CERT },
    ConditionDef { name: "tls.issuerdn", aliases: &[], parse: issuer, hooks: ON_CERT },
    ConditionDef {
        name: "tls_cert_notbefore",
        aliases: &[],
        parse: not_before,
        hooks: ON_SERVER_CERT,
    },
    ConditionDef {
        name: "tls_cert_notafter",
        aliases: &[],
        parse: not_after,
        hooks: ON_SERVER_CERT,
    },
    ConditionDef { name: "tls_cert_expired", aliases: &[], parse: expired, hooks: ON_SERVER_CERT },
    ConditionDef { name: "tls_cert_valid", aliases: &[], parse: valid, hooks: ON_SERVER_CERT },
];

type Parsed = Result<Arc<dyn TxCondition>, ConditionError>;

/// A condition on the transaction, made of its data and a function over both.
struct On<T> {
    value: T,
    test: fn(&T, &TlsTx, Direction) -> bool,
}

impl<T: fmt::Debug> fmt::Debug for On<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("On").field(&self.value).finish()
    }
}

impl<T: fmt::Debug + Send + Sync> TxCondition for On<T> {
    fn matches(&self, tx: &dyn Any, direction: Direction) -> bool {
        tx.downcast_ref::<TlsTx>().is_some_and(|tx| (self.test)(&self.value, tx, direction))
    }
}

fn on<T: fmt::Debug + Send + Sync + 'static>(
    value: T,
    test: fn(&T, &TlsTx, Direction) -> bool,
) -> Parsed {
    Ok(Arc::new(On { value, test }))
}

fn not_one_of(keyword: &'static str, text: &str, expected: &'static str) -> ConditionError {
    ConditionError::NotOneOf { keyword, text: text.to_owned(), expected }
}

fn value_of<'a>(value: Option<&'a str>, keyword: &'static str) -> Result<&'a str, ConditionError> {
    let text = value.map(str::trim).filter(|t| !t.is_empty());
    text.ok_or(ConditionError::NeedsValue { keyword })
}

/// `tls.version:1.2`, or the raw number `0x7f12`.
fn tls_version(value: Option<&str>) -> Parsed {
    let text = value_of(value, "tls.version")?;
    if let Some(raw) = text.strip_prefix("0x") {
        let raw = u16::from_str_radix(raw, 16)
            .map_err(|_| not_one_of("tls.version", text, "a version"))?;
        return on(raw, |raw, tx, d| tx.side(d).version == *raw);
    }
    let wanted = match text {
        "1.0" => 0x0301,
        "1.1" => 0x0302,
        "1.2" => version::TLS12,
        "1.3" => version::TLS13,
        _ => return Err(not_one_of("tls.version", text, "one of 1.0, 1.1, 1.2, 1.3")),
    };
    on(wanted, |wanted, tx, d| without_draft(tx.side(d).version) == *wanted)
}

/// Drafts of TLS 1.3 count as TLS 1.3.
fn without_draft(v: u16) -> u16 {
    if v >> 8 == 0x7f { version::TLS13 } else { v }
}

/// `ssl_version:!tls1.0,tls1.1`: a `!` in front turns the whole list round.
fn ssl_version(value: Option<&str>) -> Parsed {
    let text = value_of(value, "ssl_version")?;
    let (is_negated, list) = match text.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    if list.starts_with(char::is_whitespace) {
        return Err(not_one_of("ssl_version", list, "a version"));
    }
    let mut versions = Vec::new();
    for name in list.split(',').map(str::trim) {
        let version = match name.to_ascii_lowercase().as_str() {
            "sslv2" => version::SSL2,
            "sslv3" => version::SSL3,
            "tls1.0" => 0x0301,
            "tls1.1" => 0x0302,
            "tls1.2" => version::TLS12,
            "tls1.3" => version::TLS13,
            _ => return Err(not_one_of("ssl_version", name, "a version")),
        };
        if versions.contains(&version) {
            return Err(not_one_of("ssl_version", name, "a version that is not listed yet"));
        }
        versions.push(version);
    }
    on((is_negated, versions), |(is_negated, versions), tx, d| {
        let v = without_draft(tx.side(d).version);
        version::is_known(v) && versions.contains(&v) != *is_negated
    })
}

/// Kinds of handshake messages as bits.
pub mod state {
    #![allow(missing_docs)]
    pub const CLIENT_HELLO: u8 = 1;
    pub const SERVER_HELLO: u8 = 2;
    pub const CLIENT_KEYX: u8 = 4;
    pub const SERVER_KEYX: u8 = 8;
    pub const UNKNOWN: u8 = 16;
}

/// `ssl_state:client_hello|!server_keyx`: kinds of the message that was seen last.
fn ssl_state(value: Option<&str>) -> Parsed {
    let text = value_of(value, "ssl_state")?;
    let (mut flags, mut negated) = (0, 0);
    for item in text.split(['|', ',']).map(str::trim) {
        let (is_negated, name) = match item.strip_prefix('!') {
            Some(rest) => (true, rest.trim()),
            None => (false, item),
        };
        let bit = match name {
            "client_hello" => state::CLIENT_HELLO,
            "server_hello" => state::SERVER_HELLO,
            "client_keyx" => state::CLIENT_KEYX,
            "server_keyx" => state::SERVER_KEYX,
            "unknown" => state::UNKNOWN,
            _ => return Err(not_one_of("ssl_state", name, "a state")),
        };
        flags |= bit;
        negated |= if is_negated { bit } else { 0 };
    }
    on((flags, negated), |(flags, negated), tx, _| (tx.current & flags) ^ negated != 0)
}

/// Splits a leading `!` off.
fn negation(text: &str) -> (bool, &str) {
    match text.strip_prefix('!') {
        Some(rest) => (true, rest.trim_start().trim_matches('"')),
        None => (false, text.trim_matches('"')),
    }
}

/// The text of `tls.subject` or `tls.issuerdn`, if it has only characters that Suricata 8.0.7 takes: its expression has
/// `A-z` for letters.
fn name_text(
    keyword: &'static str,
    value: Option<&str>,
) -> Result<(bool, Vec<u8>), ConditionError> {
    let (is_negated, text) = negation(value_of(value, keyword)?);
    let counts = |b: u8| {
        b.is_ascii_alphanumeric() || b.is_ascii_whitespace() || b"-.=,*@[\\]^_`".contains(&b)
    };
    if text.is_empty() || !text.bytes().all(counts) {
        return Err(not_one_of(keyword, text, "a text of letters, digits, spaces and `-.=,*@_`"));
    }
    Ok((is_negated, text.as_bytes().to_vec()))
}

fn contains(whole: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(whole, part).is_some()
}

/// `tls.subject:"CN=x"`: a piece of the subject, letter for letter.
fn subject(value: Option<&str>) -> Parsed {
    on(name_text("tls.subject", value)?, |(is_negated, text), tx, d| {
        let cert = tx.side(d).certificate.as_ref();
        cert.is_some_and(|c| contains(&c.subject, text) != *is_negated)
    })
}

/// `tls.issuerdn:"CN=x"`: a piece of the issuer, letter for letter.
fn issuer(value: Option<&str>) -> Parsed {
    on(name_text("tls.issuerdn", value)?, |(is_negated, text), tx, d| {
        let cert = tx.side(d).certificate.as_ref();
        cert.is_some_and(|c| contains(&c.issuer, text) != *is_negated)
    })
}

/// `tls.fingerprint:"7f:…"`: the SHA-1 of the certificate.
fn fingerprint(value: Option<&str>) -> Parsed {
    let (is_negated, text) = negation(value_of(value, "tls.fingerprint")?);
    let text = text.to_ascii_lowercase();
    if text.len() != 59 {
        return Err(not_one_of("tls.fingerprint", &text, "20 hex pairs with colons"));
    }
    on((is_negated, text.into_bytes()), |(is_negated, text), tx, d| {
        let cert = tx.side(d).certificate.as_ref();
        cert.is_some_and(|c| (c.fingerprint == *text) != *is_negated)
    })
}

/// A span of seconds since 1970, ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seconds {
    from: i64,
    to: i64,
}

/// `tls_cert_notbefore:>2015-10`.
fn not_before(value: Option<&str>) -> Parsed {
    let range = date_range(value_of(value, "tls_cert_notbefore")?)?;
    on(range, |r, tx, _| tx.server_certificate().is_some_and(|c| r.holds(c.not_before)))
}

/// `tls_cert_notafter:<2015`.
fn not_after(value: Option<&str>) -> Parsed {
    let range = date_range(value_of(value, "tls_cert_notafter")?)?;
    on(range, |r, tx, _| tx.server_certificate().is_some_and(|c| r.holds(c.not_after)))
}

/// `tls_cert_expired`.
fn expired(value: Option<&str>) -> Parsed {
    no_value(value, "tls_cert_expired")?;
    on((), |(), tx, _| tx.server_certificate().is_some_and(|c| c.not_after < tx.now_s()))
}

/// `tls_cert_valid`: neither expired nor yet to come.
fn valid(value: Option<&str>) -> Parsed {
    no_value(value, "tls_cert_valid")?;
    on((), |(), tx, _| {
        let now = tx.now_s();
        tx.server_certificate().is_some_and(|c| c.not_before < now && c.not_after > now)
    })
}

fn no_value(value: Option<&str>, keyword: &'static str) -> Result<(), ConditionError> {
    match value {
        None => Ok(()),
        Some(_) => Err(ConditionError::UnexpectedValue { keyword }),
    }
}

impl Seconds {
    fn holds(self, second: i64) -> bool {
        self.from <= second && second <= self.to
    }
}

/// `<date`, `>date`, `date<>date` or `date`. All of them hold at the date itself, as in Suricata 8.0.7.
fn date_range(text: &str) -> Result<Seconds, ConditionError> {
    if let Some((low, high)) = text.split_once("<>") {
        let (from, to) = (date(low)?, date(high)?);
        if to <= from {
            return Err(ConditionError::EmptyRange);
        }
        return Ok(Seconds { from, to });
    }
    if let Some(rest) = text.strip_prefix('<') {
        return Ok(Seconds { from: i64::MIN, to: date(rest)? });
    }
    if let Some(rest) = text.strip_prefix('>') {
        return Ok(Seconds { from: date(rest)?, to: i64::MAX });
    }
    let at = date(text)?;
    Ok(Seconds { from: at, to: at })
}

/// Seconds since 1970 of `2015-10`, `2015-10-22`, `2015-10-22 23[:59[:59]]`, the same with `T`, or a plain number of
/// seconds: a year alone is one, too (Suricata 8.0.7).
fn date(text: &str) -> Result<i64, ConditionError> {
    let wrong = || ConditionError::NotADate { text: text.trim().to_owned() };
    if text.trim_start().len() > DATE_BYTES_MAX {
        return Err(wrong());
    }
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse().map_err(|_| wrong());
    }
    read_date(text.as_bytes()).ok_or_else(wrong)
}

/// Fields as `strptime` reads them: white space before a number and between day and hour may be there or not.
fn read_date(text: &[u8]) -> Option<i64> {
    let mut rest = text;
    let year = number(&mut rest, 0, 9999)?;
    let month = after(&mut rest, b'-').then(|| number(&mut rest, 1, 12))??;
    let mut fields = [1, 0, 0, 0];
    let [day, clock @ ..] = &mut fields;
    if after(&mut rest, b'-') {
        *day = number(&mut rest, 1, 31)?;
        let is_marked = after(&mut rest, b'T');
        if is_marked || !rest.is_empty() {
            for (n, (field, high)) in clock.iter_mut().zip([23, 59, 61]).enumerate() {
                if n > 0 && !after(&mut rest, b':') {
                    break;
                }
                *field = number(&mut rest, 0, high)?;
            }
        }
    }
    let [day, h, m, s] = fields;
    let seconds = days_from_date(year, month, day) * 86_400 + h * 3600 + m * 60 + s;
    rest.is_empty().then_some(seconds)
}

/// Takes that byte off, if the text begins with it.
fn after(rest: &mut &[u8], byte: u8) -> bool {
    let behind = rest.strip_prefix(&[byte]);
    *rest = behind.unwrap_or(*rest);
    behind.is_some()
}

/// Takes a number off: as many digits as `high` can have.
fn number(rest: &mut &[u8], low: i64, high: i64) -> Option<i64> {
    let mut text = rest.trim_ascii_start();
    let (mut n, mut digits_left) = (0, high.checked_ilog10()? + 1);
    let start = text.len();
    while let Some((digit, behind)) = text.split_first()
        && digit.is_ascii_digit()
        && digits_left > 0
        && n * 10 <= high
    {
        n = n * 10 + i64::from(digit - b'0');
        digits_left -= 1;
        text = behind;
    }
    *rest = text;
    (text.len() < start && (low..=high).contains(&n)).then_some(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        // GNU date -u -d TEXT +%s
        for (text, second) in [
            ("2015-10", 1_443_657_600),
            ("2015-10-22", 1_445_472_000),
            ("2015-10-22 23:59", 1_445_558_340),
            ("2015-10-22T23:59:59", 1_445_558_399),
            ("1433894400", 1_433_894_400),
        ] {
            assert_eq!(date(text), Ok(second), "{text}");
        }
        let r = date_range("2015-10<>2016-11-12 10:10").unwrap();
        assert!(r.holds(1_450_000_000) && r.holds(1_443_657_600) && !r.holds(1_443_657_599));
        assert!(date_range("1433894400<>2014").is_err());
    }

    /// Suricata 8.0.7 takes and refuses the same texts, with a certificate from 2014-03-30 09:29:15 on.
    #[test]
    fn dates_are_read_as_by_strptime() {
        let at = 1_396_171_755;
        for text in [
            "1396171755",
            "2014-03-30T09:29:15",
            "2014-03-3009:29:15",
            "2014-3-30 9:29:15",
            "2014- 3-30 09:29:15",
            "2014-03-309:29:15",
            "2014-03-30 9: 29:15",
            "2014-03-30T 9:29:15",
            "2014-03-30  9:29:15",
        ] {
            assert_eq!(date(text), Ok(at), "{text}");
        }
        assert_eq!(date("2014"), Ok(2014));
        assert_eq!(date("2014-03-30 09:28:60"), Ok(at - 15));
        assert_eq!(date("2014-03-40"), date("2014-03-04 00"));
        assert_eq!(date("2014-02-302"), date("2014-03-02 02"));
        for text in [
            "2014-3-30    9:29:15",
            "2014-03-30 09:28:75",
            "2014-03-30 9:28:62",
            "2014-03-33",
            "2014-00",
            "2014-13",
            "10000-12",
            "+2014",
            "2014-03-30 09:29:14 <>2030-01-01",
            "2014-03-30T",
            "2014-03-30 04:",
            "2014-03-",
            "10:20",
            "2014-217",
            "12345678901234567890",
            "abc",
            "=2015",
            "",
        ] {
            assert!(date_range(text).is_err(), "{text}");
        }
        for text in ["<2014-03-30 09:29:15", ">2014-03-30 09:29:15", "2014<>2030-01-01"] {
            assert!(date_range(text).unwrap().holds(at), "{text}");
        }
        for text in ["<2014", "2014<>2030", ">2014-04", "<2014-03-30T09:29:14"] {
            assert!(!date_range(text).unwrap().holds(at), "{text}");
        }
        let r = date_range("2014-03-30 09:29:14<>2014-03-30 09:29:15").unwrap();
        assert!(r.holds(at) && r.holds(at - 1) && !r.holds(at + 1));
    }

    #[test]
    fn what_suricata_refuses() {
        for text in ["0.2", "1.4", "!1.2", "abc"] {
            assert!(tls_version(Some(text)).is_err(), "{text}");
        }
        for text in ["tls1.4", "sslv3,!tls1.0"] {
            assert!(ssl_version(Some(text)).is_err(), "{text}");
        }
        for text in [" tls1.0 , tls1.1", "TLS1.2", "!sslv2,tls1.0"] {
            assert!(ssl_version(Some(text)).is_ok(), "{text}");
        }
        assert!(fingerprint(Some("7f:ff")).is_err());
        assert!(valid(Some("1")).is_err());
        assert!(ssl_state(Some("client_hello|server_hello")).is_ok());
    }
}
