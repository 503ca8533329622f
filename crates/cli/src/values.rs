//! Values of options: one parser for each type, whose error names the expected form with an example.

use crate::limits::SECONDS_MAX;
use clap::builder::{
    NonEmptyStringValueParser, OsStringValueParser, PossibleValue, PossibleValuesParser,
    TypedValueParser,
};
use gabion_capture::filter::Filter;
use gabion_flowlog::Format;
use gabion_record::budget::ByteSize;
use gabion_seal::Kind;
use gabion_settings::limits::PROCESSORS_MAX;
use std::ffi::OsString;
use std::net::{SocketAddr, ToSocketAddrs};

/// A whole number within these bounds.
pub(crate) fn number<T: TryFrom<u64> + Clone + Send + Sync + 'static>(
    from: u64,
    to: u64,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.parse().ok().filter(|number| (from..=to).contains(number));
        number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| match to >> 56 {
            0 => format!("write a number from {from} to {to}"),
            _ => format!("write a number of at least {from}"),
        })
    }
}

/// Rows, lines or records of which at least one is asked for.
pub(crate) fn rows(text: &str) -> Result<usize, String> {
    number(1, u64::from(u32::MAX))(text)
}

/// A number of seconds of which there is at least one.
pub(crate) fn seconds(text: &str) -> Result<u64, String> {
    number(1, SECONDS_MAX)(text).map_err(|e| format!("{e}, in seconds, such as 30"))
}

/// A number of threads.
pub(crate) fn threads(text: &str) -> Result<usize, String> {
    number(1, PROCESSORS_MAX as u64)(text)
}

/// A number that may be 0.
pub(crate) fn any(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "write a number of 0 or more".to_owned())
}

/// A SHA-256 in hexadecimal digits.
pub(crate) fn hash(text: &str) -> Result<String, String> {
    match gabion_record::hex::from_hex(text.as_bytes()) {
        Some(bytes) if bytes.len() == 32 => Ok(text.to_owned()),
        _ => Err("write a hash of 64 hexadecimal digits".to_owned()),
    }
}

/// The id of a finding: as `gabion log show` prints it, or as the finding itself has it.
pub(crate) fn finding(text: &str) -> Result<String, String> {
    if gabion_seal::reader::is_finding_id(text) {
        Ok(text.to_ascii_lowercase())
    } else {
        Err("write the 16 digits that `gabion log show` prints, or a finding's own id".to_owned())
    }
}

/// The name of a sealed log in its signatures.
pub(crate) fn origin(text: &str) -> Result<String, String> {
    if gabion_seal::checkpoints::is_origin(text) {
        Ok(text.to_owned())
    } else {
        Err("write a name without spaces, + and control characters, such as host.example/log"
            .to_owned())
    }
}

/// A filter of packets, which is only tried here.
pub(crate) fn filter(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err(
            "the value is empty: leave it out, or write one such as 'tcp port 80'".to_owned()
        );
    }
    match Filter::compile(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(e) => Err(format!("{e}: see pcap-filter(7), such as 'tcp port 80'")),
    }
}

/// The id of a reader of a sealed log, as `gabion log stat` prints it.
pub(crate) fn reader(text: &str) -> Result<String, String> {
    match gabion_record::hex::from_hex(text.as_bytes()) {
        Some(bytes) if bytes.len() == 8 => Ok(text.to_owned()),
        _ => Err("write a reader's id: 16 hexadecimal digits as `gabion log stat` prints them"
            .to_owned()),
    }
}

/// Bytes of at least one: a name of a file, or a key.
pub(crate) fn bytes() -> impl TypedValueParser<Value = OsString> {
    OsStringValueParser::new().try_map(|value: OsString| {
        if value.is_empty() {
            Err("write the name of a file, or the key itself")
        } else {
            Ok(value)
        }
    })
}

/// Text of at least one character.
pub(crate) fn text() -> NonEmptyStringValueParser {
    NonEmptyStringValueParser::new()
}

/// Bytes that may be enough for something: a packet's.
const LEAST_BYTES: u64 = 1 << 10;

