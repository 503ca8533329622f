//! A record with what the site knows at it, as bytes: on its way to the worker that holds its shard, on this
//! machine or in a stream engine.
//!
//! A parcel is `[u32 length][bytes]`, little-endian. What has one size stands first, each field at its
//! place, so that a record is written and read in a few moves rather than field by field; what has many
//! follows, in the order of its struct. Texts are borrowed from the parcel when it is read. Parcels of one
//! batch follow one another. Their reader and their writer are built together.

mod found;

pub use found::{Found, Opened};

use crate::ahead::Ahead;
use crate::prevalence::Prevalence;
use crate::shards::Ends;
use crate::site::Facts;
use gabion_record::fixed;
use gabion_record::fixed::Fixed;
use gabion_record::logs::{Mac, Record, TimeNs};
use gabion_record::packed::{RecordHead, put_body};
use gabion_record::{Ip, Net};

/// What is on its way.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::large_enum_variant, reason = "lives on the stack for one call")]
pub enum Parcel<'a> {
    /// A record with its number.
    Record(u64, Ends, Record<'a>, Facts),
    /// A later window has begun, with a record of that number and watermark.
    Turn(i64, u64, TimeNs),
}

/// Appends a record.
pub fn put_record(number: u64, ends: Ends, r: &Record<'_>, facts: &Facts, out: &mut Vec<u8>) {
    framed(out, |out| {
        let record = RecordHead::from_record(r);
        let head = Head { ends: ends as u8, number, record, facts: *facts };
        head.append::<{ Head::LEN }>(out);
        out.extend_from_slice(r.uid);
        put_body(&r.body, out);
    });
}

/// Appends that a later window has begun.
pub fn put_turn(window: i64, number: u64, watermark: TimeNs, out: &mut Vec<u8>) {
    framed(out, |out| {
        Turn { tag: TURN, window, number, watermark }.append::<{ Turn::LEN }>(out);
    });
}

const TURN: u8 = 0xff;

#[inline]
fn framed(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out);
    let len = u32::try_from(out.len() - at - 4).unwrap_or(u32::MAX);
    if let Some(place) = out.get_mut(at..at + 4) {
        place.copy_from_slice(&len.to_le_bytes());
    }
}

