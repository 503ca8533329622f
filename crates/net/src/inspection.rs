//! The last part of a packet's way: rules, alerts, records, release of what is finished.

use crate::detect::{Filtered, Resources};
use crate::flow_state::NetFlow;
use crate::script::OutputKind;
use crate::view::PacketView;
use crate::worker::{Core, Fate};
use gabion_flow::{Flow, TcpVerdict};
use gabion_packet::Network;
use gabion_record::Direction;
use gabion_record::eve::NetSink;
use std::sync::Arc;

impl Core {
    /// Detection, records and release for a packet.
    pub(crate) fn finish_packet(
        &mut self,
        view: &PacketView<'_>,
        mut flow: Option<&mut Flow<NetFlow>>,
        fate: &mut Fate,
        verdict: Option<&TcpVerdict>,
        sink: &mut dyn NetSink,
    ) {
        let stream_events = std::mem::take(&mut fate.events);
        let detection_events = std::mem::take(&mut fate.detection_events);
        let view = &PacketView {
            stream_events: &stream_events,
            detection_events: &detection_events,
            ..*view
        };
        self.decode_counters.count_events(&view.headers.events);
        self.anomalies(view, flow.as_deref(), sink);
        if self.engine.options.wants.frames
            && let Some(f) = flow.as_deref_mut()
            && f.ext.app.frames.is_some()
        {
            self.log_frames(view, f, sink);
        }
        self.detect(view, flow.as_deref_mut(), fate, verdict, sink);
        if let Some(f) = flow.as_deref_mut()
            && f.ext.app.frames.is_some()
        {
            self.keep_frames(view, f);
        }
        if self.engine.options.wants.wire && !view.is_pseudo {
            self.note_wire(view, flow.as_deref(), fate);
        }
        if !self.outputs.is_empty() && !view.is_pseudo {
            self.script_packet(OutputKind::Packet, view, flow.as_deref(), None);
        }
        if self.engine.options.wants.streams
            && let Some(f) = flow.as_deref()
        {
            self.log_stream(view, f, fate, verdict, sink);
        }
        if fate.drop.is_some() || fate.reject.is_some() {
            self.log_drop(view, flow.as_deref_mut(), fate, sink);
        }
        self.settle_limits(flow.as_deref_mut());
        if let Some(flow) = flow {
            if view.payload.is_empty() && flow.ext.app.parser.is_none() && verdict.is_none() {
                return;
            }
            if self.outputs.wants_streams() && verdict.is_some() {
                for d in Direction::BOTH {
                    self.script_streams(view, flow, d, false);
                }
            }
            self.log_transactions(view, flow, false, sink);
            let detection = self.engine.detector.is_some() && !flow.ext.flags.passed;
            let seen = flow.tcp.as_ref().and_then(|t| t.only_direction());
            flow.ext.app.free_finished(detection, self.engine.options.wants, seen);
            if flow.ext.app.is_to_give_up() {
                self.log_transactions(view, flow, true, sink);
                flow.ext.app.give_up(&self.app);
            }
        } else if view.headers.network == Network::Arp {
            self.log_arp(view, sink);
        }
    }

    /// What a packet log is told of the frame: an inner packet's flow stands for it.
    fn note_wire(&mut self, view: &PacketView<'_>, flow: Option<&Flow<NetFlow>>, fate: &Fate) {
        let w = &mut self.wire;
        if let Some(f) = flow
            && w.flow.is_none()
        {
            w.flow = Some(f.id);
            w.flow_packets = f.seen[0].pkts + f.seen[1].pkts;
            let d = view.direction.unwrap_or(Direction::ToServer);
            let stream = f.tcp.as_ref().map(|t| t.stream(d));
            w.is_beyond_depth = stream.is_some_and(|s| s.is_depth_reached());
            w.has_segment = stream.is_some() && !view.payload.is_empty();
        }
        w.flow_has_alert |= flow.is_some_and(|f| f.ext.flags.alerted);
        w.is_passed |= fate.passed || flow.is_some_and(|f| f.ext.flags.passed);
    }

