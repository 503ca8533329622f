//! The ledger: what entered a stage, what passed it, what was shed and why, and what is still
//! held. It is the type through which data moves, not a metric next to it.
//!
//! One [`Ledger`] belongs to one stage (an arrow between two parts of the program) of one worker. Its counters
//! are plain integers on cache lines of their own, so counting costs an add and never a shared
//! write; a reader sums the ledgers of all workers with [`Ledger::merge`].
//!
//! The rule, in items and in bytes: `received = passed + Σ shed + in_flight`. `in_flight` is not
//! derived from the other three: its owner states what it really holds (the length of its queue,
//! the frames in its table), so that [`Ledger::balance`] finds what was forgotten. Nothing may be
//! shed without a [`ShedReason`].
//!
//! Some losses cut an item without losing it: a frame that the capturing program cut at its snap
//! length still passes. Such a loss sheds bytes and no items.

use std::fmt;

use crate::budget::ByteSize;
use crate::thousands::thousands;

macro_rules! shed_reasons {
    ($($variant:ident, $name:literal, $why:literal;)+) => {
        /// Why something was shed. Appendable: the names are part of the output formats and
        /// never change their meaning.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum ShedReason {
            $(#[doc = $why] $variant,)+
        }

        impl ShedReason {
            /// All reasons in the order of their numbers.
            pub const ALL: &'static [ShedReason] = &[$(ShedReason::$variant,)+];
            /// How many reasons there are.
            pub const COUNT: usize = Self::ALL.len();

            /// The name in logs, JSON and metrics, e.g. `snap_cut`.
            pub const fn name(self) -> &'static str {
                match self { $(ShedReason::$variant => $name,)+ }
            }

            /// One line for people.
            pub const fn description(self) -> &'static str {
                match self { $(ShedReason::$variant => $why,)+ }
            }
        }
    };
}

// The one table of reasons: variant, name in outputs, what it means.
shed_reasons! {
    SnapCut, "snap_cut", "bytes of a frame that the capture does not hold (snap length); sheds bytes, not items";
    TornFile, "torn_file", "the capture ends inside a record";
    UnreadableRecord, "unreadable_record", "a record of the input that contradicts its format";
    UnsupportedLink, "unsupported_link", "a frame of a link type that is not decoded";
    DecodeInvalid, "decode_invalid", "a packet whose headers contradict themselves";
    BadChecksum, "bad_checksum", "TCP packets whose checksum is wrong: they are not inspected as part of a stream (`-k none` ignores checksums)";
    DefragMemcap, "defrag_memcap", "fragments shed because the defragmentation budget is used up";
    FlowMemcap, "flow_memcap", "packets without a flow because the flow table's budget is used up";
    StreamMemcap, "stream_memcap", "packets of TCP flows without a stream state because its budget is used up";
    ReassemblyMemcap, "reassembly_memcap", "segments not reassembled because the reassembly budget is used up";
    StreamDepth, "stream_depth", "stream bytes beyond the configured reassembly depth";
    StreamGap, "stream_gap", "stream bytes that the capture does not hold, in gaps after which the stream continued";
    AppMemcap, "app_memcap", "stream bytes not parsed because the application layer's budget is used up";
    MatcherOverload, "matcher_overload", "buffers not searched to their end because a matching limit was reached";
    AlertQueue, "alert_queue", "alerts beyond the number that one packet may raise";
    OutputFailed, "output_failed", "records that could not be written";
    WorkerLost, "worker_lost", "work held by a worker that panicked or stalled";
    RingFull, "ring_full", "the queue before a worker was full and its source could not wait";
    Stopped, "stopped", "work still held when the program was asked to stop";
    Filtered, "filtered", "frames that the capture filter leaves out";
    RingEvicted, "ring_evicted", "frames that left the ring for alerts' flows, whose budget was used up, before an alert came";
    NoAlert, "no_alert", "frames in the ring for alerts' flows whose flow had no alert";
    EmptyMessage, "empty_message", "datagrams and lines without a byte to keep";
    KernelDrop, "kernel_drop", "frames or datagrams that the kernel or the capturing program says it dropped before they were seen";
    UnusedLog, "unused_log", "lines of logs or events of types without detectors, skipped";
    ProfileFolded, "profile_folded", "profiles folded into sketches because their budget is used up";
    SequenceGap, "sequence_gap", "datagrams or records that the numbers of their senders say are missing, beyond those that this kernel dropped";
    UnknownEvent, "unknown_event", "events of system calls of a type that the event table does not have";
    UnusedEvent, "unused_event", "events of system calls of a type that is no longer used";
    NoConversion, "no_conversion", "events of old files whose number of parameters no conversion of the event table has";
    WrongEnter, "wrong_enter", "enter events that were followed by the exit event of another call";
    NoExit, "no_exit", "enter events whose call had not returned when the input or the thread ended";
    PrefixLimit, "prefix_limit", "packets that the throttle dropped because their source's prefix begins too many flows";
    NewFlowLimit, "new_flow_limit", "packets that the throttle dropped because too many flows begin";
    BudgetCharged, "budget_charged", "packets that the throttle dropped because the packets before them are charged the whole budget of CPU time";
    BudgetMeasured, "budget_measured", "packets that the throttle dropped because the measured packet work exceeds the budget of CPU time";
    PressureBypass, "pressure_bypass", "packets of flows that can hardly alert any more, which were bypassed because a ring ran full";
    PressureRecords, "pressure_records", "records that were left out because a ring ran full";
    PressureDetection, "pressure_detection", "flows that began while a ring ran full: no rule was run on them";
    LoadFailed, "load_failed", "loads of rules during a run that failed: it continues with the rules that it has";
    LoadUnderWay, "load_under_way", "requests to load rules that came while others were being loaded";
    LimitReached, "limit_reached", "things left out because a fixed limit was reached; the report names each limit";
}

