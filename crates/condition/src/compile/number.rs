//! Comparisons of numbers, addresses and truth values, and how rules write such values.

use super::error::Fault;
use super::services::port_of;
use crate::lang::Op;
use gabion_record::{Ip, Net};

/// Reads a number in decimal digits, with a sign.
pub(super) fn parse_number(text: &str) -> Result<i128, Fault> {
    let bad = || Fault::NoNumber(text.to_string());
    let number: i128 = text.parse().map_err(|_| bad())?;
    // Fields have 64 bits at most.
    let range = i128::from(i64::MIN)..=i128::from(u64::MAX);
    if range.contains(&number) { Ok(number) } else { Err(bad()) }
}

/// Reads a number with a fraction.
pub(super) fn parse_float(text: &str) -> Result<f64, Fault> {
    text.parse().map_err(|_| Fault::NoNumber(text.to_string()))
}

/// Reads a port or the name of a service.
pub(super) fn parse_port(text: &str) -> Result<i128, Fault> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok(i128::from(port));
    }
    port_of(text).map(i128::from).ok_or_else(|| Fault::NoPort(text.to_string()))
}

/// Reads a truth value.
pub(super) fn parse_bool(text: &str) -> Result<bool, Fault> {
    match text {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(Fault::NoBool(text.to_string())),
    }
}

/// Reads an address.
pub(super) fn parse_ip(text: &str) -> Result<Ip, Fault> {
    Ip::parse(text.as_bytes()).ok_or_else(|| Fault::NoAddress(text.to_string()))
}

/// Reads a network, which needs the length of its prefix.
pub(super) fn parse_net(text: &str) -> Result<Net, Fault> {
    let bad = || Fault::NoNetwork(text.to_string());
    if !text.contains('/') {
        return Err(bad());
    }
    Net::parse(text.as_bytes()).ok_or_else(bad)
}

/// Compares two values that have an order.
pub(super) fn compare<T: PartialOrd + ?Sized>(left: &T, op: Op, right: &T) -> bool {
    match op {
        Op::Less => left < right,
        Op::LessEqual => left <= right,
        Op::Greater => left > right,
        Op::GreaterEqual => left >= right,
        Op::Equal | Op::EqualEqual | Op::In | Op::Intersects => left == right,
        Op::NotEqual => left != right,
        Op::Glob | Op::GlobAnyCase | Op::Contains | Op::ContainsAnyCase | Op::ContainsBytes => {
            false
        }
        Op::StartsWith | Op::StartsWithBytes | Op::EndsWith | Op::Regex | Op::PathMatch => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages are those of Falco's engine 0.63.0 (`expected-filters.tsv` of the corpus).
    #[test]
    fn values_are_read_as_falco_reads_them() {
        assert_eq!(parse_number("-2"), Ok(-2));
        let message = |fault: Fault| fault.to_string();
        assert_eq!(parse_number("0x0").map_err(message), Err("0x0 is not a valid number".into()));
        assert_eq!(parse_number("18446744073709551615"), Ok(u64::MAX.into()));
        assert!(parse_number("18446744073709551616").is_err());
        let message = "unrecognized IP network 1.2.3.4".to_string();
        assert_eq!(parse_net("1.2.3.4").map_err(|fault| fault.to_string()), Err(message));
        assert!(parse_net("10.0.0.0/8").is_ok());
        assert_eq!(parse_port("http"), Ok(80));
        let message = "unrecognized IPv6 address notanip".to_string();
        assert_eq!(parse_ip("notanip").map_err(|fault| fault.to_string()), Err(message));
    }
}
