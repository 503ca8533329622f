//! Calls of DCE/RPC in the pipes of a session. Each message of SMB that writes to a pipe or reads from it
//! carries one message of DCE/RPC (MS-SMB2 3.2.4.20); what follows it is ignored, as in Suricata 8.0.7.

use super::ids::CallKey;
use super::limits::{STUB_BYTES_MAX, reached};
use crate::dcerpc::contexts::Contexts;
use crate::dcerpc::pdu::{self, Fragment, Header, Interface, kind};
use gabion_record::Direction::{self, ToClient, ToServer};
use gabion_record::json::Json;

/// Names of pipes that carry DCE/RPC: those that Suricata 8.0.7 follows.
const PIPE_NAMES: [&[u8]; 7] =
    [b"srvsvc", b"atsvc", b"svcctl", b"lsarpc", b"spoolss", b"winreg", b"samr"];

/// The type that Suricata uses for messages without one.
const KIND_UNKNOWN: u8 = 99;

/// Bytes before the stub data of a call and of an answer.
const STUB_AT: usize = 24;

/// Whether a pipe of this name carries DCE/RPC.
pub(super) fn is_known_pipe(name: &[u8]) -> bool {
    let name = name.strip_prefix(b"\\").unwrap_or(name);
    PIPE_NAMES.contains(&name)
}

/// Whether bytes look like a message, where it is not known whether a file is a pipe.
pub(super) fn looks_like_message(bytes: &[u8]) -> bool {
    bytes.first() == Some(&5) && Header::parse(bytes).is_some_and(|h| h.kind <= kind::RTS)
}

/// One side of a call.
#[derive(Clone, Debug, Default)]
pub struct Side {
    /// Type of its message; `None`: there was none.
    pub kind: Option<u8>,
    /// Fragments.
    pub fragments: u32,
    /// Bytes of stub data.
    pub stub_len: u64,
    /// Stub data, as far as kept.
    pub stub: Vec<u8>,
    /// Numbers in it are in little-endian order.
    pub is_little: bool,
    /// The last fragment has come.
    pub is_done: bool,
}

/// A call with its answer.
#[derive(Clone, Debug)]
pub struct Call {
    /// By which its answer is found.
    pub(super) key: CallKey,
    /// Its number.
    pub call_id: u32,
    /// Number of the bind among those of the flow: pipes use the numbers of calls each for itself.
    pub(super) bind: u32,
    /// The operation.
    pub opnum: u16,
    /// Interfaces that a bind offers, or the one that the call is for.
    pub interfaces: Vec<Interface>,
    /// The call.
    pub request: Side,
    /// The answer.
    pub response: Side,
}

/// A message as far as it can be read.
pub(super) struct Message<'a> {
    pub(super) header: Header,
    body: Body<'a>,
}