impl ShedReason {
    /// Its place in tables of [`ShedReason::COUNT`] entries.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The reason of that name.
    pub fn from_name(name: &str) -> Option<ShedReason> {
        Self::ALL.iter().copied().find(|r| r.name() == name)
    }
}

impl fmt::Display for ShedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A number of items (frames, packets, records: the stage says which) and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of items.
    pub items: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Tally {
    /// A tally of this many items with this many bytes in all.
    pub const fn new(items: u64, bytes: u64) -> Tally {
        Tally { items, bytes }
    }

    /// Adds; wraps at 2^64, which no run reaches.
    #[inline]
    pub fn add(&mut self, items: u64, bytes: u64) {
        self.items = self.items.wrapping_add(items);
        self.bytes = self.bytes.wrapping_add(bytes);
    }

    fn plus(self, other: Tally) -> Tally {
        let mut sum = self;
        sum.add(other.items, other.bytes);
        sum
    }

    fn minus(self, other: Tally) -> Tally {
        Tally {
            items: self.items.wrapping_sub(other.items),
            bytes: self.bytes.wrapping_sub(other.bytes),
        }
    }

    /// Neither items nor bytes.
    pub const fn is_zero(self) -> bool {
        self.items == 0 && self.bytes == 0
    }
}

/// The counters of one stage of one worker. See the opening of this file for the rule.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(align(64))]
pub struct Ledger {
    received: Tally,
    passed: Tally,
    in_flight: Tally,
    shed: [Tally; ShedReason::COUNT],
}

impl Default for Ledger {
    fn default() -> Self {
        Ledger::new()
    }
}

impl Ledger {
    /// A ledger without entries.
    pub const fn new() -> Ledger {
        const ZERO: Tally = Tally::new(0, 0);
        Ledger { received: ZERO, passed: ZERO, in_flight: ZERO, shed: [ZERO; ShedReason::COUNT] }
    }

    /// Counts what came in.
    #[inline]
    pub fn receive(&mut self, items: u64, bytes: u64) {
        self.received.add(items, bytes);
    }

    /// Counts what passed to the next stage.
    #[inline]
    pub fn pass(&mut self, items: u64, bytes: u64) {
        self.passed.add(items, bytes);
    }

    /// Counts what was shed.
    #[inline]
    pub fn shed(&mut self, reason: ShedReason, items: u64, bytes: u64) {
        self.shed[reason.index()].add(items, bytes);
    }

    /// States what the owner holds at this moment, counted on its own (not from this ledger).
    #[inline]
    pub fn set_in_flight(&mut self, items: u64, bytes: u64) {
        self.in_flight = Tally::new(items, bytes);
    }

    /// What came in.
    pub const fn received(&self) -> Tally {
        self.received
    }

    /// What passed.
    pub const fn passed(&self) -> Tally {
        self.passed
    }

    /// What is held, as last stated.
    pub const fn in_flight(&self) -> Tally {
        self.in_flight
    }

    /// What was shed for one reason.
    pub const fn shed_for(&self, reason: ShedReason) -> Tally {
        self.shed[reason.index()]
    }

