//! Network service headers (RFC 8300).

use crate::counters::Counter;
use crate::decode::{Outcome, Reject, Run};
use crate::decoded::Decoded;
use crate::event::DecoderEvent;
use crate::layer::Layer;
use crate::{ethernet, ipv4, ipv6, mpls};

/// Base header and service path header.
const MIN_LEN: usize = 8;

/// The headers, then IP, Ethernet or MPLS.
pub(crate) fn decode(run: &mut Run<'_>, p: &mut Decoded, layer: Layer<'_>) -> Outcome {
    run.counters.count(Counter::Nsh);
    if layer.len() < MIN_LEN {
        p.invalid(DecoderEvent::NshHeaderTooSmall);
        return Err(Reject);
    }
    run.enter(p)?;
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
