//! Records of transactions and of the files in them.

use super::RecordStage;
use super::header::{MetadataObject, app_names, flow_header, header, metadata};
use crate::app::{RecordAllowance, TxMemory};
use crate::context::PacketContext;
use crate::engine::Engine;
use crate::flow_state::NetFlow;
use crate::limits::reached;
use crate::script::OutputKind;
use crate::view::PacketView;
use gabion_flow::Flow;
use gabion_proto::files::{File, FileList, FileState};
use gabion_proto::registry::protocol;
use gabion_proto::tx_list::TxList;
use gabion_proto::{LogOptions, Parser, Protocol, Transaction};
use gabion_record::applayer::BufferNeed;
use gabion_record::eve::*;
use gabion_record::json::Json;
use gabion_record::{Direction, TakeReport, TakeText, Tree, TxText};
use smallvec::SmallVec;

/// A transaction's object.
pub(crate) struct TxObject<'a> {
    pub(crate) tx: &'a dyn Transaction,
}

impl WriteObject for TxObject<'_> {
    fn write(&self, json: &mut Json, config: Option<&Tree>, in_alert: bool) -> bool {
        write_objects(self.tx, json, LogOptions { config, in_alert, part: 0 })
    }

    fn report(&self, to: TakeReport<'_>) {
        self.tx.report(to);
    }

    fn text(&self, part: TxText<'_>, to: TakeText<'_>) {
        self.tx.text(part, to);
    }
}

/// One of several records of a transaction.
struct TxPart<'a> {
    tx: &'a dyn Transaction,
    part: usize,
}

impl WriteObject for TxPart<'_> {
    fn write(&self, json: &mut Json, config: Option<&Tree>, in_alert: bool) -> bool {
        write_objects(self.tx, json, LogOptions { config, in_alert, part: self.part })
    }

    fn report(&self, to: TakeReport<'_>) {
        // Parts are a matter of EVE: the transaction is reported once.
        if self.part == 0 {
            self.tx.report(to);
        }
    }

    fn text(&self, part: TxText<'_>, to: TakeText<'_>) {
        self.tx.text(part, to);
    }
}

/// Writes a transaction's object, which the caller has opened and closes, and its companion after
/// it: the function closes the first object and opens the second, which the caller then closes.
fn write_objects(tx: &dyn Transaction, json: &mut Json, how: LogOptions<'_>) -> bool {
    let wrote = tx.log(json, how);
    if wrote && let Some(key) = tx.companion() {
        let mark = json.mark();
        json.close();
        json.open_key(key);
        if !tx.log_companion(json, how) {
            json.rewind(mark);
        }
    }
    wrote
}

/// The `files` array of an alert.
pub(crate) struct FilesObject<'a> {
    pub(crate) list: &'a [File],
    pub(crate) flow: u64,
    pub(crate) tx: u64,
}

impl WriteObject for FilesObject<'_> {
    fn write(&self, json: &mut Json, _config: Option<&Tree>, _in_alert: bool) -> bool {
        for f in self.list {
            json.open();
            facts(f, self.flow, self.tx).write(json);
            json.close();
        }
        !self.list.is_empty()
    }
}

/// Files of a transaction in the packet's direction.
pub(crate) fn files_of(tx: &dyn Transaction, d: Option<Direction>) -> Option<&[File]> {
    let list = tx.files(d.unwrap_or(Direction::ToServer))?;
    (!list.files.is_empty()).then_some(list.files.as_slice())
}

pub(crate) fn facts(f: &File, flow: u64, tx_id: u64) -> FileFacts<'_> {
    let d = f.digests();
    FileFacts {
        name: &f.name,
        sids: &f.sids,
        has_gaps: f.has_gaps,
        state: f.state.name(),
        md5: d.md5,
        sha1: d.sha1,
        sha256: d.sha256,
        is_stored: f.is_stored,
        is_storing: f.store && !f.is_stored && f.state == FileState::Open,
        file_id: f.is_stored.then(|| FileKey::new(flow, f.id)),
        size: f.size,
        range: f.range,
        tx_id,
        magic: f.magic(),
    }
}

