//! One record of a block, of layout 1 (nfdump 1.6) or 2 (1.7), to what a row says of it.
//!
//! Layout 2 names and measures each part of a record. In layout 1 a record begins with what all flows have; what
//! follows is named by a map that stood before, by the number of which the record refers to it.

use super::bytes::{byte, long, short, word};
use crate::limits::reached;
use crate::skip::Skip;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use smallvec::SmallVec;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Kinds of records that are no flows: histograms, exporters and their counts, samplers, names of applications,
/// interfaces and routing tables, and the file's own name and sums.
const NO_FLOWS: [u16; 13] = [3, 4, 5, 6, 7, 8, 9, 12, 13, 14, 15, 0x8001, 0x8002];

/// The last part of a record of layout 2 that nfdump 1.7 has a name for.
const LAST_PART: u16 = 42;

/// The last extension of layout 1 that nfdump 1.6 has a name for.
const LAST_EXTENSION: u16 = 49;

/// What a flow's record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flow {
    /// Milliseconds since the epoch.
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) proto: u8,
    pub(super) tcp_flags: u8,
    pub(super) src: IpAddr,
    pub(super) dst: IpAddr,
    pub(super) src_port: u16,
    /// Of ICMP the type, and below it the code.
    pub(super) dst_port: u16,
    pub(super) packets: u64,
    pub(super) bytes: u64,
    /// Packets and bytes the other way, where the record counts them.
    pub(super) back: Option<[u64; 2]>,
}

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Flow(Flow),
    /// Nothing about a flow.
    Nothing,
    Skip(Skip),
}

/// Extension maps of layout 1, by their numbers.
#[derive(Default)]
pub(super) struct Maps(HashMap<u16, SmallVec<[u16; 16]>, FixedState>);

impl Maps {
    fn add(&mut self, record: &[u8]) -> Found {
        let Some(number) = short(record, 4) else { return Found::Skip(Skip::BadRecord) };
        let listed = record.get(8..).unwrap_or_default().chunks_exact(2);
        let mut extensions = SmallVec::new();
        for id in listed.filter_map(|two| short(two, 0)).take_while(|id| *id != 0) {
            if !reached::EXTENSIONS_MAX.has_room(extensions.len()) {
                break;
            }
            extensions.push(id);
        }
        if self.0.contains_key(&number) || reached::EXTENSION_MAPS_MAX.has_room(self.0.len()) {
            self.0.insert(number, extensions);
        }
        Found::Nothing
    }
}

/// Reads one record, all its bytes; the second says that it has a part that nobody knows here.
pub(super) fn parse_record(record: &[u8], maps: &mut Maps) -> (Found, bool) {
    let skip = (Found::Skip(Skip::BadRecord), false);
    match short(record, 0) {
        Some(11) => by_parts(record).unwrap_or(skip),
        Some(10) => common(record, 32, maps).unwrap_or(skip),
        Some(1) => common(record, 28, maps).unwrap_or(skip),
        Some(2) => (maps.add(record), false),
        Some(kind) if NO_FLOWS.contains(&kind) => (Found::Nothing, false),
        Some(_) => (Found::Skip(Skip::UnknownRecord), false),
        None => skip,
    }
}

/// What all flows have in layout 2.
struct Generic {
    first: u64,
    last: u64,
    packets: u64,
    bytes: u64,
    src_port: u16,
    dst_port: u16,
    proto: u8,
    tcp_flags: u8,
}

