//! `asn1`: walks BER frames in the payload and looks for lengths that break decoders.

use crate::limits::{ASN1_FRAMES_MAX, reached};
use gabion_rules::compiled::buffer::Asn1;

/// Whether a frame of the bytes shows one of the faults the rule names.
pub(crate) fn matches(a: &Asn1, bytes: &[u8], pos: usize) -> bool {
    let start = match (a.absolute_offset, a.relative_offset) {
        (Some(o), _) => usize::from(o),
        (None, Some(o)) => match usize::try_from(pos as i64 + i64::from(o)) {
            Ok(p) => p,
            Err(_) => return false,
        },
        (None, None) => 0,
    };
    let mut ends: Vec<usize> = Vec::new();
    let mut at = start;
    for _ in 0..ASN1_FRAMES_MAX {
        let Some((frame, next)) = read_frame(bytes, at) else { return false };
        if a.oversize_length.is_some_and(|max| frame.length > u64::from(max)) {
            return true;
        }
        // A bit string whose count of unused bits reaches beyond its own content.
        if a.bitstring_overflow
            && frame.class_tag == 0x03
            && frame.length > 0
            && bytes
                .get(next)
                .is_some_and(|unused| u64::from(*unused) > (frame.length - 1).saturating_mul(8))
        {
            return true;
        }
        // A real number whose text form is longer than decoders' buffers.
        if a.double_overflow
            && frame.class_tag == 0x09
            && frame.length > 256
            && bytes.get(next).is_some_and(|b| b & 0xc0 == 0)
        {
            return true;
        }
        let end = next.saturating_add(usize::try_from(frame.length).unwrap_or(usize::MAX));
        if frame.is_constructed && end > next {
            ends.push(end);
            at = next;
        } else {
            at = end;
        }
        while ends.last().is_some_and(|e| at >= *e) {
            ends.pop();
        }
        if at >= bytes.len() {
            return false;
        }
    }
    reached::ASN1_FRAMES_MAX.count();
    false
}

struct Frame {
    class_tag: u8,
    is_constructed: bool,
    length: u64,
}

fn read_frame(bytes: &[u8], at: usize) -> Option<(Frame, usize)> {
    let first = *bytes.get(at)?;
    let mut next = at + 1;
    if first & 0x1f == 0x1f {
        // Long tags: at most five further bytes.
        for _ in 0..5 {
            let b = *bytes.get(next)?;
            next += 1;
            if b & 0x80 == 0 {
                break;
            }
        }
    }
    let l = *bytes.get(next)?;
    next += 1;
    let mut length = u64::from(l & 0x7f);
    if l & 0x80 != 0 {
        let n = usize::from(l & 0x7f);
        if n > 8 {
            return None;
        }
        length = 0;
        for b in bytes.get(next..next + n)? {
            length = (length << 8) | u64::from(*b);
        }
        next += n;
    }
    let frame = Frame { class_tag: first & 0x1f, is_constructed: first & 0x20 != 0, length };
    Some((frame, next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oversize_lengths_are_found_inside_sequences() {
        let rule = Asn1 { oversize_length: Some(1000), ..Asn1::default() };
        assert!(matches(&rule, &[0x30, 0x06, 0x04, 0x82, 0x10, 0x00, 1, 2], 0));
        assert!(!matches(&rule, &[0x30, 0x03, 0x04, 0x01, 0xff], 0));
    }

    #[test]
    fn frames_beyond_the_limit_are_counted() {
        let rule = Asn1 { oversize_length: Some(1000), ..Asn1::default() };
        let mut bytes = [0x04, 0x00].repeat(ASN1_FRAMES_MAX);
        assert!(!matches(&rule, &bytes, 0));
        assert!(gabion_record::limits::take_reached().is_empty());
        bytes.extend_from_slice(&[0x04, 0x82, 0x10, 0x00, 1, 2]);
        assert!(!matches(&rule, &bytes, 0));
        assert_eq!(
            gabion_record::limits::take_reached().times_reached(&reached::ASN1_FRAMES_MAX),
            1
        );
    }
}
