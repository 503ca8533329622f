//! A capture file's TCP streams, for tests only: Ethernet (VLAN allowed), IPv4 and IPv6, segments
//! put in order, first data wins, no check sums, no limits.

use gabion_record::{Addr, Direction};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// What happens in a flow, in capture order.
pub(crate) enum Event {
    /// Bytes of a direction, in order.
    Data { flow: usize, direction: Direction, bytes: Vec<u8> },
    /// Bytes of a direction that never came.
    Gap { flow: usize, direction: Direction, len: u64 },
    /// A direction has ended.
    End { flow: usize, direction: Direction },
}

/// Addresses and ports of a flow, client first.
#[derive(Clone, Copy)]
pub(crate) struct Flow {
    pub(crate) version: u8,
    pub(crate) ends: [(Addr, u16); 2],
}

#[derive(Default)]
struct Half {
    next: Option<u32>,
    ahead: BTreeMap<u32, Vec<u8>>,
}

/// Reads a classic pcap file.
pub(crate) fn read(path: &Path) -> Option<(Vec<Flow>, Vec<Event>)> {
    let file = std::fs::read(path).ok()?;
    let le = match file.get(..4)? {
        [0xd4, 0xc3, 0xb2, 0xa1] | [0x4d, 0x3c, 0xb2, 0xa1] => true,
        [0xa1, 0xb2, 0xc3, 0xd4] | [0xa1, 0xb2, 0x3c, 0x4d] => false,
        _ => return None,
    };
    let u32_at = |at: usize| {
        let b: [u8; 4] = file.get(at..at + 4)?.try_into().ok()?;
        Some(if le { u32::from_le_bytes(b) } else { u32::from_be_bytes(b) })
    };
    let link = u32_at(20)?;
    let mut reader = Reader::default();
    let mut at = 24;
    while let Some(len) = u32_at(at + 8) {
        let Some(frame) = file.get(at + 16..at + 16 + len as usize) else { break };
        at += 16 + len as usize;
        reader.frame(link, frame);
    }
    for flow in 0..reader.flows.len() {
        for direction in Direction::BOTH {
            reader.deliver(flow, direction.index(), None);
            reader.events.push(Event::End { flow, direction });
        }
    }
    Some((reader.flows, reader.events))
}

#[derive(Default)]
struct Reader {
    flows: Vec<Flow>,
    halves: Vec<[Half; 2]>,
    by_ends: HashMap<[(Addr, u16); 2], usize>,
    events: Vec<Event>,
}

impl Reader {
    fn frame(&mut self, link: u32, frame: &[u8]) -> Option<()> {
        let mut ip = match link {
            1 => {
                let mut at = 12;
                while matches!(frame.get(at..at + 2)?, [0x81, 0x00] | [0x88, 0xa8]) {
                    at += 4;
                }
                frame.get(at + 2..)?
            }
            113 => frame.get(16..)?,
            0 => frame.get(4..)?,
            101 | 12 | 14 | 228 | 229 => frame,
            _ => return None,
        };
        let (version, source, destination) = match ip.first()? >> 4 {
            4 => {
                let total = usize::from(u16::from_be_bytes(ip.get(2..4)?.try_into().ok()?));
                ip = ip.get(..total.min(ip.len()))?;
                if *ip.get(9)? != 6 || ip.get(6)? & 0x1f != 0 || *ip.get(7)? != 0 {
                    return None;
                }
                let addr = |at: usize| Some(Addr::v4(ip.get(at..at + 4)?.try_into().ok()?));
                let ends = (4, addr(12)?, addr(16)?);
                ip = ip.get(usize::from(ip[0] & 15) * 4..)?;
                ends
            }
            6 => {
                if *ip.get(6)? != 6 {
                    return None;
                }
                let len = usize::from(u16::from_be_bytes(ip.get(4..6)?.try_into().ok()?));
                let addr = |at: usize| Some(Addr::v6(ip.get(at..at + 16)?.try_into().ok()?));
                let ends = (6, addr(8)?, addr(24)?);
                ip = ip.get(40..40 + len)?;
                ends
            }
            _ => return None,
        };
        let tcp = ip;
        let port = |at: usize| Some(u16::from_be_bytes(tcp.get(at..at + 2)?.try_into().ok()?));
        let ends = [(source, port(0)?), (destination, port(2)?)];
        let seq = u32::from_be_bytes(tcp.get(4..8)?.try_into().ok()?);
        let ack = u32::from_be_bytes(tcp.get(8..12)?.try_into().ok()?);
        let flags = *tcp.get(13)?;
        let data = tcp.get(usize::from(tcp.get(12)? >> 4) * 4..)?;
        self.segment(version, ends, [seq, ack], flags, data);
        Some(())
    }

