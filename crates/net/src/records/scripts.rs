//! Records that scripts write: what each kind of them is called with; and the bytes of streams and bodies, which other
//! outputs write too.

use super::RecordStage;
use super::header::flow_header;
use crate::context::PacketContext;
use crate::engine::Engine;
use crate::flow_state::NetFlow;
use crate::script::{FlowAt, Logged, OutputKind, Scene, StreamPiece};
use crate::view::PacketView;
use gabion_flow::Flow;
use gabion_proto::files::{File, FileState};
use gabion_proto::{Parser, Transaction};
use gabion_record::Direction;
use gabion_record::eve::{NetSink, StreamDataRecord};
use gabion_rules::Signature;

/// What a script may look at wherever it is called.
fn scene(engine: &Engine) -> Scene<'_> {
    let set = engine.detector.as_ref().map(|d| &d.set);
    Scene { catalog: Some(&engine.catalog), set, ..Scene::default() }
}

impl RecordStage {
    /// Calls scripts that log packets, or alerts of packets.
    pub(crate) fn script_packet(
        &self,
        cx: &PacketContext<'_>,
        kind: OutputKind,
        rule: Option<&Signature>,
    ) {
        self.outputs.log(kind, || Scene {
            packet: Some(cx.view),
            flow: cx.flow.as_deref().map(FlowAt::Read),
            rule,
            ..scene(cx.engine)
        });
    }

    /// Calls scripts that log transactions of this protocol.
    pub(crate) fn script_tx(
        &self,
        engine: &Engine,
        view: &PacketView<'_>,
        flow: &Flow<NetFlow>,
        (parser, tx): (&dyn Parser, &dyn Transaction),
    ) {
        let name = engine.catalog.eve_name(flow.ext.app.proto);
        self.outputs.log(OutputKind::Transaction(name), || Scene {
            packet: Some(view),
            flow: Some(FlowAt::Read(flow)),
            parser: Some(parser),
            tx: Some(tx),
            ..scene(engine)
        });
    }

    /// Calls scripts that log files.
    pub(crate) fn script_file(
        &self,
        engine: &Engine,
        view: &PacketView<'_>,
        flow: &Flow<NetFlow>,
        (parser, tx, file): (&dyn Parser, &dyn Transaction, &File),
    ) {
        self.outputs.log(OutputKind::File, || Scene {
            packet: Some(view),
            flow: Some(FlowAt::Read(flow)),
            parser: Some(parser),
            tx: Some(tx),
            file: Some((file, tx.id())),
            ..scene(engine)
        });
    }

    /// Calls scripts that log flows.
    pub(crate) fn script_flow(&self, engine: &Engine, flow: &Flow<NetFlow>) {
        let make = || Scene { flow: Some(FlowAt::Read(flow)), ..scene(engine) };
        self.outputs.log(OutputKind::Flow, make);
    }

    /// Whether somebody logs streams or bodies.
    pub(crate) fn logs_streams(&self, engine: &Engine) -> bool {
        let wants = &engine.options.wants;
        wants.stream_data || wants.body_data || self.outputs.wants_streams()
    }

    /// Gives outputs and scripts that log streams or bodies what is new in one direction of a flow.
    pub(crate) fn log_streams(
        &self,
        engine: &Engine,
        view: &PacketView<'_>,
        flow: &mut Flow<NetFlow>,
        (d, at_end): (Direction, bool),
        sink: &mut dyn NetSink,
    ) {
        let mut logs = flow.ext.logged.take().unwrap_or_default();
        let shared = &*flow;
        let wants = &engine.options.wants;
        let at = Place { engine, view, flow: shared };
        if (wants.stream_data || self.outputs.wants(OutputKind::TcpStream))
            && let Some(tcp) = &flow.tcp
        {
            let stream = tcp.stream(d);
            let before = &mut logs.tcp[d.index()];
            let bytes = stream.bytes_from(before.bytes);
            let due = stream.acked().saturating_sub(before.bytes);
            let due = usize::try_from(due).unwrap_or(usize::MAX);
            let bytes = if at_end { bytes } else { bytes.get(..due).unwrap_or(bytes) };
            self.log_piece(&at, (bytes, d, at_end), None, before, sink);
        }
        if (wants.body_data || self.outputs.wants(OutputKind::HttpBody))
            && engine.catalog.table(flow.ext.app.proto).is_some_and(|t| t.own_outputs.logs_bodies)
            && let Some(parser) = &flow.ext.app.parser
        {
            logs.bodies.retain(|(id, _)| *id >= parser.first_tx_id());
            for id in parser.first_tx_id()..parser.next_tx_id() {
                let file = parser.tx(id).and_then(|t| t.files(d)?.files.first());
                let Some(f) = file else { continue };
                let before = logs.body(id, d);
                let (kept, start) = f.content();
                let skip = before.bytes.saturating_sub(start);
                let bytes = kept.get(usize::try_from(skip).unwrap_or(usize::MAX)..);
                let bytes = bytes.unwrap_or_default();
                let is_over = at_end || f.state != FileState::Open;
                self.log_piece(&at, (bytes, d, is_over), Some(id), before, sink);
            }
        }
        flow.ext.logged = Some(logs);
    }

    /// Gives a piece of a stream, or of a transaction's body: its bytes, its direction, whether it is the last one.
    fn log_piece(
        &self,
        at: &Place<'_>,
        (bytes, d, is_last): (&[u8], Direction, bool),
        body_of: Option<u64>,
        before: &mut Logged,
        sink: &mut dyn NetSink,
    ) {
        let is_first = before.bytes == 0;
        if before.is_closed || (bytes.is_empty() && (!is_last || is_first)) {
            return;
        }
        let to_server = d == Direction::ToServer;
        let piece = StreamPiece { bytes, is_first, is_last, to_server };
        let kind = if body_of.is_some() { OutputKind::HttpBody } else { OutputKind::TcpStream };
        self.outputs.log_stream(kind, &piece, || Scene {
            packet: Some(at.view),
            flow: Some(FlowAt::Read(at.flow)),
            ..scene(at.engine)
        });
        let wants = &at.engine.options.wants;
        let is_wanted = if body_of.is_some() { wants.body_data } else { wants.stream_data };
        if is_wanted && !bytes.is_empty() {
            sink.stream_data(&StreamDataRecord {
                header: flow_header(at.view, at.flow, Direction::ToServer),
                direction: d,
                tx_id: body_of,
                bytes,
            });
        }
        before.bytes += bytes.len() as u64;
        before.is_closed = is_last;
    }
}

/// Where a piece of a stream is logged.
struct Place<'a> {
    engine: &'a Engine,
    view: &'a PacketView<'a>,
    flow: &'a Flow<NetFlow>,
}
