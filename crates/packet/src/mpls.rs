//! MPLS label stacks (RFC 3032) and the payload after them, whose type is guessed.

use crate::counters::Counter;
use crate::decode::{Outcome, Reject, Run};
use crate::decoded::{Decoded, Flags};
use crate::layer::Layer;
use crate::{ethernet, ipv4, ipv6};
use gabion_record::DecoderEvent;

/// Bytes of a label, and of the control word of an Ethernet pseudo wire.
const LABEL_LEN: usize = 4;

/// Labels up to the bottom of the stack, then IP or Ethernet: labels don't name it, so the last
/// label (0 and 2 are reserved for it) or the first nibble decides.
pub(crate) fn decode(run: &mut Run<'_>, p: &mut Decoded, layer: Layer<'_>) -> Outcome {
    run.counters.count(Counter::Mpls);
    run.enter_layer(p)?;
    p.flags.set(Flags::MPLS);
    let mut rest = layer;
    let label = loop {
        if rest.len() < LABEL_LEN {
            p.invalid(DecoderEvent::MplsHeaderTooSmall);
            return Err(Reject);
        }
        let word = rest.be32(0);
        rest = rest.after(LABEL_LEN);
        if word & 0x100 != 0 {
            break word >> 12;
        }
    };
    let event = match label {
        0 => return ipv4::decode(run, p, rest),
        2 => return ipv6::decode(run, p, rest),
        1 => DecoderEvent::MplsRouterAlert,
        3 => DecoderEvent::MplsImplicitNull,
        4..=14 => DecoderEvent::MplsReservedLabel,
        _ => return decode_payload(run, p, rest),
    };
    p.event(event);
    Ok(())
}

fn decode_payload(run: &mut Run<'_>, p: &mut Decoded, rest: Layer<'_>) -> Outcome {
    if rest.len() < LABEL_LEN {
        p.invalid(DecoderEvent::MplsPacketTooSmall);
        return Err(Reject);
    }
    match rest.u8(0) >> 4 {
        4 => ipv4::decode(run, p, rest),
        6 => ipv6::decode(run, p, rest),
        0 => ethernet::decode(run, p, rest.after(LABEL_LEN)),
        _ => {
            p.invalid(DecoderEvent::MplsUnknownPayload);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::build::{self, events, join};
    use crate::decoded::Flags;
    use crate::link::Link;

    /// A label word: label, bottom of stack, time to live 64.
    fn label(label: u32, is_bottom: bool) -> [u8; 4] {
        (label << 12 | u32::from(is_bottom) << 8 | 64).to_be_bytes()
    }

    #[test]
    fn the_last_label_or_the_first_nibble_says_what_follows() {
        let ip = build::ipv4(17, &[], &build::udp(1, 2, b"x"));
        let ip6 = build::ipv6(17, &build::udp(1, 2, b"x"));
        let wire = join(&[&[0; 4], &build::ethernet(0x0800, &ip)]);
        for (last, inside) in [(0, &ip), (2, &ip6), (100, &ip), (100, &ip6), (100, &wire)] {
            let stack = join(&[&label(7, false), &label(last, true), inside]);
            let frame = build::ethernet(0x8847, &stack);
            let (set, _) = build::run(Link::Ethernet, &frame);
            assert_eq!(set.root().payload(&frame), b"x", "{last}");
            assert!(set.root().flags.has(Flags::MPLS) && set.count() == 1);
        }
    }

    #[test]
    fn odd_stacks_raise_events() {
        let cases: [(Vec<u8>, &str); 7] = [
            (label(7, false).to_vec(), "mpls.header_too_small"),
            (join(&[&label(1, true), &[0x45; 20]]), "mpls.bad_label_router_alert"),
            (join(&[&label(3, true), &[0x45; 20]]), "mpls.bad_label_implicit_null"),
            (join(&[&label(5, true), &[0x45; 20]]), "mpls.bad_label_reserved"),
            (join(&[&label(14, true), &[0x45; 20]]), "mpls.bad_label_reserved"),
            (join(&[&label(99, true), &[0x45; 3]]), "mpls.pkt_too_small"),
            (join(&[&label(99, true), &[0x95; 20]]), "mpls.unknown_payload_type"),
        ];
        for (stack, event) in cases {
            let (set, _) = build::run(Link::Ethernet, &build::ethernet(0x8848, &stack));
            assert_eq!(events(set.root()), [event]);
        }
    }
}
