//! Mails (RFC 5322) and their parts (RFC 2045, 2046), line by line.
//!
//! [`Mime`] is given lines, or pieces of lines too long to be held, and turns them into header
//! fields, attachments, URLs and events. Nothing is held but what is asked for later: the message's
//! own header fields, names, URLs, one line of decoded text.
//!
//! Where standards leave a choice, or no implementation keeps them, it does what Suricata 8.0.7 was observed to
//! do: only the innermost boundary counts, what follows a boundary is a header block even after the
//! last one, a part with a file name is an attachment whatever its disposition.

pub mod decode;
pub mod header;
pub mod url;

use super::limits::*;
use super::settings::MimeSettings;
use super::tables::event;
use crate::files::{File, FileList, FileState, FileWants};
use crate::transaction::EventList;
use decode::{Base64, QuotedPrintable};
use gabion_record::Direction;
use header::{main_value, parameter};
use md5::Digest;
use url::Urls;

/// A header field as it is kept.
#[derive(Clone, Debug)]
pub struct Field {
    /// Name as sent.
    pub name: Vec<u8>,
    /// Value without leading blanks, folded lines joined.
    pub value: Vec<u8>,
}

/// Where lines and pieces of lines leave what they bring about.
pub struct Sink<'a> {
    /// Files of the transaction.
    pub files: &'a mut FileList,
    /// Its events.
    pub events: &'a mut EventList,
    /// Number of the flow's last file.
    pub last_file_id: &'a mut u32,
    /// What is wanted of files.
    pub wants: FileWants,
}

impl Sink<'_> {
    /// Opens a file; false when there are too many.
    pub fn open(&mut self, name: &[u8]) -> bool {
        if !crate::limits::reached::FILES_PER_FLOW_MAX.has_room(self.files.files.len()) {
            return false;
        }
        *self.last_file_id += 1;
        self.files.files.push(File::open(
            *self.last_file_id,
            name,
            Direction::ToServer,
            self.wants,
        ));
        true
    }
}

/// A piece of the mail.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// Text without its line end.
    pub text: &'a [u8],
    /// Line end, when the piece ends a line.
    pub eol: &'a [u8],
    /// It begins a line.
    pub is_first: bool,
    /// It ends a line: with a line end or with the mail.
    pub is_last: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The message's own header, or that of a message within it.
    Headers,
    /// Behind a boundary.
    PartHeaders,
    Body,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ContentType {
    /// Text, or none given: looked through for URLs.
    #[default]
    Text,
    /// A message: another header block follows.
    Message,
    Other,
}

#[derive(Clone, Debug, Default)]
enum Encoding {
    #[default]
    None,
    Base64(Base64),
    QuotedPrintable(QuotedPrintable),
}

/// A mail being read, and what is known of it.
#[derive(Clone, Debug)]
pub struct Mime {
    state: State,
    /// The message's own header has ended.
    has_main: bool,
    main: Vec<Field>,
    part: Vec<Field>,
    /// Header of the part whose body is being read.
    open_part: Vec<Field>,
    boundaries: Vec<Vec<u8>>,
    attachments: Vec<Vec<u8>>,
    urls: Urls,
    content: ContentType,
    encoding: Encoding,
    is_file_open: bool,
    /// Line end that belongs to the file if another line follows.
    pending_eol: [u8; 2],
    pending_eol_len: u8,
    /// Decoded text of the present line, or after the last line end of decoded text.
    text: Vec<u8>,
    decoded: Vec<u8>,
    /// Bytes of the present line so far, for its length events.
    line_len: usize,
    body: Option<md5::Md5>,
    has_body: bool,
    body_md5: Option<[u8; 16]>,
}

impl Mime {
    /// A mail that begins.
    pub fn new(settings: &MimeSettings) -> Mime {
        Mime {
            state: State::Headers,
            has_main: false,
            main: Vec::new(),
            part: Vec::new(),
            open_part: Vec::new(),
            boundaries: Vec::new(),
            attachments: Vec::new(),
            urls: Urls::default(),
            content: ContentType::Text,
            encoding: Encoding::None,
            is_file_open: false,
            pending_eol: [0; 2],
            pending_eol_len: 0,
            text: Vec::new(),
            decoded: Vec::new(),
            line_len: 0,
            body: settings.body_md5.then(md5::Md5::new),
            has_body: false,
            body_md5: None,
        }
    }

    /// Header lines follow: the caller gives whole lines and cuts them at
    /// [`LINE_BYTES_MAX`]. Otherwise long lines are given in pieces.
    pub fn is_in_headers(&self) -> bool {
        self.state != State::Body
    }

