//! The door for outputs: how a record becomes something written, for alerts, evidence and the sealed log.
//!
//! An [`Output`] has two halves. Its [`Format`] turns records into [`Piece`]s and does no I/O, so that each of
//! several workers can have one of its own. Its [`Destination`] writes pieces, in packet order; there is one a run.
//! A further output is one file with a [`Format`] (and a [`Destination`], where a file of lines won't do) and
//! one row in [`crate::kinds`].

use crate::already_written::AlreadyWritten;
use crate::error::OutputError;
use crate::event_counts::EventCounts;
use gabion_record::alerted::AlertedPacketRecord;
use gabion_record::applayer::LineLog;
use gabion_record::eve::*;
use gabion_record::evidence::{Alert, Evidence, FindingId};
use gabion_record::json::Later;
use gabion_record::ledger::Ledger;
use gabion_record::logs::TimeNs;
use gabion_record::syscall::SyscallAlert;
use gabion_record::{Direction, Tree};
use std::path::Path;

/// A record that outputs are given.
#[derive(Clone, Copy)]
pub enum Record<'a> {
    /// An alert of a rule.
    Alert(&'a AlertRecord<'a>),
    /// A packet with all its alerts.
    AlertedPacket(&'a AlertedPacketRecord<'a>),
    /// A protocol's record of a transaction.
    App(&'a AppRecord<'a>),
    /// A file's record.
    File(&'a FileRecord<'a>),
    /// Content for the file store.
    FileChunk(&'a FileChunk<'a>),
    /// A flow that has ended.
    Flow(&'a FlowRecord<'a>),
    /// One direction of a flow that has ended.
    Netflow(&'a FlowRecord<'a>, Direction),
    /// An anomaly.
    Anomaly(&'a AnomalyRecord<'a>),
    /// A dropped packet.
    Drop(&'a DropRecord<'a>),
    /// A packet that a rule tagged.
    Packet(&'a PacketRecord<'a>),
    /// A frame of a protocol.
    Frame(&'a FrameRecord<'a>),
    /// A TCP packet with its session.
    Stream(&'a StreamRecord<'a>),
    /// A frame as it was read, after all else that came of it.
    Wire(&'a WireRecord<'a>),
    /// New bytes of a stream or body.
    StreamData(&'a StreamDataRecord<'a>),
    /// Certificates that a rule asked to store.
    Certificates(&'a CertificateRecord<'a>),
    /// A packet with variables that rules captured.
    Metadata(&'a Header<'a>),
    /// An ARP packet and the members of its object.
    Arp(&'a Header<'a>, &'a dyn WriteObject),
    /// Counters of the run: event time in nanoseconds since 1970 and the counters.
    Stats(u64, &'a StatsTexts),
    /// Evidence of a host's behaviour.
    Evidence(&'a EvidenceRecord<'a>),
    /// An alert about a host whose evidence has added up.
    HostAlert(&'a HostAlertRecord<'a>),
    /// An event of the guard.
    Guard(&'a GuardRecord<'a>),
    /// An alert of a rule about a system call.
    SyscallAlert(&'a SyscallAlert<'a>),
}

/// The counters of a run, for `stats` records and tables.
#[derive(Clone, Debug, Default)]
pub struct StatsTexts {
    /// Those of all workers together, as a JSON object in each form ([`StatsTexts::form`]).
    pub totals: [Vec<u8>; 4],
    /// Those of each worker, by its name, in the same forms.
    pub threads: [Vec<u8>; 4],
    /// Seconds since the run began.
    pub uptime: u64,
    /// Names with dots and values of all counters, for the table.
    pub counters: Vec<(String, u64)>,
    /// The same of each worker.
    pub thread_counters: Vec<(String, Vec<(String, u64)>)>,
}

impl StatsTexts {
    /// The place of a form: with or without counters at zero, and with or without how much each has grown since the last
    /// record.
    pub fn form(has_zeros: bool, has_deltas: bool) -> usize {
        usize::from(!has_zeros) + 2 * usize::from(has_deltas)
    }

    /// The object that the node of an output asks for: totals unless it says no, and threads where it says yes.
    pub fn object(&self, node: &Tree) -> Vec<u8> {
        let has_totals = node.flag("totals") != Some(false);
        let has_zeros = node.flag("null-values") != Some(false);
        let form = StatsTexts::form(has_zeros, node.flag("deltas") == Some(true));
        let in_form =
            |forms: &'_ [Vec<u8>; 4]| forms.get(form).map_or(&b"{}"[..], Vec::as_slice).to_vec();
        let mut all = if has_totals {
            in_form(&self.totals)
        } else {
            format!("{{\"uptime\":{}}}", self.uptime).into_bytes()
        };
        if node.flag("threads") == Some(true) {
            all.pop();
            all.extend_from_slice(b",\"threads\":");
            all.extend_from_slice(&in_form(&self.threads));
            all.push(b'}');
        }
        all
    }
}

/// Evidence, and what its outputs need in addition.
#[derive(Clone, Copy, Debug)]
pub struct EvidenceRecord<'a> {
    /// The evidence.
    pub evidence: &'a Evidence,
    /// Threat that its profile's window has gathered so far.
    pub accumulated: f64,
    /// The machine's clock, where lines say when they were made.
    pub created: Option<TimeNs>,
    /// The evidence as a line of IDMEFv2, its end included: made once for all outputs.
    pub json: &'a [u8],
}