    /// What was shed for any reason.
    pub fn shed_total(&self) -> Tally {
        self.shed.iter().fold(Tally::default(), |sum, t| sum.plus(*t))
    }

    /// The reasons with entries, in the order of the table.
    pub fn sheds(&self) -> impl Iterator<Item = (ShedReason, Tally)> + '_ {
        ShedReason::ALL.iter().copied().zip(self.shed.iter().copied()).filter(|(_, t)| !t.is_zero())
    }

    /// Adds another worker's counters of the same stage.
    pub fn merge(&mut self, other: &Ledger) {
        self.received = self.received.plus(other.received);
        self.passed = self.passed.plus(other.passed);
        self.in_flight = self.in_flight.plus(other.in_flight);
        for (mine, theirs) in self.shed.iter_mut().zip(other.shed.iter()) {
            *mine = mine.plus(*theirs);
        }
    }

    /// What was counted after `earlier`, a copy of this ledger taken before; the state of a
    /// window. What was in flight at its beginning counts as received in it.
    pub fn since(&self, earlier: &Ledger) -> Ledger {
        let mut window = self.clone();
        window.received = self.received.minus(earlier.received).plus(earlier.in_flight);
        window.passed = self.passed.minus(earlier.passed);
        for (mine, before) in window.shed.iter_mut().zip(earlier.shed.iter()) {
            *mine = mine.minus(*before);
        }
        window
    }

    /// Checks the rule.
    ///
    /// # Errors
    /// The two sides when items or bytes differ.
    pub fn balance(&self) -> Result<(), Imbalance> {
        let accounted = self.passed.plus(self.shed_total()).plus(self.in_flight);
        if accounted == self.received {
            Ok(())
        } else {
            Err(Imbalance { received: self.received, accounted })
        }
    }

    /// Whether nothing was shed.
    pub fn is_complete(&self) -> bool {
        self.shed.iter().all(|t| t.is_zero())
    }

    /// The state of a path as a finding carries it: `complete`, or
    /// `1.2 % of items shed: ring_full`, or `bytes shed: snap_cut`.
    pub fn completeness(&self) -> Completeness<'_> {
        Completeness(self)
    }

    /// Appends the fields of a JSON object, without the braces, so that the caller can add its
    /// own (stage, worker): `"received":{"items":1,"bytes":60},"passed":{…},"in_flight":{…},
    /// "shed":{"snap_cut":{…}},"balanced":true`. Reasons without entries are left out.
    pub fn write_json_fields(&self, out: &mut Vec<u8>) {
        write_tally(out, "received", self.received);
        out.push(b',');
        write_tally(out, "passed", self.passed);
        out.push(b',');
        write_tally(out, "in_flight", self.in_flight);
        out.extend_from_slice(b",\"shed\":{");
        for (n, (reason, tally)) in self.sheds().enumerate() {
            if n > 0 {
                out.push(b',');
            }
            write_tally(out, reason.name(), tally);
        }
        out.extend_from_slice(b"},\"balanced\":");
        out.extend_from_slice(if self.balance().is_ok() { b"true" } else { b"false" });
    }
}

fn write_tally(out: &mut Vec<u8>, name: &str, tally: Tally) {
    let mut digits = itoa::Buffer::new();
    out.push(b'"');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":{\"items\":");
    out.extend_from_slice(digits.format(tally.items).as_bytes());
    out.extend_from_slice(b",\"bytes\":");
    out.extend_from_slice(digits.format(tally.bytes).as_bytes());
    out.push(b'}');
}

/// One line for people: `received 120 (12.0 KiB), passed 118 (11.8 KiB), shed 2 (200 B):
/// torn_file 1 (100 B), unreadable_record 1 (100 B); in flight 0`.
impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shed = self.shed_total();
        write!(f, "received {}, passed {}, shed {}", self.received, self.passed, shed)?;
        for (n, (reason, tally)) in self.sheds().enumerate() {
            write!(f, "{} {} {}", if n == 0 { ":" } else { "," }, reason.name(), tally)?;
        }
        if !self.in_flight.is_zero() {
            write!(f, "; in flight {}", self.in_flight)?;
        }
        Ok(())
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.bytes == 0 {
            // A stage that counts no bytes prints none.
            f.write_str(&thousands(self.items))
        } else {
            write!(f, "{} ({})", thousands(self.items), ByteSize(self.bytes))
        }
    }
}