    fn segment(
        &mut self,
        version: u8,
        ends: [(Addr, u16); 2],
        numbers: [u32; 2],
        flags: u8,
        data: &[u8],
    ) {
        const FIN: u8 = 1;
        const SYN: u8 = 2;
        const RST: u8 = 4;
        let [seq, ack] = numbers;
        let is_new = flags & (SYN | 16) == SYN;
        let reversed = [ends[1], ends[0]];
        let known = self.by_ends.get(&ends).map(|f| (*f, 0));
        let known = known.or(self.by_ends.get(&reversed).map(|f| (*f, 1)));
        let (flow, side) = match known {
            Some((flow, side))
                if !(is_new && self.halves[flow][side].next != Some(seq.wrapping_add(1))) =>
            {
                (flow, side)
            }
            _ => {
                // A SYN-ACK or a server's segment first: the lower port is the server's.
                let server_first = !is_new && (flags & SYN != 0 || ends[0].1 < ends[1].1);
                let (key, side) = if server_first { (reversed, 1) } else { (ends, 0) };
                self.flows.push(Flow { version, ends: key });
                self.halves.push(Default::default());
                self.by_ends.remove(&reversed);
                self.by_ends.insert(key, self.flows.len() - 1);
                (self.flows.len() - 1, side)
            }
        };
        let direction = Direction::BOTH[side];
        let half = &mut self.halves[flow][side];
        let seq = if flags & SYN != 0 { seq.wrapping_add(1) } else { seq };
        let next = *half.next.get_or_insert(seq);
        if !data.is_empty() && seq.wrapping_sub(next) < 1 << 30 {
            half.ahead.entry(seq.wrapping_sub(next)).or_insert_with(|| data.to_vec());
        } else if !data.is_empty() {
            // A retransmission that brings new bytes at its end.
            let old = next.wrapping_sub(seq) as usize;
            if old < data.len() {
                half.ahead.entry(0).or_insert_with(|| data[old..].to_vec());
            }
        }
        self.deliver(flow, side, Some(0));
        // What the other side acknowledges without our having seen it is lost.
        let other = 1 - side;
        if let Some(next) = self.halves[flow][other].next {
            let acked = ack.wrapping_sub(next);
            if flags & 16 != 0 && acked < 1 << 30 {
                self.deliver(flow, other, Some(acked));
            }
        }
        if flags & RST != 0 {
            for direction in Direction::BOTH {
                self.events.push(Event::End { flow, direction });
            }
        } else if flags & FIN != 0 {
            self.events.push(Event::End { flow, direction });
        }
    }

    /// Hands on what is in order, with gaps before what is below `acked` (`None`: all of it).
    fn deliver(&mut self, flow: usize, side: usize, acked: Option<u32>) {
        let direction = Direction::BOTH[side];
        let half = &mut self.halves[flow][side];
        let mut done = 0u32;
        while let Some((at, piece)) = half.ahead.pop_first() {
            if at > done && acked.is_none_or(|acked| at < acked) {
                let len = u64::from(at - done);
                self.events.push(Event::Gap { flow, direction, len });
                done = at;
            }
            if at > done {
                half.ahead.insert(at, piece);
                break;
            }
            let bytes = piece.get((done - at) as usize..).unwrap_or_default().to_vec();
            if !bytes.is_empty() {
                done += bytes.len() as u32;
                self.events.push(Event::Data { flow, direction, bytes });
            }
        }
        half.next = half.next.map(|next| next.wrapping_add(done));
        half.ahead = std::mem::take(&mut half.ahead)
            .into_iter()
            .map(|(at, piece)| (at.wrapping_sub(done), piece))
            .collect();
    }
}