impl RecordStage {
    /// Records of transactions and files that are due with this packet.
    pub(crate) fn log_transactions(&self, cx: &mut PacketContext<'_>, at_end: bool) {
        let w = cx.engine.options.wants;
        if !(w.app || w.files || w.anomaly_app || w.file_store) {
            return;
        }
        let Some(flow) = cx.flow.as_deref_mut() else { return };
        if !flow.ext.app.has_txs() {
            return;
        }
        let Some(mut parser) = flow.ext.app.parser.take() else { return };
        let news = flow.ext.app.news();
        let mut memories = flow.ext.app.take_txs();
        let mut allowance = flow.ext.app.records;
        let meta = metadata(cx.engine, flow, &cx.findings.packet_variables);
        let mut about = About::new(cx.engine, cx.view, flow, &meta);
        let app = &flow.ext.app;
        let silent = flow.ext.flags.no_app_log;
        let last = Direction::BOTH.map(|d| app.last_state(d));
        // With both sides closed no transaction can change any more. Over UDP no packet ends a flow: as in Suricata,
        // what still waits for its other half then has no record.
        let wants_all = at_end && flow.tcp.is_some() || app.is_closed();
        let seen = flow.tcp.as_ref().and_then(|t| t.only_direction());
        let all: TxIds = match news {
            Some(_) if !wants_all => TxIds::new(),
            _ => memories.entries().map(|(id, _)| id).collect(),
        };
        for id in news.as_ref().filter(|_| !wants_all).map_or(all.as_slice(), Vec::as_slice) {
            let id = *id;
            let (Some(tx), Some(m)) = (parser.txs().at(id), memories.get_mut(id)) else { continue };
            let is = tx.standing();
            let logged = m.events_logged as usize;
            if is.events > logged {
                if w.anomaly_app && self.logs_transactions(&about, tx, cx.sink) {
                    let codes = tx.events().get(logged..).unwrap_or_default();
                    about.log_events(tx, codes, &mut allowance, cx.sink);
                }
                m.events_logged = u32::try_from(is.events).unwrap_or(u32::MAX);
            }
            let wanted = is.log_progress.map_or(last, |(ts, tc)| [ts, tc]);
            if !m.is_logged && (wants_all || is.has_reached(wanted, seen)) {
                m.is_logged = true;
                if w.app && !silent && !m.no_log && allowance.takes(about.sent) {
                    about.log_transaction(tx, cx.sink);
                    if !self.outputs.is_empty() {
                        self.script_tx(cx.engine, cx.view, flow, (parser.as_ref(), tx));
                    }
                }
            }
            if (w.files || w.file_store) && is.has_files && has_files_to_log(tx) {
                // Once nothing more can come, a file needs no packet of its own direction.
                self.log_files(&about, (parser.as_mut(), id), at_end || wants_all, cx.sink);
            }
        }
        put_back(flow, parser, memories, news, allowance);
        cx.account.settle_limits(Some(flow));
    }

    /// Whether anything logs transactions of this protocol: as in Suricata, its events have records only then.
    fn logs_transactions(
        &self,
        about: &About<'_>,
        tx: &dyn Transaction,
        sink: &dyn NetSink,
    ) -> bool {
        let Some(p) = about.protocol else { return false };
        let w = about.engine.options.wants;
        let has_files = || p.table.buffers.iter().any(|b| b.need == BufferNeed::FileData);
        sink.logs_transactions(type_name(tx, p), p.table.own_outputs.line_log)
            || (w.files || w.file_store) && has_files()
            || self.outputs.wants(OutputKind::Transaction(p.table.eve_name))
    }

    /// Records of the files of a transaction. `is_final`: nothing more can come.
    fn log_files(
        &self,
        about: &About<'_>,
        (parser, id): (&mut dyn Parser, u64),
        is_final: bool,
        sink: &mut dyn NetSink,
    ) {
        let About { engine, view, flow, meta, .. } = *about;
        for d in Direction::BOTH {
            if !parser.tx(id).and_then(|t| t.files(d)).is_some_and(has_open_record) {
                continue;
            }
            // A file is logged with the packets of its own direction.
            if !is_final && view.direction != Some(d) {
                continue;
            }
            if is_final && let Some(list) = parser.tx_mut(id).and_then(|t| t.files_mut(d)) {
                for f in &mut list.files {
                    f.close(FileState::Truncated);
                }
            }
            let Some(tx) = parser.tx(id) else { return };
            let Some(p) = protocol(flow.ext.app.proto) else { return };
            let key = tx.event_type().unwrap_or(p.event_type);
            let head = Header { metadata: Some(meta), ..flow_header(view, flow, d) };
            let object = TxObject { tx };
            let mut stored = Vec::new();
            let find = |name: &str, last: bool| tx.forwarded_for(name, last);
            let forwarded_for: ForwardedFor<'_> = &find;
            if let Some(list) = tx.files(d) {
                for (n, f) in list.files.iter().enumerate() {
                    if f.is_logged || f.state == FileState::Open {
                        continue;
                    }
                    let store = f.store
                        || flow.ext.flags.sides[d.index()].store_files
                        || engine.options.wants.store_all_files;
                    let mut file = facts(f, flow.id, id);
                    if store {
                        file.is_stored = true;
                        file.file_id = Some(FileKey::new(flow.id, f.id));
                    }
                    let record = FileRecord {
                        header: head,
                        app: Some(AppObject { key, object: &object }),
                        app_proto: app_names(&engine.catalog, &flow.ext.app),
                        file,
                        forwarded_for: p.names_forwarded_client.then_some((d, &forwarded_for)),
                    };
                    let (bytes, start) = f.content();
                    if store && start == 0 {
                        let key = (flow.id, f.id);
                        sink.file_chunk(&FileChunk { record, key, bytes, is_last: true });
                    }
                    sink.file(&record);
                    stored.push((n, store));
                }
            }
            let mut logged = Vec::new();
            if let Some(list) = parser.tx_mut(id).and_then(|t| t.files_mut(d)) {
                for (n, store) in stored {
                    if let Some(f) = list.files.get_mut(n) {
                        f.is_logged = true;
                        f.is_stored |= store;
                        logged.push(n);
                    }
                }
            }
            if self.outputs.is_empty() {
                continue;
            }
            let Some(tx) = parser.tx(id) else { return };
            for f in logged.iter().filter_map(|n| tx.files(d)?.files.get(*n)) {
                self.script_file(engine, view, flow, (parser, tx, f));
            }
        }
    }
}

