//! One message, request or response, and the pair of them: the transaction.
//!
//! Everything a rule may ask for is kept as sent, once; what has to be put together (normalized
//! headers, the list of names) is made when first asked for. A transaction is recycled with all
//! its memory when it is freed.

use super::body::Body;
use super::decoder::Decoder;
use super::events::Event;
use super::headers::Headers;
use super::multipart::Multipart;
use super::settings::{BodyLimits, Config};
use crate::files::{File, FileList, FileState, FileWants};
use crate::transaction::EventList;
use gabion_record::Direction;
use std::cell::OnceCell;
use std::num::NonZeroU32;
use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;

/// What of a message is being read. Numbers are those of the protocol's states.
pub(crate) mod progress {
    pub(crate) const NOT_STARTED: u8 = 0;
    pub(crate) const LINE: u8 = 1;
    pub(crate) const HEADERS: u8 = 2;
    pub(crate) const BODY: u8 = 3;
    pub(crate) const TRAILER: u8 = 4;
    pub(crate) const COMPLETE: u8 = 5;
}

/// How the body is delimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Coding {
    #[default]
    Unknown,
    None,
    Identity,
    Chunked,
    Invalid,
}

/// Protocol version of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Version {
    Invalid,
    #[default]
    Unknown,
    V09,
    V10,
    V11,
}

/// What a request body is taken for.
#[derive(Debug, Default)]
pub(crate) enum RequestBody {
    /// Not examined yet.
    #[default]
    Unknown,
    /// Not a file.
    Plain,
    /// One file.
    File,
    /// Parts, some of them files.
    Multipart(Box<Multipart>),
}

/// What is made of a message when a rule asks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Views {
    pub(crate) headers: OnceCell<Vec<u8>>,
    pub(crate) names: OnceCell<Vec<u8>>,
    pub(crate) start: OnceCell<Vec<u8>>,
    pub(crate) each: OnceCell<(Vec<u8>, Vec<Range<usize>>)>,
    pub(crate) flash: OnceCell<Option<Vec<u8>>>,
}

impl Views {
    fn bytes_held(&self) -> usize {
        let held = |v: Option<&Vec<u8>>| v.map_or(0, Vec::capacity);
        let each = self.each.get().map_or(0, |(text, list)| {
            text.capacity() + list.capacity() * size_of::<Range<usize>>()
        });
        let flash = self.flash.get().and_then(Option::as_ref);
        held(self.headers.get())
            + held(self.names.get())
            + held(self.start.get())
            + each
            + held(flash)
    }
}

/// A part of a message's first line, which the limits keep far below 4 GiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    from: u32,
    /// One more than the place of its end: it is never 0, so a part that is absent needs no further byte.
    past_end: NonZeroU32,
}

impl Span {
    /// The part at these places.
    pub(crate) fn new(at: Range<usize>) -> Option<Span> {
        let past_end = u32::try_from(at.end).ok()?.checked_add(1)?;
        Some(Span { from: u32::try_from(at.start).ok()?, past_end: NonZeroU32::new(past_end)? })
    }

    fn range(self) -> Range<usize> {
        self.from as usize..self.past_end.get() as usize - 1
    }
}

/// Whether a body comes packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Packing {
    /// It comes as it is.
    #[default]
    None,
    /// It is to be decoded.
    Packed,
    /// Bytes of it are lost, so that what follows can't be decoded.
    Lost,
}

