//! Hands each record to all outputs and counts it.
//!
//! The engine's sink is a [`Dispatcher`]: of a run, whose pieces are written at once ([`crate::Outputs`]), or of
//! one of several workers, whose pieces are kept until they are in packet order
//! ([`crate::WorkerOutputs`]).
//!
//! Hot: once for each record. No allocation but what an output's format needs; three virtual calls a line.

use crate::event_counts::{AlertSeen, AlertTally, EventCounts};
use crate::order::{Place, When};
use crate::output::{Format, Record};
use gabion_record::alerted::AlertedPacketRecord;
use gabion_record::applayer::LineLog;
use gabion_record::eve::*;
use gabion_record::{Direction, Tree};
use std::sync::Arc;

/// Takes what formats make of records.
pub trait Take {
    /// Whether pieces are kept, to be put in packet order later.
    const KEEPS_ORDER: bool;

    /// Has all formats make their pieces; whether one of them counts the record.
    fn take_record(&mut self, record: &Record<'_>) -> bool;

    /// The formats, in the order of outputs.
    fn formats(&mut self) -> impl Iterator<Item = &mut dyn Format>;

    /// Whether an output writes transactions of this type, or of this log of lines.
    fn logs_transactions(&self, event_type: &str, line_log: Option<LineLog>) -> bool;

    /// The configuration of an event type at the first output that writes it.
    fn type_config(&self, event_type: &str) -> Option<&Tree>;

    /// When the pieces that follow are written.
    fn set_when(&mut self, when: When) {
        debug_assert_eq!(when, When::Always, "pieces written at once can't wait for answers");
    }

    /// Keeps a question about the pieces that follow.
    fn ask(&mut self, question: &Question, alert: AlertTally) {
        let _ = (question, alert);
    }

    /// The place of the pieces that follow.
    fn set_place(&mut self, place: Place) {
        let _ = place;
    }
}

/// Hands records to formats, and counts them.
#[derive(Default)]
pub struct Dispatcher<T> {
    pub(crate) to: T,
    pub(crate) counts: EventCounts,
    /// Place of the frame at hand among all frames.
    at: Place,
    /// The capture that is read.
    capture: Option<Arc<str>>,
}

impl<T: Take> Dispatcher<T> {
    pub(crate) fn to(to: T) -> Dispatcher<T> {
        Dispatcher { to, counts: EventCounts::default(), at: (0, 0), capture: None }
    }

    pub(crate) fn set_place(&mut self, at: Place) {
        self.at = at;
        self.to.set_place(at);
    }

    /// Names the capture or the interface that is read from now on.
    pub fn set_input(&mut self, name: &InputName) {
        self.capture = Some(match name {
            InputName::Capture(text) => text.as_str().into(),
            InputName::Interfaces(names) => names.join(", ").into(),
        });
        self.to.formats().for_each(|format| format.set_input(name));
    }

    #[inline]
    pub(crate) fn dispatch(&mut self, record: &Record<'_>, event_type: &str) {
        if self.to.take_record(record) {
            self.counts.record(event_type);
        }
    }
}

impl<T: Take> NetSink for Dispatcher<T> {
    fn alert(&mut self, r: &AlertRecord<'_>) {
        let seen = AlertSeen::from_record(r, self.at, self.capture.as_ref());
        match &r.question {
            Some(q) => self.to.ask(q, AlertTally::from_seen(seen, r)),
            None => self.counts.alert(r, seen),
        }
        // Alerts are counted by signature, whether an output writes them or not.
        let _ = self.to.take_record(&Record::Alert(r));
        if r.question.is_some() {
            self.to.set_when(When::Always);
        }
    }

    fn alerted_packet(&mut self, r: &AlertedPacketRecord<'_>) {
        let _ = self.to.take_record(&Record::AlertedPacket(r));
    }

    fn app(&mut self, r: &AppRecord<'_>) {
        self.dispatch(&Record::App(r), r.event_type);
    }

    fn file(&mut self, r: &FileRecord<'_>) {
        self.dispatch(&Record::File(r), "fileinfo");
    }

    fn file_chunk(&mut self, r: &FileChunk<'_>) {
        let _ = self.to.take_record(&Record::FileChunk(r));
    }

    fn flow(&mut self, r: &FlowRecord<'_>) {
        if let (true, Some(id)) = (r.is_alert_asked, r.header.flow_id) {
            // Once for either answer, and counted once.
            self.to.set_when(When::Alerted(id, false));
            self.dispatch(&Record::Flow(r), "flow");
            self.to.set_when(When::Alerted(id, true));
            let _ = self.to.take_record(&Record::Flow(&FlowRecord { is_alerted: true, ..*r }));
            self.to.set_when(When::Always);
        } else {
            self.dispatch(&Record::Flow(r), "flow");
        }
        for direction in Direction::BOTH {
            self.dispatch(&Record::Netflow(r, direction), "netflow");
        }
    }

    fn anomaly(&mut self, r: &AnomalyRecord<'_>) {
        self.dispatch(&Record::Anomaly(r), "anomaly");
    }

    fn dropped(&mut self, r: &DropRecord<'_>) {
        self.dispatch(&Record::Drop(r), "drop");
    }

    fn packet(&mut self, r: &PacketRecord<'_>) {
        self.dispatch(&Record::Packet(r), "packet");
    }

    fn frame(&mut self, r: &FrameRecord<'_>) {
        self.dispatch(&Record::Frame(r), "frame");
    }

    fn stream_data(&mut self, r: &StreamDataRecord<'_>) {
        let _ = self.to.take_record(&Record::StreamData(r));
    }

    fn certificates(&mut self, r: &CertificateRecord<'_>) {
        let _ = self.to.take_record(&Record::Certificates(r));
    }

    fn metadata(&mut self, h: &Header<'_>) {
        self.dispatch(&Record::Metadata(h), "metadata");
    }

    fn wire(&mut self, r: &WireRecord<'_>) {
        let _ = self.to.take_record(&Record::Wire(r));
    }

    fn stream(&mut self, r: &StreamRecord<'_>) {
        self.dispatch(&Record::Stream(r), "stream");
    }

    fn arp(&mut self, h: &Header<'_>, object: &dyn WriteObject) {
        self.dispatch(&Record::Arp(h, object), "arp");
    }

    fn ending(&mut self, first_number: u64) {
        if T::KEEPS_ORDER {
            let at = (self.at.0, first_number);
            self.set_place(at);
        }
    }

    fn logs_transactions(&self, event_type: &str, line_log: Option<LineLog>) -> bool {
        self.to.logs_transactions(event_type, line_log)
    }

    fn type_config(&self, event_type: &str) -> Option<&Tree> {
        self.to.type_config(event_type)
    }
}