/// An alert about a host, and what its outputs need in addition.
#[derive(Clone, Copy, Debug)]
pub struct HostAlertRecord<'a> {
    /// The alert.
    pub alert: &'a Alert,
    /// The machine's clock, where lines say when they were made.
    pub created: Option<TimeNs>,
    /// The alert as a line of IDMEFv2, its end included: made once for all outputs.
    pub json: &'a [u8],
}

/// An event of the guard: an incident, its cause, a change of rung, or its end.
#[derive(Clone, Copy, Debug)]
pub struct GuardRecord<'a> {
    /// A hash of all that the event says.
    pub id: FindingId,
    /// The event as a line of JSON, its end included.
    pub json: &'a [u8],
}

/// What a format has made of a record, on its way to the destination.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// What it is.
    pub kind: PieceKind,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Numbers of stored files that are put in on the way; a destination finds none left.
    pub later: &'a [Later],
}

/// What the bytes of a [`Piece`] are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceKind {
    /// A line, its end included.
    Line,
    /// The line of a finding of this id, its end included.
    Finding(FindingId),
    /// A record for the behaviour engine: what decides its order among records of its moment, then the record as
    /// [`gabion_record::packed`] writes it.
    FlowRecord(FlowRecordHead),
    /// A frame for a capture file.
    Frame(FrameHead),
    /// The record of a stored file.
    FileRecord(FileRecordHead),
    /// New bytes of a stream or body: the name of their file, then the bytes.
    StreamBytes(StreamBytesHead),
    /// A chain of certificates: a PEM text, then the text that names the flow and the certificate.
    Certificates(CertificatesHead),
}

/// What is known of a record for the behaviour engine without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowRecordHead {
    /// Its moment.
    At(TimeNs),
    /// There is no record: the packet or flow has no addresses.
    NoAddress,
    /// There is no record: its moment is none that [`TimeNs`] can hold.
    NoTime,
}

/// What a capture file says of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// Event time, nanoseconds since 1970.
    pub ts_ns: u64,
    /// LINKTYPE.
    pub link: u16,
    /// Length before a snap length cut it.
    pub wire_len: u32,
}

/// What names the record of a stored file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRecordHead {
    /// SHA-256 of the content.
    pub sha256: [u8; 32],
    /// Event time, seconds since 1970.
    pub seconds: u64,
    /// The file.
    pub file: FileKey,
    /// Its number, put in on the way: 0 before.
    pub number: u64,
}

/// What names the file of a stream's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamBytesHead {
    /// Bytes of its name; those of the stream follow.
    pub name_len: usize,
}

/// What names a stored chain of certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificatesHead {
    /// The client's, not the server's.
    pub is_client: bool,
    /// Event time, nanoseconds since 1970.
    pub ts_ns: u64,
    /// Bytes of the PEM text; the other follows.
    pub pem_len: usize,
}

impl<'a> Piece<'a> {
    /// A line, its end included.
    pub fn line(bytes: &'a [u8]) -> Piece<'a> {
        Piece { kind: PieceKind::Line, bytes, later: &[] }
    }
}

/// Takes the pieces that a format makes.
pub trait Pieces {
    /// Takes one.
    fn put(&mut self, piece: Piece<'_>);
}

/// The half of an output that turns records into pieces. Each worker has one of its own.
pub trait Format: Send {
    /// What it wants of the engines.
    fn wants(&self) -> Wants;

