//! Records of frames of protocols.

use super::RecordStage;
use super::header::{app_names, header, metadata};
use crate::context::PacketContext;
use crate::frames::{Frame, PIECE_BYTES, bytes_of, is_over};
use gabion_flow::TcpSession;
use gabion_record::Direction;
use gabion_record::applayer::ProtoTable;
use gabion_record::eve::{FrameRecord, WriteObject};
use gabion_record::json::Json;

/// Bytes of a frame shown in records (Suricata's default for payloads).
const SHOWN_BYTES: usize = 4095;

impl RecordStage {
    /// Records of the packet's direction's frames that are whole, or will not get any further.
    pub(crate) fn log_frames(&self, cx: &mut PacketContext<'_>) {
        let (engine, view) = (cx.engine, cx.view);
        let Some(flow) = cx.flow.as_deref_mut() else { return };
        let (Some(d), Some(mut frames)) = (view.direction, flow.ext.app.frames.take()) else {
            return;
        };
        let tcp = flow.tcp.as_deref();
        let over = is_over(view, tcp);
        let table = engine.catalog.table(flow.ext.app.proto);
        if let Some(table) = table {
            let usable = tcp.map_or(view.payload.len() as u64, |t| t.stream(d).usable_end());
            for f in frames.side_frames(d).iter_mut().filter(|f| !f.is_logged) {
                let long = f.len.is_none() && f.available(usable) >= PIECE_BYTES;
                if !(over || long || f.is_whole(usable)) {
                    continue;
                }
                f.is_logged = true;
                let meta = metadata(engine, flow, &cx.findings.packet_variables);
                let frame_json = frame_json(f, table, d, tcp, view.payload, over);
                cx.sink.frame(&FrameRecord {
                    header: header(view, Some(flow), Some(&meta as &dyn WriteObject)),
                    app_proto: app_names(&engine.catalog, &flow.ext.app),
                    frame_json: &frame_json,
                });
            }
        }
        flow.ext.app.frames = Some(frames);
    }
}

/// A frame as records show it: a complete JSON object.
pub(crate) fn frame_json(
    f: &Frame,
    table: &ProtoTable,
    d: Direction,
    tcp: Option<&TcpSession>,
    datagram: &[u8],
    is_over: bool,
) -> Vec<u8> {
    let mut j = Json::new();
    let usable = tcp.map_or(datagram.len() as u64, |t| t.stream(d).usable_end());
    let len = f.len.unwrap_or_else(|| f.available(usable));
    j.open();
    j.field_plain("type", table.frame_name(f.kind));
    j.number("id", f.id);
    j.field_plain("direction", if d == Direction::ToServer { "toserver" } else { "toclient" });
    if tcp.is_some() {
        j.number("stream_offset", f.start);
    }
    j.number("length", len);
    let is_complete = if f.len.is_some() { f.is_whole(usable) } else { is_over };
    let mut shown = Vec::new();
    match tcp {
        Some(tcp) => {
            let stream = tcp.stream(d);
            // Bytes that were inspected may be gone.
            let is_gone = f.inspected > 0 && stream.bytes_from(f.start).is_empty();
            let from = if is_gone { f.start + f.inspected } else { f.start };
            let there = if is_complete { len } else { len.min(f.available(usable)) };
            let end = f.start.saturating_add(there);
            let sure = stream.sure_end().clamp(from.min(end), end);
            stream.write_range(from, sure, SHOWN_BYTES, &mut shown);
            if is_complete && sure < end {
                shown.extend_from_slice(format!("[{} bytes missing]", end - sure).as_bytes());
                shown.truncate(SHOWN_BYTES);
            }
        }
        None => {
            let (bytes, _) = bytes_of(f, d, tcp, datagram);
            shown.extend_from_slice(&bytes[..bytes.len().min(SHOWN_BYTES)]);
        }
    }
    let shown = &shown[..];
    j.base64("payload", shown);
    j.printable("payload_printable", shown);
    j.boolean("complete", is_complete);
    if let Some(tx) = f.tx {
        j.number("tx_id", tx);
    }
    j.close();
    j.take_bytes()
}