/// A format of logs of flows: one of its table.
pub(crate) fn log_format() -> impl TypedValueParser<Value = Format> {
    let values = Format::ALL.iter().map(|row| PossibleValue::new(row.name).help(row.text));
    PossibleValuesParser::new(values)
        .try_map(|name| Format::from_name(&name).ok_or("no format of logs"))
}

/// An amount of memory above 0.
pub(crate) fn size(text: &str) -> Result<ByteSize, String> {
    match text.parse::<ByteSize>() {
        Ok(ByteSize(0)) => {
            Err("nothing can be done in 0 bytes: write an amount, such as 64MiB".to_owned())
        }
        Ok(ByteSize(few @ ..LEAST_BYTES)) => {
            Err(format!("{few} bytes are too few: write an amount, such as 64MiB"))
        }
        Ok(size) => Ok(size),
        Err(_) => Err("write an amount of memory, such as 64MiB or 2GiB".to_owned()),
    }
}

/// Address and port; a name is looked up once.
pub(crate) fn place(text: &str) -> Result<SocketAddr, String> {
    let wanted = "write address and port, such as 127.0.0.1:5514 or [::1]:5514";
    if let Ok(place) = text.parse() {
        return Ok(place);
    }
    if let Ok(port @ 1..) = text.trim_start_matches(':').parse::<u16>() {
        return Err(format!(
            "write address and port, such as 0.0.0.0:{port} for all addresses of the machine"
        ));
    }
    match text.rsplit_once(':') {
        Some((name, port)) if !name.is_empty() && port.parse::<u16>().is_ok() => {
            let mut found = text.to_socket_addrs().map_err(|e| format!("{e}: {wanted}"))?;
            found.next().ok_or_else(|| format!("the name has no address: {wanted}"))
        }
        _ => Err(wanted.to_owned()),
    }
}

/// The same for a server that messages are sent to: port 0 is refused.
pub(crate) fn server(text: &str) -> Result<SocketAddr, String> {
    match place(text)? {
        place if place.port() == 0 => {
            Err("no server has port 0: write another, such as 127.0.0.1:5514".to_owned())
        }
        place => Ok(place),
    }
}

/// A setting, NAME=VALUE.
pub(crate) fn setting(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some((name, _)) if !name.trim().is_empty() => Ok(text.to_owned()),
        Some(_) => Err("has no name: write NAME=VALUE, such as stream.memcap=64mb".to_owned()),
        None => Err("has no value: write NAME=VALUE, such as stream.memcap=64mb".to_owned()),
    }
}

/// A signature's id: generator and number.
pub(crate) fn rule_id(text: &str) -> Result<(u32, u32), String> {
    gabion_rules::parse_rule_id(text)
        .ok_or_else(|| "not the id of a rule: write SID or GID:SID, such as 2013028".to_owned())
}

/// Reads `--record`.
pub(crate) fn records(text: &str) -> Result<(u64, u64), String> {
    let (a, b) = text.split_once('-').unwrap_or((text, text));
    let number = |t: &str| {
        t.parse::<u64>()
            .map_err(|_| "write a record's number, or A-B, such as 7 or 10-20".to_owned())
    };
    let (first, last) = (number(a)?, if b.is_empty() { u64::MAX } else { number(b)? });
    if first > last {
        return Err("the first is after the last: write the smaller number first".to_owned());
    }
    Ok((first, last))
}

/// Reads `--kind`.
pub(crate) fn record_kind(text: &str) -> Result<Kind, String> {
    let all = [Kind::Message, Kind::Finding, Kind::System];
    let name = one_of(text, &all.map(Kind::name))?;
    all.into_iter().find(|kind| kind.name() == name).ok_or(name)
}

/// One of these words in any case; the error names the most similar word.
pub(crate) fn one_of(text: &str, words: &[&str]) -> Result<String, String> {
    match words.iter().find(|word| word.eq_ignore_ascii_case(text)) {
        Some(word) => Ok((*word).to_owned()),
        None => Err(format!("{}it is one of {}", meant(text, words), words.join(", "))),
    }
}

/// `did you mean x? `, where a word is like one of those.
pub(crate) fn meant(text: &str, words: &[&str]) -> String {
    gabion_record::near::nearest(text, words.iter().copied())
        .map_or_else(String::new, |near| format!("did you mean {near}? "))
}
