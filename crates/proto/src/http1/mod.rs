//! HTTP/1: requests and responses, their normalized buffers, bodies, files and events.
//!
//! What rules see of a request must be what the server acts on, and what they see of a response
//! what the browser shows, whatever tricks the sender plays with line ends, encodings, lengths and
//! folding. The parser therefore reads requests as servers and responses as browsers do, by the
//! rules that the peer's HTTP library collected over the years (behaviour only; this is a parser of
//! its own: that library's Rust interface is closed and reads the clock, so that the same capture
//! may give different findings).
//!
//! - `parser`: the flow; `request`, `response`: the two state machines; `head`, `headers`: header
//!   blocks; `uri`, `decode`, `bestfit`: targets; `entity`, `decoder`, `multipart`, `flash`: bodies;
//! - `message`: the transaction; `buffers`, `body`: what rules ask of it; `log`: its EVE record;
//! - `settings`, `events`, `limits`, `text`.

mod bestfit;
mod body;
mod buffers;
mod decode;
mod decoder;
mod entity;
mod events;
mod flash;
mod head;
mod headers;
mod limits;
mod log;
mod message;
mod multipart;
mod parser;
mod request;
mod response;
mod settings;
mod text;
mod uri;

use crate::detect::ProbePattern;
use crate::files::FileList;
use crate::registry::Settings as AnySettings;
use crate::{Buffer, Inspect, LogOptions, Protocol, Transaction};
use buffers::Local;
use gabion_record::Direction;
use gabion_record::applayer::{ProtoTable, Transport};
use gabion_record::json::Json;
use message::Tx;
use parser::Http1;
use settings::Settings;
use std::any::Any;
use std::sync::Arc;

/// The protocol.
pub const PROTOCOL: &Protocol = &Protocol {
    table: ProtoTable {
        name: buffers::NAME,
        eve_name: "http",
        rule_names: &["http", "http1"],
        transports: &[Transport::Tcp],
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
        events_in_capitals: true,
    },
    config_name: "http",
    is_default_on: true,
    patterns: PATTERNS,
    probes: &[],
    accepts_gaps: true,
    stream_depth: None,
    auto_trigger_raw: false,
    event_type: "http",
    is_logged: true,
    first_direction: None,
    configure: |node| Ok(Arc::new(Arc::new(Settings::read(node)?))),
    open: |settings: &AnySettings, _transport| {
        let settings = settings.downcast_ref::<Arc<Settings>>().cloned().unwrap_or_default();
        Box::new(Http1::new(settings))
    },
};

macro_rules! patterns {
    ($($method:literal)*) => {
        /// Methods with the blank behind them, versions of responses (the peer's list).
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
    ProbePattern { direction, bytes, nocase: true, offset: 0, depth: bytes.len() as u16 }
}

patterns! {
    "GET" "PUT" "POST" "HEAD" "TRACE" "OPTIONS" "CONNECT" "DELETE" "PATCH" "PROPFIND" "PROPPATCH"
    "MKCOL" "COPY" "MOVE" "LOCK" "UNLOCK" "CHECKOUT" "UNCHECKOUT" "CHECKIN" "UPDATE" "LABEL"
    "REPORT" "MKWORKSPACE" "MKACTIVITY" "MERGE" "INVALID" "VERSION-CONTROL" "BASELINE-CONTROL"
}

impl Transaction for Tx {
    fn id(&self) -> u64 {
        self.id
    }

    fn progress(&self, direction: Direction) -> u8 {
        self.message(direction).progress
    }

    fn buffer(
        &self,
        local: u16,
        direction: Direction,
        index: usize,
        how: Inspect,
    ) -> Option<Buffer<'_>> {
        buffers::buffer(self, Local::of(local)?, direction, index, how)
    }

    fn events(&self) -> &[u16] {
        self.events.codes()
    }

    fn files(&self, direction: Direction) -> Option<&FileList> {
        Some(&self.message(direction).files)
    }

    fn files_mut(&mut self, direction: Direction) -> Option<&mut FileList> {
        Some(&mut self.message_mut(direction).files)
    }

    fn log(&self, json: &mut Json, how: LogOptions<'_>) -> bool {
        log::write(self, json, how)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
