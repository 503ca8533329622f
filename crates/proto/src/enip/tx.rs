//! A transaction: a request with its response, or one of them alone.

use super::cip::{ATTRIBUTE, Body, CLASS, Cip};
use super::log;
use super::message::{Data, Identity, Message, Service};
use super::tables::{buffer, integer};
use crate::transaction::EventList;
use crate::{Buffer, Inspect, LogOptions, Transaction};
use gabion_record::Direction::{self, ToClient, ToServer};
use gabion_record::json::Json;
use std::any::Any;

/// A request with its response.
#[derive(Debug)]
pub struct EnipTx {
    /// Number in its flow.
    pub id: u64,
    pub(super) request: Option<Message>,
    pub(super) response: Option<Message>,
    /// Nothing more is to come.
    pub(super) is_done: bool,
    pub(super) events: EventList,
}

impl EnipTx {
    /// A transaction of a message.
    pub(super) fn new(id: u64, direction: Direction, message: Message) -> EnipTx {
        let (request, response) = match direction {
            ToServer => (Some(message), None),
            ToClient => (None, Some(message)),
        };
        EnipTx { id, request, response, is_done: false, events: EventList::default() }
    }

    fn message(&self, direction: Direction) -> Option<&Message> {
        match direction {
            ToServer => self.request.as_ref(),
            ToClient => self.response.as_ref(),
        }
    }

    /// What a device said of itself: only responses count.
    fn identity(&self, direction: Direction) -> Option<&Identity> {
        match (direction, &self.response.as_ref()?.data) {
            (ToClient, Data::Identity(identity)) => Some(identity),
            _ => None,
        }
    }

    /// The service that a device said to offer.
    fn service(&self, direction: Direction) -> Option<&Service> {
        match (direction, &self.response.as_ref()?.data) {
            (ToClient, Data::Services(service)) => Some(service),
            _ => None,
        }
    }

    fn protocol_version(&self, direction: Direction) -> Option<u16> {
        match (direction, &self.message(direction)?.data) {
            (_, Data::Registration { protocol_version, .. }) => Some(*protocol_version),
            (ToClient, Data::Identity(identity)) => Some(identity.protocol_version),
            (ToClient, Data::Services(service)) => Some(service.protocol_version),
            _ => None,
        }
    }

    /// Whether the message of a direction has a service, alone or with a class and an attribute of its own.
    pub(super) fn has_service(
        &self,
        direction: Direction,
        service: u8,
        class: Option<u32>,
        attribute: Option<u32>,
    ) -> bool {
        let has = |cip: Cip<'_>, kind: u8, wanted: Option<u32>| {
            wanted.is_none_or(|wanted| cip.values(kind).any(|value| value == wanted))
        };
        let data = self.message(direction).and_then(Message::cip);
        data.and_then(|data| data.message()).is_some_and(|cip| {
            cip.with_nested().any(|cip| {
                let is_request = matches!(cip.body, Body::Request { .. });
                cip.service == service
                    && (class.is_none() || is_request)
                    && has(cip, CLASS, class)
                    && has(cip, ATTRIBUTE, attribute)
            })
        })
    }

    /// Bytes held.
    pub(super) fn bytes_held(&self) -> usize {
        let messages = [&self.request, &self.response];
        messages.into_iter().flatten().map(Message::bytes_held).sum()
    }
}

impl Transaction for EnipTx {
    fn id(&self) -> u64 {
        self.id
    }

    fn progress(&self, _: Direction) -> u8 {
        self.is_done.into()
    }

    fn buffer(
        &self,
        local: u16,
        direction: Direction,
        index: usize,
        _: Inspect,
    ) -> Option<Buffer<'_>> {
        let data = match local {
            _ if index > 0 => return None,
            buffer::PRODUCT_NAME => &self.identity(direction)?.name[..],
            buffer::SERVICE_NAME => &self.service(direction)?.name[..],
            _ => return None,
        };
        Some(Buffer::whole(data))
    }

    fn integer(&self, local: u16, direction: Direction, index: usize) -> Option<u64> {
        let requested = || self.request.as_ref().and_then(Message::cip);
        let answered = || match direction {
            ToClient => self.response.as_ref().and_then(Message::cip),
            ToServer => None,
        };
        match local {
            // What a request asked for is inspected with its response, too.
            integer::CLASS => requested()?.classes.get(index).copied().map(u64::from),
            integer::INSTANCE => requested()?.instances.get(index).copied().map(u64::from),
            integer::ATTRIBUTE => requested()?.attributes.get(index).copied().map(u64::from),
            integer::CIP_STATUS => answered()?.statuses.get(index).copied().map(u64::from),
            integer::CIP_EXTENDED_STATUS => {
                answered()?.extended_statuses.get(index).copied().map(u64::from)
            }
            _ if index > 0 => None,
            integer::COMMAND => Some(self.message(direction)?.header.command.into()),
            integer::STATUS => Some(self.message(direction)?.header.status.into()),
            integer::PROTOCOL_VERSION => Some(self.protocol_version(direction)?.into()),
            integer::CAPABILITIES => Some(self.service(direction)?.capabilities.into()),
            integer::VENDOR => Some(self.identity(direction)?.vendor.into()),
            integer::DEVICE_TYPE => Some(self.identity(direction)?.device_type.into()),
            integer::PRODUCT_CODE => Some(self.identity(direction)?.product_code.into()),
            integer::REVISION => {
                Some(u16::from_be_bytes(self.identity(direction)?.revision).into())
            }
            integer::IDENTITY_STATUS => Some(self.identity(direction)?.status.into()),
            integer::SERIAL => Some(self.identity(direction)?.serial.into()),
            integer::STATE => Some(self.identity(direction)?.state.into()),
            _ => None,
        }
    }

    fn events(&self) -> &[u16] {
        self.events.codes()
    }

    fn log(&self, json: &mut Json, _: LogOptions<'_>) -> bool {
        log::write(self, json);
        true
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