/// A request or response.
#[derive(Debug, Default)]
pub(crate) struct Message {
    pub(crate) progress: u8,
    /// The progress when the flow ended or went over to another protocol, where that completed it.
    pub(crate) ended_at: Option<u8>,
    /// The header block is whole.
    pub(crate) is_head_whole: bool,
    /// The first line is complete, but rules are not shown it yet.
    pub(crate) is_line_hidden: bool,
    /// The first line: a request's without its end, a response's with it.
    pub(crate) line: Vec<u8>,
    pub(crate) version: Version,
    /// The protocol as written, in `line`.
    pub(crate) protocol: Option<Span>,
    pub(crate) headers: Headers,
    /// See [`Message::scanned`].
    pub(crate) scanned: u32,
    /// Before this place of the block there is no unread colon or end of line.
    pub(crate) looked: u32,
    pub(crate) coding: Coding,
    pub(crate) content_length: Option<u64>,
    pub(crate) packing: Packing,
    pub(crate) decoder: Option<Box<Decoder>>,
    pub(crate) body: Body,
    /// Body bytes as sent, chunk framing included.
    pub(crate) message_len: u64,
    /// Body bytes decoded.
    pub(crate) entity_len: u64,
    /// Its files, if it had any.
    pub(crate) files: Option<Box<FileList>>,
    /// No (further) file is to be opened for the body.
    pub(crate) is_file_done: bool,
    /// Made when one of them is first asked for: of many messages none is.
    views: OnceCell<Box<Views>>,
}

impl Message {
    /// One that ended before it began.
    fn ended() -> Message {
        let mut message = Message::default();
        message.end();
        message
    }

    /// The flow ended, and with it the message.
    pub(crate) fn end(&mut self) {
        self.close_file(FileState::Truncated);
        self.ended_at.get_or_insert(self.progress);
        self.progress = progress::COMPLETE;
    }

    fn reset(&mut self) {
        self.progress = progress::NOT_STARTED;
        self.ended_at = None;
        self.is_head_whole = false;
        self.is_line_hidden = false;
        self.line.clear();
        self.version = Version::Unknown;
        self.protocol = None;
        self.headers.clear();
        self.scanned = 0;
        self.looked = 0;
        self.coding = Coding::Unknown;
        self.content_length = None;
        self.packing = Packing::None;
        self.decoder = None;
        self.body.clear();
        self.message_len = 0;
        self.entity_len = 0;
        self.files = None;
        self.is_file_done = false;
        self.views = OnceCell::new();
    }

    /// The header block is followed by another one, or has grown: views are made again.
    pub(crate) fn forget_views(&mut self) {
        self.views = OnceCell::new();
    }

    /// What is made of it when a rule asks.
    pub(crate) fn views(&self) -> &Views {
        self.views.get_or_init(Box::default)
    }

    /// A part of the first line.
    pub(crate) fn in_line(&self, span: Option<Span>) -> Option<&[u8]> {
        self.line.get(span?.range())
    }

    /// Its files, oldest first.
    pub(crate) fn file_list(&self) -> &[File] {
        self.files.as_ref().map_or(&[], |list| &list.files)
    }

    /// The file that is open, if any.
    pub(crate) fn current_file(&mut self) -> Option<&mut File> {
        self.files.as_mut()?.current()
    }

    /// Bytes of the header block that were read.
    pub(crate) fn scanned(&self) -> usize {
        self.scanned as usize
    }

    /// Ends the file that is open.
    pub(crate) fn close_file(&mut self, state: FileState) {
        if let Some(file) = self.current_file() {
            let state = if file.has_gaps { FileState::Truncated } else { state };
            file.close(state);
        }
    }

    /// How far the message got, for rules: a line is reached when it is complete. In the header block fields are there as they
    /// come, and what is made of the whole block once it is whole; bodies grow.
    pub(crate) fn reached(&self) -> u8 {
        match self.progress {
            progress::LINE => progress::NOT_STARTED,
            progress::HEADERS if self.is_line_hidden && !self.is_head_whole => {
                progress::NOT_STARTED
            }
            other => other,
        }
    }

    /// Whether the message has ended.
    pub(crate) fn is_complete(&self) -> bool {
        self.progress >= progress::COMPLETE
    }

