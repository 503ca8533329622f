//! The transaction of QUIC: a packet with a long header, and what could be read of it.

use super::google::GoogleHello;
use super::hello::TlsHello;
use super::log;
use super::tables::buffer;
use crate::datagrams::one_datagram;
use crate::tls::fingerprint::Ja3;
use crate::transaction::EventList;
use crate::{Buffer, Inspect, LogOptions, Transaction};
use gabion_record::Direction;
use gabion_record::json::Json;

/// A packet with a long header.
#[derive(Debug)]
pub struct QuicTx {
    pub(super) id: u64,
    pub(super) direction: Direction,
    /// Version as it is on the wire.
    pub(super) version: [u8; 4],
    /// The hello that it completed.
    pub(super) tls: Option<Box<TlsHello>>,
    /// The hellos of Google's versions in it.
    pub(super) google: Option<Box<GoogleHello>>,
    pub(super) events: EventList,
}

impl QuicTx {
    /// JA3 of a client, JA3S of a server.
    pub fn ja3(&self) -> Option<&Ja3> {
        Some(self.tls.as_ref()?.ja3())
    }

    /// Who sent it.
    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// Server name.
    pub fn sni(&self) -> Option<&[u8]> {
        let of_tls = self.tls.as_ref().and_then(|hello| hello.sni());
        of_tls.or_else(|| self.google.as_ref()?.sni.as_deref())
    }

    pub(super) fn bytes_held(&self) -> usize {
        let tls = self.tls.as_ref().map_or(0, |hello| hello.bytes_held());
        let google = self.google.as_ref().map_or(0, |hello| {
            let texts = hello.cyus.iter().map(|cyu| cyu.text.len() + size_of_val(cyu));
            let names = [&hello.sni, &hello.ua].into_iter().flatten().map(|name| name.len());
            size_of::<GoogleHello>() + texts.chain(names).sum::<usize>()
        });
        size_of::<QuicTx>() + tls + google
    }
}

impl Transaction for QuicTx {
    one_datagram!();

    fn buffer(&self, local: u16, _: Direction, index: usize, _: Inspect) -> Option<Buffer<'_>> {
        let google = self.google.as_ref();
        let tls = self.tls.as_ref();
        let data: &[u8] = match (local, index) {
            (buffer::CYU_HASH, _) => &google?.cyus.get(index)?.hash,
            (buffer::CYU_STRING, _) => &google?.cyus.get(index)?.text,
            (_, 1..) => return None,
            (buffer::VERSION, _) => &self.version,
            (buffer::SNI, _) => self.sni()?,
            (buffer::UA, _) => google?.ua.as_ref()?,
            (buffer::JA3_HASH, _) => tls?.ja3().hash.as_ref()?,
            (buffer::JA3_STRING, _) => &tls?.ja3().text,
            (buffer::JA4, _) => tls?.ja4()?,
            _ => return None,
        };
        Some(Buffer::whole(data))
    }

    fn log(&self, json: &mut Json, _: LogOptions<'_>) -> bool {
        log::write_record(self, json);
        true
    }
}
