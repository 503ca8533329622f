//! Ports of servers for which some rule looks at streams.

use gabion_record::Direction;
use gabion_rules::{Ruleset, SignatureFlags};

/// Ports as bits.
const WORDS: usize = (u16::MAX as usize + 1) / 64;

/// Ports of the server for which some rule looks at streams of a direction.
#[derive(Debug, Default)]
pub(crate) struct StreamPorts {
    is_any: bool,
    /// A bit for each port; empty where a rule names none.
    bits: Vec<u64>,
}

impl StreamPorts {
    /// Rules to the server name the destination port, those to the client the source port.
    pub(super) fn collect(set: &Ruleset, direction: Direction) -> StreamPorts {
        let mut ports = StreamPorts::default();
        // Thousands of rules share a list of ports, which may name nearly all.
        let mut is_added = vec![false; set.ports.len()];
        for s in set.signatures.iter().filter(|s| s.flags.has(SignatureFlags::NEED_STREAM)) {
            if s.inert.is_some() || !s.inspects(direction) {
                continue;
            }
            let id = match direction {
                Direction::ToServer => s.header.dst_ports,
                Direction::ToClient => s.header.src_ports,
            };
            if is_added.get_mut(id.0 as usize).is_some_and(|added| std::mem::replace(added, true)) {
                continue;
            }
            match set.ports.get(id.0 as usize) {
                Some(named) if !named.is_any() => ports.add(&named.ranges),
                Some(_) | None => ports.is_any = true,
            }
        }
        ports
    }

    fn add(&mut self, ranges: &[(u16, u16)]) {
        self.bits.resize(WORDS, 0);
        for port in ranges.iter().flat_map(|(first, last)| *first..=*last) {
            if let Some(word) = self.bits.get_mut(usize::from(port / 64)) {
                *word |= 1 << (port % 64);
            }
        }
    }

    /// Whether a rule looks at streams from or to this port of the server.
    #[inline]
    pub(crate) fn holds(&self, port: u16) -> bool {
        self.is_any
            || self.bits.get(usize::from(port / 64)).is_some_and(|w| w >> (port % 64) & 1 != 0)
    }
}