    fn bytes_held(&self) -> usize {
        self.line.capacity()
            + self.headers.bytes_held()
            + self.body.bytes_held()
            + self.files.as_ref().map_or(0, |list| size_of::<FileList>() + list.bytes_held())
            + self.views.get().map_or(0, |views| size_of::<Views>() + views.bytes_held())
            + self.decoder.as_ref().map_or(0, |d| d.bytes_held())
    }
}

/// The response of a transaction. It takes memory once something of it comes: a client can send hundreds of requests that are
/// never answered.
#[derive(Debug, Default)]
pub(crate) struct Response {
    /// The message, if something of it came.
    message: Option<Box<Message>>,
    /// The flow ended before.
    has_ended: bool,
}

impl Response {
    fn reset(&mut self) {
        self.has_ended = false;
        if let Some(message) = &mut self.message {
            message.reset();
        }
    }

    fn bytes_held(&self) -> usize {
        self.message.as_ref().map_or(0, |message| size_of::<Message>() + message.bytes_held())
    }

    /// The flow ended.
    pub(crate) fn end(&mut self) {
        match &mut self.message {
            Some(message) => message.end(),
            None => self.has_ended = true,
        }
    }

    /// Whether something of it came.
    pub(crate) fn has_begun(&self) -> bool {
        self.message.is_some()
    }

    /// The message, if something of it came.
    pub(crate) fn started_mut(&mut self) -> Option<&mut Message> {
        self.message.as_deref_mut()
    }
}

impl Deref for Response {
    type Target = Message;

    fn deref(&self) -> &Message {
        thread_local! {
            static MISSING: &'static Message = Box::leak(Box::default());
            static ENDED: &'static Message = Box::leak(Box::new(Message::ended()));
        }
        match &self.message {
            Some(message) => message,
            None if self.has_ended => ENDED.with(|message| *message),
            None => MISSING.with(|message| *message),
        }
    }
}

impl DerefMut for Response {
    fn deref_mut(&mut self) -> &mut Message {
        let first = if self.has_ended { Message::ended } else { Message::default };
        self.message.get_or_insert_with(|| Box::new(first()))
    }
}

/// Irregularities that a request can have when it is over.
const AT_END: usize = 4;

/// One request with its response.
#[derive(Debug)]
pub(crate) struct Tx {
    pub(crate) id: u64,
    pub(crate) config: Arc<Config>,
    pub(crate) request: Message,
    pub(crate) response: Response,
    pub(crate) events: EventList,

    pub(crate) method: Option<Span>,
    pub(crate) target: Option<Span>,
    /// The request never came: its target is a stand-in.
    pub(crate) is_request_unseen: bool,
    /// A request line without protocol.
    pub(crate) is_http09: bool,
    pub(crate) uri: Option<Box<[u8]>>,
    pub(crate) path: Option<Box<[u8]>>,
    /// Host of the target, normalized.
    pub(crate) uri_host: Option<Box<[u8]>>,
    /// That host is none, or its port.
    pub(crate) is_uri_host_invalid: bool,
    pub(crate) host: Option<Box<[u8]>>,
    pub(crate) port: Option<u16>,
    pub(crate) request_body: RequestBody,

    pub(crate) status_text: Option<Span>,
    /// 100 to 999, when it is a number.
    pub(crate) status: Option<u16>,
    pub(crate) status_message: Option<Span>,
    pub(crate) seen_continue: bool,
    /// Irregularities of the request that are reported when it is over: of its host, and the way it authenticates.
    pub(crate) at_end: [Option<Event>; AT_END],
    /// Kinds of oddities already reported, one bit each.
    pub(crate) reported: u16,
}

/// Stand-in for the target of a request that was not seen (Suricata's words: rules match them).
pub(crate) const UNSEEN_TARGET: &[u8] = b"/libhtp::request_uri_not_seen";