/// The next parcel of a batch, and what follows it; `None` at the end and for what is none.
#[inline]
pub fn take_parcel(batch: &[u8]) -> Option<(Parcel<'_>, &[u8])> {
    let (len, rest) = batch.split_first_chunk::<4>()?;
    let (bytes, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    let parcel = match *bytes.first()? {
        TURN => {
            let turn = Turn::read_fixed(bytes.get(..Turn::LEN)?)?;
            Parcel::Turn(window(turn.window)?, turn.number, turn.watermark)
        }
        ends => {
            let ends = match ends {
                0 => Ends::Source,
                1 => Ends::Destination,
                2 => Ends::Both,
                _ => return None,
            };
            // The lengths that give the ends are a part of the head.
            let head = Head::read_fixed(bytes.get(..Head::LEN)?)?;
            window(head.facts.window).and(window(head.facts.newest))?;
            let mut from = bytes.get(Head::LEN..)?;
            let record = head.record.take_rest(&mut from)?;
            Parcel::Record(head.number, ends, record, head.facts)
        }
    };
    Some((parcel, rest))
}

/// The number of a window, where it may be one: no run has as many.
fn window(number: i64) -> Option<i64> {
    (number.unsigned_abs() < 1 << 56).then_some(number)
}

/// The ends of the next parcel's record, without reading the rest of it, and what follows the parcel;
/// none when it holds no record.
#[inline]
pub fn ahead(batch: &[u8]) -> Option<(Option<Ahead>, &[u8])> {
    let (len, rest) = batch.split_first_chunk::<4>()?;
    let (bytes, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    if *bytes.first()? == TURN {
        return Some((None, rest));
    }
    let head = Head::read_fixed(bytes.get(..Head::LEN)?)?;
    let RecordHead { src, dst, src_port, dst_port, proto, .. } = head.record;
    Some((Some(Ahead { src, dst, src_port, dst_port, proto }), rest))
}

/// That a later window has begun.
struct Turn {
    tag: u8,
    window: i64,
    number: u64,
    watermark: TimeNs,
}

/// What each record has, and what the site knows at it.
struct Head {
    ends: u8,
    number: u64,
    record: RecordHead,
    facts: Facts,
}

fixed! {
    Head { ends: u8, number: u64, record: RecordHead, facts: Facts, }
    Turn { tag: u8, window: i64, number: u64, watermark: TimeNs, }
    Facts {
        window: i64, newest: i64, watermark: TimeNs, start: TimeNs, local: Option<Net>,
        gateway: Option<Ip>, mac_owner: Option<Ip>, is_mac_new: bool, src_mac: Option<Mac>,
        is_dhcp_server: bool, is_announced: bool, is_answer: bool, is_routine: bool, is_proxy: bool,
        is_resolved: bool, is_ignored: bool,
        has_other_logs: bool, prevalence: Prevalence,
    }
    Prevalence { hosts: u32, of: u32, first: TimeNs, }
}

/// Their number, as it is written before them.
#[inline]
fn len_of<T>(many: &[T]) -> u32 {
    u32::try_from(many.len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{conn, log};
    use gabion_record::logs::{Body, Dns, List};

    #[test]
    fn what_is_put_in_comes_out_and_halves_are_refused() {
        let mut flow = conn(1_700_000_000, "10.0.0.1", "2001:db8::1", 443).sending(5000);
        flow.src_mac = Some(Mac([1, 2, 3, 4, 5, 6]));
        let dns = log(
            7,
            "10.0.0.1",
            "1.1.1.1",
            Body::Dns(Dns {
                query: b"a.example",
                answers: List { raw: b"[\"1.2.3.4\"]", is_json: true },
                ..Dns::default()
            }),
        );
        let facts = Facts {
            window: -3,
            newest: 4,
            local: Net::parse(b"10.0.0.0/8"),
            is_resolved: true,
            ..Facts::default()
        };
        let mut batch = Vec::new();
        put_record(7, Ends::Both, &flow.record(), &facts, &mut batch);
        put_turn(9, 8, TimeNs(11), &mut batch);
        put_record(8, Ends::Destination, &dns, &facts, &mut batch);
        let whole = batch.clone();
        let ends: Vec<_> = std::iter::successors(ahead(&batch), |(_, rest)| ahead(rest))
            .map(|(ends, _)| ends)
            .collect();
        assert_eq!(
            ends,
            [Some(Ahead::from_record(&flow.record())), None, Some(Ahead::from_record(&dns))]
        );
        let show = |r: &Record<'_>, f: &Facts| format!("{r:?} {f:?}");
        let (parcel, rest) = take_parcel(&batch).unwrap();
        let Parcel::Record(7, Ends::Both, r, f) = parcel else { panic!("{parcel:?}") };
        assert_eq!(show(&r, &f), show(&flow.record(), &facts));
        let (parcel, rest) = take_parcel(rest).unwrap();
        assert!(matches!(parcel, Parcel::Turn(9, 8, TimeNs(11))));
        let (parcel, rest) = take_parcel(rest).unwrap();
        let Parcel::Record(8, Ends::Destination, r, f) = parcel else { panic!("{parcel:?}") };
        assert_eq!(show(&r, &f), show(&dns, &facts));
        assert!(take_parcel(rest).is_none());
        // A number that can be no window makes no parcel: its neighbours could not be computed.
        for odd in [i64::MIN, i64::MAX] {
            let (mut turn, mut at) = (Vec::new(), Vec::new());
            put_turn(odd, 8, TimeNs(11), &mut turn);
            let facts = Facts { window: odd, ..Facts::default() };
            put_record(7, Ends::Source, &flow.record(), &facts, &mut at);
            assert!(take_parcel(&turn).is_none() && take_parcel(&at).is_none());
        }
        // Cut or changed anywhere it is no panic.
        for cut in 0..whole.len() {
            let _ = take_parcel(&whole[..cut]);
            batch.clone_from(&whole);
            batch[cut] ^= 0xff;
            let _ = take_parcel(&batch);
        }
    }
}
