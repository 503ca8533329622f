//! SMTP (RFC 5321): commands, replies, and the mails they carry.
//!
//! A transaction is a mail with its envelope, or the commands that came instead of one. `parser` follows the
//! two directions, `tx` is the transaction, [`mime`] takes mails apart, `tables` says what rules may
//! ask for, `log` writes EVE's `smtp` and `email`, `settings` and `limits` are what they say.
//!
//! A transaction ends to the server with its mail's last line, and to the client with the reply to
//! it; `RSET`, `QUIT` and a new greeting end it when the server accepts them.

pub mod limits;
mod log;
pub mod mime;
mod parser;
mod settings;
mod tables;
mod tx;

pub use parser::SmtpParser;
pub use settings::{MimeSettings, Settings};
pub use tables::event;
pub use tx::SmtpTx;

use crate::detect::{PortProbe, Probe, ProbePattern};
use crate::protocol::Protocol;
use gabion_record::Direction;
use gabion_record::applayer::Transport;
use std::sync::Arc;

const fn greeting(bytes: &'static [u8]) -> ProbePattern {
    ProbePattern {
        direction: Direction::ToServer,
        bytes,
        nocase: true,
        offset: 0,
        depth: 4,
        check: None,
    }
}

/// SMTP in the registry.
pub const PROTOCOL: &Protocol = &Protocol {
    patterns: &[greeting(b"EHLO"), greeting(b"HELO"), greeting(b"QUIT")],
    probes: &[PortProbe {
        transport: Transport::Tcp,
        ports: "25,465",
        min_bytes: 5,
        max_bytes: 0,
        probe,
    }],
    first_direction: Some(Direction::ToClient),
    tx_id_on_top: true,
    configure: |config| Ok(Arc::new(Settings::from_config(config))),
    open: |settings, _| match Arc::downcast::<Settings>(settings.clone()) {
        Ok(settings) => Box::new(SmtpParser::new(settings)),
        Err(_) => Box::new(SmtpParser::new(Arc::default())),
    },
    auto_trigger_raw: false,
    ..Protocol::plain(tables::TABLE)
};

/// Whether a server's first bytes are an SMTP greeting: `220`, a blank or hyphen, a domain of more
/// than one label. Any other `220` is one only when the client speaks SMTP.
fn probe(bytes: &[u8], direction: Direction) -> Probe {
    if direction == Direction::ToServer {
        return Probe::No;
    }
    let Some(text) = bytes.strip_prefix(b"220 ").or_else(|| bytes.strip_prefix(b"220-")) else {
        return Probe::No;
    };
    let is_name = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    let end = text.iter().position(|b| !is_name(b)).unwrap_or(text.len());
    let (domain, rest) = text.split_at(end);
    let is_domain = memchr::memchr(b'.', domain).is_some_and(|at| at > 0)
        && matches!(rest.first(), Some(b' ' | b'\t' | b'\r' | b'\n'));
    if is_domain { Probe::Yes } else { Probe::YesIfOther }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings() {
        // What Suricata 8.0.7 took for SMTP on port 25 with no client heard, and with one.
        for (text, answer) in [
            ("220 mx.a.b ESMTP\r\n", Probe::Yes),
            ("220 hi\r\n", Probe::YesIfOther),
            ("220 *****\r\n", Probe::YesIfOther),
            ("220-x\r\n220 y\r\n", Probe::YesIfOther),
            ("220 (x)\r\n", Probe::YesIfOther),
            ("220\r\n", Probe::No),
            ("554 no\r\n", Probe::No),
        ] {
            assert_eq!(probe(text.as_bytes(), Direction::ToClient), answer, "{text}");
        }
    }
}
