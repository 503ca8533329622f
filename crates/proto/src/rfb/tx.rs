//! The transaction: a session's handshake as far as it has come.

use super::log;
use super::tables::integer;
use crate::transaction::EventList;
use crate::{Buffer, Inspect, LogOptions, Transaction};
use gabion_record::Direction;
use gabion_record::json::Json;
use std::any::Any;

/// A version: three digits each of major and minor.
pub(super) type Version = [[u8; 3]; 2];

/// The server's description of its screen (RFC 6143 7.3.2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Framebuffer {
    /// Width in pixels.
    pub width: u16,
    /// Height in pixels.
    pub height: u16,
    /// The pixel format (RFC 6143 7.4), as it was sent.
    pub pixel_format: [u8; 16],
    /// Name of the desktop, cut at its limit.
    pub name: Vec<u8>,
}

/// A session.
#[derive(Debug, Default)]
pub struct RfbTx {
    /// The server's version.
    pub server_version: Option<Version>,
    /// The client's version.
    pub client_version: Option<Version>,
    /// Security type that the client chose, or the server in version 3.3.
    pub security_type: Option<u32>,
    /// The server's challenge.
    pub challenge: Option<[u8; 16]>,
    /// The client's response to it.
    pub response: Option<[u8; 16]>,
    /// The server accepted the response.
    pub is_accepted: bool,
    /// The server's reason for ending the session.
    pub failure: Option<Vec<u8>>,
    /// The client shares the screen with others.
    pub is_shared: Option<bool>,
    /// The server's screen.
    pub framebuffer: Option<Framebuffer>,
    pub(super) is_complete: bool,
    pub(super) has_ended: [bool; 2],
    pub(super) events: EventList,
}

impl Transaction for RfbTx {
    fn id(&self) -> u64 {
        0
    }

    fn progress(&self, direction: Direction) -> u8 {
        u8::from(self.is_complete || self.has_ended[direction.index()])
    }

    fn buffer(&self, _: u16, _: Direction, index: usize, _: Inspect) -> Option<Buffer<'_>> {
        let name = &self.framebuffer.as_ref().filter(|_| index == 0)?.name;
        Some(Buffer::whole(name))
    }

    fn integer(&self, local: u16, _: Direction, index: usize) -> Option<u64> {
        match local {
            _ if index > 0 => None,
            integer::SECURITY_TYPE => self.security_type.map(u64::from),
            // Suricata 8.0.7 knows of no other result.
            integer::SECURITY_RESULT => self.is_accepted.then_some(0),
            _ => None,
        }
    }

    fn events(&self) -> &[u16] {
        self.events.codes()
    }

    fn log(&self, json: &mut Json, _: LogOptions<'_>) -> bool {
        log::write(self, json);
        true
    }

    fn is_logged_as_packet(&self) -> bool {
        true
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
