//! What is known of a record before its turn: enough to fetch into the cache what it will change.

use gabion_record::Ip;
use gabion_record::logs::{Proto, Record};

/// What is known of a record before its turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ahead {
    /// Its source.
    pub src: Ip,
    /// Its destination.
    pub dst: Ip,
    /// The ports of both.
    pub src_port: u16,
    /// See [`Ahead::src_port`].
    pub dst_port: u16,
    /// Its protocol.
    pub proto: Proto,
}

impl Ahead {
    /// Of a record.
    #[inline]
    pub fn from_record(r: &Record<'_>) -> Ahead {
        let (src_port, dst_port) = (r.src_port, r.dst_port);
        Ahead { src: r.src, dst: r.dst, src_port, dst_port, proto: r.proto }
    }
}
