//! Versions of SSL and TLS, drafts included.

/// SSL 2.0.
pub const SSL2: u16 = 0x0200;
/// SSL 3.0.
pub const SSL3: u16 = 0x0300;
/// TLS 1.2.
pub const TLS12: u16 = 0x0303;
/// TLS 1.3 before its 16th draft: ours, no hello names it.
pub const TLS13_EARLY: u16 = 0x7f0f;
/// TLS 1.3.
pub const TLS13: u16 = 0x0304;

/// Versions Suricata 8.0.7 knows, with the names EVE writes.
const NAMES: &[(u16, &str)] = &[
    (0x0200, "SSLv2"),
    (0x0300, "SSLv3"),
    (0x0301, "TLSv1"),
    (0x0302, "TLS 1.1"),
    (0x0303, "TLS 1.2"),
    (0x0304, "TLS 1.3"),
    (0x7f0f, "TLS 1.3 draft-<16"),
    (0x7f10, "TLS 1.3 draft-16"),
    (0x7f11, "TLS 1.3 draft-17"),
    (0x7f12, "TLS 1.3 draft-18"),
    (0x7f13, "TLS 1.3 draft-19"),
    (0x7f14, "TLS 1.3 draft-20"),
    (0x7f15, "TLS 1.3 draft-21"),
    (0x7f16, "TLS 1.3 draft-22"),
    (0x7f17, "TLS 1.3 draft-23"),
    (0x7f18, "TLS 1.3 draft-24"),
    (0x7f19, "TLS 1.3 draft-25"),
    (0x7f1a, "TLS 1.3 draft-26"),
    (0x7f1b, "TLS 1.3 draft-27"),
    (0x7f1c, "TLS 1.3 draft-28"),
    (0xfb16, "TLS 1.3 draft-22-fb"),
    (0xfb17, "TLS 1.3 draft-23-fb"),
    (0xfb1a, "TLS 1.3 draft-26-fb"),
];

/// Its name, if it is known.
pub fn name(version: u16) -> Option<&'static str> {
    NAMES.iter().find(|(v, _)| *v == version).map(|(_, name)| *name)
}

/// A version that may be in the list of supported ones.
pub fn is_known(version: u16) -> bool {
    version != TLS13_EARLY && name(version).is_some()
}

/// A version that a record may carry.
pub fn is_in_records(version: u16) -> bool {
    version != SSL2 && name(version).is_some()
}

/// A server hello that says so itself is one of early drafts of TLS 1.3, which had neither session
/// id nor compression. (The final version stays at 1.2 there and names itself in an extension.)
pub fn is_early_draft(version: u16) -> bool {
    version == TLS13 || version >> 8 == 0x7f
}

/// Reserved values that clients strew in to keep servers tolerant (RFC 8701).
pub fn is_grease(value: u16) -> bool {
    value & 0x0f0f == 0x0a0a && value >> 8 == value & 0xff
}
