//! The transaction of a TLS flow: what is known of either side.

use super::certificate::Certificate;
use super::fingerprint::{Hello, Ja3};
use super::log;
use super::settings::TlsSettings;
use super::tables::{buffer, client, server};
use crate::transaction::EventList;
use crate::{Buffer, CertificateChain, Inspect, LogOptions, Transaction};
use gabion_record::json::Json;
use gabion_record::{Direction, TakeReport, TakeText, TxText};
use smallvec::SmallVec;
use std::any::Any;
use std::sync::Arc;

/// Bytes of a short string without allocation.
pub(super) type Bytes = SmallVec<[u8; 32]>;

/// What is known of one side.
#[derive(Debug, Default)]
pub struct Side {
    /// Version: the record's until a hello was read, then the hello's.
    pub version: u16,
    /// Its hello was read.
    pub has_hello: bool,
    /// Random of its hello.
    pub random: Option<[u8; 32]>,
    /// Session id of its hello.
    pub session_id: Bytes,
    /// Server name it asked for.
    pub sni: Option<Bytes>,
    /// Protocols it offered or chose.
    pub alpns: Vec<Bytes>,
    /// What JA4 and handshake records need.
    pub hello: Hello,
    /// JA3 of a client, JA3S of a server.
    pub ja3: Option<Ja3>,
    /// Its chain, DER.
    pub chain: Vec<Vec<u8>>,
    /// The first certificate of the chain that could be read.
    pub certificate: Option<Certificate>,
}

/// The transaction of a TLS flow: there is one.
#[derive(Debug)]
pub struct TlsTx {
    pub(super) sides: [Side; 2],
    pub(super) progress: [u8; 2],
    pub(super) events: EventList,
    pub(super) ja4: Option<[u8; 36]>,
    pub(super) ts_ns: u64,
    /// Kind of the last handshake message, see [`super::conditions::state`].
    pub(super) current: u8,
    /// Protocol of the flow before it changed to TLS.
    pub(super) from_proto: Option<&'static str>,
    /// A session id came back, or a ticket was offered.
    pub(super) is_resumed: bool,
    /// TLS 1.3: the certificate is encrypted.
    pub(super) hides_certificate: bool,
    pub(super) client_names_versions: bool,
    pub(super) settings: Arc<TlsSettings>,
}

impl TlsTx {
    pub(super) fn new(settings: Arc<TlsSettings>) -> TlsTx {
        TlsTx {
            sides: [Side::default(), Side::default()],
            progress: [0; 2],
            events: EventList::default(),
            ja4: None,
            ts_ns: 0,
            current: 0,
            from_proto: None,
            is_resumed: false,
            hides_certificate: false,
            client_names_versions: false,
            settings,
        }
    }

    /// The side that sends in that direction.
    pub fn side(&self, direction: Direction) -> &Side {
        &self.sides[direction.index()]
    }

    /// The client.
    pub fn client(&self) -> &Side {
        self.side(Direction::ToServer)
    }

    /// The server.
    pub fn server(&self) -> &Side {
        self.side(Direction::ToClient)
    }

    /// The server's certificate.
    pub fn server_certificate(&self) -> Option<&Certificate> {
        self.server().certificate.as_ref()
    }

    /// Second of the last input, since 1970.
    pub fn now_s(&self) -> i64 {
        i64::try_from(self.ts_ns / 1_000_000_000).unwrap_or(i64::MAX)
    }

    /// JA4 of the client; of a client that sent no hello, the JA4 of nothing.
    pub fn ja4(&self) -> [u8; 36] {
        self.ja4.unwrap_or_else(|| self.client().hello.ja4(b't'))
    }

    pub(super) fn advance(&mut self, direction: Direction, progress: u8) {
        let p = &mut self.progress[direction.index()];
        *p = progress.max(*p);
    }

