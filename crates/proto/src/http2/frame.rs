//! Frames (RFC 9113 4 and 6): their header, and what their kinds carry.

/// Bytes of a frame's header.
pub(crate) const HEADER_BYTES: usize = 9;

/// The client's first bytes (RFC 9113 3.4).
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Kinds by their numbers (RFC 9113 6).
pub(crate) mod kind {
    pub(crate) const DATA: u8 = 0;
    pub(crate) const HEADERS: u8 = 1;
    pub(crate) const PRIORITY: u8 = 2;
    pub(crate) const RST_STREAM: u8 = 3;
    pub(crate) const SETTINGS: u8 = 4;
    pub(crate) const PUSH_PROMISE: u8 = 5;
    pub(crate) const GOAWAY: u8 = 7;
    pub(crate) const WINDOW_UPDATE: u8 = 8;
    pub(crate) const CONTINUATION: u8 = 9;
    /// Names that rules use, in the order of the numbers: those of the standard, which Suricata takes with
    /// and without their `_`.
    pub(crate) const NAMES: [&str; 10] = [
        "DATA",
        "HEADERS",
        "PRIORITY",
        "RST_STREAM",
        "SETTINGS",
        "PUSH_PROMISE",
        "PING",
        "GOAWAY",
        "WINDOW_UPDATE",
        "CONTINUATION",
    ];
}

/// Flags (RFC 9113 6).
pub(crate) mod flag {
    pub(crate) const END_STREAM: u8 = 0x01;
    pub(crate) const END_HEADERS: u8 = 0x04;
    pub(crate) const PADDED: u8 = 0x08;
    pub(crate) const PRIORITY: u8 = 0x20;
}

/// Codes of errors (RFC 9113 7): the standard's name, and the one that Suricata logs of a reset stream.
const ERRORS: [(&str, &str); 14] = [
    ("NO_ERROR", "NoError"),
    ("PROTOCOL_ERROR", "ProtocolError"),
    ("INTERNAL_ERROR", "InternalError"),
    ("FLOW_CONTROL_ERROR", "FlowControlError"),
    ("SETTINGS_TIMEOUT", "SettingsTimeout"),
    ("STREAM_CLOSED", "StreamClosed"),
    ("FRAME_SIZE_ERROR", "FrameSizeError"),
    ("REFUSED_STREAM", "RefusedStream"),
    ("CANCEL", "Cancel"),
    ("COMPRESSION_ERROR", "CompressionError"),
    ("CONNECT_ERROR", "ConnectError"),
    ("ENHANCE_YOUR_CALM", "EnhanceYourCalm"),
    ("INADEQUATE_SECURITY", "InadequateSecurity"),
    ("HTTP_1_1_REQUIRED", "Http11Required"),
];

/// The code that rules call by this name of the standard.
pub(crate) fn error_code(name: &str) -> Option<u32> {
    let at = ERRORS.iter().position(|(standard, _)| standard.eq_ignore_ascii_case(name))?;
    u32::try_from(at).ok()
}

/// The name that Suricata logs of a code: of a reset stream, of a connection that goes away.
pub(crate) fn error_name(code: u32, is_goaway: bool) -> Option<String> {
    let (_, name) = ERRORS.get(usize::try_from(code).ok()?)?;
    Some(if is_goaway { name.to_ascii_uppercase() } else { (*name).to_owned() })
}

/// The setting that says how large a table of header fields the other side may use.
pub(crate) const HEADER_TABLE_SIZE: u16 = 1;

/// Settings by their numbers (RFC 9113 6.5.2, RFC 8441 3); Suricata stops reading at others.
pub(crate) const SETTINGS: [(u16, &str); 7] = [
    (HEADER_TABLE_SIZE, "SETTINGS_HEADER_TABLE_SIZE"),
    (2, "SETTINGS_ENABLE_PUSH"),
    (3, "SETTINGS_MAX_CONCURRENT_STREAMS"),
    (4, "SETTINGS_INITIAL_WINDOW_SIZE"),
    (5, "SETTINGS_MAX_FRAME_SIZE"),
    (6, "SETTINGS_MAX_HEADER_LIST_SIZE"),
    (8, "SETTINGS_ENABLE_CONNECT_PROTOCOL"),
];

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    /// Bytes that follow.
    pub(crate) len: usize,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
}

