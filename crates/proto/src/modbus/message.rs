//! A message: the header of Modbus/TCP (MODBUS Messaging on TCP/IP Implementation Guide V1.0b 3.1.3), a function and its
//! data, and what is wrong with them.

use super::function::{
    self, BITS_READ, Function, Layout, REGISTERS_READ, category, category_of, diagnostic_name,
    exception_name, function_of, interface_name,
};
use super::limits::MESSAGE_BYTES_MAX;
use gabion_record::Direction::{self, ToClient, ToServer};

/// Bytes before the unit: number of the transaction, protocol, length of the rest.
pub(super) const HEADER_LEN: usize = 6;

/// Least bytes of the rest: the unit and the function's code.
const MESSAGE_BYTES_MIN: u16 = 2;

/// The bit that makes a function's code that of an exception.
const EXCEPTION: u8 = 0x80;

/// What is wrong with a message, as bits.
pub(super) mod fault {
    pub(crate) const VALUE: u8 = 0x01;
    pub(crate) const LENGTH: u8 = 0x02;
    pub(crate) const EXCEPTION_CODE: u8 = 0x04;
    pub(crate) const FUNCTION_CODE: u8 = 0x08;
    pub(crate) const PROTOCOL: u8 = 0x10;
}

/// What is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) address: u16,
    pub(super) quantity: u16,
}

/// What is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Write {
    /// One value, or in the answer to several how many they were.
    One {
        address: u16,
        value: u16,
    },
    Many {
        range: Range,
        data: Vec<u8>,
    },
    Mask {
        address: u16,
        and_mask: u16,
        or_mask: u16,
    },
}

/// Data of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Data {
    /// None, or none of what there has to be.
    Empty,
    Bytes(Vec<u8>),
    Exception(u8),
    Diagnostic {
        code: u16,
        data: Vec<u8>,
    },
    Interface {
        number: u8,
        data: Vec<u8>,
    },
    Read(Range),
    /// What was read.
    Values(Vec<u8>),
    Write(Write),
    ReadWrite(Range, Write),
}

/// A message.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) transaction: u16,
    pub(super) protocol: u16,
    pub(super) unit: u8,
    /// The function's code as it was sent.
    pub(super) code: u8,
    pub(super) category: u8,
    /// [`fault`]s.
    pub(super) faults: u8,
    pub(super) data: Data,
}

/// The message that input begins with.
#[derive(Debug)]
pub(super) enum Read {
    /// It is not all there: as many bytes are needed.
    Incomplete(usize),
    /// A message, and the bytes it takes.
    Whole(Message, usize),
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn range_at(bytes: &[u8], at: usize) -> Option<Range> {
    Some(Range { address: u16_at(bytes, at)?, quantity: u16_at(bytes, at + 2)? })
}

/// Reads the message at the beginning of `bytes`. One with a length that there can't be has nothing but its header.
pub(super) fn read_message(bytes: &[u8], direction: Direction) -> Read {
    let header = (u16_at(bytes, 0), u16_at(bytes, 2), u16_at(bytes, 4));
    let (Some(transaction), Some(protocol), Some(len)) = header else {
        return Read::Incomplete(HEADER_LEN);
    };
    let mut message = Message {
        transaction,
        protocol,
        unit: 0,
        code: 0,
        category: 0,
        faults: if protocol == 0 { 0 } else { fault::PROTOCOL },
        data: Data::Empty,
    };
    let end = HEADER_LEN + usize::from(len);
    if !(MESSAGE_BYTES_MIN..=MESSAGE_BYTES_MAX).contains(&len) {
        message.faults |= fault::LENGTH;
        return Read::Whole(message, end);
    }
    let Some((unit, code, data)) = bytes.get(HEADER_LEN..end).and_then(split_codes) else {
        return Read::Incomplete(end);
    };
    (message.unit, message.code) = (unit, code);
    message.read_data(data, direction);
    Read::Whole(message, end)
}

fn split_codes(bytes: &[u8]) -> Option<(u8, u8, &[u8])> {
    let (unit, rest) = bytes.split_first()?;
    let (code, data) = rest.split_first()?;
    Some((*unit, *code, data))
}

impl Message {
    /// The function, whether it succeeded or not.
    pub(super) fn function(&self) -> Option<&'static Function> {
        function_of(self.code & !EXCEPTION)
    }

    /// What the function does, as bits.
    pub(super) fn access(&self) -> u8 {
        self.function().map_or(0, |f| f.access)
    }

