//! Network service headers (RFC 8300).

use crate::counters::Counter;
use crate::decode::{Outcome, Reject, Run};
use crate::decoded::Decoded;
use crate::layer::Layer;
use crate::{ethernet, ipv4, ipv6, mpls};
use gabion_record::DecoderEvent;

/// Base header and service path header.
const MIN_LEN: usize = 8;

/// The headers, then IP, Ethernet or MPLS.
pub(crate) fn decode(run: &mut Run<'_>, p: &mut Decoded, layer: Layer<'_>) -> Outcome {
    run.counters.count(Counter::Nsh);
    if layer.len() < MIN_LEN {
        p.invalid(DecoderEvent::NshHeaderTooSmall);
        return Err(Reject);
    }
    run.enter_layer(p)?;
    let first = layer.be16(0);
    let len = usize::from(first & 0x3f) * 4;
    if len >= layer.len() {
        p.invalid(DecoderEvent::NshBadHeaderLen);
        return Err(Reject);
    }
    if first >> 14 != 0 {
        p.event(DecoderEvent::NshUnsupportedVersion);
        return Ok(());
    }
    let len_fits = match layer.u8(2) {
        0 => {
            p.event(DecoderEvent::NshReservedType);
            return Ok(());
        }
        1 => len == 24,
        2 => len >= MIN_LEN,
        _ => {
            p.event(DecoderEvent::NshUnsupportedType);
            return Ok(());
        }
    };
    if !len_fits {
        p.invalid(DecoderEvent::NshBadHeaderLen);
        return Err(Reject);
    }
    let inside = layer.after(len);
    match layer.u8(3) {
        1 => ipv4::decode(run, p, inside),
        2 => ipv6::decode(run, p, inside),
        3 => ethernet::decode(run, p, inside),
        5 => mpls::decode(run, p, inside),
        _ => {
            p.event(DecoderEvent::NshUnknownPayload);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::build::{self, events, join};
    use crate::link::Link;

    #[test]
    fn headers_are_skipped_or_refused() {
        let ip = build::ipv4(17, &[], &build::udp(1, 2, b"x"));
        let ip6 = build::ipv6(17, &build::udp(1, 2, b"x"));
        let wire = build::ethernet(0x0800, &ip);
        let header = |version_len: [u8; 2], metadata: u8, next: u8, len: usize| {
            let mut header = vec![version_len[0], version_len[1], metadata, next];
            header.resize(len, 0);
            header
        };
        for (next, inside) in [(1, &ip), (2, &ip6), (3, &wire)] {
            for (words, metadata) in [(6u8, 1), (2, 2), (4, 2)] {
                let head = header([0, words], metadata, next, usize::from(words) * 4);
                let frame = build::ethernet(0x894f, &join(&[&head, inside]));
                let (set, _) = build::run(Link::Ethernet, &frame);
                assert_eq!(set.root().payload(&frame), b"x", "{next} {words}");
            }
        }
        let cases = [
            (vec![0; 7], "nsh.header_too_small"),
            (header([0, 3], 2, 1, 12), "nsh.bad_header_length"),
            (header([0, 1], 2, 1, 12), "nsh.bad_header_length"),
            (header([0, 2], 1, 1, 12), "nsh.bad_header_length"),
            (header([0x40, 2], 2, 1, 12), "nsh.unsupported_version"),
            (header([0, 2], 0, 1, 12), "nsh.reserved_type"),
            (header([0, 2], 9, 1, 12), "nsh.unsupported_type"),
            (header([0, 2], 2, 9, 12), "nsh.unknown_payload"),
        ];
        for (frame, event) in cases {
            let (set, _) = build::run(Link::Ethernet, &build::ethernet(0x894f, &frame));
            assert_eq!(events(set.root()), [event], "{frame:?}");
        }
    }
}