/// See [`Ledger::completeness`].
#[derive(Clone, Copy, Debug)]
pub struct Completeness<'a>(&'a Ledger);

impl fmt::Display for Completeness<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ledger = self.0;
        if ledger.is_complete() {
            return f.write_str("complete");
        }
        let items = ledger.shed_total().items;
        if items == 0 {
            f.write_str("bytes shed")?;
        } else {
            // Rounded up, so that a loss never reads as 0 %.
            let tenths = (u128::from(items) * 1000)
                .div_ceil(u128::from(ledger.received.items.max(1)))
                .min(1000);
            write!(f, "{}.{} % of items shed", tenths / 10, tenths % 10)?;
        }
        for (n, (reason, _)) in ledger.sheds().enumerate() {
            write!(f, "{} {}", if n == 0 { ":" } else { "," }, reason.name())?;
        }
        Ok(())
    }
}

/// The two sides of a ledger that does not balance: a fault of ours, never of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Imbalance {
    /// What came in.
    pub received: Tally,
    /// passed + shed + in flight.
    pub accounted: Tally,
}

impl fmt::Display for Imbalance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "ledger out of balance: received {} items and {} bytes, accounted for {} and {}",
            self.received.items, self.received.bytes, self.accounted.items, self.accounted.bytes
        )
    }
}

impl std::error::Error for Imbalance {}

/// Names of the stages that frames and what is in them go through.
pub mod stages {
    /// What reads captures and interfaces.
    pub const READER: &str = "reader";
    /// What receives the reader's frames.
    pub const ENGINE: &str = "engine";
    /// The way from the reader to the workers.
    pub const READER_TO_WORKER: &str = "reader>worker";
    /// The way from a worker that reads to another.
    pub const WORKER_TO_WORKER: &str = "worker>worker";
    /// What the workers received.
    pub const WORKER: &str = "worker";
    /// Decoders.
    pub const DECODE: &str = "decode";
    /// The defragmenter.
    pub const DEFRAG: &str = "defrag";
    /// The flow table, by packets.
    pub const FLOW: &str = "flow";
    /// The flow table, by flows.
    pub const FLOWS: &str = "flows";
    /// Streams.
    pub const STREAM: &str = "stream";
    /// Protocols of applications.
    pub const APP: &str = "app";
    /// Alerts.
    pub const ALERTS: &str = "alerts";
    /// What was shed because a fixed limit was reached.
    pub const LIMITS: &str = "limits";
    /// What was left out while a ring ran full.
    pub const PRESSURE: &str = "pressure";
}

/// One line of the [`StageLedgers`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageLedger {
    /// The stage, named after what flows into what: `capture`, `reader>worker`, `eve`.
    pub stage: String,
    /// The worker that counted; none after merging.
    pub worker: Option<u16>,
    /// Its counters.
    pub ledger: Ledger,
}

/// The ledgers of all stages, collected at a moment: the end of a run, a statistics interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StageLedgers {
    entries: Vec<StageLedger>,
}

impl StageLedgers {
    /// No entries.
    pub const fn new() -> StageLedgers {
        StageLedgers { entries: Vec::new() }
    }

    /// Adds one worker's ledger of a stage.
    pub fn add(&mut self, stage: &str, worker: Option<u16>, ledger: &Ledger) {
        self.entries.push(StageLedger { stage: stage.to_owned(), worker, ledger: ledger.clone() });
    }

    /// All lines, in the order in which they were added (along the data's way).
    pub fn entries(&self) -> &[StageLedger] {
        &self.entries
    }

    /// One line a stage: the workers' ledgers added up, in the order of first mention.
    pub fn by_stage(&self) -> Vec<StageLedger> {
        let mut sums: Vec<StageLedger> = Vec::new();
        for entry in &self.entries {
            match sums.iter_mut().find(|s| s.stage == entry.stage) {
                Some(sum) => sum.ledger.merge(&entry.ledger),
                None => sums.push(StageLedger { worker: None, ..entry.clone() }),
            }
        }
        sums
    }