    /// What the function's code alone makes of a message.
    fn read_data(&mut self, data: &[u8], direction: Direction) {
        let function = self.function();
        self.category = match function.map(|f| f.layout) {
            Some(Layout::Diagnostic | Layout::Interface) => 0,
            Some(_) => category::ASSIGNED,
            None => category_of(self.code),
        };
        if direction == ToClient && self.code & EXCEPTION != 0 {
            return self.read_exception(data);
        }
        // A request with a code that there can't be has it as a fault, unless there is another one already.
        let mut checks_code = direction == ToServer;
        match function.map(|f| f.layout) {
            None => self.data = Data::Bytes(data.to_vec()),
            Some(Layout::Bytes(request, response)) => {
                let len = if direction == ToServer { request } else { response };
                checks_code &= len.fits(data.len());
                self.require(len.fits(data.len()), fault::LENGTH);
                self.data = Data::Bytes(data.to_vec());
            }
            Some(Layout::Diagnostic) => {
                checks_code = false;
                self.read_diagnostic(data, direction);
            }
            Some(Layout::Interface) => {
                checks_code = false;
                self.read_interface(data);
            }
            Some(layout) => match direction {
                ToServer => self.read_request(layout, data),
                ToClient => self.read_response(layout, data),
            },
        }
        if checks_code && (self.code == 0 || self.code & EXCEPTION != 0) {
            self.faults |= fault::FUNCTION_CODE;
        }
    }

    fn require(&mut self, is_right: bool, fault: u8) {
        if !is_right {
            self.faults |= fault;
        }
    }

    fn read_exception(&mut self, data: &[u8]) {
        let Some((code, rest)) = data.split_first() else {
            self.faults |= fault::LENGTH;
            self.data = Data::Bytes(Vec::new());
            return;
        };
        // An error of memory is one of the extended memory that files are in (chapter 7).
        let is_of_files = matches!(self.code & !EXCEPTION, 20 | 21);
        let is_right = exception_name(*code).is_some() && (*code != 8 || is_of_files);
        self.require(is_right, fault::EXCEPTION_CODE);
        self.require(rest.is_empty(), fault::LENGTH);
        self.data = Data::Exception(*code);
    }

    fn read_diagnostic(&mut self, data: &[u8], direction: Direction) {
        let Some((code, rest)) = data.split_first_chunk::<2>() else {
            self.faults |= fault::LENGTH;
            return;
        };
        let code = u16::from_be_bytes(*code);
        let is_known = diagnostic_name(code).is_some();
        self.category = if is_known { category::ASSIGNED } else { category::RESERVED };
        if direction == ToServer {
            match (code, rest) {
                (_, [_, _]) if !is_known => {}
                (0 | 4, [_, _]) | (1, [0 | 0xff, 0]) | (3, [_, 0]) | (_, [0, 0]) => {}
                (_, [_, _]) => self.faults |= fault::VALUE,
                _ => self.faults |= fault::LENGTH,
            }
        }
        self.data = Data::Diagnostic { code, data: rest.to_vec() };
    }

    fn read_interface(&mut self, data: &[u8]) {
        let Some((number, rest)) = data.split_first() else {
            self.faults |= fault::LENGTH;
            return;
        };
        let is_known = interface_name(*number).is_some();
        self.category = if is_known { category::ASSIGNED } else { category::RESERVED };
        self.data = Data::Interface { number: *number, data: rest.to_vec() };
    }

    /// A request that reads or writes.
    fn read_request(&mut self, layout: Layout, data: &[u8]) {
        let read = match layout {
            Layout::Read { quantity_max } => self.read_range(data, quantity_max),
            Layout::WriteOne => self.read_one(data),
            Layout::WriteMany => self.read_many(data).map(Data::Write),
            Layout::Mask => self.read_mask(data),
            Layout::ReadWrite => self.read_both(data),
            Layout::Bytes(..) | Layout::Diagnostic | Layout::Interface => None,
        };
        self.data = read.unwrap_or_else(|| {
            self.faults |= fault::LENGTH;
            Data::Bytes(data.to_vec())
        });
    }

    fn read_range(&mut self, data: &[u8], quantity_max: u16) -> Option<Data> {
        let range = range_at(data, 0)?;
        self.require((1..=quantity_max).contains(&range.quantity), fault::VALUE);
        self.require(data.len() == 4, fault::LENGTH);
        Some(Data::Read(range))
    }

    fn read_one(&mut self, data: &[u8]) -> Option<Data> {
        let (address, value) = (u16_at(data, 0)?, u16_at(data, 2)?);
        // A coil is off or on.
        let is_coil = self.access() & function::access::COILS != 0;
        self.require(!is_coil || matches!(value, 0 | 0xff00), fault::VALUE);
        self.require(data.len() == 4, fault::LENGTH);
        Some(Data::Write(Write::One { address, value }))
    }

    fn read_many(&mut self, data: &[u8]) -> Option<Write> {
        let range = range_at(data, 0)?;
        let (count, rest) = data.get(4..)?.split_first()?;
        let is_of_bits = self.access() & function::access::COILS != 0;
        let expected = if is_of_bits {
            u32::from(range.quantity).div_ceil(8)
        } else {
            2 * u32::from(range.quantity)
        };
        self.require(u32::from(*count) == expected, fault::VALUE);
        self.require(range.quantity != 0 && usize::from(*count) == rest.len(), fault::LENGTH);
        Some(Write::Many { range, data: rest.to_vec() })
    }

