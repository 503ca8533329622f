//! What a worker sheds while its ring runs full, and when: by how much of the ring waits to be read.
//!
//! Half full: the rest of flows that can hardly alert any more. Three quarters: records too, but for alerts and flows.
//! Seven eighths: rules on flows that begin (`gabion_record::Pressure`). All of it ends once a quarter or less waits.

use super::run::Done;
use gabion_record::alerted::AlertedPacketRecord;
use gabion_record::applayer::LineLog;
use gabion_record::eve::*;
use gabion_record::ledger::{Ledger, ShedReason};
use gabion_record::{Pressure, Tree};

/// Percent of a ring from which each level begins, and up to which all end.
const BYPASS_FROM: u32 = 50;
const RECORDS_FROM: u32 = 75;
const DETECTION_FROM: u32 = 87;
const ENDS_AT: u32 = 25;

/// The level at hand, and what was left out of records.
#[derive(Debug, Default)]
pub(super) struct Shedding {
    level: Pressure,
    ledger: Ledger,
    /// How often it began.
    pub(super) times: u64,
}

impl Shedding {
    /// Looks at how much of the ring waits to be read, in percent.
    pub(super) fn update_pressure(&mut self, fill_percent: u32) -> Pressure {
        let wanted = match fill_percent {
            DETECTION_FROM.. => Pressure::Detection,
            RECORDS_FROM.. => Pressure::Records,
            BYPASS_FROM.. => Pressure::Bypass,
            0..=ENDS_AT => Pressure::None,
            _ => self.level.min(Pressure::Bypass),
        };
        let was = self.level;
        self.level = match wanted {
            Pressure::None => Pressure::None,
            wanted => self.level.max(wanted),
        };
        self.times += u64::from(was == Pressure::None && self.level > Pressure::None);
        self.level
    }

    /// The sink as it is at this level.
    pub(super) fn sink<'a>(&'a mut self, to: &'a mut dyn NetSink) -> UnderPressure<'a> {
        UnderPressure { to, is_shedding: self.level >= Pressure::Records, ledger: &mut self.ledger }
    }

    /// Records that were left out.
    pub(super) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Enters them.
    pub(super) fn enter(&self, worker: Option<u16>, done: &mut Done) {
        enter_records(&self.ledger, worker, done);
    }
}

/// Enters records that were left out; a run in which that never happened has no such stage.
pub(super) fn enter_records(ledger: &Ledger, worker: Option<u16>, done: &mut Done) {
    if ledger.received().items > 0 {
        done.ledgers.add("records", worker, ledger);
    }
}

/// Takes alerts and records of flows; leaves out the other records while there is pressure.
pub(super) struct UnderPressure<'a> {
    to: &'a mut dyn NetSink,
    is_shedding: bool,
    ledger: &'a mut Ledger,
}

impl UnderPressure<'_> {
    /// Whether a record is left out, which is then counted.
    #[inline]
    fn sheds(&mut self) -> bool {
        if self.is_shedding {
            self.ledger.receive(1, 0);
            self.ledger.shed(ShedReason::PressureRecords, 1, 0);
        }
        self.is_shedding
    }
}

impl NetSink for UnderPressure<'_> {
    fn alert(&mut self, record: &AlertRecord<'_>) {
        self.to.alert(record);
    }

    fn alerted_packet(&mut self, record: &AlertedPacketRecord<'_>) {
        self.to.alerted_packet(record);
    }

    fn app(&mut self, record: &AppRecord<'_>) {
        if !self.sheds() {
            self.to.app(record);
        }
    }

    fn file(&mut self, record: &FileRecord<'_>) {
        if !self.sheds() {
            self.to.file(record);
        }
    }

    fn file_chunk(&mut self, record: &FileChunk<'_>) {
        self.to.file_chunk(record);
    }

    fn flow(&mut self, record: &FlowRecord<'_>) {
        self.to.flow(record);
    }

    fn anomaly(&mut self, record: &AnomalyRecord<'_>) {
        if !self.sheds() {
            self.to.anomaly(record);
        }
    }

    fn dropped(&mut self, record: &DropRecord<'_>) {
        self.to.dropped(record);
    }

    fn packet(&mut self, record: &PacketRecord<'_>) {
        if !self.sheds() {
            self.to.packet(record);
        }
    }

    fn frame(&mut self, record: &FrameRecord<'_>) {
        if !self.sheds() {
            self.to.frame(record);
        }
    }

    fn stream(&mut self, record: &StreamRecord<'_>) {
        if !self.sheds() {
            self.to.stream(record);
        }
    }

    fn wire(&mut self, record: &WireRecord<'_>) {
        self.to.wire(record);
    }

    fn stream_data(&mut self, record: &StreamDataRecord<'_>) {
        if !self.sheds() {
            self.to.stream_data(record);
        }
    }

    fn certificates(&mut self, record: &CertificateRecord<'_>) {
        self.to.certificates(record);
    }

    fn metadata(&mut self, header: &Header<'_>) {
        if !self.sheds() {
            self.to.metadata(header);
        }
    }

    fn arp(&mut self, header: &Header<'_>, object: &dyn WriteObject) {
        if !self.sheds() {
            self.to.arp(header, object);
        }
    }

    fn ending(&mut self, first_number: u64) {
        self.to.ending(first_number);
    }

    fn logs_transactions(&self, event_type: &str, line_log: Option<LineLog>) -> bool {
        self.to.logs_transactions(event_type, line_log)
    }

    fn type_config(&self, event_type: &str) -> Option<&Tree> {
        self.to.type_config(event_type)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_come_in_order_and_all_end_when_the_ring_is_read() {
        let mut shedding = Shedding::default();
        let levels: Vec<Pressure> = [0, 37, 50, 62, 75, 50, 87, 37, 25, 12, 37, 50, 0]
            .map(|fill| shedding.update_pressure(fill))
            .into();
        use Pressure::{Bypass, Detection, None, Records};
        assert_eq!(
            levels,
            [
                None, None, Bypass, Bypass, Records, Records, Detection, Detection, None, None,
                None, Bypass, None
            ]
        );
        assert_eq!(shedding.times, 2);
    }
}
