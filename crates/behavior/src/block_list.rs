//! Look-ups below lists that are served by DNS (RFC 5782): `4.3.2.1.zen.example` asks whether a list has the
//! address 1.2.3.4, and is answered by an address of 127/8, or by NXDOMAIN where it has not.
//!
//! Such names do not exist as a rule, and are different each time, but nobody generated them, nothing is to be
//! connected to, and their answers are no addresses of hosts.

use crate::names::is_below;
use gabion_record::Ip;

/// Operators of lists that are asked for addresses, names or files: all below belongs to a list.
const OPERATORS: &[&[u8]] = &[
    b"abuseat.org",
    b"abusix.zone",
    b"barracudacentral.org",
    b"cymru.com",
    b"dnsbl.info",
    b"dnswl.org",
    b"mailspike.net",
    b"njabl.org",
    b"rspamd.com",
    b"senderscore.com",
    b"sophosxl.net",
    b"sorbs.net",
    b"spamcop.net",
    b"spameatingmonkey.net",
    b"spamhaus.net",
    b"spamhaus.org",
    b"surbl.org",
    b"uceprotect.net",
    b"uribl.com",
];

/// Labels of a reversed address of IPv4 and of IPv6.
const V4: usize = 4;
const V6: usize = 32;

/// What is below a reversed address that begins a name: the list's zone, of two labels at least.
fn below_address(name: &[u8]) -> Option<&[u8]> {
    let is_number = |label: &[u8]| {
        matches!(label.len(), 1..=3)
            && std::str::from_utf8(label).is_ok_and(|text| text.parse::<u8>().is_ok())
            && label.iter().all(u8::is_ascii_digit)
    };
    let is_nibble = |label: &[u8]| label.len() == 1 && label.iter().all(u8::is_ascii_hexdigit);
    let behind = |count: usize, is_meant: &dyn Fn(&[u8]) -> bool| {
        let mut rest = name;
        for _ in 0..count {
            let dot = rest.iter().position(|b| *b == b'.')?;
            if !is_meant(rest.get(..dot)?) {
                return None;
            }
            rest = rest.get(dot + 1..)?;
        }
        rest.contains(&b'.').then_some(rest)
    };
    behind(V6, &is_nibble).or_else(|| behind(V4, &is_number))
}

/// The zone of the list that a name is looked up in; `None` when it is no such look-up.
pub(crate) fn zone(name: &[u8]) -> Option<&[u8]> {
    below_address(name).or_else(|| operator(name))
}

/// The operator of a list that a name is looked up at.
pub(crate) fn operator(name: &[u8]) -> Option<&'static [u8]> {
    OPERATORS.iter().copied().find(|operator| is_below(name, operator))
}

/// Whether an answer is what lists answer with.
pub(crate) fn is_verdict(answer: Ip) -> bool {
    answer.is_v4() && answer.is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn look_ups_are_known_by_their_form_or_their_operator() {
        let zen: &[u8] = b"zen.spamhaus.org";
        assert_eq!(zone(b"107.18.31.83.zen.spamhaus.org"), Some(zen));
        assert_eq!(zone(b"1.2.3.4.list.example"), Some(&b"list.example"[..]));
        let v6 = format!("{}list.example", "a.".repeat(32));
        assert_eq!(zone(v6.as_bytes()), Some(&b"list.example"[..]));
        assert_eq!(zone(b"bad.example.dbl.spamhaus.org"), Some(&b"spamhaus.org"[..]));
        for name in ["256.1.2.3.list.example", "1.2.3.list.example", "1.2.3.4.example", "x.example"]
        {
            assert_eq!(zone(name.as_bytes()), None, "{name}");
        }
        assert_eq!(operator(b"1.2.3.4.notspamhaus.org"), None);
    }
}