/// Ids of a packet's transactions, usually few.
type TxIds = SmallVec<[u64; 16]>;

/// What all records of a flow's transactions with one packet have in common.
struct About<'a> {
    engine: &'a Engine,
    view: &'a PacketView<'a>,
    flow: &'a Flow<NetFlow>,
    protocol: Option<&'static Protocol>,
    names: AppProtoNames,
    /// The common part by sender, made when it is first needed.
    heads: [Option<Header<'a>>; 2],
    meta: &'a MetadataObject<'a>,
    /// Bytes of the flow's packets so far.
    sent: u64,
}

impl<'a> About<'a> {
    fn new(
        engine: &'a Engine,
        view: &'a PacketView<'a>,
        flow: &'a Flow<NetFlow>,
        meta: &'a MetadataObject<'a>,
    ) -> About<'a> {
        About {
            engine,
            view,
            flow,
            protocol: protocol(flow.ext.app.proto),
            names: app_names(&engine.catalog, &flow.ext.app),
            heads: [None; 2],
            meta,
            sent: flow.seen[0].bytes + flow.seen[1].bytes,
        }
    }

    /// Writes the records of a transaction.
    fn log_transaction(&mut self, tx: &dyn Transaction, sink: &mut dyn NetSink) {
        let Some(p) = self.protocol else { return };
        let event_type = tx.event_type().unwrap_or(p.event_type);
        let type_name = type_name(tx, p);
        let how = LogOptions { config: sink.type_config(type_name), in_alert: false, part: 0 };
        let of_packet = self.view.direction.filter(|_| tx.is_logged_as_packet());
        let from = of_packet.unwrap_or_else(|| tx.log_direction(how));
        let parts = tx.log_parts(how);
        let head = self.heads[from.index()].get_or_insert_with(|| Header {
            metadata: Some(self.meta),
            ..flow_header(self.view, self.flow, from)
        });
        let find = |name: &str, last: bool| tx.forwarded_for(name, last);
        let forwarded_for: ForwardedFor<'_> = &find;
        for part in 0..parts {
            let object = TxPart { tx, part };
            sink.app(&AppRecord {
                header: *head,
                event_type,
                type_name,
                tx_id: tx.id(),
                tx_id_on_top: p.tx_id_on_top,
                object: &object,
                app_proto: self.names,
                is_never_empty: p.is_never_empty,
                line_log: p.table.own_outputs.line_log,
                forwarded_for: p.names_forwarded_client.then_some((from, &forwarded_for)),
            });
        }
    }

    /// Writes records of a transaction's events.
    fn log_events(
        &self,
        tx: &dyn Transaction,
        codes: &[u16],
        allowance: &mut RecordAllowance,
        sink: &mut dyn NetSink,
    ) {
        let Some(p) = self.protocol else { return };
        let head = header(self.view, Some(self.flow), Some(self.meta));
        for code in codes {
            let Some(e) = p.table.events.iter().find(|e| e.code == *code) else { continue };
            if !allowance.takes(self.sent) {
                continue;
            }
            sink.anomaly(&AnomalyRecord {
                header: head,
                kind: AnomalyKind::AppLayer,
                event: e.name,
                app_proto: Some(p.table.eve_name),
                tx_id: Some(tx.id()),
                packet: &[],
                link: self.view.link,
                in_capitals: p.table.events_in_capitals,
            });
        }
    }
}

/// The type of EVE that writes a transaction.
fn type_name(tx: &dyn Transaction, p: &'static Protocol) -> &'static str {
    if p.eve_type.is_empty() { tx.event_type().unwrap_or(p.event_type) } else { p.eve_type }
}

/// Returns to a flow what was moved out of it for the records of its transactions.
fn put_back(
    flow: &mut Flow<NetFlow>,
    parser: Box<dyn Parser>,
    memories: TxList<TxMemory>,
    news: Option<Vec<u64>>,
    mut allowance: RecordAllowance,
) {
    reached::FLOW_RECORDS_MAX.count_times(allowance.take_refused());
    let app = &mut flow.ext.app;
    app.records = allowance;
    app.put_back_txs(memories);
    if let Some(news) = news {
        app.put_back_news(news);
    }
    app.parser = Some(parser);
}

/// Whether a file of the list is not logged yet.
fn has_open_record(list: &FileList) -> bool {
    list.files.iter().any(|f| !f.is_logged)
}

fn has_files_to_log(tx: &dyn Transaction) -> bool {
    Direction::BOTH.iter().any(|d| tx.files(*d).is_some_and(has_open_record))
}