    fn read_mask(&mut self, data: &[u8]) -> Option<Data> {
        let (address, and_mask) = (u16_at(data, 0)?, u16_at(data, 2)?);
        let or_mask = u16_at(data, 4)?;
        self.require(data.len() == 6, fault::LENGTH);
        Some(Data::Write(Write::Mask { address, and_mask, or_mask }))
    }

    fn read_both(&mut self, data: &[u8]) -> Option<Data> {
        let range = range_at(data, 0)?;
        self.require((1..=REGISTERS_READ).contains(&range.quantity), fault::VALUE);
        let rest = data.get(4..)?;
        let Some(write) = self.read_many(rest) else {
            self.faults |= fault::LENGTH;
            return Some(Data::Read(range));
        };
        Some(Data::ReadWrite(range, write))
    }

    /// A response to a request that reads or writes.
    fn read_response(&mut self, layout: Layout, data: &[u8]) {
        match layout {
            Layout::Read { .. } | Layout::ReadWrite => {
                let Some((count, values)) = data.split_first() else {
                    self.faults |= fault::LENGTH;
                    return;
                };
                let is_right = *count > 0 && usize::from(*count) == values.len();
                self.require(is_right, fault::VALUE);
                self.data = Data::Values(values.to_vec());
            }
            Layout::WriteOne | Layout::WriteMany => {
                let Some(Range { address, quantity: value }) = range_at(data, 0) else {
                    self.faults |= fault::LENGTH;
                    self.data = Data::Bytes(data.to_vec());
                    return;
                };
                self.require(data.len() == 4, fault::LENGTH);
                if layout == Layout::WriteMany {
                    // Suricata 8.0.7 has the bounds of coils and registers the wrong way round there.
                    let is_of_bits = self.access() & function::access::COILS != 0;
                    let max = if is_of_bits { REGISTERS_READ } else { BITS_READ };
                    self.require((1..=max).contains(&value), fault::VALUE);
                }
                self.data = Data::Write(Write::One { address, value });
            }
            Layout::Mask => {
                let read = self.read_mask(data);
                self.data = read.unwrap_or_else(|| {
                    self.faults |= fault::LENGTH;
                    Data::Bytes(data.to_vec())
                });
            }
            Layout::Bytes(..) | Layout::Diagnostic | Layout::Interface => {}
        }
    }

    /// Whether a request and a response are of one transaction.
    pub(super) fn belongs_to(&self, other: &Message) -> bool {
        let is_same = |m: &Message| (m.transaction, m.unit, m.code & !EXCEPTION);
        if is_same(self) != is_same(other) {
            return false;
        }
        if let (Data::Diagnostic { code: a, .. }, Data::Diagnostic { code: b, .. }) =
            (&self.data, &other.data)
        {
            return a == b;
        }
        if let (Data::Interface { number: a, .. }, Data::Interface { number: b, .. }) =
            (&self.data, &other.data)
        {
            return a == b;
        }
        true
    }

    /// Whether the values of a response are such as its request asked for.
    pub(super) fn is_answered_by(&self, response: &Message) -> bool {
        if let Data::Values(values) = &response.data {
            let len = values.len() as u32;
            // Of registers Suricata 8.0.7 expects as many bytes as of coils.
            if let Data::Read(range) = &self.data {
                return u32::from(range.quantity).div_ceil(8) == len;
            }
            if let Data::ReadWrite(range, _) = &self.data {
                return 2 * u32::from(range.quantity) == len;
            }
        }
        let (Data::Write(asked), Data::Write(done)) = (&self.data, &response.data) else {
            return true;
        };
        if let (Write::Many { range, .. }, Write::One { address, value }) = (asked, done) {
            return (range.address, range.quantity) == (*address, *value);
        }
        asked == done
    }

    /// Whether it shows that a flow is Modbus: its function is known and what belongs to its code is there, or it is a
    /// faultless exception of a known function.
    pub(super) fn is_recognizable(&self) -> bool {
        let is_right = if let Data::Exception(_) = self.data {
            self.faults == 0
        } else {
            self.code & EXCEPTION == 0 && self.category != 0
        };
        self.protocol == 0 && self.function().is_some() && is_right
    }

    /// Bytes held.
    pub(super) fn bytes_held(&self) -> usize {
        match &self.data {
            Data::Bytes(data)
            | Data::Values(data)
            | Data::Diagnostic { data, .. }
            | Data::Interface { data, .. }
            | Data::Write(Write::Many { data, .. })
            | Data::ReadWrite(_, Write::Many { data, .. }) => data.capacity(),
            Data::Empty | Data::Exception(_) | Data::Read(_) | Data::Write(_) => 0,
            Data::ReadWrite(..) => 0,
        }
    }
}
