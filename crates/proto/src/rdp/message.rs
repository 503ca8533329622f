//! Messages until a session is encrypted (MS-RDPBCGR 2.2.1): X.224's connection, and MCS's connect messages.

use super::client::{self, Client};
use super::limits::reached;
use gabion_record::Direction;

/// A request to connect (MS-RDPBCGR 2.2.1.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Request {
    /// Name of the user.
    pub(super) cookie: Option<Vec<u8>>,
    /// Flags of the negotiation.
    pub(super) flags: Option<u8>,
}

/// Its answer (MS-RDPBCGR 2.2.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Without negotiation, or with one that can't be read.
    Plain,
    /// What the server supports, and its protocol.
    Chosen { flags: u8, protocol: u32 },
    /// Why it does not want to.
    Refused(u32),
}

/// What was read of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    Request(Request),
    Answer(Answer),
    ConnectRequest {
        client: Option<Box<Client>>,
        channels: Vec<Vec<u8>>,
    },
    ConnectResponse,
    /// Numbers of certificates.
    Certificates(Vec<Vec<u8>>),
}

/// The first byte of a packet (RFC 1006 6).
pub(super) const VERSION: u8 = 3;

/// Bytes of its header.
pub(super) const HEADER_BYTES: usize = 4;

/// Bytes of a packet, from its header.
pub(super) fn packet_len(bytes: &[u8]) -> Option<usize> {
    let len = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
    Some(usize::from(len))
}

/// Codes of X.224 (ITU-T X.224 13).
mod code {
    pub(super) const CONNECTION_REQUEST: u8 = 0xe0;
    pub(super) const CONNECTION_CONFIRM: u8 = 0xd0;
    pub(super) const DATA: u8 = 0xf0;
}

/// A negotiation (MS-RDPBCGR 2.2.1.1.1): its kind, flags and value.
fn parse_negotiation(bytes: &[u8], flags_known: u8) -> Option<(u8, u8, u32)> {
    let b: &[u8; 8] = bytes.first_chunk()?;
    let value = u32::from_le_bytes([b[4], b[5], b[6], b[7]]);
    (b[2..4] == [8, 0] && b[1] & !flags_known == 0).then_some((b[0], b[1], value))
}

/// Reads the packet's contents. `None`: there is nothing to log of it, as of one that the other side sends.
pub(super) fn parse_packet(packet: &[u8], direction: Direction) -> Option<Message> {
    let rest = packet.get(HEADER_BYTES..)?;
    let len = usize::from(*rest.first()?);
    let header = rest.get(1..=len)?;
    let after = rest.get(len + 1..)?;
    let code = *header.first()? & 0xf0;
    match direction {
        Direction::ToServer if code == code::CONNECTION_REQUEST => {
            parse_request(header.get(6..)?).map(Message::Request)
        }
        Direction::ToServer if code == code::DATA => parse_connect(after),
        Direction::ToClient if code == code::CONNECTION_CONFIRM => {
            Some(Message::Answer(parse_answer(header.get(6..)?)))
        }
        Direction::ToClient if code == code::DATA => {
            after.starts_with(&CONNECT_RESPONSE).then_some(Message::ConnectResponse)
        }
        Direction::ToServer | Direction::ToClient => None,
    }
}

/// A user's name may come before the negotiation; after any other text Suricata 8.0.7 reads none.
fn parse_request(body: &[u8]) -> Option<Request> {
    const USER: &[u8] = b"Cookie: mstshash=";
    let mut request = Request::default();
    let mut rest = body;
    if let Some(name) = body.strip_prefix(USER) {
        let end = name.windows(2).position(|w| w == b"\r\n")?;
        request.cookie = name.get(..end).map(<[u8]>::to_vec);
        rest = name.get(end + 2..)?;
    }
    request.flags = parse_negotiation(rest, 0x0b).filter(|n| n.0 == 1).map(|n| n.1);
    Some(request)
}

fn parse_answer(body: &[u8]) -> Answer {
    match parse_negotiation(body, 0x1f) {
        Some((2, flags, protocol)) if protocol_name(protocol).is_some() => {
            Answer::Chosen { flags, protocol }
        }
        Some((3, _, code)) if failure_reason(code).is_some() => Answer::Refused(code),
        _ => Answer::Plain,
    }
}

/// Name of a protocol (MS-RDPBCGR 2.2.1.2.1), as Suricata 8.0.7 logs it.
pub(super) fn protocol_name(protocol: u32) -> Option<&'static str> {
    Some(match protocol {
        0 => "rdp",
        1 => "ssl",
        2 => "hybrid",
        4 => "rds_tls",
        8 => "hybrid_ex",
        _ => return None,
    })
}

/// Reason of a refusal (MS-RDPBCGR 2.2.1.2.2), as Suricata 8.0.7 logs it.
pub(super) fn failure_reason(code: u32) -> Option<&'static str> {
    Some(match code {
        1 => "ssl required by server",
        2 => "ssl not allowed by server",
        3 => "ssl cert not on server",
        4 => "inconsistent flags",
        5 => "hybrid required by server",
        6 => "ssl with user auth required by server",
        _ => return None,
    })
}

