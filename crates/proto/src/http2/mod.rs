//! HTTP/2 (RFC 9113) in clear: by its preface, by Upgrade from HTTP/1 (RFC 7540 3.2), and from the middle of a
//! connection; and DNS over it (RFC 8484).
//!
//! Streams have the buffers and records of HTTP. A connection in which a DNS message is found continues as
//! one of `doh2`: the same parser, with the buffers of DNS in addition.
//!
//! - `frame`: frames; `hpack`, `huffman`: header blocks; `parser`: connection and streams;
//! - `tx`: the transaction; `side`: what a side sent; `views`: what is made of it; `body`: data and files; `dns`: messages of DNS; `buffers`, `conditions`, `tables`: what
//!   rules ask; `log`: records; `settings`, `limits`.

mod body;
mod buffers;
mod conditions;
mod dns;
mod frame;
mod hpack;
mod huffman;
pub mod limits;
mod log;
mod parser;
mod settings;
mod side;
pub(crate) mod tables;
mod tx;
mod views;

pub use parser::Http2Parser;
pub use settings::Settings;
pub use tx::Http2Tx;

use crate::detect::{PortProbe, Probe, ProbePattern};
use crate::files::FileList;
use crate::protocol::Protocol;
use crate::{Buffer, Inspect, LogOptions, Transaction};
use buffers::Local;
use frame::{FrameHeader, PREFACE, kind};
use gabion_record::Direction;
use gabion_record::applayer::Transport;
use gabion_record::json::Json;
use std::any::Any;
use std::sync::Arc;
use tables::integer;

/// HTTP/2 in the registry.
pub const PROTOCOL: &Protocol = &Protocol {
    // The first line of the preface: Suricata asks for no more of it.
    patterns: &[ProbePattern::at_start(Direction::ToServer, b"PRI * HTTP/2.0\r\n")],
    probes: &[PortProbe {
        transport: Transport::Tcp,
        ports: "80",
        min_bytes: 9,
        max_bytes: 0,
        probe: probe_settings,
    }],
    auto_trigger_raw: false,
    event_type: "http",
    eve_type: "http2",
    configure: |config| Ok(Arc::new(Settings::from_config(config))),
    open: |settings, _| {
        let settings = settings.downcast_ref::<Settings>().copied().unwrap_or_default();
        Box::new(Http2Parser::new(settings))
    },
    ..Protocol::plain(tables::TABLE)
};

/// Whether a server's bytes begin with a frame of settings, as they have to (RFC 9113 3.4).
fn probe_settings(bytes: &[u8], direction: Direction) -> Probe {
    if direction == Direction::ToServer {
        return match PREFACE.get(..bytes.len().min(PREFACE.len())) {
            Some(start) if bytes.starts_with(start) && start.len() == PREFACE.len() => Probe::Yes,
            Some(start) if bytes.starts_with(start) => Probe::More,
            _ => Probe::No,
        };
    }
    match FrameHeader::parse(bytes) {
        None => Probe::More,
        Some(h) if h.kind == kind::SETTINGS && h.stream == 0 && h.len % 6 == 0 => Probe::Yes,
        Some(_) => Probe::No,
    }
}

impl Transaction for Http2Tx {
    fn id(&self) -> u64 {
        self.id
    }

    fn progress(&self, _: Direction) -> u8 {
        self.state
    }

    fn buffer(
        &self,
        local: u16,
        direction: Direction,
        index: usize,
        how: Inspect,
    ) -> Option<Buffer<'_>> {
        match Local::from_number(local) {
            Some(local) => buffers::buffer(self, local, direction, index, how),
            None => self.dns.as_ref()?.buffer(local, direction, index),
        }
    }

    fn integer(&self, local: u16, direction: Direction, index: usize) -> Option<u64> {
        let side = self.side(direction);
        let weights = || {
            let others = side.more().iter().filter(|(from, _)| *from == kind::PRIORITY);
            side.priority().into_iter().map(u64::from).chain(others.map(|m| m.1.into()))
        };
        match local {
            integer::PRIORITY => weights().nth(index),
            integer::WINDOW => side.windows().get(index).map(|n| u64::from(*n)),
            integer::SIZE_UPDATE => self.size_updates(direction).nth(index),
            _ => self.dns.as_ref()?.integer(local, direction, index),
        }
    }

    fn streams(&self, local: u16, direction: Direction) -> usize {
        match Local::from_number(local) {
            Some(Local::FileData | Local::FileMagic) => self.side(direction).files.files.len(),
            _ => 1,
        }
    }

    fn events(&self) -> &[u16] {
        self.events.codes()
    }

    fn files(&self, direction: Direction) -> Option<&FileList> {
        // Of the thousands of streams that a client may open few have some.
        Some(&self.side(direction).files).filter(|list| !list.files.is_empty())
    }

    fn files_mut(&mut self, direction: Direction) -> Option<&mut FileList> {
        Some(&mut self.side_mut(direction).files)
    }

    fn log(&self, json: &mut Json, how: LogOptions<'_>) -> bool {
        match &self.dns {
            Some(dns) if dns.is_begun() => dns.log(json, how),
            _ => log::write(self, json, how),
        }
    }

    fn companion(&self) -> Option<&'static str> {
        self.dns.as_ref().filter(|dns| dns.is_begun()).map(|_| "http")
    }

    fn log_companion(&self, json: &mut Json, how: LogOptions<'_>) -> bool {
        log::write(self, json, how)
    }

    fn event_type(&self) -> Option<&'static str> {
        self.dns.as_ref().filter(|dns| dns.is_begun()).map(|_| "dns")
    }

    fn report(&self, to: gabion_record::TakeReport<'_>) {
        log::report(self, to);
    }

    fn forwarded_for(&self, header: &str, take_last: bool) -> Option<std::net::IpAddr> {
        let name = header.to_ascii_lowercase();
        crate::http1::forwarded_address(
            self.side(Direction::ToServer).header(name.as_bytes())?,
            take_last,
        )
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
