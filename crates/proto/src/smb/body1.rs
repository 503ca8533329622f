//! Bodies of SMB 1 messages, as far as they are read (MS-CIFS 2.2.4). A body begins with the number of its
//! words; places that the wire names are counted from the message's header.

use super::header::Header1;
use super::wire::{part_at, u8_at, u16_at, u32_at, u64_at};

/// A message and the place of one of its commands in it.
#[derive(Clone, Copy)]
pub(super) struct Command<'a> {
    /// The message with its header.
    pub(super) message: &'a [u8],
    /// Place of the command's body.
    pub(super) at: usize,
    /// Texts are in UTF-16.
    pub(super) is_unicode: bool,
}

impl<'a> Command<'a> {
    /// The body, and what follows it.
    pub(super) fn body(&self) -> &'a [u8] {
        self.message.get(self.at..).unwrap_or_default()
    }

    /// Number of its words.
    pub(super) fn words(&self) -> u8 {
        u8_at(self.body(), 0).unwrap_or(0)
    }

    /// Its bytes, after the words.
    pub(super) fn bytes(&self) -> Option<&'a [u8]> {
        let at = 1 + 2 * usize::from(self.words());
        let len = usize::from(u16_at(self.body(), at)?);
        part_at(self.body(), at + 2, len)
    }

    /// Place of its bytes in the message.
    fn bytes_at(&self) -> usize {
        self.at + 3 + 2 * usize::from(self.words())
    }

    /// The next command in the message and its place (MS-CIFS 2.2.3.4).
    pub(super) fn next(&self) -> Option<(u8, usize)> {
        let (command, at) = (u8_at(self.body(), 1)?, usize::from(u16_at(self.body(), 3)?));
        (self.words() >= 2 && command != 0xff && at > self.at).then_some((command, at))
    }

    /// A text at a place of the message, and the place after it. In UTF-16 only the low bytes are kept, as in
    /// Suricata 8.0.7.
    fn text_from(&self, at: usize) -> Option<(Vec<u8>, usize)> {
        if !self.is_unicode {
            let rest = self.message.get(at..)?;
            let end = memchr::memchr(0, rest).unwrap_or(rest.len());
            return Some((rest.get(..end)?.to_vec(), at + end + 1));
        }
        let start = at + (at & 1);
        let pairs = self.message.get(start..)?.as_chunks::<2>().0;
        // The last text of a message may lack its end.
        let end = pairs.iter().position(|pair| *pair == [0, 0]).unwrap_or(pairs.len());
        let text = pairs.iter().take(end).map(|pair| pair[0]).collect();
        Some((text, start + 2 * end + 2))
    }
}

/// The dialects of a NEGOTIATE, the request (2.2.4.52.1).
pub(super) fn negotiate_dialects(
    command: &Command<'_>,
    dialects_max: usize,
) -> Option<Vec<Vec<u8>>> {
    let mut rest = command.bytes()?;
    let mut names = Vec::new();
    while let Some(text) = rest.strip_prefix(b"\x02") {
        let end = memchr::memchr(0, text)?;
        if names.len() < dialects_max {
            names.push(text.get(..end)?.to_vec());
        }
        rest = text.get(end + 1..)?;
    }
    (!names.is_empty()).then_some(names)
}

/// The index of the dialect and the server's identifier in a NEGOTIATE, the response (2.2.4.52.2).
pub(super) fn negotiate_response(command: &Command<'_>) -> Option<(u16, Option<[u8; 16]>)> {
    let index = u16_at(command.body(), 1).filter(|_| command.words() == 17)?;
    let guid = command.bytes();
    Some((index, guid.and_then(|bytes| bytes.first_chunk().copied())))
}

/// SESSION_SETUP_ANDX, the request (2.2.4.53.1, MS-SMB 2.2.4.6.1).
pub(super) struct SessionSetupRequest<'a> {
    pub(super) token: &'a [u8],
    pub(super) systems: (Vec<u8>, Vec<u8>),
}