    pub(super) fn both_done(&mut self) {
        self.advance(Direction::ToServer, client::HANDSHAKE_DONE);
        self.advance(Direction::ToClient, server::HANDSHAKE_DONE);
    }

    pub(super) fn both_finished(&mut self) {
        self.advance(Direction::ToServer, client::FINISHED);
        self.advance(Direction::ToClient, server::FINISHED);
    }

    pub(super) fn is_handshake_done(&self) -> bool {
        self.progress[0] >= client::HANDSHAKE_DONE && self.progress[1] >= server::HANDSHAKE_DONE
    }

    pub(super) fn bytes_held(&self) -> usize {
        let side = |s: &Side| {
            let chain: usize = s.chain.iter().map(Vec::capacity).sum();
            let hello = &s.hello;
            let lists = hello.ciphers.capacity()
                + hello.extensions.capacity()
                + hello.algorithms.capacity();
            let ja3 = s.ja3.as_ref().map_or(0, |j| j.text.capacity());
            chain + lists * 2 + ja3 + s.alpns.capacity() * size_of::<Bytes>()
        };
        size_of::<TlsTx>() + self.sides.iter().map(side).sum::<usize>()
    }
}

impl Transaction for TlsTx {
    fn id(&self) -> u64 {
        0
    }

    fn progress(&self, direction: Direction) -> u8 {
        self.progress[direction.index()]
    }

    fn buffer(&self, local: u16, d: Direction, index: usize, _: Inspect) -> Option<Buffer<'_>> {
        let side = self.side(d);
        let certificate = side.certificate.as_ref();
        let data: &[u8] = match (local, index) {
            (buffer::CERTS, _) => side.chain.get(index)?,
            (buffer::ALT_NAME, _) => certificate?.alt_names.get(index)?,
            (buffer::ALPN, _) => side.alpns.get(index)?,
            (_, 1..) => return None,
            (buffer::SNI, _) => side.sni.as_ref()?,
            (buffer::CERT_SUBJECT, _) => &certificate?.subject,
            (buffer::CERT_ISSUER, _) => &certificate?.issuer,
            (buffer::CERT_SERIAL, _) => &certificate?.serial,
            (buffer::CERT_FINGERPRINT, _) => &certificate?.fingerprint,
            (buffer::RANDOM, _) => side.random.as_ref()?,
            (buffer::RANDOM_TIME, _) => side.random.as_ref()?.get(..4)?,
            (buffer::RANDOM_BYTES, _) => side.random.as_ref()?.get(4..)?,
            (buffer::JA3_HASH, _) => side.ja3.as_ref()?.hash.as_ref()?,
            (buffer::JA3_STRING, _) => &side.ja3.as_ref()?.text,
            (buffer::JA4, _) => self.ja4.as_ref()?,
            _ => return None,
        };
        Some(Buffer::whole(data))
    }

    fn integer(&self, _: u16, direction: Direction, index: usize) -> Option<u64> {
        let len = self.side(direction).chain.len();
        (index == 0 && direction == Direction::ToClient).then_some(len as u64)
    }

    fn events(&self) -> &[u16] {
        self.events.codes()
    }

    fn log_progress(&self) -> Option<(u8, u8)> {
        Some((client::HANDSHAKE_DONE, server::HANDSHAKE_DONE))
    }

    fn log(&self, json: &mut Json, how: LogOptions<'_>) -> bool {
        log::write(self, json, how)
    }

    fn report(&self, to: TakeReport<'_>) {
        log::report(self, to);
    }

    fn text(&self, part: TxText<'_>, to: TakeText<'_>) {
        log::text(self, part, to);
    }

    fn certificates(&self, direction: Direction) -> Option<CertificateChain<'_>> {
        let side = self.side(direction);
        let first = side.certificate.as_ref()?;
        Some(CertificateChain {
            chain: &side.chain,
            subject: &first.subject,
            issuer: &first.issuer,
            fingerprint: &first.fingerprint,
        })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
