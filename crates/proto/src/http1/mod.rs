//! HTTP/1: requests and responses, their normalized buffers, bodies, files and events.
//!
//! What rules see of a request must be what the server acts on, and what they see of a response
//! what the browser shows, whatever tricks the sender plays with line ends, encodings, lengths and
//! folding. The parser therefore reads requests as servers and responses as browsers do, by the
//! rules that Suricata's HTTP library collected over the years (behaviour only; this is a parser of
//! its own: that library's Rust interface is closed and reads the clock, so that the same capture
//! may give different findings).
//!
//! Pieces of any size give the same, but in one case, which is Suricata's and decides what its users'
//! rules see: what follows a whole message in the same segment, and is no further message, is
//! more of its body (`request_body_unexpected`, `response_body_unexpected`), or, when its line never
//! ends, left; alone it begins one.
//!
//! - `parser`: the flow; `request`, `response`: the two state machines; `head`, `headers`: header
//!   blocks; `uri`, `decode`, `bestfit`: targets; `entity`, `decoder`, `multipart`, `flash`: bodies;
//! - `message`: the transaction; `buffers`, `body`: what rules ask of it; `log`: its EVE record;
//! - `settings`, `events`, `limits`, `text`.

mod bestfit;
mod body;
mod buffers;
mod decode;
pub(crate) mod decoder;
mod entity;
mod events;
mod flash;
mod gzip;
pub(crate) mod handover;
mod head;
mod headers;
pub mod limits;
mod log;
mod lzma;
mod message;
mod multipart;
mod names;
mod parser;
mod request;
mod response;
mod settings;
mod text;
mod uri;

#[cfg(test)]
mod tests;

use crate::detect::ProbePattern;
use crate::files::FileList;
use crate::protocol::Settings as AnySettings;
use crate::{Buffer, Inspect, LogOptions, Protocol, Transaction};
use buffers::Local;
pub(crate) use entity::content_range;
use gabion_record::applayer::{LineLog, OwnOutputs, ProtoTable, Transport};
use gabion_record::json::Json;
use gabion_record::{Direction, TakeReport, TakeText, TxText};
pub(crate) use log::forwarded_address;
use message::Tx;
use parser::Http1;
use settings::Settings;
use std::any::Any;
use std::sync::Arc;

const TABLE: ProtoTable = ProtoTable {
    name: buffers::NAME,
    eve_name: "http",
    rule_names: &["http", "http1"],
    transports: &[Transport::Tcp],
    is_counted_by_transport: false,
    has_uncounted_txs: false,
    states_to_server: &[
        "request_started",
        "request_line",
        "request_headers",
        "request_body",
        "request_trailer",
        "request_complete",
    ],
    states_to_client: &[
        "response_started",
        "response_line",
        "response_headers",
        "response_body",
        "response_trailer",
        "response_complete",
    ],
    buffers: buffers::BUFFERS,
    integers: &[],
    conditions: &[],
    events: events::EVENTS,
    events_from: [message::progress::NOT_STARTED, message::progress::LINE],
    events_in_capitals: true,
    frames: buffers::FRAMES,
    any_version: Some("http_any"),
    own_outputs: OwnOutputs {
        line_log: Some(LineLog::Http),
        logs_bodies: true,
        ..OwnOutputs::SCRIPTS
    },
    advises_modifiers: true,
    has_memory_counters: true,
    other_keywords: &[],
    refuses_file_names: false,
};

/// The protocol.
pub const PROTOCOL: &Protocol = &Protocol {
    patterns: PATTERNS,
    accepts_gaps: true,
    auto_trigger_raw: false,
    eve_defaults: &[("extended", "yes")],
    is_never_empty: true,
    names_forwarded_client: true,
    tx_id_on_top: true,
    free_key: Some("libhtp.server-config"),
    configure: |node| Ok(Arc::new(Arc::new(Settings::from_node(node)?))),
    open: |settings: &AnySettings, _transport| {
        let settings = settings.downcast_ref::<Arc<Settings>>().cloned().unwrap_or_default();
        Box::new(Http1::new(settings))
    },
    ..Protocol::plain(TABLE)
};

macro_rules! patterns {
    ($($method:literal)*) => {
        /// Methods with the blank after them, versions of responses (Suricata's list).
        const PATTERNS: &[ProbePattern] = &[
            $(
                pattern(Direction::ToServer, concat!($method, " ").as_bytes()),
                pattern(Direction::ToServer, concat!($method, "\t").as_bytes()),
            )*
            pattern(Direction::ToClient, b"HTTP/0.9"),
            pattern(Direction::ToClient, b"HTTP/1.0"),
            pattern(Direction::ToClient, b"HTTP/1.1"),
        ];
    };
}

const fn pattern(direction: Direction, bytes: &'static [u8]) -> ProbePattern {
    ProbePattern {
        direction,
        bytes,
        nocase: true,
        offset: 0,
        depth: bytes.len() as u16,
        check: None,
    }
}