impl<'a> SessionSetupRequest<'a> {
    /// Suricata 8.0.7 reads all of them as those with a token.
    pub(super) fn from_command(command: &Command<'a>) -> Option<SessionSetupRequest<'a>> {
        const TOKEN_AT: usize = 27;
        let len = usize::from(u16_at(command.body(), 15)?);
        let token = part_at(command.body(), TOKEN_AT, len)?;
        let systems = systems_from(command, command.at + TOKEN_AT + len);
        Some(SessionSetupRequest { token, systems })
    }
}

fn systems_from(command: &Command<'_>, at: usize) -> (Vec<u8>, Vec<u8>) {
    let Some((os, at)) = command.text_from(at) else { return Default::default() };
    let lm = command.text_from(at).map(|(lm, _)| lm);
    (os, lm.unwrap_or_default())
}

/// The systems in a SESSION_SETUP_ANDX, the response (2.2.4.53.2, MS-SMB 2.2.4.6.2).
pub(super) fn session_setup_systems(command: &Command<'_>) -> (Vec<u8>, Vec<u8>) {
    let token_len = match command.words() {
        4 => usize::from(u16_at(command.body(), 7).unwrap_or(0)),
        3 => 0,
        _ => return Default::default(),
    };
    systems_from(command, command.bytes_at() + token_len)
}

/// TREE_CONNECT_ANDX, the request (2.2.4.55.1): the share's path and the service.
pub(super) fn tree_connect(command: &Command<'_>) -> Option<(Vec<u8>, Vec<u8>)> {
    let password_len = usize::from(u16_at(command.body(), 7).filter(|_| command.words() == 4)?);
    let (path, at) = command.text_from(command.bytes_at() + password_len)?;
    let service = command.message.get(at..)?;
    let end = memchr::memchr(0, service).unwrap_or(service.len());
    // Suricata 8.0.7 writes the path without its first backslash.
    Some((path.get(1..).unwrap_or_default().to_vec(), service.get(..end)?.to_vec()))
}

/// The service in a TREE_CONNECT_ANDX, the response (2.2.4.55.2).
pub(super) fn tree_connect_service(command: &Command<'_>) -> Option<Vec<u8>> {
    let bytes = command.bytes().filter(|_| command.words() >= 2)?;
    Some(bytes.get(..memchr::memchr(0, bytes)?)?.to_vec())
}

/// NT_CREATE_ANDX, the request (2.2.4.64.1).
pub(super) struct CreateRequest1<'a> {
    pub(super) disposition: u32,
    pub(super) options: u32,
    pub(super) name: &'a [u8],
}

impl<'a> CreateRequest1<'a> {
    pub(super) fn from_command(command: &Command<'a>) -> Option<CreateRequest1<'a>> {
        let body = command.body();
        if command.words() != 24 {
            return None;
        }
        let bytes = command.bytes()?;
        let len = usize::from(u16_at(body, 6)?).min(bytes.len());
        let is_padded = command.is_unicode && bytes.len() > len && command.bytes_at() & 1 == 1;
        let name = part_at(bytes, usize::from(is_padded), len)?;
        Some(CreateRequest1 { disposition: u32_at(body, 36)?, options: u32_at(body, 40)?, name })
    }
}

/// NT_CREATE_ANDX, the response (2.2.4.64.2).
pub(super) struct CreateResponse1 {
    pub(super) file: u16,
    pub(super) times: [u64; 4],
    /// Bytes that are allocated: Suricata 8.0.7 takes them for the size.
    pub(super) allocated: u64,
}

impl CreateResponse1 {
    pub(super) fn from_command(command: &Command<'_>) -> Option<CreateResponse1> {
        let body = command.body();
        if command.words() < 34 {
            return None;
        }
        Some(CreateResponse1 {
            file: u16_at(body, 6)?,
            times: [u64_at(body, 12)?, u64_at(body, 20)?, u64_at(body, 28)?, u64_at(body, 36)?],
            allocated: u64_at(body, 48)?,
        })
    }
}

/// READ_ANDX, the request (2.2.4.42.1): file, offset, and bytes asked for.
pub(super) fn read_request(command: &Command<'_>) -> Option<(u16, u64, u32)> {
    let body = command.body();
    // Suricata 8.0.7 knows the offset of the longer form only.
    let offset = match command.words() {
        12 => u64::from(u32_at(body, 7)?) | u64::from(u32_at(body, 21)?) << 32,
        10 => 0,
        _ => return None,
    };
    let high = match u16_at(body, 15)? {
        0xffff => 0,
        high => high,
    };
    Some((u16_at(body, 5)?, offset, u32::from(u16_at(body, 11)?) | u32::from(high) << 16))
}

/// Data of a READ_ANDX response or a request to write: where they are in the message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Data1 {
    pub(super) file: u16,
    pub(super) offset: u64,
    /// From the header.
    pub(super) at: usize,
    pub(super) len: u32,
}

