//! The parser of a QUIC flow: what packets with long headers show until the hellos of both sides are there.
//!
//! Initial packets are protected with keys that the destination id of the client's first one gives (RFC 9001 5.2),
//! whatever ids follow; after a Retry its next one does. Packets are looked into until their side's hello has been seen.

use super::crypto::{CryptoStream, message_in};
use super::frames::{Frame, Frames, NoFrame};
use super::google::{self, GoogleHello};
use super::header::{Body, Header, NoHeader, read_header};
use super::hello::{NoHello, TlsHello, read_message};
use super::keys::Keys;
use super::limits::reached;
use super::tables::event;
use super::tx::QuicTx;
use crate::limits::reached::DATAGRAM_TXS_MAX;
use crate::transaction::EventList;
use crate::tx_list::{TxList, TxTable};
use crate::{Input, Outcome, ParseContext, Parser};
use gabion_record::Direction;

/// Parser of a flow.
#[derive(Default)]
pub(super) struct QuicParser {
    txs: TxList<QuicTx>,
    keys: Option<Keys>,
    /// The server asked the client to begin again.
    is_retried: bool,
    /// The hello of a side is complete.
    has_hello: [bool; 2],
    crypto: [CryptoStream; 2],
    /// Packets that could not be opened.
    failures: usize,
}

/// What was found in a packet.
#[derive(Default)]
struct Found {
    tls: Option<Box<TlsHello>>,
    google: Option<Box<GoogleHello>>,
    events: EventList,
}

impl QuicParser {
    /// Takes a packet, and says how many bytes of the datagram it is. `Err`: the datagram is of no use.
    fn take_packet(&mut self, bytes: &[u8], direction: Direction) -> Result<usize, ()> {
        let Header { version, body } = match read_header(bytes) {
            Ok(header) => header,
            Err(NoHeader::Short) => return Ok(bytes.len()),
            Err(NoHeader::Broken) => return Err(()),
        };
        let len = match body {
            Body::Initial { end, .. } | Body::Sealed { end, .. } => end,
            Body::Unopened | Body::Frames(_) | Body::Retry | Body::Other => bytes.len(),
        };
        if self.has_hello[direction.index()] {
            return Ok(len);
        }
        let mut found = Found::default();
        let outcome = match body {
            // Nothing is in it.
            Body::Initial { number_at, end, .. } if number_at == end => Ok(()),
            Body::Initial { destination, number_at, end } => {
                let packet = bytes.get(..end).unwrap_or_default();
                match self.open(version, destination, packet, number_at, direction) {
                    Some(payload) => self.take_frames(version, &payload, direction, &mut found),
                    None => {
                        found.events.set(event::FAILED_DECRYPT);
                        Err(())
                    }
                }
            }
            Body::Unopened => {
                found.events.set(event::FAILED_DECRYPT);
                Err(())
            }
            Body::Frames(frames) | Body::Sealed { frames, .. } => {
                self.take_frames(version, frames, direction, &mut found)
            }
            Body::Retry => {
                self.begin_again();
                Ok(())
            }
            Body::Other => Ok(()),
        };
        if found.tls.is_some() {
            self.has_hello[direction.index()] = true;
            self.crypto[direction.index()] = CryptoStream::default();
        }
        let Found { tls, google, events } = found;
        let version = version.to_be_bytes();
        self.txs.push(Some(&DATAGRAM_TXS_MAX), |id| QuicTx {
            id,
            direction,
            version,
            tls,
            google,
            events,
        });
        outcome.map(|()| len)
    }

    /// The client's hello comes again, under keys of another id. A second Retry is none (RFC 9000 17.2.5.2).
    fn begin_again(&mut self) {
        if !self.is_retried {
            self.is_retried = true;
            self.keys = None;
            let client = Direction::ToServer.index();
            self.has_hello[client] = false;
            self.crypto[client] = CryptoStream::default();
        }
    }

    /// The frames of an Initial packet. `None`: it can't be opened.
    fn open(
        &mut self,
        version: u32,
        destination: &[u8],
        packet: &[u8],
        number_at: usize,
        direction: Direction,
    ) -> Option<Vec<u8>> {
        if !reached::FAILED_DECRYPTIONS_MAX.has_room(self.failures) {
            return None;
        }
        if self.keys.is_none() && direction == Direction::ToServer {
            self.keys = Keys::derive(version, destination);
        }
        let payload = self.keys.as_ref().and_then(|keys| keys.open(direction, packet, number_at));
        if payload.is_none() {
            self.failures += 1;
        }
        payload
    }

    fn take_frames(
        &mut self,
        version: u32,
        payload: &[u8],
        direction: Direction,
        found: &mut Found,
    ) -> Result<(), ()> {
        let is_from_client = direction == Direction::ToServer;
        let crypto = &mut self.crypto[direction.index()];
        for frame in Frames::from_payload(payload) {
            match frame {
                Ok(Frame::Crypto { offset, data }) => {
                    // Most hellos come in one piece.
                    let whole = message_in(data).filter(|_| offset == 0);
                    match whole.map(|(kind, body)| read_message(kind, body, is_from_client)) {
                        Some(Ok(hello)) => found.tls = Some(Box::new(hello)),
                        Some(Err(NoHello::Wrong)) => {
                            found.events.set(event::ERROR_ON_DATA);
                            return Err(());
                        }
                        Some(Err(NoHello::Short)) | None => {
                            if crypto.add_piece(offset, data).is_err() {
                                found.events.set(event::CRYPTO_FRAG_TOO_LONG);
                            }
                        }
                    }
                }
                Ok(Frame::Stream(data)) => {
                    google::read_hello(version, data, &mut found.google);
                }
                Err(NoFrame) => {
                    found.events.set(event::ERROR_ON_DATA);
                    return Err(());
                }
            }
        }
        if found.tls.is_none()
            && let Some((kind, body)) = crypto.first_message()
        {
            // What was put together of pieces and is no hello says nothing (as in Suricata).
            found.tls = read_message(kind, body, is_from_client).ok().map(Box::new);
        }
        Ok(())
    }
}

impl Parser for QuicParser {
    fn parse(&mut self, cx: &mut ParseContext<'_>, input: Input<'_>) -> Outcome {
        let Input::Data { bytes, .. } = input else { return Outcome::Error };
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.take_packet(rest, cx.direction) {
                // Each packet takes at least its header.
                Ok(len) => rest = rest.get(len.max(1)..).unwrap_or_default(),
                Err(()) => return Outcome::Error,
            }
        }
        Outcome::Done
    }

    fn txs(&self) -> &dyn TxTable {
        &self.txs
    }

    fn txs_mut(&mut self) -> &mut dyn TxTable {
        &mut self.txs
    }

    fn bytes_held(&self) -> usize {
        let crypto = self.crypto.iter().map(CryptoStream::bytes_held);
        let txs = self.txs.iter().map(QuicTx::bytes_held);
        size_of::<QuicParser>() + crypto.chain(txs).sum::<usize>()
    }
}