    /// Runs the rules and the alert queue.
    fn detect(
        &mut self,
        view: &PacketView<'_>,
        mut flow: Option<&mut Flow<NetFlow>>,
        fate: &mut Fate,
        verdict: Option<&TcpVerdict>,
        sink: &mut dyn NetSink,
    ) {
        let engine = Arc::clone(&self.engine);
        let Some(detector) = &engine.detector else {
            self.tagged(view, flow.as_deref(), sink);
            return;
        };
        let firewall = detector.firewall.as_deref();
        let is_end = view.is_pseudo && view.number == 0;
        fate.is_firewalled = firewall.is_some();
        if fate.skip_detection && (firewall.is_none() || fate.drop.is_some() || is_end) {
            if firewall.is_some() {
                self.early_alerts(fate);
                self.after_detection(detector, view, flow, fate, &[], sink);
            }
            return;
        }
        // Session and parser are looked at while the flow's variables change: they are taken out.
        let (mut ssn, parser) = match flow.as_deref_mut() {
            Some(f) => (f.tcp.take(), f.ext.app.parser.take()),
            None => (None, None),
        };
        let inline = engine.options.stream.inline;
        let dir = view.direction.unwrap_or(Direction::ToServer);
        let stream_cfg = self.tcp.config();
        let chunk = match dir {
            Direction::ToServer => stream_cfg.toserver_chunk,
            Direction::ToClient => stream_cfg.toclient_chunk,
        };
        let mut advance = None;
        let stream = match &ssn {
            Some(s) if inline && !view.is_pseudo => verdict.and_then(|v| {
                (v.is_stream_added)
                    .then(|| {
                        s.stream(dir).raw_window(v.stream_offset, v.stream_len.into(), chunk.into())
                    })
                    .flatten()
            }),
            Some(s) => s.stream(dir).raw_view(chunk.into(), view.is_pseudo),
            None => None,
        };
        if let Some(v) = &stream {
            advance = Some(v.end());
        }
        let not_in_stream = verdict.is_none_or(|v| !v.is_stream_added);
        let (payload_stream, filtered): (Vec<u8>, Filtered);
        {
            let mut run = crate::detect::Run {
                det: detector,
                p: view,
                flow: flow.as_deref_mut(),
                tcp: ssn.as_deref(),
                parser: parser.as_deref(),
                shared: &mut self.shared,
                budget: &self.app,
                resources: Resources {
                    expressions: &detector.expressions,
                    regex: &mut self.regex,
                    datasets: &detector.datasets,
                    turn: self.turn.as_ref(),
                    scripts: &mut self.scripts,
                    catalog: &engine.catalog,
                },
                scratch: &mut self.scratch,
                stream: stream
                    .map(|v| crate::detect::StreamData { bytes: v.data, start: v.offset }),
                not_in_stream,
                at_end: view.is_pseudo,
                inline,
                detects: true,
                filters: false,
                fed: fate.fed[dir.index()],
                tx: None,
                filtered: Filtered::default(),
            };
            match firewall.filter(|_| !is_end) {
                Some(firewall) => run.behind_firewall(firewall, !fate.skip_detection),
                None => run.all(),
            }
            filtered = run.filtered;
            if !detector.set.scripts.is_empty() {
                self.counters.scripts = self.scripts.counters;
            }
            let wants_bytes = !self.scratch.hits.is_empty() && engine.options.wants.alerts;
            payload_stream = match (&ssn, wants_bytes) {
                (Some(s), true) => {
                    let mut bytes = Vec::new();
                    s.stream(dir).write_with_gaps(&mut bytes);
                    bytes
                }
                _ => Vec::new(),
            };
        }
        if let (Some(s), Some(to)) = (&mut ssn, advance) {
            s.stream_mut(dir).raw_advance(to);
        }
        if let Some(f) = flow.as_deref_mut() {
            f.tcp = ssn;
            f.ext.app.parser = parser;
        }
        self.settle_limits(flow.as_deref_mut());
        let forgotten = std::mem::take(&mut self.scratch.forgotten);
        if let Some(f) = flow.as_deref_mut() {
            let (texts, bytes) = f.ext.vars.settle(&self.app);
            self.shed_app(f, forgotten + texts, bytes);
        }
        if firewall.is_some() {
            self.verdict(filtered, fate, flow.as_deref_mut());
            self.scratch.hits.splice(0..0, fate.early.drain(..));
        }
        if !self.scratch.hits.is_empty() {
            self.after_detection(detector, view, flow.as_deref_mut(), fate, &payload_stream, sink);
        }
        self.tagged(view, flow.as_deref(), sink);
    }
}