    /// The message's own header fields, once its header has ended.
    pub fn headers(&self) -> &[Field] {
        if self.has_main { &self.main } else { &[] }
    }

    /// Header fields of the part that is being read.
    pub fn part_headers(&self) -> &[Field] {
        &self.open_part
    }

    /// The first header field of that name, in any case of letters.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        let mut named =
            self.headers().iter().filter(|f| f.name.eq_ignore_ascii_case(name.as_bytes()));
        named.next().map(|f| f.value.as_slice())
    }

    /// All header fields of that name.
    pub fn all_headers<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        let is_it = |f: &&Field| f.name.eq_ignore_ascii_case(name.as_bytes());
        self.headers().iter().filter(is_it).map(|f| f.value.as_slice())
    }

    /// Names of the attachments.
    pub fn attachments(&self) -> &[Vec<u8>] {
        &self.attachments
    }

    /// URLs found.
    pub fn urls(&self) -> &Urls {
        &self.urls
    }

    /// MD5 of all that follows the header, line ends included, once the mail has ended and if it
    /// had a body.
    pub fn body_md5(&self) -> Option<[u8; 16]> {
        self.body_md5
    }

    /// Bytes held.
    pub fn bytes_held(&self) -> usize {
        let fields = self.main.iter().chain(&self.part).chain(&self.open_part);
        fields.map(|f| f.name.capacity() + f.value.capacity() + size_of::<Field>()).sum::<usize>()
            + self.boundaries.iter().chain(&self.attachments).map(Vec::capacity).sum::<usize>()
            + self.urls.bytes_held()
            + self.text.capacity()
            + self.decoded.capacity()
    }

    /// Takes a line or a piece of one.
    pub fn piece(&mut self, piece: Piece<'_>, settings: &MimeSettings, sink: &mut Sink<'_>) {
        self.measure(piece, sink);
        if self.state != State::Headers
            && let Some(h) = &mut self.body
        {
            h.update(piece.text);
            h.update(piece.eol);
            self.has_body = true;
        }
        match self.state {
            State::Body => self.body_piece(piece, settings, sink),
            State::Headers | State::PartHeaders => self.header_line(piece.text, settings, sink),
        }
    }

    /// Ends the mail.
    pub fn finish(&mut self, settings: &MimeSettings, sink: &mut Sink<'_>) {
        self.close_part(settings, sink);
        if let Some(h) = self.body.take()
            && self.has_body
        {
            self.body_md5 = Some(h.finalize().into());
        }
    }

    /// Raises the events of long lines, once a line.
    fn measure(&mut self, piece: Piece<'_>, sink: &mut Sink<'_>) {
        let before = if piece.is_first { 0 } else { self.line_len };
        self.line_len = before + piece.text.len();
        let passes = |limit: usize| before <= limit && self.line_len > limit;
        if passes(TEXT_LINE_MAX) {
            sink.events.add(event::MIME_LONG_LINE);
        }
        let is_encoded = self.state == State::Body
            && self.is_file_open
            && !matches!(self.encoding, Encoding::None);
        if is_encoded && passes(ENCODED_LINE_MAX) {
            sink.events.add(event::MIME_LONG_ENC_LINE);
        }
    }

    fn header_line(&mut self, line: &[u8], settings: &MimeSettings, sink: &mut Sink<'_>) {
        if line.is_empty() {
            self.end_headers(settings, sink);
            return;
        }
        let fields = if self.has_main { &mut self.part } else { &mut self.main };
        let skip_blanks = |text: &[u8]| {
            text.iter().position(|b| !matches!(b, b' ' | b'\t')).unwrap_or(text.len())
        };
        if matches!(line[0], b' ' | b'\t') {
            if let Some(f) = fields.last_mut() {
                let text = &line[skip_blanks(line)..];
                let room = HEADER_VALUE_BYTES_MAX.saturating_sub(f.value.len());
                if text.len() > room {
                    reached::HEADER_VALUE_BYTES_MAX.count();
                }
                f.value.extend_from_slice(&text[..text.len().min(room)]);
            }
            return;
        }
        let Some(colon) = memchr::memchr(b':', line) else { return };
        let (name, value) = (&line[..colon], &line[colon + 1..]);
        let mut value = &value[skip_blanks(value)..];
        if name.len() > HEADER_NAME_BYTES_MAX {
            sink.events.add(event::MIME_LONG_HEADER_NAME);
        }
        if value.len() > settings.header_value_depth {
            sink.events.add(event::MIME_LONG_HEADER_VALUE);
            value = &value[..settings.header_value_depth];
        }
        if reached::HEADERS_MAX.has_room(fields.len()) {
            fields.push(Field { name: name.to_vec(), value: value.to_vec() });
        }
    }

    /// A header block has ended: what it says of the part that follows.
    fn end_headers(&mut self, settings: &MimeSettings, sink: &mut Sink<'_>) {
        (self.content, self.encoding) = (ContentType::Text, Encoding::None);
        let is_main = !self.has_main;
        let fields = std::mem::take(if is_main { &mut self.main } else { &mut self.part });
        let mut file_name = Vec::new();
        for f in &fields {
            let is = |name: &str| f.name.eq_ignore_ascii_case(name.as_bytes());
            if is("content-disposition") {
                name_from(&f.value, b"filename", &mut file_name, sink);
            } else if is("content-type") {
                name_from(&f.value, b"name", &mut file_name, sink);
                self.content = match main_value(&f.value) {
                    b"text/plain" | b"text/html" => ContentType::Text,
                    b"message/rfc822" => ContentType::Message,
                    _ => ContentType::Other,
                };
                self.open_multipart(&f.value, sink);
            } else if is("content-transfer-encoding") {
                if f.value.eq_ignore_ascii_case(b"base64") && settings.base64 {
                    self.encoding = Encoding::Base64(Base64::default());
                } else if f.value.eq_ignore_ascii_case(b"quoted-printable")
                    && settings.quoted_printable
                {
                    self.encoding = Encoding::QuotedPrintable(QuotedPrintable::Text);
                }
            }
        }
        if is_main {
            (self.main, self.has_main) = (fields, true);
        } else {
            self.open_part = fields;
        }
        let is_named = !file_name.is_empty();
        if is_named && reached::ATTACHMENTS_MAX.has_room(self.attachments.len()) {
            self.attachments.push(file_name.clone());
        }
        if self.content == ContentType::Message {
            self.state = State::Headers;
            return;
        }
        self.state = State::Body;
        self.pending_eol_len = 0;
        self.is_file_open = is_named && sink.open(&file_name);
    }

    fn open_multipart(&mut self, value: &[u8], sink: &mut Sink<'_>) {
        let Some(mut boundary) = parameter(value, b"boundary") else { return };
        if boundary.len() > BOUNDARY_BYTES_MAX {
            sink.events.add(event::MIME_LONG_BOUNDARY);
            boundary.truncate(BOUNDARY_BYTES_MAX);
        }
        if reached::NESTING_MAX.has_room(self.boundaries.len()) {
            self.boundaries.push(boundary);
        }
    }

    fn body_piece(&mut self, piece: Piece<'_>, settings: &MimeSettings, sink: &mut Sink<'_>) {
        if piece.is_first
            && let Some(boundary) = self.boundaries.last()
            && let Some(rest) = piece.text.strip_prefix(b"--")
            && let Some(rest) = rest.strip_prefix(boundary.as_slice())
        {
            if rest.starts_with(b"--") {
                self.boundaries.pop();
            }
            self.close_part(settings, sink);
            self.state = State::PartHeaders;
            return;
        }
        let wants_urls =
            settings.extract_urls && (self.content == ContentType::Text || self.is_file_open);
        match &mut self.encoding {
            Encoding::Base64(_) if self.is_file_open || wants_urls => {
                self.base64_piece(piece, wants_urls, settings, sink);
            }
            Encoding::QuotedPrintable(_) if self.is_file_open => {
                self.quoted_piece(piece, wants_urls, settings, sink);
            }
            Encoding::None | Encoding::Base64(_) | Encoding::QuotedPrintable(_) => {
                self.plain_piece(piece, wants_urls, settings, sink);
            }
        }
    }

    fn plain_piece(
        &mut self,
        piece: Piece<'_>,
        wants_urls: bool,
        settings: &MimeSettings,
        sink: &mut Sink<'_>,
    ) {
        if self.is_file_open {
            self.append(None, sink);
            if let Some(f) = sink.files.current() {
                f.append(piece.text);
            }
            self.keep_eol(piece.eol);
        }
        if wants_urls {
            if piece.is_first && piece.is_last {
                if memchr::memmem::find(piece.text, b"://").is_none() {
                    return;
                }
                self.decoded.clear();
                self.decoded.extend_from_slice(piece.text);
                self.decoded.extend_from_slice(piece.eol);
                self.urls.search(&self.decoded, settings);
            } else {
                self.text_of_long_line(piece.text, piece.eol, piece.is_last, settings);
            }
        }
    }

    /// Collects a line that comes in pieces, as far as it is worth it.
    fn text_of_long_line(
        &mut self,
        text: &[u8],
        eol: &[u8],
        is_last: bool,
        settings: &MimeSettings,
    ) {
        let room = (2 * LINE_BYTES_MAX).saturating_sub(self.text.len());
        self.text.extend_from_slice(&text[..text.len().min(room)]);
        if is_last {
            self.text.extend_from_slice(eol);
        }
        if is_last || room <= text.len() {
            self.urls.search(&self.text, settings);
            self.text.clear();
        }
    }

    fn base64_piece(
        &mut self,
        piece: Piece<'_>,
        wants_urls: bool,
        settings: &MimeSettings,
        sink: &mut Sink<'_>,
    ) {
        let Encoding::Base64(decoder) = &mut self.encoding else { return };
        self.decoded.clear();
        if !decoder.decode(piece.text, &mut self.decoded) {
            sink.events.add(event::MIME_INVALID_BASE64);
        }
        if self.is_file_open
            && let Some(f) = sink.files.current()
        {
            f.append(&self.decoded);
        }
        if !wants_urls {
            return;
        }
        // Text is searched up to its last line end; what follows waits for the rest of its line.
        let at = memchr::memrchr(b'\n', &self.decoded);
        let (head, tail) = self.decoded.split_at(at.map_or(0, |at| at + 1));
        if let Some((_, head)) = head.split_last() {
            self.text.extend_from_slice(head);
            self.urls.search(&self.text, settings);
            self.text.clear();
        }
        if self.text.len() + tail.len() > TEXT_PENDING_MAX {
            self.urls.search(&self.text, settings);
            self.text.clear();
        }
        self.text.extend_from_slice(tail);
    }

    fn quoted_piece(
        &mut self,
        piece: Piece<'_>,
        wants_urls: bool,
        settings: &MimeSettings,
        sink: &mut Sink<'_>,
    ) {
        self.append(None, sink);
        let Encoding::QuotedPrintable(decoder) = &mut self.encoding else { return };
        self.decoded.clear();
        let mut is_fine = decoder.decode(piece.text, &mut self.decoded);
        let mut is_joined = false;
        if piece.is_last {
            let (has_end, ended) = decoder.end_line();
            is_fine &= ended;
            is_joined = !has_end;
            if piece.text.is_empty() && piece.is_first {
                // An empty line's end is the boundary's when one follows.
                self.pending_eol_len = 0;
            } else if has_end {
                self.decoded.extend_from_slice(piece.eol);
            }
        }
        if !is_fine {
            sink.events.add(event::MIME_INVALID_QP);
        }
        if let Some(f) = sink.files.current() {
            f.append(&self.decoded);
        }
        if piece.is_last && piece.is_first && piece.text.is_empty() {
            self.keep_eol(piece.eol);
        }
        if wants_urls {
            let decoded = std::mem::take(&mut self.decoded);
            let is_last = piece.is_last && !is_joined;
            self.text_of_long_line(&decoded, b"", is_last, settings);
            self.decoded = decoded;
        }
    }

    fn keep_eol(&mut self, eol: &[u8]) {
        let n = eol.len().min(2);
        self.pending_eol[..n].copy_from_slice(&eol[..n]);
        self.pending_eol_len = n as u8;
    }

    /// Appends the line end that waits, and then `text`.
    fn append(&mut self, text: Option<&[u8]>, sink: &mut Sink<'_>) {
        if let Some(f) = sink.files.current() {
            f.append(&self.pending_eol[..usize::from(self.pending_eol_len)]);
            f.append(text.unwrap_or_default());
        }
        self.pending_eol_len = 0;
    }

    /// A part has ended.
    fn close_part(&mut self, settings: &MimeSettings, sink: &mut Sink<'_>) {
        if !self.text.is_empty() {
            if matches!(self.encoding, Encoding::Base64(_)) {
                self.text.push(b'\n');
            }
            if settings.extract_urls {
                self.urls.search(&self.text, settings);
            }
            self.text.clear();
        }
        if self.is_file_open {
            if let Some(f) = sink.files.current() {
                f.close(FileState::Closed);
            }
            self.is_file_open = false;
        }
        self.pending_eol_len = 0;
        self.encoding = Encoding::None;
        self.part.clear();
        self.open_part.clear();
    }
}

/// Takes a file name from a parameter unless there is one already.
fn name_from(value: &[u8], parameter_name: &[u8], name: &mut Vec<u8>, sink: &mut Sink<'_>) {
    if !name.is_empty() {
        return;
    }
    *name = parameter(value, parameter_name).unwrap_or_default();
    if name.len() > FILE_NAME_BYTES_MAX {
        sink.events.add(event::MIME_LONG_FILENAME);
        name.truncate(FILE_NAME_BYTES_MAX);
    }
}