    /// Makes pieces of a record. Whether the record is one of those that the run's summary counts by event type.
    fn write_record(&mut self, record: &Record<'_>, to: &mut dyn Pieces) -> bool;

    /// The same format for another worker.
    fn clone_for_worker(&self) -> Box<dyn Format>;

    /// Names the capture or the interface that is read from now on.
    fn set_input(&mut self, name: &InputName) {
        let _ = name;
    }

    /// Asks for the capture's name in each record, where the configuration does not say no.
    fn name_captures(&mut self) {}

    /// Whether it writes transactions of this type, or of this log of lines.
    fn logs_transactions(&self, event_type: &str, line_log: Option<LineLog>) -> bool {
        let _ = (event_type, line_log);
        false
    }

    /// The configuration of an event type, where this output writes it.
    fn type_config(&self, event_type: &str) -> Option<&Tree> {
        let _ = event_type;
        None
    }

    /// Adds what it counted of its own.
    fn add_counts(&self, counts: &mut EventCounts) {
        let _ = counts;
    }

    /// Names of its counters in the statistics, with their values out of what the whole run counted.
    fn counters(&self, counts: &EventCounts) -> Vec<(&'static str, u64)> {
        let _ = counts;
        Vec::new()
    }
}

/// The half of an output that writes. There is one a run, and pieces reach it in packet order.
pub trait Destination: Send {
    /// Writes a piece. A failure is kept and counted; [`Destination::flush`] reports it.
    fn write(&mut self, piece: &Piece<'_>);

    /// Writes what is buffered.
    ///
    /// # Errors
    /// What could not be written, now or before.
    fn flush(&mut self) -> Result<(), OutputError> {
        Ok(())
    }

    /// No more pieces come: writes what is buffered and waits for what still works on it.
    ///
    /// # Errors
    /// What could not be written, now or before.
    fn end(&mut self) -> Result<(), OutputError> {
        self.flush()
    }

    /// Writes whole lines that are buffered, while more may come.
    fn flush_lines(&mut self) {}

    /// Opens files by their names again, after a program has rotated logs.
    fn reopen(&mut self) {}

    /// The source of the records can't wait: where there is no room now, pieces are shed at once.
    fn never_wait(&mut self) {}

    /// Writes what is buffered to the disk; how many bytes of the file of lines are there then.
    ///
    /// # Errors
    /// What could not be written.
    fn sync(&mut self) -> Result<Option<u64>, OutputError> {
        Ok(None)
    }

    /// The file of lines, with its ledger.
    fn line_file(&self) -> Option<(&Path, &Ledger)> {
        None
    }

    /// Continues where a run was cut off: what that run wrote is not written again.
    fn resume(&mut self, earlier: &AlreadyWritten) {
        let _ = earlier;
    }

    /// Lines of an earlier run that this one has not found again yet.
    fn already_written(&self) -> Option<&AlreadyWritten> {
        None
    }

    /// Adds what it counted of its own.
    fn add_counts(&self, counts: &mut EventCounts) {
        let _ = counts;
    }
}

/// One output of a run: a file of EVE, `fast.log`, a folder of files, the sealed log.
pub struct Output {
    pub(crate) format: Box<dyn Format>,
    pub(crate) to: Box<dyn Destination>,
}

impl Output {
    /// An output out of its halves.
    pub fn new(format: impl Format + 'static, to: impl Destination + 'static) -> Output {
        Output { format: Box::new(format), to: Box::new(to) }
    }

    /// Writes a record, in a run with one thread of outputs.
    pub fn take_record(&mut self, record: &Record<'_>) {
        struct Direct<'a>(&'a mut dyn Destination);
        impl Pieces for Direct<'_> {
            fn put(&mut self, piece: Piece<'_>) {
                self.0.write(&piece);
            }
        }
        self.format.write_record(record, &mut Direct(self.to.as_mut()));
    }

    /// Writes what is buffered.
    ///
    /// # Errors
    /// What could not be written, now or before.
    pub fn flush(&mut self) -> Result<(), OutputError> {
        self.to.flush()
    }

    /// No more records come: writes what is buffered and waits for what still works on it.
    ///
    /// # Errors
    /// What could not be written, now or before.
    pub fn end(&mut self) -> Result<(), OutputError> {
        self.to.end()
    }

    /// Opens files by their names again, after a program has rotated logs.
    pub fn reopen(&mut self) {
        self.to.reopen();
    }
}

/// Writes nothing: of an output that only counts.
pub(crate) struct Nowhere;

impl Destination for Nowhere {
    fn write(&mut self, _: &Piece<'_>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_statistics_have_the_totals_and_threads_that_are_asked_for() {
        let forms = |text: &str| std::array::from_fn(|_| text.as_bytes().to_vec());
        let texts = StatsTexts {
            totals: forms("{\"uptime\":3,\"a\":1}"),
            threads: forms("{\"W#01\":{}}"),
            uptime: 3,
            ..StatsTexts::default()
        };
        let all = "{\"uptime\":3,\"a\":1}";
        let threads = "{\"uptime\":3,\"a\":1,\"threads\":{\"W#01\":{}}}";
        let threads_alone = "{\"uptime\":3,\"threads\":{\"W#01\":{}}}";
        // Suricata 8.0.7 writes a record with the time alone where totals are switched off and threads are not asked for.
        for (keys, object) in [
            (&[][..], all),
            (&[("totals", "yes"), ("threads", "no")], all),
            (&[("totals", "no")], "{\"uptime\":3}"),
            (&[("threads", "yes")], threads),
            (&[("totals", "no"), ("threads", "yes")], threads_alone),
        ] {
            let mut node = Tree::default();
            keys.iter().for_each(|(key, value)| node.set(key, value));
            assert_eq!(String::from_utf8_lossy(&texts.object(&node)), object, "{keys:?}");
        }
    }
}