impl FrameHeader {
    /// Reads it.
    pub(crate) fn parse(bytes: &[u8]) -> Option<FrameHeader> {
        let b: &[u8; HEADER_BYTES] = bytes.get(..HEADER_BYTES)?.try_into().ok()?;
        let len = u32::from_be_bytes([0, b[0], b[1], b[2]]);
        Some(FrameHeader {
            len: usize::try_from(len).ok()?,
            kind: b[3],
            flags: b[4],
            stream: u32::from_be_bytes([b[5], b[6], b[7], b[8]]) & 0x7fff_ffff,
        })
    }

    /// Whether a flag is set.
    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Settings up to the first that is not known.
pub(crate) fn parse_settings(payload: &[u8]) -> impl Iterator<Item = (u16, u32)> {
    payload.chunks_exact(6).map_while(|b| {
        let id = u16::from_be_bytes([b[0], b[1]]);
        let value = u32::from_be_bytes([b[2], b[3], b[4], b[5]]);
        SETTINGS.iter().any(|(known, _)| *known == id).then_some((id, value))
    })
}

/// The first four bytes as a number.
pub(crate) fn parse_u32(payload: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(payload.get(..4)?.try_into().ok()?))
}

/// What is left of a payload without its padding; `None`: there is more padding than payload.
pub(crate) fn without_padding(header: FrameHeader, payload: &[u8]) -> Option<&[u8]> {
    if !header.has(flag::PADDED) {
        return Some(payload);
    }
    let (padding, rest) = payload.split_first()?;
    rest.get(..rest.len().checked_sub(usize::from(*padding))?)
}

/// A HEADERS frame: the weight of its priority, and its block.
pub(crate) fn parse_headers(header: FrameHeader, payload: &[u8]) -> Option<(Option<u8>, &[u8])> {
    let payload = without_padding(header, payload)?;
    if !header.has(flag::PRIORITY) {
        return Some((None, payload));
    }
    let (priority, block) = payload.split_at_checked(5)?;
    Some((priority.last().copied(), block))
}

/// A PUSH_PROMISE frame: the stream that is promised, and its block.
pub(crate) fn parse_promise(header: FrameHeader, payload: &[u8]) -> Option<(u32, &[u8])> {
    let payload = without_padding(header, payload)?;
    let (stream, block) = payload.split_at_checked(4)?;
    Some((parse_u32(stream)? & 0x7fff_ffff, block))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9113 4.1, 6.1, 6.2, 6.6.
    #[test]
    fn frames_are_read() {
        let h = FrameHeader::parse(b"\0\x01\x02\x01\x2d\x80\0\0\x03").unwrap();
        assert_eq!((h.len, h.kind, h.flags, h.stream), (258, kind::HEADERS, 0x2d, 3));
        assert_eq!(FrameHeader::parse(b"\0\x01\x02\x01\x2d\x80\0\0"), None);
        assert_eq!(parse_headers(h, b"\x02\0\0\0\0\x77ab\0\0"), Some((Some(0x77), &b"ab"[..])));
        assert_eq!(parse_headers(h, b"\x09\0\0\0\0\x77ab\0"), None);
        let h = FrameHeader { flags: 0, ..h };
        assert_eq!(parse_promise(h, b"\x80\0\0\x02x"), Some((2, &b"x"[..])));
        assert_eq!(without_padding(h, b"\xff"), Some(&b"\xff"[..]));
    }

    /// Suricata 8.0.7 logs no setting behind one that it does not know.
    #[test]
    fn settings_end_at_one_that_is_not_known() {
        let payload = b"\0\x06\0\0\0\x01\0\x08\0\0\0\x02\0\x07\0\0\0\x03\0\x01\0\0\0\x04";
        assert_eq!(parse_settings(payload).collect::<Vec<_>>(), [(6, 1), (8, 2)]);
    }

    /// Names as a run of Suricata 8.0.7 logged them.
    #[test]
    fn errors_have_names() {
        assert_eq!(error_name(13, false).as_deref(), Some("Http11Required"));
        assert_eq!(error_name(13, true).as_deref(), Some("HTTP11REQUIRED"));
        assert_eq!(error_name(14, true), None);
        assert_eq!(error_code("HTTP_1_1_REQUIRED"), Some(13));
        assert_eq!(error_code("HTTP11_REQUIRED"), None);
    }
}