/// Tags of MCS's connect messages (ITU-T T.125 11.1, 11.2).
const CONNECT_INITIAL: [u8; 2] = [0x7f, 0x65];
const CONNECT_RESPONSE: [u8; 2] = [0x7f, 0x66];

fn parse_connect(data: &[u8]) -> Option<Message> {
    let body = data.strip_prefix(&CONNECT_INITIAL)?;
    let (_, mut rest) = split_length(body)?;
    // Two domain selectors, the upward flag, and three sets of parameters come before the user's data.
    for _ in 0..6 {
        let (_, value) = rest.split_first()?;
        let (len, value) = split_length(value)?;
        rest = value.get(len..)?;
    }
    let (len, user) = split_length(rest.strip_prefix(&[0x04])?)?;
    parse_blocks(parse_conference(user.get(..len)?)?)
}

/// A length of BER (ITU-T X.690 8.1.3), at most four bytes of it.
fn split_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (first, rest) = bytes.split_first()?;
    if first & 0x80 == 0 {
        return Some((usize::from(*first), rest));
    }
    let count = usize::from(first & 0x7f);
    let (digits, rest) = rest.split_at_checked(count).filter(|_| (1..=4).contains(&count))?;
    Some((digits.iter().fold(0, |n, b| n << 8 | usize::from(*b)), rest))
}

/// A length of PER (ITU-T X.691 10.9), of one byte or two.
fn split_short_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (first, rest) = bytes.split_first()?;
    if first & 0x80 == 0 {
        return Some((usize::from(*first), rest));
    }
    let (second, rest) = rest.split_first()?;
    Some((usize::from(first & 0x7f) << 8 | usize::from(*second), rest))
}

/// The client's data in a request to create a conference (ITU-T T.124 8.7), which is always made the same way.
fn parse_conference(bytes: &[u8]) -> Option<&[u8]> {
    const OBJECT: &[u8] = b"\x00\x05\x00\x14\x7c\x00\x01";
    const REQUEST: &[u8] = b"\x00\x08\x00\x10\x00\x01\xc0\x00Duca";
    let (_, rest) = split_short_length(bytes.strip_prefix(OBJECT)?)?;
    let (len, rest) = split_short_length(rest.strip_prefix(REQUEST)?)?;
    rest.get(..len)
}

/// Blocks of the client's data (MS-RDPBCGR 2.2.1.3.1), up to one that is shorter than its header. `None`: there is none, or
/// one can't be read.
fn parse_blocks(mut rest: &[u8]) -> Option<Message> {
    const CORE: u16 = 0xc001;
    const NETWORK: u16 = 0xc003;
    let (mut client, mut channels) = (None, Vec::new());
    loop {
        let head = rest.first_chunk::<4>()?;
        let kind = u16::from_le_bytes([head[0], head[1]]);
        let len = usize::from(u16::from_le_bytes([head[2], head[3]]));
        if len < head.len() {
            break;
        }
        let (block, after) = rest.split_at_checked(len)?;
        let block = block.get(head.len()..)?;
        match kind {
            CORE => client = Some(Box::new(client::parse_client(block)?)),
            NETWORK => channels = parse_channels(block)?,
            _ => {}
        }
        if after.is_empty() {
            break;
        }
        rest = after;
    }
    Some(Message::ConnectRequest { client, channels })
}