enum Body<'a> {
    Offers(Vec<Interface>),
    Acks(Vec<pdu::Ack>),
    Request(Fragment<'a>),
    Response(&'a [u8]),
    Other,
    /// It is cut, or can't be read.
    Malformed,
}

impl<'a> Message<'a> {
    /// The message that bytes begin with; `None`: there is no header.
    pub(super) fn from_bytes(bytes: &'a [u8]) -> Option<Message<'a>> {
        let header = Header::parse(bytes)?;
        let Some(message) = bytes.get(..usize::from(header.len)) else {
            return Some(Message { header, body: Body::Malformed });
        };
        let body = match header.kind {
            kind::BIND => pdu::parse_offers(&header, message).map(Body::Offers),
            kind::BIND_ACK => pdu::parse_acks(&header, message).map(Body::Acks),
            kind::REQUEST => pdu::parse_request(&header, message).map(Body::Request),
            kind::RESPONSE => message.get(STUB_AT..).map(Body::Response),
            _ => Some(Body::Other),
        };
        Some(Message { header, body: body.unwrap_or(Body::Malformed) })
    }

    /// It is a later fragment of a call.
    pub(super) fn is_later_fragment(&self) -> bool {
        self.header.kind == kind::REQUEST && !self.header.is_first() && !self.is_malformed()
    }

    /// It is cut, or can't be read.
    pub(super) fn is_malformed(&self) -> bool {
        matches!(self.body, Body::Malformed)
    }
}

impl Side {
    fn add_stub(&mut self, stub: &[u8]) {
        self.fragments = self.fragments.saturating_add(1);
        self.stub_len = self.stub_len.saturating_add(stub.len() as u64);
        let room = STUB_BYTES_MAX.saturating_sub(self.stub.len());
        if reached::STUB_BYTES_MAX.holds(self.stub.len().saturating_add(stub.len())) {
            self.stub.extend_from_slice(stub);
        } else {
            self.stub.extend_from_slice(stub.get(..room).unwrap_or(stub));
        }
    }
}

impl Call {
    /// A call that begins with this message, or with the answer to one that was not seen.
    pub(super) fn new(
        direction: Direction,
        message: &Message<'_>,
        contexts: &mut Contexts,
        bind: u32,
    ) -> Call {
        let mut call = Call {
            key: (0, Ok(0), 0),
            call_id: message.header.call_id,
            bind,
            opnum: 0,
            interfaces: Vec::new(),
            request: Side::default(),
            response: Side::default(),
        };
        if direction == ToServer && message.header.kind == kind::REQUEST && message.is_malformed() {
            call.interfaces = contexts.find(0).copied().into_iter().collect();
        }
        call.add_message(direction, message, contexts);
        call
    }

    /// Adds a message: another fragment, or the answer.
    pub(super) fn add_message(
        &mut self,
        direction: Direction,
        message: &Message<'_>,
        contexts: &mut Contexts,
    ) {
        let header = &message.header;
        let side = self.side_mut(direction);
        side.kind = Some(header.kind);
        side.is_little = header.is_little;
        // Types other than calls and answers come whole.
        let is_last = header.is_last() || !matches!(header.kind, kind::REQUEST | kind::RESPONSE);
        match &message.body {
            Body::Offers(offers) => {
                contexts.offer(self.bind, offers);
                self.interfaces.clone_from(offers);
            }
            Body::Acks(acks) => {
                contexts.decide(self.bind, acks);
                for (interface, ack) in self.interfaces.iter_mut().zip(acks) {
                    interface.ack = Some(*ack);
                }
            }
            Body::Request(fragment) => {
                side.add_stub(fragment.stub);
                if side.fragments == 1 {
                    self.opnum = fragment.opnum.unwrap_or(0);
                    let found = contexts.find(fragment.context_id).copied();
                    self.interfaces = found.into_iter().collect();
                }
            }
            Body::Response(stub) => side.add_stub(stub),
            Body::Other | Body::Malformed => {}
        }
        let side = self.side_mut(direction);
        let is_taken = header.kind == kind::REQUEST || !message.is_malformed();
        side.is_done |= is_last && is_taken;
    }

    /// One side of it.
    pub fn side(&self, direction: Direction) -> &Side {
        match direction {
            ToServer => &self.request,
            ToClient => &self.response,
        }
    }

    fn side_mut(&mut self, direction: Direction) -> &mut Side {
        match direction {
            ToServer => &mut self.request,
            ToClient => &mut self.response,
        }
    }

    /// Bytes held.
    pub(super) fn bytes_held(&self) -> usize {
        self.interfaces.capacity() * size_of::<Interface>()
            + self.request.stub.capacity()
            + self.response.stub.capacity()
    }

    /// Writes its object.
    pub(super) fn write(&self, json: &mut Json) {
        json.open_key("dcerpc");
        match self.request.kind {
            None => json.field_plain("request", "REQUEST_LOST"),
            Some(kind) => write_kind("request", kind, json),
        }
        match self.response.kind {
            None => json.field_plain("response", "UNREPLIED"),
            Some(kind) => write_kind("response", kind, json),
        }
        if self.request.kind == Some(kind::REQUEST) {
            json.number("opnum", self.opnum);
            write_side("req", &self.request, json);
        }
        if !self.interfaces.is_empty() {
            json.open_array_key("interfaces");
            let is_bind = self.request.kind == Some(kind::BIND);
            for interface in &self.interfaces {
                json.open();
                json.field("uuid", interface.uuid.to_string());
                let (major, minor) = interface.version;
                json.field("version", format!("{major}.{minor}"));
                if let Some(ack) = interface.ack.filter(|_| is_bind) {
                    json.number("ack_result", ack.result);
                    // Suricata 8.0.7 writes no other here.
                    json.number("ack_reason", 0);
                }
                json.close();
            }
            json.close_array();
        }
        if self.response.kind == Some(kind::RESPONSE) {
            write_side("res", &self.response, json);
        }
        json.number("call_id", self.call_id);
        json.close();
    }
}

fn write_kind(key: &str, kind: u8, json: &mut Json) {
    match kind {
        0..=kind::RTS => json.field_plain(key, pdu::kind_name(kind)),
        KIND_UNKNOWN => json.field_plain(key, "UNKNOWN"),
        _ => json.field(key, kind.to_string()),
    }
}

fn write_side(key: &str, side: &Side, json: &mut Json) {
    json.open_key(key);
    json.number("frag_cnt", side.fragments);
    json.number("stub_data_size", side.stub_len);
    json.close();
}