impl Tx {
    pub(crate) fn new(id: u64, config: Arc<Config>) -> Tx {
        Tx {
            id,
            config,
            request: Message::default(),
            response: Response::default(),
            events: EventList::default(),
            method: None,
            target: None,
            is_request_unseen: false,
            is_http09: false,
            uri: None,
            path: None,
            uri_host: None,
            is_uri_host_invalid: false,
            host: None,
            port: None,
            request_body: RequestBody::Unknown,
            status_text: None,
            status: None,
            status_message: None,
            seen_continue: false,
            at_end: [None; AT_END],
            reported: 0,
        }
    }

    /// Makes a new transaction of an old one.
    pub(crate) fn reset(&mut self, id: u64) {
        self.request.reset();
        self.response.reset();
        let (request, response) =
            (std::mem::take(&mut self.request), std::mem::take(&mut self.response));
        *self = Tx::new(id, Arc::clone(&self.config));
        self.request = request;
        self.response = response;
    }

    /// The message of a direction.
    pub(crate) fn message(&self, direction: Direction) -> &Message {
        match direction {
            Direction::ToServer => &self.request,
            Direction::ToClient => &self.response,
        }
    }

    pub(crate) fn message_mut(&mut self, direction: Direction) -> &mut Message {
        match direction {
            Direction::ToServer => &mut self.request,
            Direction::ToClient => &mut self.response,
        }
    }

    /// Limits of the body of a direction.
    pub(crate) fn limits(&self, direction: Direction) -> &BodyLimits {
        match direction {
            Direction::ToServer => &self.config.request,
            Direction::ToClient => &self.config.response,
        }
    }

    /// Notes an irregularity.
    pub(crate) fn raise(&mut self, event: Event) {
        // Each name that is repeated has an event of its own, and so has each use of a wrong host; others are raised once.
        let is_repeated = matches!(
            event,
            Event::RequestHeaderRepetition
                | Event::ResponseHeaderRepetition
                | Event::UriHostInvalid
        );
        if is_repeated { self.events.add(event as u16) } else { self.events.set(event as u16) }
    }

    /// Notes an irregularity that is reported when the request is over.
    pub(crate) fn raise_at_end(&mut self, event: Event) {
        if let Some(free) = self.at_end.iter_mut().find(|e| e.is_none()) {
            *free = Some(event);
        }
    }

    /// True the first time it is asked for `kind` (a bit).
    pub(crate) fn first_time(&mut self, kind: u16) -> bool {
        let first = self.reported & kind == 0;
        self.reported |= kind;
        first
    }

    pub(crate) fn method(&self) -> Option<&[u8]> {
        self.request.in_line(self.method)
    }

    /// The target as sent.
    pub(crate) fn target(&self) -> Option<&[u8]> {
        if self.is_request_unseen {
            return Some(UNSEEN_TARGET);
        }
        self.request.in_line(self.target)
    }

    pub(crate) fn is_method(&self, method: &[u8]) -> bool {
        self.method() == Some(method)
    }

    pub(crate) fn bytes_held(&self) -> usize {
        size_of::<Tx>() + self.request.bytes_held() + self.response.bytes_held()
    }
}

/// What the flow gives a new file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FileContext {
    /// Number of the last file of the flow.
    pub(crate) last_id: u32,
    pub(crate) wants: FileWants,
    /// Bytes of a stored file; 0: no limit.
    pub(crate) store_depth: u64,
}

impl Message {
    /// Opens a file in that direction; false when the flow has too many.
    pub(crate) fn open_file(
        &mut self,
        name: &[u8],
        direction: Direction,
        context: &mut FileContext,
    ) -> Option<&mut File> {
        if !crate::limits::reached::FILES_PER_FLOW_MAX.has_room(self.file_list().len()) {
            return None;
        }
        context.last_id = context.last_id.wrapping_add(1);
        let files = &mut self.files.get_or_insert_default().files;
        // Most messages with files have one; a vector would keep room for four.
        if files.is_empty() {
            files.reserve_exact(1);
        }
        files.push(File::open(context.last_id, name, direction, context.wants));
        files.last_mut()
    }
}
