//! MPLS label stacks (RFC 3032) and what is guessed behind them.

use crate::counters::Counter;
use crate::decode::{Outcome, Reject, Run};
use crate::decoded::{Decoded, Flags};
use crate::event::DecoderEvent;
use crate::layer::Layer;
use crate::{ethernet, ipv4, ipv6};

/// Bytes of a label, and of the control word of an Ethernet pseudo wire.
const LABEL_LEN: usize = 4;

/// Labels up to the bottom of the stack, then IP or Ethernet: labels don't say which, so the last
/// label (0 and 2 are reserved for it) or the first nibble decides.
pub(crate) fn decode(run: &mut Run<'_>, p: &mut Decoded, layer: Layer<'_>) -> Outcome {
    run.counters.count(Counter::Mpls);
    run.enter(p)?;
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
