//! Messages of EtherNet/IP's encapsulation (CIP volume 2, chapter 2).

use super::cip::{ATTRIBUTE, Body, CLASS, Cip, INSTANCE, u16_at, u32_at};

/// Bytes of the header.
pub(super) const HEADER_LEN: usize = 24;

/// Commands whose data is read.
pub(super) const LIST_SERVICES: u16 = 0x04;
pub(super) const LIST_IDENTITY: u16 = 0x63;
pub(super) const REGISTER_SESSION: u16 = 0x65;
const SEND_RR_DATA: u16 = 0x6f;
const SEND_UNIT_DATA: u16 = 0x70;

/// Types of items.
const IDENTITY_ITEM: u16 = 0x0c;
const CONNECTED_DATA: u16 = 0xb1;
const UNCONNECTED_DATA: u16 = 0xb2;
const SERVICES_ITEM: u16 = 0x100;

/// Header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// What it is.
    pub(super) command: u16,
    /// Bytes that follow the header.
    pub(super) data_len: u16,
    /// The session.
    pub(super) session: u32,
    /// Whether a command succeeded.
    pub(super) status: u32,
    /// Options.
    pub(super) options: u32,
}

impl Header {
    /// Reads it; `None`: bytes are missing.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Header> {
        Some(Header {
            command: u16_at(bytes, 0)?,
            data_len: u16_at(bytes, 2)?,
            session: u32_at(bytes, 4)?,
            status: u32_at(bytes, 8)?,
            options: u32_at(bytes, 20)?,
        })
    }
}

/// What a device says of itself.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    pub(super) protocol_version: u16,
    pub(super) vendor: u16,
    pub(super) device_type: u16,
    pub(super) product_code: u16,
    /// Major, minor.
    pub(super) revision: [u8; 2],
    pub(super) status: u16,
    pub(super) serial: u32,
    pub(super) name: Vec<u8>,
    pub(super) state: u8,
}

/// A service that a device offers.
#[derive(Clone, Debug)]
pub(super) struct Service {
    pub(super) protocol_version: u16,
    pub(super) capabilities: u16,
    pub(super) name: [u8; 16],
}

/// The first message of the Common Industrial Protocol, with the values that rules ask for.
#[derive(Clone, Debug, Default)]
pub(super) struct CipData {
    pub(super) bytes: Vec<u8>,
    pub(super) classes: Vec<u32>,
    pub(super) instances: Vec<u32>,
    pub(super) attributes: Vec<u32>,
    pub(super) statuses: Vec<u8>,
    pub(super) extended_statuses: Vec<u16>,
}

impl CipData {
    fn of_message(bytes: &[u8], cip: Cip<'_>) -> CipData {
        let mut data = CipData { bytes: bytes.to_vec(), ..CipData::default() };
        for cip in cip.with_nested() {
            data.classes.extend(cip.values(CLASS));
            data.instances.extend(cip.values(INSTANCE));
            data.attributes.extend(cip.values(ATTRIBUTE));
            if let Body::Response { status, extended } = cip.body {
                data.statuses.push(status);
                if let Ok(code) = <[u8; 2]>::try_from(extended) {
                    data.extended_statuses.push(u16::from_le_bytes(code));
                }
            }
        }
        data
    }

    /// The message.
    pub(super) fn message(&self) -> Option<Cip<'_>> {
        Cip::parse(&self.bytes)
    }
}

/// Data of a message.
#[derive(Clone, Debug)]
pub(super) enum Data {
    /// It can't be read.
    Invalid,
    /// Nothing that is examined.
    Other,
    Registration {
        protocol_version: u16,
        options: u16,
    },
    Services(Service),
    Identity(Identity),
    /// Items that carry messages of CIP or not.
    Items {
        cip: Option<Box<CipData>>,
        /// Number of the message in its connection, if the second item has one.
        sequence: Option<u16>,
    },
}

/// A part of a message that is a frame: its place in the data, and its length.
pub(super) type Part = (usize, usize);

/// Parts of a message that are frames, in Suricata's order.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) items: Vec<Part>,
    pub(super) cips: Vec<Part>,
}

/// A message.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) header: Header,
    pub(super) data: Data,
}

impl Message {
    /// Reads the data of a message. Frames are noted if they are wanted.
    pub(super) fn parse(header: Header, data: &[u8], parts: Option<&mut Parts>) -> Message {
        let read = match header.command {
            REGISTER_SESSION => {
                u16_at(data, 0).zip(u16_at(data, 2)).map(|(protocol_version, options)| {
                    Data::Registration { protocol_version, options }
                })
            }
            LIST_SERVICES | LIST_IDENTITY if data.is_empty() => Some(Data::Other),
            LIST_SERVICES | LIST_IDENTITY => parse_list(header.command, data, parts),
            SEND_RR_DATA | SEND_UNIT_DATA => parse_sent(data, parts),
            _ => Some(Data::Other),
        };
        Message { header, data: read.unwrap_or(Data::Invalid) }
    }

    /// Whether its data could not be read.
    pub(super) fn is_invalid(&self) -> bool {
        matches!(self.data, Data::Invalid)
    }

    /// Whether a response belongs to this request. Data that can't be read belongs to such data only where there
    /// would be no items (Suricata 8.0.7).
    pub(super) fn is_answered_by(&self, response: &Message) -> bool {
        if (self.header.command, self.header.session)
            != (response.header.command, response.header.session)
        {
            return false;
        }
        match (&self.data, &response.data) {
            (Data::Items { .. }, Data::Invalid) | (Data::Invalid, Data::Items { .. }) => false,
            (Data::Items { sequence: Some(a), .. }, Data::Items { sequence: Some(b), .. }) => {
                a == b
            }
            (
                Data::Invalid
                | Data::Other
                | Data::Registration { .. }
                | Data::Services(_)
                | Data::Identity(_)
                | Data::Items { .. },
                _,
            ) => true,
        }
    }

