//! DNS messages (RFC 1035 4.1), as DNS over UDP and TCP, multicast DNS and DNS over HTTPS carry
//! them.
//!
//! Questions and answers must be right or the message is malformed. Authorities and additionals that
//! are not are left out and flagged, because a sensor must see the answers of a message whose tail
//! was spoilt on purpose (Suricata's choice since 7.0.7).

use super::limits::reached;
use super::name::{Malformed, Name, NameFlags, Names, Span};
use super::tables::rrtype;

/// Bytes of the header.
pub const HEADER_LEN: usize = 12;

/// The header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Message id.
    pub id: u16,
    /// Flags, as on the wire.
    pub flags: u16,
    /// Entries announced: questions, answers, authorities, additionals.
    pub counts: [u16; 4],
}

impl Header {
    /// Reads it.
    pub fn parse(bytes: &[u8]) -> Option<Header> {
        let b: &[u8; HEADER_LEN] = bytes.get(..HEADER_LEN)?.try_into().ok()?;
        let at = |i: usize| u16::from_be_bytes([b[i], b[i + 1]]);
        Some(Header { id: at(0), flags: at(2), counts: [at(4), at(6), at(8), at(10)] })
    }

    /// Every entry takes at least two bytes: a message of `len` bytes can hold what is announced.
    pub fn is_plausible(&self, len: usize) -> bool {
        self.counts.iter().map(|n| usize::from(*n)).sum::<usize>() * 2 <= len
    }

    /// The QR bit.
    pub fn is_response(&self) -> bool {
        self.flags & 0x8000 != 0
    }

    /// The operation.
    pub fn opcode(&self) -> u8 {
        (self.flags >> 11) as u8 & 0xf
    }

    /// The response code (four bits: the extension in OPT is not added, as in Suricata).
    pub fn rcode(&self) -> u8 {
        self.flags as u8 & 0xf
    }

    /// The reserved bit.
    pub fn has_z(&self) -> bool {
        self.flags & 0x40 != 0
    }
}

/// A question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// Name asked for.
    pub name: Name,
    /// Type asked for.
    pub rrtype: u16,
}

/// Data of a record, as far as it is looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rdata {
    /// A or AAAA (the data need not have the right length).
    Address(Span),
    /// CNAME, NS, PTR or the name of an MX.
    Name(Name),
    /// NULL.
    Text(Span),
    /// TXT: strings `first..first + len` of [`Message::strings`].
    Texts {
        /// First of its strings.
        first: u32,
        /// How many.
        len: u32,
    },
    /// SOA.
    Soa {
        /// Primary server.
        mname: Name,
        /// Mailbox.
        rname: Name,
        /// Serial, refresh, retry, expire, minimum.
        numbers: [u32; 5],
    },
    /// SRV.
    Srv {
        /// Priority.
        priority: u16,
        /// Weight.
        weight: u16,
        /// Port.
        port: u16,
        /// Host.
        target: Name,
    },
    /// SSHFP.
    Sshfp {
        /// Algorithm.
        algorithm: u8,
        /// Kind of fingerprint.
        kind: u8,
        /// The fingerprint.
        fingerprint: Span,
    },
    /// OPT: options `first..first + len` of [`Message::options`].
    Opt {
        /// First of its options.
        first: u32,
        /// How many.
        len: u32,
    },
    /// Anything else.
    Other(Span),
}

/// An option of an OPT record (RFC 6891).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdnsOption {
    /// Code.
    pub code: u16,
    /// Its data.
    pub data: Span,
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Owner.
    pub name: Name,
    /// Type.
    pub rrtype: u16,
    /// Seconds it may be kept.
    pub ttl: u32,
    /// Data.
    pub data: Rdata,
}

/// Sections after the questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Answers.
    Answers,
    /// Authorities.
    Authorities,
    /// Additionals.
    Additionals,
}

/// A parsed message.
#[derive(Debug, Default)]
pub struct Message {
    /// Header.
    pub header: Header,
    /// Questions.
    pub queries: Vec<Query>,
    /// Records of all sections, answers first.
    records: Vec<Record>,
    /// Where authorities and additionals begin in `records`.
    begins: [usize; 2],
    /// Options of OPT records.
    pub options: Vec<EdnsOption>,
    /// Strings of TXT records.
    pub strings: Vec<Span>,
    /// Names and data.
    names: Names,
    /// The authorities were broken and left out (with the additionals).
    pub has_invalid_authorities: bool,
    /// The additionals were broken and left out.
    pub has_invalid_additionals: bool,
}

impl Message {
    /// Parses a whole message. Bytes after its last record are ignored.
    pub fn parse(bytes: &[u8]) -> Result<Message, ParseError> {
        let header = Header::parse(bytes)
            .filter(|h| h.is_plausible(bytes.len()))
            .ok_or(ParseError::NotDns)?;
        let mut m = Message { header, ..Message::default() };
        m.parse_body(bytes).map_err(|Malformed| ParseError::Malformed)?;
        Ok(m)
    }