    /// Checks every line, not only the sums: two errors must not cancel out.
    ///
    /// # Errors
    /// The first stage that does not balance, with its two sides.
    pub fn balance(&self) -> Result<(), (String, Imbalance)> {
        for entry in &self.entries {
            entry.ledger.balance().map_err(|e| (entry.stage.clone(), e))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_unique_names_and_round_trip() {
        for (n, reason) in ShedReason::ALL.iter().enumerate() {
            assert_eq!(reason.index(), n);
            assert_eq!(ShedReason::from_name(reason.name()), Some(*reason));
            assert!(!reason.description().is_empty());
            assert!(reason.name().bytes().all(|b| b.is_ascii_lowercase() || b == b'_'));
        }
        assert_eq!(ShedReason::from_name("no_such_reason"), None);
    }

    #[test]
    fn balance_finds_what_was_forgotten_in_items_or_bytes() {
        let mut l = Ledger::new();
        assert!(l.balance().is_ok());
        l.receive(3, 300);
        assert_eq!(l.balance().unwrap_err().accounted, Tally::new(0, 0));
        l.pass(1, 100);
        l.shed(ShedReason::RingFull, 1, 100);
        l.set_in_flight(1, 100);
        assert!(l.balance().is_ok());
        l.set_in_flight(1, 99);
        let imbalance = l.balance().unwrap_err();
        assert_eq!(imbalance.received, Tally::new(3, 300));
        assert_eq!(imbalance.accounted, Tally::new(3, 299));
        assert!(imbalance.to_string().starts_with("ledger out of balance: received 3 items"));
    }

    #[test]
    fn a_cut_frame_sheds_bytes_and_no_item() {
        let mut l = Ledger::new();
        l.receive(1, 1500);
        l.pass(1, 96);
        l.shed(ShedReason::SnapCut, 0, 1404);
        assert!(l.balance().is_ok());
        assert!(!l.is_complete());
        assert_eq!(l.completeness().to_string(), "bytes shed: snap_cut");
    }

    #[test]
    fn completeness_never_reads_a_loss_as_nothing() {
        let mut l = Ledger::new();
        l.receive(1_000_000, 0);
        l.pass(1_000_000, 0);
        assert_eq!(l.completeness().to_string(), "complete");
        l.receive(1, 0);
        l.shed(ShedReason::RingFull, 1, 0);
        assert_eq!(l.completeness().to_string(), "0.1 % of items shed: ring_full");
    }

    #[test]
    fn merge_and_window() {
        let mut a = Ledger::new();
        a.receive(10, 1000);
        a.pass(8, 800);
        a.set_in_flight(2, 200);
        let before = a.clone();
        a.receive(5, 500);
        a.pass(6, 600);
        a.shed(ShedReason::TornFile, 1, 100);
        a.set_in_flight(0, 0);
        let window = a.since(&before);
        assert_eq!(window.received(), Tally::new(7, 700));
        assert_eq!(window.shed_for(ShedReason::TornFile), Tally::new(1, 100));
        assert!(window.balance().is_ok());

        let mut sum = Ledger::new();
        sum.merge(&before);
        sum.merge(&a);
        assert_eq!(sum.received(), Tally::new(25, 2500));
        assert!(sum.balance().is_ok());
    }

    #[test]
    fn text_and_json() {
        let mut l = Ledger::new();
        l.receive(2, 2048);
        l.pass(1, 1024);
        l.shed(ShedReason::TornFile, 1, 1024);
        assert_eq!(
            l.to_string(),
            "received 2 (2 KiB), passed 1 (1 KiB), shed 1 (1 KiB): torn_file 1 (1 KiB)"
        );
        let mut json = Vec::new();
        l.write_json_fields(&mut json);
        assert_eq!(
            String::from_utf8(json).unwrap(),
            "\"received\":{\"items\":2,\"bytes\":2048},\"passed\":{\"items\":1,\"bytes\":1024},\
             \"in_flight\":{\"items\":0,\"bytes\":0},\
             \"shed\":{\"torn_file\":{\"items\":1,\"bytes\":1024}},\"balanced\":true"
        );
    }

    #[test]
    fn ledgers_check_each_line_not_only_sums() {
        let (mut a, mut b) = (Ledger::new(), Ledger::new());
        a.receive(1, 1);
        b.pass(1, 1);
        let mut ledgers = StageLedgers::new();
        ledgers.add("reader>worker", Some(0), &a);
        ledgers.add("reader>worker", Some(1), &b);
        assert!(ledgers.by_stage()[0].ledger.balance().is_ok());
        assert_eq!(ledgers.balance().unwrap_err().0, "reader>worker");
    }

    #[test]
    fn ledgers_of_two_workers_share_no_cache_line() {
        assert_eq!(std::mem::align_of::<Ledger>(), 64);
        assert_eq!(std::mem::size_of::<Ledger>() % 64, 0);
    }
}