patterns! {
    "GET" "PUT" "POST" "HEAD" "TRACE" "OPTIONS" "CONNECT" "DELETE" "PATCH" "PROPFIND" "PROPPATCH"
    "MKCOL" "COPY" "MOVE" "LOCK" "UNLOCK" "CHECKOUT" "UNCHECKOUT" "CHECKIN" "UPDATE" "LABEL"
    "REPORT" "MKWORKSPACE" "MKACTIVITY" "MERGE" "INVALID" "VERSION-CONTROL" "BASELINE-CONTROL"
}

/// Runs the parser over bytes of a fuzzer: the first byte of each part says which direction it is
/// and how long, and what comes out is asked for everything it has.
#[doc(hidden)]
pub fn fuzz(bytes: &[u8]) {
    let mut tree = gabion_record::Tree::default();
    let flags = bytes.first().copied().unwrap_or(0);
    let yes_no = |bit: u8| if flags & bit != 0 { "yes" } else { "no" };
    let set = "libhtp.default-config";
    tree.set(&format!("{set}.personality"), if flags & 1 != 0 { "IDS" } else { "Apache_2" });
    tree.set(&format!("{set}.double-decode-path"), yes_no(2));
    tree.set(&format!("{set}.swf-decompression.enabled"), yes_no(4));
    tree.set(&format!("{set}.response-body-limit"), if flags & 8 != 0 { "0" } else { "1 KiB" });
    let Ok(settings) = (PROTOCOL.configure)(Some(&tree)) else { return };
    let mut parser = (PROTOCOL.open)(&settings, Transport::Tcp);
    let endpoints = crate::Endpoints::default();
    let mut rest = bytes.get(1..).unwrap_or_default();
    while let Some((head, tail)) = rest.split_first() {
        let direction = Direction::BOTH[usize::from(head & 1)];
        let (part, after) = tail.split_at(usize::from(head >> 2).min(tail.len()));
        rest = after;
        let mut cx = crate::ParseContext::new(0, direction, &endpoints);
        cx.requirements.file_data = true;
        let input = match head & 2 {
            0 => crate::Input::Data { bytes: part, eof: false },
            _ if part.len() < 8 => crate::Input::Gap { len: u64::from(head >> 2) },
            _ => crate::Input::Data { bytes: part, eof: true },
        };
        if parser.parse(&mut cx, input) == crate::Outcome::Error || cx.change.is_some() {
            break;
        }
    }
    parser.finish(Direction::ToServer);
    parser.finish(Direction::ToClient);
    let mut json = Json::new();
    for id in parser.first_tx_id()..parser.next_tx_id() {
        let Some(tx) = parser.tx(id) else { continue };
        tx.log(&mut json, LogOptions::default());
        for def in PROTOCOL.table.buffers {
            for hook in def.hooks {
                let how = Inspect { at_end: true, ..Inspect::default() };
                let _ = tx.buffer(hook.local, hook.direction, 0, how);
            }
        }
    }
    while parser.first_tx_id() < parser.next_tx_id() {
        parser.free(parser.first_tx_id());
    }
}

impl Transaction for Tx {
    fn id(&self) -> u64 {
        self.id
    }

    fn progress(&self, direction: Direction) -> u8 {
        self.message(direction).reached()
    }

    fn parsed_progress(&self, direction: Direction) -> u8 {
        let m = self.message(direction);
        m.ended_at.unwrap_or(m.progress)
    }

    fn has_begun(&self, direction: Direction) -> bool {
        direction == Direction::ToServer || self.response.has_begun()
    }

    fn buffer(
        &self,
        local: u16,
        direction: Direction,
        index: usize,
        how: Inspect,
    ) -> Option<Buffer<'_>> {
        buffers::buffer(self, Local::from_number(local)?, direction, index, how)
    }

    fn streams(&self, local: u16, direction: Direction) -> usize {
        match Local::from_number(local) {
            // A response is a body, whether it is a file or not.
            Some(Local::FileData) if direction == Direction::ToClient => {
                self.response.file_list().len().max(1)
            }
            Some(Local::FileData | Local::FileMagic) => self.message(direction).file_list().len(),
            _ => 1,
        }
    }

    fn events(&self) -> &[u16] {
        self.events.codes()
    }

    fn files(&self, direction: Direction) -> Option<&FileList> {
        self.message(direction).files.as_deref()
    }

    fn files_mut(&mut self, direction: Direction) -> Option<&mut FileList> {
        match direction {
            Direction::ToServer => self.request.files.as_deref_mut(),
            Direction::ToClient => self.response.started_mut()?.files.as_deref_mut(),
        }
    }

    fn log(&self, json: &mut Json, how: LogOptions<'_>) -> bool {
        log::write(self, json, how)
    }

    fn report(&self, to: TakeReport<'_>) {
        log::report(self, to);
    }

    fn text(&self, part: TxText<'_>, to: TakeText<'_>) {
        log::text(self, part, to);
    }

    fn forwarded_for(&self, header: &str, take_last: bool) -> Option<std::net::IpAddr> {
        log::forwarded_for(self, header, take_last)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