/// Names of channels (MS-RDPBCGR 2.2.1.3.4.1). `None`: there are fewer than announced.
fn parse_channels(block: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut channels = Vec::new();
    let Some((count, rest)) = block.split_first_chunk::<4>() else { return Some(channels) };
    let count = usize::try_from(u32::from_le_bytes(*count)).ok()?;
    let definitions = rest.get(..count.checked_mul(12)?)?;
    for definition in definitions.chunks_exact(12) {
        if !reached::CHANNELS_MAX.has_room(channels.len()) {
            break;
        }
        let name = definition.get(..8).unwrap_or_default();
        let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
        channels.push(name.get(..end).unwrap_or_default().to_vec());
    }
    Some(channels)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(body: &[u8]) -> Vec<u8> {
        let len = (body.len() + HEADER_BYTES) as u16;
        [&[VERSION, 0][..], &len.to_be_bytes(), body].concat()
    }

    /// As Suricata 8.0.7 logs them.
    #[test]
    fn connections_are_read() {
        let request = |body: &[u8]| {
            let head = [6 + body.len() as u8, 0xe0, 0, 0, 0, 0, 0];
            parse_packet(&packet(&[&head, body].concat()), Direction::ToServer)
        };
        let found = |cookie: Option<&[u8]>, flags| {
            Some(Message::Request(Request { cookie: cookie.map(<[u8]>::to_vec), flags }))
        };
        let user = b"Cookie: mstshash=JOHN  \r\n\x01\x08\x08\0\x0b\0\0\0";
        assert_eq!(request(user), found(Some(b"JOHN  "), Some(8)));
        assert_eq!(request(b"Cookie: msts=1.2.0\r\n\x01\xff\x08\0\x0b\0\0\0"), found(None, None));
        assert_eq!(request(b""), found(None, None));
        assert_eq!(request(b"Cookie: mstshash=nobody"), None);
        // After another text there is no negotiation.
        let negotiation = b"\x01\x08\x08\0\x0b\0\0\0";
        assert_eq!(request(negotiation), found(None, Some(8)));
        for text in
            ["Cookie: msts=3640205228.15629.0000\r\n", "tsv://MS\r\n", "Cookie: mstshashx=a\r\n"]
        {
            assert_eq!(request(&[text.as_bytes(), negotiation].concat()), found(None, None));
        }
        assert_eq!(request(b"Cookie: abc"), found(None, None));
        let answer = |body: &[u8]| {
            let head = [6 + body.len() as u8, 0xd0, 0, 0, 0x12, 0x34, 0];
            let answer = packet(&[&head, body].concat());
            assert_eq!(parse_packet(&answer, Direction::ToServer), None);
            parse_packet(&answer, Direction::ToClient)
        };
        for (body, expected) in [
            (&b""[..], Answer::Plain),
            (b"\x02\x1f\x08\0\x08\0\0\0", Answer::Chosen { flags: 0x1f, protocol: 8 }),
            (b"\x02\x1f\x08\0\x03\0\0\0", Answer::Plain),
            (b"\x03\0\x08\0\x05\0\0\0", Answer::Refused(5)),
            (b"\x03\0\x08\0\x07\0\0\0", Answer::Plain),
        ] {
            assert_eq!(answer(body), Some(Message::Answer(expected)));
        }
    }

    #[test]
    fn channels_are_bounded() {
        let block = [&40_u32.to_le_bytes()[..], &b"rdpdr\0\0\0\0\0\0\0".repeat(40)].concat();
        let found = parse_channels(&block).unwrap();
        assert_eq!(found.len(), super::super::limits::CHANNELS_MAX);
        assert_eq!(gabion_record::limits::take_reached().times_reached(&reached::CHANNELS_MAX), 1);
        assert_eq!(parse_channels(b"\x01"), Some(Vec::new()));
        assert_eq!(parse_channels(&[&u32::MAX.to_le_bytes()[..], &block[4..]].concat()), None);
    }

    /// Which blocks Suricata 8.0.7 logs, and which channels of them.
    #[test]
    fn blocks_are_read_as_in_suricata() {
        const NETWORK: &[u8] = b"\x03\xc0\x20\0\x02\0\0\0rdpdr\0\0\0\0\0\0\0cliprdr\0\0\0\0\0";
        let mut core =
            b"\x01\xc0\x84\0\x04\0\x08\0\0\x04\0\x03\x01\xca\x03\xaa\x09\x04\0\0\x28\x0a\0\0"
                .to_vec();
        core.resize(132, 0);
        let short_core = [b"\x01\xc0\x83\0", &core[4..131]].concat();
        let both = Some(2);
        type Blocks<'a> = &'a [&'a [u8]];
        let cases: [(&str, Blocks<'_>, Option<usize>); 14] = [
            ("network", &[NETWORK], both),
            ("network and the shortest core", &[NETWORK, &core], both),
            ("core that is too short", &[NETWORK, &short_core], None),
            ("core without its end", &[NETWORK, &core[..20]], None),
            ("none", &[], None),
            ("another kind", &[b"\x99\xc0\x08\0abcd", NETWORK], both),
            ("another kind without its end", &[NETWORK, b"\x99\xc0\x3c\0abcd"], None),
            ("one byte more", &[NETWORK, b"a"], None),
            ("two bytes more", &[NETWORK, b"ab"], None),
            ("four zeros more", &[NETWORK, b"\0\0\0\0"], both),
            ("a block of two bytes first", &[b"\x02\xc0\x02\0", NETWORK], Some(0)),
            ("network without a count", &[b"\x03\xc0\x06\0ab"], Some(0)),
            ("five channels announced", &[b"\x03\xc0\x14\0\x05\0\0\0rdpdr\0\0\0\0\0\0\0"], None),
            ("one announced of two", &[b"\x03\xc0\x20\0\x01\0\0\0", &NETWORK[8..]], Some(1)),
        ];
        for (name, blocks, expected) in cases {
            let message = parse_blocks(&blocks.concat());
            let count = |message| {
                let Message::ConnectRequest { channels, .. } = message else { return 99 };
                channels.len()
            };
            assert_eq!(message.map(count), expected, "{name}");
        }
    }

    #[test]
    fn lengths_are_read() {
        assert_eq!(split_length(b"\x82\x01\x90x"), Some((400, &b"x"[..])));
        assert_eq!(split_length(b"\x05x"), Some((5, &b"x"[..])));
        assert_eq!(split_length(b"\x85\x01\x01\x01\x01\x01"), None);
        assert_eq!(split_short_length(b"\x81\x18x"), Some((280, &b"x"[..])));
    }
}
