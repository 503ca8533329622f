//! `suricata.base64`: encodes and decodes.

use super::{Library, member};
use crate::detect::base64;
use crate::script::call::{Answer, Call, Member};
use gabion_record::json::base64_into;
use gabion_rules::compiled::buffer::Base64Mode;

pub(super) const LIBRARY: Library =
    Library { name: "base64", class: "suricata:base64", functions: FUNCTIONS, methods: &[] };

const FUNCTIONS: &[Member] = &[
    member("encode", |c| encode(c, true)),
    member("encode_nopad", |c| encode(c, false)),
    member("decode", |c| strict(c, &[Padding::Needed])),
    member("decode_nopad", |c| strict(c, &[Padding::Refused])),
    member("decode_padopt", |c| strict(c, &[Padding::Needed, Padding::Refused])),
    member("decode_rfc2045", |c| lenient(c, Base64Mode::Rfc2045)),
    member("decode_rfc4648", |c| lenient(c, Base64Mode::Rfc4648)),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Padding {
    Needed,
    Refused,
}

fn encode(c: &mut Call<'_, '_>, pad: bool) -> Answer {
    let input = c.bytes(0)?;
    let mut out = Vec::new();
    base64_into(&input, &mut out);
    if !pad {
        while out.last() == Some(&b'=') {
            out.pop();
        }
    }
    c.text(Some(&out))
}

fn strict(c: &mut Call<'_, '_>, allowed: &[Padding]) -> Answer {
    let input = c.bytes(0)?;
    match allowed.iter().find_map(|p| decode(&input, *p)) {
        Some(out) => c.text(Some(&out)),
        None => Err(c.error("base64 decoding failed")),
    }
}

fn decode(input: &[u8], padding: Padding) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(input.len() / 4 * 3 + 2);
    base64::decode_strict(input, padding == Padding::Needed, &mut out).then_some(out)
}

fn lenient(c: &mut Call<'_, '_>, mode: Base64Mode) -> Answer {
    let input = c.bytes(0)?;
    let mut out = Vec::new();
    if !base64::decode(&input, mode, &mut out) {
        return Err(c.error("base64 decoding failed"));
    }
    c.text(Some(&out))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test vectors of RFC 4648, section 10, and inputs that Suricata refuses.
    #[test]
    fn strict_decoding() {
        let needed = |s: &str| decode(s.as_bytes(), Padding::Needed);
        assert_eq!(needed("Zg==").as_deref(), Some(&b"f"[..]));
        assert_eq!(needed("Zm8=").as_deref(), Some(&b"fo"[..]));
        assert_eq!(needed("Zm9vYmFy").as_deref(), Some(&b"foobar"[..]));
        for bad in ["YW==", "!!!", "YW I=", "YWI", "=", "===="] {
            assert_eq!(needed(bad), None, "{bad}");
        }
        let refused = |s: &str| decode(s.as_bytes(), Padding::Refused);
        assert_eq!(refused("YWI").as_deref(), Some(&b"ab"[..]));
        assert_eq!(refused("YWI="), None);
        assert_eq!(refused("Y"), None);
    }
}