/// READ_ANDX, the response (2.2.4.42.2); it does not name the file.
pub(super) fn read_response(command: &Command<'_>) -> Option<Data1> {
    let body = part_at(command.body(), 0, 25)?;
    if command.words() != 12 {
        return None;
    }
    let len = u32::from(u16_at(body, 11)?) | u32::from(u16_at(body, 15)?) << 16;
    Some(Data1 { file: 0, offset: 0, at: usize::from(u16_at(body, 13)?), len })
}

/// WRITE_ANDX, the request (2.2.4.43.1).
pub(super) fn write_andx(command: &Command<'_>) -> Option<Data1> {
    let body = command.body();
    let high = match command.words() {
        14 => u64::from(u32_at(body, 25)?),
        12 => 0,
        _ => return None,
    };
    Some(Data1 {
        file: u16_at(body, 5)?,
        offset: u64::from(u32_at(body, 7)?) | high << 32,
        at: usize::from(u16_at(body, 23)?),
        len: u32::from(u16_at(body, 21)?) | u32::from(u16_at(body, 19)?) << 16,
    })
}

/// WRITE (2.2.4.12.1) or WRITE_AND_CLOSE (2.2.4.40.1), the requests.
pub(super) fn write_plain(command: &Command<'_>, is_closing: bool) -> Option<Data1> {
    let body = command.body();
    let before = match (is_closing, command.words()) {
        // A format and the length again.
        (false, 5) => 3,
        // A byte of padding.
        (true, 6 | 12) => 1,
        _ => return None,
    };
    command.bytes()?;
    Some(Data1 {
        file: u16_at(body, 1)?,
        offset: u64::from(u32_at(body, 5)?),
        at: command.bytes_at() + before,
        len: u32::from(u16_at(body, 3)?),
    })
}

/// The file of a CLOSE, the request (2.2.4.5.1).
pub(super) fn close_file1(command: &Command<'_>) -> Option<u16> {
    u16_at(command.body(), 1).filter(|_| command.words() == 3)
}

/// TRANSACTION or TRANSACTION2, the requests (2.2.4.33.1, 2.2.4.46.1).
pub(super) struct Transaction1<'a> {
    /// The first words of its setup: the sub-command, and the file of a pipe.
    pub(super) setup: [u16; 2],
    pub(super) parameters: &'a [u8],
    pub(super) data: &'a [u8],
}

impl<'a> Transaction1<'a> {
    pub(super) fn from_command(command: &Command<'a>) -> Option<Transaction1<'a>> {
        let body = command.body();
        if command.words() < 14 {
            return None;
        }
        let part = |len: usize, at: usize| {
            let len = usize::from(u16_at(body, len)?);
            if len == 0 {
                return Some(&[][..]);
            }
            part_at(command.message, usize::from(u16_at(body, at)?), len)
        };
        let word = |at, words| u16_at(body, at).filter(|_| command.words() >= words).unwrap_or(0);
        Some(Transaction1 {
            setup: [word(29, 15), word(31, 16)],
            parameters: part(19, 21)?,
            data: part(23, 25)?,
        })
    }
}

/// The data of a TRANSACTION, the response (2.2.4.33.2).
pub(super) fn transaction_data<'a>(command: &Command<'a>) -> Option<&'a [u8]> {
    let body = command.body();
    if command.words() < 10 {
        return None;
    }
    let (len, at) = (usize::from(u16_at(body, 13)?), usize::from(u16_at(body, 15)?));
    part_at(command.message, at, len)
}

/// The paths of a RENAME, the request (2.2.4.8.1).
pub(super) fn rename_paths(command: &Command<'_>) -> Option<(Vec<u8>, Vec<u8>)> {
    if !command.is_unicode || command.words() != 1 {
        return None;
    }
    let start = command.bytes_at();
    let (from, at) = command.text_from(start + 1)?;
    let to = command.text_from(at + 1).map(|(to, _)| to).unwrap_or_default();
    u8_at(command.message, start).filter(|format| *format == 4)?;
    Some((from, to))
}

/// Bytes of a message up to the end of the words of its first command.
pub(super) fn head_len(message: &[u8]) -> Option<usize> {
    Some(Header1::LEN + 1 + 2 * usize::from(u8_at(message, Header1::LEN)?))
}