    /// The message of CIP that it carries.
    pub(super) fn cip(&self) -> Option<&CipData> {
        match &self.data {
            Data::Items { cip, .. } => cip.as_deref(),
            Data::Invalid
            | Data::Other
            | Data::Registration { .. }
            | Data::Services(_)
            | Data::Identity(_) => None,
        }
    }

    /// Bytes held.
    pub(super) fn bytes_held(&self) -> usize {
        match &self.data {
            Data::Identity(identity) => identity.name.capacity(),
            Data::Items { cip: Some(cip), .. } => {
                let values = [&cip.classes, &cip.instances, &cip.attributes];
                size_of::<CipData>()
                    + cip.bytes.capacity()
                    + values.iter().map(|v| 4 * v.capacity()).sum::<usize>()
                    + cip.statuses.capacity()
                    + 2 * cip.extended_statuses.capacity()
            }
            Data::Items { cip: None, .. }
            | Data::Invalid
            | Data::Other
            | Data::Registration { .. }
            | Data::Services(_) => 0,
        }
    }
}

/// An item.
struct Item<'a> {
    kind: u16,
    data: &'a [u8],
}

/// Hands out the items of a list, which begins with their count. `None`: one is missing or can't be read.
fn walk_items<'a>(
    bytes: &'a [u8],
    start: usize,
    mut parts: Option<&mut Parts>,
    each: &mut dyn FnMut(usize, Item<'a>),
) -> Option<()> {
    let (mut at, mut cips) = (start + 2, Vec::new());
    for index in 0..usize::from(u16_at(bytes, start)?) {
        let (kind, len) = (u16_at(bytes, at)?, usize::from(u16_at(bytes, at + 2)?));
        let data = bytes.get(at + 4..at + 4 + len)?;
        let item = Item { kind, data };
        match kind {
            IDENTITY_ITEM => drop(parse_identity(data)?),
            SERVICES_ITEM => {
                parse_service(data)?;
            }
            CONNECTED_DATA | UNCONNECTED_DATA => {
                let (skipped, message) = cip_bytes(&item)?;
                let cip = Cip::parse(message)?;
                if parts.is_some() {
                    // The frame of connected data is as long as its item (Suricata 8.0.7).
                    let first = at + 4 + skipped;
                    cips.push((first, len));
                    cips.extend(
                        cip.nested.iter().map(|(place, nested)| (first + place, nested.len)),
                    );
                }
            }
            _ => {}
        }
        if let Some(parts) = parts.as_deref_mut() {
            parts.items.push((at, 4 + len));
        }
        each(index, item);
        at += 4 + len;
    }
    if let Some(parts) = parts {
        parts.cips = cips;
    }
    Some(())
}

/// The message of CIP in an item, behind the number that connected data begins with.
fn cip_bytes<'a>(item: &Item<'a>) -> Option<(usize, &'a [u8])> {
    let skipped = if item.kind == CONNECTED_DATA { 2 } else { 0 };
    Some((skipped, item.data.get(skipped..)?))
}

/// Answers of `list_services` and `list_identity`: only the first item counts, and only if it is of the command's type.
fn parse_list(command: u16, data: &[u8], parts: Option<&mut Parts>) -> Option<Data> {
    let mut first = Data::Other;
    walk_items(data, 0, parts, &mut |index, item| {
        let found = match (index, command, item.kind) {
            (0, LIST_IDENTITY, IDENTITY_ITEM) => parse_identity(item.data).map(Data::Identity),
            (0, LIST_SERVICES, SERVICES_ITEM) => parse_service(item.data).map(Data::Services),
            _ => None,
        };
        if let Some(found) = found {
            first = found;
        }
    })?;
    Some(first)
}

/// Data that is sent: a handle and a timeout before the items.
fn parse_sent(data: &[u8], parts: Option<&mut Parts>) -> Option<Data> {
    let (mut cip, mut sequence) = (None, None);
    walk_items(data, 6, parts, &mut |index, item| {
        if index == 1 && item.kind == CONNECTED_DATA {
            sequence = u16_at(item.data, 0);
        }
        let is_cip = matches!(item.kind, CONNECTED_DATA | UNCONNECTED_DATA);
        if cip.is_none()
            && is_cip
            && let Some((_, bytes)) = cip_bytes(&item)
            && let Some(message) = Cip::parse(bytes)
        {
            cip = Some(Box::new(CipData::of_message(bytes, message)));
        }
    })?;
    Some(Data::Items { cip, sequence })
}

fn parse_identity(data: &[u8]) -> Option<Identity> {
    // A socket address of 16 bytes follows the version.
    let name_end = 33 + usize::from(*data.get(32)?);
    Some(Identity {
        protocol_version: u16_at(data, 0)?,
        vendor: u16_at(data, 18)?,
        device_type: u16_at(data, 20)?,
        product_code: u16_at(data, 22)?,
        revision: [*data.get(24)?, *data.get(25)?],
        status: u16_at(data, 26)?,
        serial: u32_at(data, 28)?,
        name: data.get(33..name_end)?.to_vec(),
        state: *data.get(name_end)?,
    })
}

fn parse_service(data: &[u8]) -> Option<Service> {
    Some(Service {
        protocol_version: u16_at(data, 0)?,
        capabilities: u16_at(data, 2)?,
        name: *data.get(4..)?.first_chunk()?,
    })
}