/// A record of layout 2; none where its parts do not fit into it.
fn by_parts(record: &[u8]) -> Option<(Found, bool)> {
    let count = short(record, 4)?;
    let is_event = byte(record, 10)? & 1 != 0;
    let mut rest = record.get(12..)?;
    let (mut generic, mut ends, mut back, mut is_odd) = (None, None, None, false);
    for _ in 0..count {
        let (kind, len) = (short(rest, 0)?, usize::from(short(rest, 2)?));
        let (part, behind) = rest.split_at_checked(len)?;
        let body = part.get(4..)?;
        rest = behind;
        match kind {
            1 => {
                generic = Some(Generic {
                    first: long(body, 0)?,
                    last: long(body, 8)?,
                    packets: long(body, 24)?,
                    bytes: long(body, 32)?,
                    src_port: short(body, 40)?,
                    dst_port: short(body, 42)?,
                    proto: byte(body, 44)?,
                    tcp_flags: byte(body, 45)?,
                });
            }
            2 => ends = Some((v4(body, 0)?, v4(body, 4)?)),
            3 => ends = Some((v6(body, 0)?, v6(body, 16)?)),
            5 => back = Some([long(body, 8)?, long(body, 16)?]),
            _ => is_odd |= kind == 0 || kind > LAST_PART,
        }
    }
    // A firewall's or translator's event without a flow's times is not one of a flow.
    let generic = match generic {
        Some(g) if g.first > 0 => g,
        _ if is_event => return Some((Found::Skip(Skip::UnusedEvent), is_odd)),
        _ => return Some((Found::Skip(Skip::NoTime), is_odd)),
    };
    let Some((src, dst)) = ends else { return Some((Found::Skip(Skip::NoAddress), is_odd)) };
    let flow = Flow {
        first: generic.first,
        last: generic.last,
        proto: generic.proto,
        tcp_flags: generic.tcp_flags,
        src,
        dst,
        src_port: generic.src_port,
        dst_port: generic.dst_port,
        packets: generic.packets,
        bytes: generic.bytes,
        back,
    };
    Some((Found::Flow(flow), is_odd))
}

/// Bytes of an extension of layout 1 that may come before the counts of the other direction, and of these.
fn extension_len(id: u16) -> Option<usize> {
    Some(match id {
        4 | 6 | 8 | 9 | 11 | 13 | 14 | 16 => 4,
        5 | 7 | 15 | 17 => 8,
        10 | 12 => 16,
        _ => return None,
    })
}

/// A record of layout 1, of which what all flows have is so long; none where it does not fit.
fn common(record: &[u8], len: usize, maps: &Maps) -> Option<(Found, bool)> {
    // The older kind has one byte of flags and one that means something else.
    let flags = short(record, 4)? & 0xff;
    let Some(map) = maps.0.get(&short(record, 6)?) else {
        return Some((Found::Skip(Skip::NoMap), false));
    };
    let moment = |seconds: usize, part: usize| {
        Some(u64::from(word(record, seconds)?) * 1000 + u64::from(short(record, part)?))
    };
    let (first, last) = (moment(12, 8)?, moment(16, 10)?);
    let mut at = len;
    let (src, dst) = if flags & 1 == 0 {
        at += 8;
        (v4(record, len)?, v4(record, len + 4)?)
    } else {
        at += 32;
        (v6(record, len)?, v6(record, len + 16)?)
    };
    let mut number = |is_long: bool| {
        let value = if is_long { long(record, at) } else { word(record, at).map(u64::from) };
        at += if is_long { 8 } else { 4 };
        value
    };
    let (packets, bytes) = (number(flags & 2 != 0)?, number(flags & 4 != 0)?);
    let mut back = None;
    for id in map {
        match *id {
            14..=17 => {
                let value = number(id % 2 == 1)?;
                let [packets, bytes] = back.get_or_insert([0, 0]);
                *(if *id < 16 { packets } else { bytes }) = value;
            }
            // The map also names what each record has.
            1..=3 => {}
            id => match extension_len(id) {
                Some(4) => _ = number(false)?,
                Some(8) => _ = number(true)?,
                Some(_) => _ = (number(true)?, number(true)?),
                None => break,
            },
        }
    }
    let is_odd = map.iter().any(|id| *id > LAST_EXTENSION);
    if first == 0 {
        let skip = if flags & 64 != 0 { Skip::UnusedEvent } else { Skip::NoTime };
        return Some((Found::Skip(skip), is_odd));
    }
    let flow = Flow {
        first,
        last,
        proto: byte(record, 22)?,
        tcp_flags: byte(record, 21)?,
        src,
        dst,
        src_port: short(record, 24)?,
        dst_port: short(record, 26)?,
        packets,
        bytes,
        back,
    };
    Some((Found::Flow(flow), is_odd))
}

fn v4(bytes: &[u8], at: usize) -> Option<IpAddr> {
    word(bytes, at).map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits)))
}

fn v6(bytes: &[u8], at: usize) -> Option<IpAddr> {
    let bits = u128::from(long(bytes, at)?) << 64 | u128::from(long(bytes, at + 8)?);
    Some(IpAddr::V6(Ipv6Addr::from_bits(bits)))
}
