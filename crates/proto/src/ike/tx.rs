//! The transaction of IKE: each message is one, with what is known of the exchange when it comes.

use super::log;
use super::message::Header;
use super::tables::{buffer, integer};
use super::v1::Transform;
use super::v2::Choice;
use crate::datagrams::one_datagram;
use crate::transaction::EventList;
use crate::{Buffer, Inspect, LogOptions, Transaction};
use gabion_record::Direction;
use gabion_record::json::Json;

/// Key exchange and nonce of a side.
#[derive(Clone, Debug, Default)]
pub(super) struct SideKeys {
    pub(super) key_exchange: Box<[u8]>,
    pub(super) nonce: Box<[u8]>,
}

/// What records of IKE 1 have.
#[derive(Debug, Default)]
pub(super) struct Part1 {
    pub(super) is_encrypted: bool,
    pub(super) doi: Option<u32>,
    /// What the responder chose, also earlier.
    pub(super) chosen: Transform,
    /// Transforms of this message: of the client all, of the server where there are several.
    pub(super) transforms: Vec<Transform>,
    pub(super) sides: [SideKeys; 2],
    pub(super) vendors: Vec<Box<[u8]>>,
    /// In hex, as rules look at them.
    pub(super) vendor_texts: Vec<Box<[u8]>>,
}

/// What records of IKE 2 have.
#[derive(Debug)]
pub(super) struct Part2 {
    pub(super) choice: Choice,
    pub(super) notifications: Vec<u16>,
}

/// What the versions differ in.
#[derive(Debug)]
pub(super) enum Part {
    One(Box<Part1>),
    Two(Part2),
}

/// A message.
#[derive(Debug)]
pub(super) struct IkeTx {
    pub(super) id: u64,
    pub(super) direction: Direction,
    pub(super) header: Header,
    pub(super) init_spi: [u8; 16],
    pub(super) resp_spi: [u8; 16],
    /// Types of its payloads.
    pub(super) kinds: Vec<u8>,
    /// The key exchange and nonce of this message.
    pub(super) own: SideKeys,
    pub(super) part: Part,
    /// What the responder chose with this message.
    pub(super) chosen: Vec<(&'static str, u32)>,
    pub(super) events: EventList,
}

impl IkeTx {
    pub(super) fn bytes_held(&self) -> usize {
        let keys = |side: &SideKeys| side.key_exchange.len() + side.nonce.len();
        let part = match &self.part {
            Part::Two(part) => part.notifications.len() * 2,
            Part::One(part) => {
                let texts = part.vendors.iter().chain(&part.vendor_texts);
                let texts = texts.map(|v| v.len() + size_of_val(v)).sum::<usize>();
                let transforms = part.transforms.iter().chain([&part.chosen]);
                let of_transform = |t: &Transform| t.capacity() * size_of::<super::v1::Attribute>();
                size_of::<Part1>()
                    + texts
                    + part.sides.iter().map(keys).sum::<usize>()
                    + transforms.map(of_transform).sum::<usize>()
            }
        };
        size_of::<IkeTx>() + self.kinds.len() + keys(&self.own) + part
    }
}

impl Transaction for IkeTx {
    one_datagram!();

    fn buffer(&self, local: u16, _: Direction, index: usize, _: Inspect) -> Option<Buffer<'_>> {
        let data: &[u8] = match (local, index, &self.part) {
            (buffer::VENDOR, _, Part::One(part)) => part.vendor_texts.get(index)?,
            (_, 1.., _) => return None,
            (buffer::INIT_SPI, ..) => &self.init_spi,
            (buffer::RESP_SPI, ..) => &self.resp_spi,
            (buffer::KEY_EXCHANGE, ..) => &self.own.key_exchange,
            (buffer::NONCE, ..) => &self.own.nonce,
            _ => return None,
        };
        (!data.is_empty()).then(|| Buffer::whole(data))
    }

    fn integer(&self, local: u16, _: Direction, index: usize) -> Option<u64> {
        let len = |bytes: &[u8]| (!bytes.is_empty()).then_some(bytes.len() as u64);
        let value = match local {
            integer::EXCHANGE => Some(self.header.exchange.into()),
            integer::KEY_EXCHANGE_LEN => len(&self.own.key_exchange),
            integer::NONCE_LEN => len(&self.own.nonce),
            _ => None,
        };
        value.filter(|_| index == 0)
    }

    fn log(&self, json: &mut Json, how: LogOptions<'_>) -> bool {
        log::write_record(self, json, how.in_alert);
        true
    }
}