    /// The strings of a TXT record.
    pub(crate) fn strings_at(&self, first: u32, len: u32) -> &[Span] {
        self.strings.get(first as usize..(first + len) as usize).unwrap_or_default()
    }

    fn parse_body(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        let [questions, answers, authorities, additionals] = self.header.counts;
        let mut at = HEADER_LEN;
        for _ in 0..questions {
            let (name, behind) = self.names.read_name(bytes, at, bytes.len())?;
            self.queries.push(Query { name, rrtype: u16_at(bytes, behind)? });
            at = behind + 4;
            if at > bytes.len() {
                return Err(Malformed);
            }
        }
        at = self.parse_records(bytes, at, answers)?;
        self.begins = [self.records.len(); 2];
        match self.parse_records(bytes, at, authorities) {
            Ok(behind) => at = behind,
            Err(Malformed) => {
                self.has_invalid_authorities = true;
                self.records.truncate(self.begins[0]);
                return Ok(());
            }
        }
        self.begins[1] = self.records.len();
        if self.parse_records(bytes, at, additionals).is_err() {
            self.has_invalid_additionals = true;
            self.records.truncate(self.begins[1]);
        }
        Ok(())
    }

    fn parse_records(&mut self, m: &[u8], mut at: usize, n: u16) -> Result<usize, Malformed> {
        for _ in 0..n {
            let (name, pos) = self.names.read_name(m, at, m.len())?;
            let rrtype = u16_at(m, pos)?;
            let ttl = u32_at(m, pos + 4)?;
            let from = pos + 10;
            at = from + usize::from(u16_at(m, pos + 8)?);
            let data = m.get(from..at).ok_or(Malformed)?;
            let data = self.parse_data(m, rrtype, from, at, data)?;
            self.records.push(Record { name, rrtype, ttl, data });
        }
        Ok(at)
    }

    /// Data of one record: `data` is `m[from..to]`.
    fn parse_data(
        &mut self,
        m: &[u8],
        kind: u16,
        from: usize,
        to: usize,
        data: &[u8],
    ) -> Result<Rdata, Malformed> {
        Ok(match kind {
            rrtype::A | rrtype::AAAA => Rdata::Address(self.names.keep(data)),
            rrtype::CNAME | rrtype::NS | rrtype::PTR => {
                Rdata::Name(self.names.read_name(m, from, to)?.0)
            }
            rrtype::MX => {
                u16_at(data, 0)?;
                Rdata::Name(self.names.read_name(m, from + 2, to)?.0)
            }
            rrtype::TXT => self.parse_strings(data)?,
            rrtype::NULL => Rdata::Text(self.names.keep(data)),
            rrtype::SOA => {
                let (mname, at) = self.names.read_name(m, from, to)?;
                let (rname, at) = self.names.read_name(m, at, to)?;
                let fixed = m.get(at..at + 20).filter(|_| at + 20 <= to).ok_or(Malformed)?;
                let mut numbers = [0; 5];
                for (i, n) in numbers.iter_mut().enumerate() {
                    *n = u32_at(fixed, 4 * i)?;
                }
                Rdata::Soa { mname, rname, numbers }
            }
            rrtype::SRV => Rdata::Srv {
                priority: u16_at(data, 0)?,
                weight: u16_at(data, 2)?,
                port: u16_at(data, 4)?,
                target: self.names.read_name(m, from + 6, to)?.0,
            },
            rrtype::SSHFP => {
                let [algorithm, kind, fingerprint @ ..] = data else { return Err(Malformed) };
                let fingerprint = self.names.keep(fingerprint);
                Rdata::Sshfp { algorithm: *algorithm, kind: *kind, fingerprint }
            }
            rrtype::OPT => self.parse_options(data)?,
            _ => Rdata::Other(self.names.keep(data)),
        })
    }

    fn parse_strings(&mut self, mut rest: &[u8]) -> Result<Rdata, Malformed> {
        let first = self.strings.len();
        while let Some((len, tail)) = rest.split_first() {
            let (text, tail) = tail.split_at_checked(usize::from(*len)).ok_or(Malformed)?;
            rest = tail;
            if reached::TXT_STRINGS_MAX.has_room(self.strings.len()) {
                let text = self.names.keep(text);
                self.strings.push(text);
            }
        }
        Ok(Rdata::Texts { first: first as u32, len: (self.strings.len() - first) as u32 })
    }

    fn parse_options(&mut self, mut rest: &[u8]) -> Result<Rdata, Malformed> {
        let first = self.options.len() as u32;
        // Less than an option's head after them is passed over (as in Suricata).
        while rest.len() >= 4 {
            let (code, len) = (u16_at(rest, 0)?, usize::from(u16_at(rest, 2)?));
            let data = rest.get(4..4 + len).ok_or(Malformed)?;
            let data = self.names.keep(data);
            self.options.push(EdnsOption { code, data });
            rest = rest.get(4 + len..).unwrap_or_default();
        }
        Ok(Rdata::Opt { first, len: self.options.len() as u32 - first })
    }

