//! The socket that exporters of NetFlow and IPFIX send to, and the account of it: what came, what was read,
//! what the kernel dropped before it was seen, and what exporters' own numbers say is missing.
//!
//! The kernel's count is asked for at every look and at the end, because it comes with a datagram only when
//! one comes after the loss.

use crate::Notices;
use gabion_flowlog::InputReport;
use gabion_flowlog::netflow::{Collector, Counts};
use gabion_record::Ip;
use gabion_record::ledger::ShedReason;
use gabion_record::logs::{Record, TimeNs};
use gabion_runtime::clock;
use gabion_runtime::sockets::datagrams::{self, DatagramBatch};
use gabion_runtime::sockets::poll::{Interest, Poll};
use gabion_runtime::sockets::{self, RECEIVE_BUFFER, RECEIVE_BUFFER_ENOUGH};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

/// How long one turn takes datagrams before what was found is written, and waits for the first.
const TURN: Duration = Duration::from_millis(20);
/// How long what the kernel holds is still read when the run is asked to stop. The rest is counted.
const AT_END: Duration = Duration::from_secs(1);

/// What takes records.
pub(super) type Each<'e> = &'e mut dyn FnMut(&Record<'_>) -> ControlFlow<()>;

/// The socket and its account.
pub(super) struct Exporters {
    socket: UdpSocket,
    poll: Poll,
    batch: DatagramBatch,
    collector: Collector,
    /// What was counted in the ledger so far.
    counted: Counts,
    /// What the kernel reported last that it dropped: 32 bits that turn over.
    reported: u32,
    /// Datagrams it dropped.
    dropped: u64,
    /// The number of records missed by exporters that were not dropped here.
    gaps: u64,
    report: InputReport,
}

impl Exporters {
    /// Takes what comes to a socket.
    pub(super) fn new(socket: UdpSocket, notices: &Notices) -> io::Result<Exporters> {
        // What the kernel does not grant is taken as it is.
        let got = sockets::enlarge_receive_buffer(&socket, RECEIVE_BUFFER).unwrap_or(0);
        let address = socket.local_addr()?;
        if got < RECEIVE_BUFFER_ENOUGH {
            notices.report(&format!(
                "netflow: {address}: receive buffer of {got} bytes only: a pause of milliseconds loses datagrams: raise net.core.rmem_max"
            ));
        }
        let poll = Poll::new()?;
        poll.add(&socket, 0, Interest::READ)?;
        Ok(Exporters {
            poll,
            batch: DatagramBatch::new(),
            collector: Collector::default(),
            counted: Counts::default(),
            reported: datagrams::drops(socket.as_fd()).unwrap_or(0),
            dropped: 0,
            gaps: 0,
            report: InputReport::new(Path::new(&format!("netflow {address}"))),
            socket,
        })
    }

    /// Where datagrams are taken.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.socket.local_addr().ok()
    }

    /// The account so far.
    pub(super) const fn report(&self) -> &InputReport {
        &self.report
    }

    /// What was met in datagrams, and how many the kernel dropped.
    pub(super) const fn counts(&self) -> (Counts, u64) {
        (self.collector.counts, self.dropped)
    }

    /// Takes datagrams that have come, waiting a moment for the first; whether there was any. `given` is the
    /// moment of the last record given out.
    pub(super) fn take_datagrams(&mut self, given: &mut Option<TimeNs>, each: Each<'_>) -> bool {
        let mut ready = Vec::new();
        if self.poll.wait(TURN, &mut ready).is_err() || ready.is_empty() {
            self.account();
            return false;
        }
        let begun = clock::now();
        // Exporters that send a little all the time must not keep findings from being written.
        while self.receive_batch(given, each) > 0 && begun.elapsed() < TURN {}
        self.account();
        true
    }

    /// The end: nothing more is taken in, what the kernel holds is read, and what it dropped is asked for a
    /// last time.
    pub(super) fn finish(&mut self, given: &mut Option<TimeNs>, each: Each<'_>) {
        // What can't be refused is read like the rest, for as long.
        let _ = datagrams::refuse_further(self.socket.as_fd());
        let begun = clock::now();
        while begun.elapsed() < AT_END && self.receive_batch(given, each) > 0 {}
        let mut left = 0;
        while begun.elapsed() < 2 * AT_END {
            match self.batch.receive(self.socket.as_fd()) {
                Ok(n) if n > 0 => left += n as u64,
                _ => break,
            }
        }
        self.report.ledger.receive(left, 0);
        self.report.ledger.shed(ShedReason::Stopped, left, 0);
        self.account();
    }

    /// Takes a batch; how many datagrams it had.
    fn receive_batch(&mut self, given: &mut Option<TimeNs>, each: Each<'_>) -> usize {
        let Ok(n) = self.batch.receive(self.socket.as_fd()) else { return 0 };
        for datagram in self.batch.iter() {
            let from = match datagram.peer.map(|p| p.ip()) {
                Some(IpAddr::V4(ip)) => Ip::v4(ip.into()),
                Some(IpAddr::V6(ip)) => Ip::from_bytes(ip.octets()),
                None => continue,
            };
            self.collector.datagram(from, datagram.bytes, &mut |record| {
                let mut record = *record;
                record.is_late = given.is_some_and(|g| record.ts < g);
                if !record.is_late {
                    *given = Some(record.ts);
                }
                let _ = each(&record);
            });
        }
        n
    }

    /// Puts into the ledger what came and what was lost since it was last done.
    fn account(&mut self) {
        let ledger = &mut self.report.ledger;
        // Asked before gaps are looked at: whatever the kernel dropped before the last datagram is in it.
        if let Some(reported) = datagrams::drops(self.socket.as_fd()) {
            let new = u64::from(reported.wrapping_sub(self.reported));
            self.reported = reported;
            self.dropped += new;
            ledger.receive(new, 0);
            ledger.shed(ShedReason::KernelDrop, new, 0);
        }
        let (now, before) = (self.collector.counts, self.counted);
        let flows = now.flows - before.flows;
        let others = now.no_flows - before.no_flows;
        let bad = now.malformed - before.malformed + now.records_without_template
            - before.records_without_template;
        // A datagram that the kernel dropped is missing by its exporter's numbers too.
        let gaps = now.lost.saturating_sub(self.dropped).saturating_sub(self.gaps);
        self.gaps += gaps;
        ledger.receive(flows + others + bad + gaps, 0);
        ledger.pass(flows, 0);
        ledger.shed(ShedReason::UnusedLog, others, 0);
        ledger.shed(ShedReason::UnreadableRecord, bad, 0);
        ledger.shed(ShedReason::SequenceGap, gaps, 0);
        self.counted = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Version 5 with one record of this number.
    fn five(number: u32) -> Vec<u8> {
        let mut d = vec![0, 5, 0, 1];
        d.extend([0; 12]);
        d.extend(number.to_be_bytes());
        d.extend([0; 4]);
        d.extend([10; 48]);
        d
    }

    fn started() -> (Exporters, UdpSocket) {
        let exporters =
            Exporters::new(UdpSocket::bind("127.0.0.1:0").unwrap(), &Notices::default()).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(exporters.address().unwrap()).unwrap();
        (exporters, sender)
    }

    fn drain(exporters: &mut Exporters) -> u64 {
        let mut records = 0;
        let mut given = None;
        while exporters.take_datagrams(&mut given, &mut |_| {
            records += 1;
            ControlFlow::Continue(())
        }) {}
        records
    }

    #[test]
    fn datagrams_become_records() {
        let (mut exporters, sender) = started();
        sender.send(&five(1)).unwrap();
        sender.send(b"noise").unwrap();
        assert_eq!(drain(&mut exporters), 1);
        let (counts, dropped) = exporters.counts();
        assert_eq!((counts.datagrams, counts.flows, counts.malformed, dropped), (2, 1, 1, 0));
        exporters.report().ledger.balance().unwrap();
    }

    /// What the kernel dropped is reported though nothing comes after it, exactly, and what exporters miss beyond
    /// that.
    #[test]
    fn what_the_kernel_dropped_is_in_the_ledger_at_the_end_too() {
        let (mut exporters, sender) = started();
        rustix::net::sockopt::set_socket_recv_buffer_size(&exporters.socket, 4096).unwrap();
        let shed = |e: &Exporters, reason| e.report().ledger.shed_for(reason).items;
        (0..500).for_each(|n| assert!(sender.send(&five(n)).is_ok()));
        let first = drain(&mut exporters);
        assert!(first < 500, "{first}");
        assert_eq!(shed(&exporters, ShedReason::KernelDrop), 500 - first);
        assert_eq!(shed(&exporters, ShedReason::SequenceGap), 0);
        // The same datagrams are missing by number when more comes, and not counted twice; ten more are.
        sender.send(&five(510)).unwrap();
        assert_eq!(drain(&mut exporters), 1);
        assert_eq!(shed(&exporters, ShedReason::KernelDrop), 500 - first);
        assert_eq!(shed(&exporters, ShedReason::SequenceGap), 10);
        // What comes after the end is refused, and counted.
        sender.send(&five(511)).unwrap();
        exporters.finish(&mut None, &mut |_| ControlFlow::Continue(()));
        sender.send(&five(512)).unwrap();
        exporters.account();
        assert_eq!(shed(&exporters, ShedReason::KernelDrop), 500 - first + 1);
        let ledger = &exporters.report().ledger;
        assert_eq!(ledger.passed().items, first + 2);
        ledger.balance().unwrap();
    }
}
