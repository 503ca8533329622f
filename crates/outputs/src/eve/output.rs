//! EVE as an output: a file of lines, lines for another program's part, or records that are only counted.

use super::settings::EveSettings;
use super::writer::EveWriter;
use crate::output::{Destination, Format, Nowhere, Output, Pieces, Record};
use crate::output_kind::{Opened, Opening, OutputKind};
use crate::receiver::{Receiver, is_receiver};
use gabion_record::Tree;
use gabion_record::applayer::LineLog;
use gabion_record::eve::{AppRecord, InputName, Wants};
use gabion_record::json::Json;

pub(crate) const KIND: OutputKind =
    OutputKind::new(NAME, open).with_file("eve.json").with_variant(unsupported_kind);

/// Its name in the configuration.
pub(crate) const NAME: &str = "eve-log";

fn open(o: &mut Opening<'_>) -> Opened {
    let format = EveFormat::new(EveSettings::from_config(o.node, o.sensor_name));
    if let Some(receiver) = Receiver::open(o)? {
        return Ok(Some(Output::new(format, receiver)));
    }
    Ok(Some(Output::new(format, o.line_file("eve.json")?)))
}

/// A `filetype` that is not written.
fn unsupported_kind(node: &Tree) -> Option<String> {
    let kind = node.text("filetype").unwrap_or("regular");
    let is_written = kind == "regular" || is_receiver(kind);
    (!is_written).then(|| format!("eve-log filetype {kind}"))
}

/// An output of alerts alone, into `to`.
pub fn alerts_output(to: impl Destination + 'static) -> Output {
    Output::new(EveFormat::new(EveSettings::alerts_only()), to)
}

/// An output of the records that an `eve-log` node asks for, into `to`.
pub fn events_output(node: &Tree, to: impl Destination + 'static) -> Output {
    Output::new(EveFormat::new(EveSettings::from_config(node, None)), to)
}

/// An output that counts the records that one of these settings would write.
pub(crate) fn counting(node: &Tree) -> Output {
    Output::new(CountedEve(Box::new(EveSettings::from_config(node, None))), Nowhere)
}

/// Records as lines of EVE.
#[derive(Debug)]
pub(crate) struct EveFormat(Box<EveWriter>);

impl EveFormat {
    pub(crate) fn new(settings: EveSettings) -> EveFormat {
        EveFormat(Box::new(EveWriter::new(settings)))
    }
}

impl Format for EveFormat {
    fn wants(&self) -> Wants {
        self.0.wants()
    }

    fn write_record(&mut self, record: &Record<'_>, to: &mut dyn Pieces) -> bool {
        let w = &mut *self.0;
        let line = match record {
            Record::Alert(r) => w.alert(r),
            Record::App(r) => w.app(r),
            Record::File(r) => w.file(r),
            Record::Flow(r) => w.flow(r),
            Record::Netflow(r, direction) => w.netflow(r, *direction),
            Record::Anomaly(r) => w.anomaly(r),
            Record::Drop(r) => w.dropped(r),
            Record::Packet(r) => w.packet(r),
            Record::Frame(r) => w.frame(r),
            Record::Stream(r) => w.stream(r),
            Record::Metadata(h) => w.metadata(h),
            Record::Arp(h, object) => w.arp(h, *object),
            Record::Stats(ts_ns, texts) => w.whole(*ts_ns, "stats", |node| texts.object(node)),
            Record::FileChunk(_)
            | Record::Wire(_)
            | Record::AlertedPacket(_)
            | Record::StreamData(_)
            | Record::Certificates(_)
            | Record::Evidence(_)
            | Record::HostAlert(_)
            | Record::Guard(_)
            | Record::SyscallAlert(_) => None,
        };
        match line {
            Some(line) => {
                to.put(line);
                true
            }
            None => false,
        }
    }

    fn clone_for_worker(&self) -> Box<dyn Format> {
        Box::new(EveFormat::new(self.0.settings().clone()))
    }

    fn set_input(&mut self, name: &InputName) {
        self.0.set_input(name);
    }

    fn name_captures(&mut self) {
        self.0.name_captures();
    }

    fn logs_transactions(&self, event_type: &str, _: Option<LineLog>) -> bool {
        self.0.settings().type_node(event_type).is_some()
    }

    fn type_config(&self, event_type: &str) -> Option<&Tree> {
        self.0.settings().type_settings(event_type)
    }
}

/// Records are counted as an EVE output would write them; nothing is written.
#[derive(Debug)]
struct CountedEve(Box<EveSettings>);

impl CountedEve {
    /// Whether an EVE output of these settings writes records of that event type. What is configured
    /// in more detail (kinds of anomalies, tagged packets) the engine knows by what is wanted of it.
    fn has_type(&self, name: &str) -> bool {
        self.0.type_node(name).is_some()
    }

    /// Whether its own settings and its protocol leave anything of a record: one without members is not written
    /// (acknowledgements alone of DHCP, sessions of TLS that are not resumed, HTTP/2's streams without a request). Of
    /// the types that are most of all records each has members.
    fn has_members(&self, r: &AppRecord<'_>) -> bool {
        r.is_never_empty
            || r.object.write(&mut Json::new(), self.0.type_settings(r.type_name), false)
    }
}

impl Format for CountedEve {
    fn wants(&self) -> Wants {
        let wants = EveWriter::new((*self.0).clone()).wants();
        Wants { alerts: false, ..wants }
    }

    fn write_record(&mut self, record: &Record<'_>, _: &mut dyn Pieces) -> bool {
        match record {
            Record::App(r) => self.has_type(r.type_name) && self.has_members(r),
            Record::File(_) => self.has_type("files"),
            Record::Flow(_) => self.has_type("flow"),
            Record::Netflow(..) => self.has_type("netflow"),
            Record::Anomaly(_) => self.has_type("anomaly"),
            Record::Drop(_) => self.has_type("drop"),
            Record::Packet(_) => self.has_type("alert"),
            Record::Frame(_) => self.has_type("frame"),
            Record::Stream(_) => self.has_type("stream"),
            Record::Metadata(_) => self.has_type("metadata"),
            Record::Arp(..) => self.has_type("arp"),
            Record::Alert(_)
            | Record::Stats(..)
            | Record::FileChunk(_)
            | Record::Wire(_)
            | Record::AlertedPacket(_)
            | Record::StreamData(_)
            | Record::Certificates(_)
            | Record::Evidence(_)
            | Record::HostAlert(_)
            | Record::Guard(_)
            | Record::SyscallAlert(_) => false,
        }
    }

    fn clone_for_worker(&self) -> Box<dyn Format> {
        Box::new(CountedEve(self.0.clone()))
    }

    fn logs_transactions(&self, event_type: &str, _: Option<LineLog>) -> bool {
        self.0.type_node(event_type).is_some()
    }

    fn type_config(&self, event_type: &str) -> Option<&Tree> {
        self.0.type_settings(event_type)
    }
}