    /// Records of a section.
    pub fn section(&self, section: Section) -> &[Record] {
        let [authorities, additionals] = self.begins;
        let range = match section {
            Section::Answers => 0..authorities,
            Section::Authorities => authorities..additionals,
            Section::Additionals => additionals..self.records.len(),
        };
        self.records.get(range).unwrap_or_default()
    }

    /// Records of all sections in order.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Bytes of a name.
    pub fn name(&self, name: Name) -> &[u8] {
        name.span.bytes_in(&self.names.arena)
    }

    /// Bytes of other data.
    pub fn bytes(&self, span: Span) -> &[u8] {
        span.bytes_in(&self.names.arena)
    }

    /// Irregularities of its names.
    pub fn name_flags(&self) -> NameFlags {
        self.names.flags
    }

    /// Bytes held.
    pub fn bytes_held(&self) -> usize {
        self.names.arena.capacity()
            + self.queries.capacity() * size_of::<Query>()
            + self.records.capacity() * size_of::<Record>()
            + self.strings.capacity() * size_of::<Span>()
            + self.options.capacity() * size_of::<EdnsOption>()
    }
}

/// Why a message was not parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// The header is short or announces more than the message can hold.
    NotDns,
    /// Questions or answers are broken.
    Malformed,
}

fn u16_at(b: &[u8], at: usize) -> Result<u16, Malformed> {
    let pair = b.get(at..at + 2).ok_or(Malformed)?;
    Ok(u16::from_be_bytes([pair[0], pair[1]]))
}

fn u32_at(b: &[u8], at: usize) -> Result<u32, Malformed> {
    let four = b.get(at..at + 4).ok_or(Malformed)?;
    Ok(u32::from_be_bytes([four[0], four[1], four[2], four[3]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_of_the_wild() {
        // First packet of Suricata's test dns-udp-junkrequest-first that is DNS.
        let m = b"\xc5\x8e\x01\x20\0\x01\0\0\0\0\0\x01\x0bcatenacyber\x02Fr\0\0\x01\0\x01\
                  \0\0\x29\x10\0\0\0\0\0\0\0";
        let m = Message::parse(m).unwrap();
        assert_eq!((m.header.id, m.header.flags), (50574, 0x120));
        assert_eq!(m.name(m.queries[0].name), b"catenacyber.Fr");
        assert_eq!(m.section(Section::Additionals)[0].data, Rdata::Opt { first: 0, len: 0 });
        assert!(m.section(Section::Answers).is_empty());
    }

    #[test]
    fn what_is_refused_and_what_is_left_out() {
        let q = b"\x01a\x01b\0\0\x01\0\x01";
        let with = |counts: [u8; 4], rest: &[u8]| {
            let [a, b, c, d] = counts;
            let head = [0, 1, 0x81, 0x80, 0, a, 0, b, 0, c, 0, d];
            Message::parse(&[&head[..], q, rest].concat())
        };
        assert_eq!(with([2, 0, 0, 0], b"").err(), Some(ParseError::Malformed));
        assert_eq!(with([1, 20, 0, 0], b"").err(), Some(ParseError::NotDns));
        assert_eq!(with([1, 1, 0, 0], b"\x05ab").err(), Some(ParseError::Malformed));
        let m = with([1, 0, 1, 1], b"\x05ab").unwrap();
        assert!(m.has_invalid_authorities && !m.has_invalid_additionals);
        let m = with([1, 0, 0, 1], b"\x05ab").unwrap();
        assert!(m.has_invalid_additionals && m.records().is_empty());
        assert_eq!(Message::parse(b"\0\x01\x01\0").err(), Some(ParseError::NotDns));
    }

    #[test]
    fn no_prefix_and_no_flipped_byte_panics() {
        let m = b"\0\x01\x81\x80\0\x01\0\x02\0\0\0\x01\x01a\x01b\0\0\x01\0\x01\xc0\x0c\0\x06\0\x01\0\0\0\
                  \x3c\0\x18\xc0\x0c\xc0\x0c\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\0\0\x01\xc0\x0c\0\
                  \x10\0\x01\0\0\0\x3c\0\x04\x03abc\0\0\x29\x10\0\0\0\0\0\0\x06\0\x03\0\x02ab";
        assert!(Message::parse(m).is_ok());
        for i in 0..m.len() {
            let _ = Message::parse(&m[..i]);
            for v in [0, 1, 0x3f, 0x40, 0xc0, 0xff] {
                let mut broken = m.to_vec();
                broken[i] = v;
                let _ = Message::parse(&broken);
            }
        }
    }
}
