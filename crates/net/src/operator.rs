//! What an operator asks a worker while it works: bits of hosts, and what was counted of a flow.

use crate::state::BitChange;
use crate::worker::Worker;
use gabion_record::Addr;
use gabion_rules::compiled::actions::BitCommand;

impl Worker {
    /// Bits that are set on a host (`hostbits`): the name of each, and the seconds that it stays.
    pub fn host_bits(&mut self, host: Addr) -> Vec<(String, u64)> {
        let (now_ns, mut found) = (self.event_time_ns(), Vec::new());
        let (engine, shared) = self.engine_and_state();
        let Some(detector) = &engine.detector else { return found };
        let names = &detector.set.hostbits;
        for bit in 0..u32::try_from(names.len()).unwrap_or(u32::MAX) {
            if let Some(until) = shared.hostbit_until(host, bit).filter(|until| *until >= now_ns) {
                found.push((names.get(bit).to_owned(), (until - now_ns) / 1_000_000_000));
            }
        }
        found
    }

    /// Sets a bit on a host for this number of seconds. False: no rule names such a bit.
    pub fn set_host_bit(&mut self, host: Addr, name: &str, expire_s: u32) -> bool {
        self.change_host_bit(host, name, BitCommand::Set, expire_s)
    }

    /// Clears a bit on a host. False: no rule names such a bit.
    pub fn clear_host_bit(&mut self, host: Addr, name: &str) -> bool {
        self.change_host_bit(host, name, BitCommand::Unset, 0)
    }

    fn change_host_bit(
        &mut self,
        host: Addr,
        name: &str,
        command: BitCommand,
        expire_s: u32,
    ) -> bool {
        let now_ns = self.event_time_ns();
        let (engine, shared) = self.engine_and_state();
        let detector = engine.detector.as_ref();
        let Some(bit) = detector.and_then(|d| d.set.hostbits.find(name)) else { return false };
        shared.change_hostbit(host, BitChange { bit, command, expire_s }, now_ns);
        true
    }

    /// What was seen of the flow with this id, if it is under way here: packets and bytes to the server and to the client, and
    /// the seconds from its first to its last packet.
    pub fn flow_tally(&self, id: u64) -> Option<([(u64, u64); 2], u64)> {
        let flow = self.flows().find(|flow| flow.id == id)?;
        let of = |n: usize| flow.seen.get(n).map_or((0, 0), |seen| (seen.pkts, seen.bytes));
        Some(([of(0), of(1)], flow.age_s()))
    }
}
