//! Functions of Modbus (MODBUS Application Protocol Specification V1.1b3, chapter 5), with the names that Suricata 8.0.7
//! logs.

/// What a function does, as bits.
pub(super) mod access {
    pub(crate) const READ: u8 = 0x01;
    pub(crate) const WRITE: u8 = 0x02;
    pub(crate) const DISCRETES: u8 = 0x04;
    pub(crate) const COILS: u8 = 0x08;
    pub(crate) const INPUT: u8 = 0x10;
    pub(crate) const HOLDING: u8 = 0x20;
    pub(crate) const SINGLE: u8 = 0x40;
    pub(crate) const MULTIPLE: u8 = 0x80;
    /// The tables.
    pub(crate) const TABLES: u8 = DISCRETES | COILS | INPUT | HOLDING;
}

use access::{COILS, DISCRETES, HOLDING, INPUT, MULTIPLE, READ, SINGLE, WRITE};

/// Names of accesses in the order of a record.
pub(super) const ACCESS_NAMES: &[(&str, u8)] = &[
    ("READ", READ),
    ("WRITE", WRITE),
    ("DISCRETES", DISCRETES),
    ("COILS", COILS),
    ("INPUT", INPUT),
    ("HOLDING", HOLDING),
    ("SINGLE", SINGLE),
    ("MULTIPLE", MULTIPLE),
    ("BIT_ACCESS_MASK", DISCRETES | COILS),
    ("FUNC_MASK", access::TABLES),
    ("WRITE_SINGLE", WRITE | SINGLE),
    ("WRITE_MULTIPLE", WRITE | MULTIPLE),
];

/// Who a code belongs to, as bits, so that a rule may ask for several.
pub(super) mod category {
    pub(crate) const ASSIGNED: u8 = 1;
    pub(crate) const UNASSIGNED: u8 = 2;
    pub(crate) const USER: u8 = 4;
    pub(crate) const RESERVED: u8 = 8;
}

/// Name of a category in a record.
pub(super) fn category_name(category: u8) -> &'static str {
    match category {
        category::ASSIGNED => "PUBLIC_ASSIGNED",
        category::UNASSIGNED => "PUBLIC_UNASSIGNED",
        category::USER => "USER_DEFINED",
        category::RESERVED => "RESERVED",
        _ => "NONE",
    }
}

/// How many bytes of data a message may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Len {
    /// Any number.
    Any,
    /// This many.
    Exactly(usize),
    /// At least this many.
    AtLeast(usize),
}

impl Len {
    /// Whether there may be this many.
    pub(super) fn fits(self, len: usize) -> bool {
        match self {
            Len::Any => true,
            Len::Exactly(n) => len == n,
            Len::AtLeast(n) => len >= n,
        }
    }
}

/// What data a function's messages have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// Bytes without a structure that is examined, in requests and in responses.
    Bytes(Len, Len),
    /// An address and a number of things; up to `quantity_max` may be read at once.
    Read { quantity_max: u16 },
    /// An address and a value.
    WriteOne,
    /// An address, a number of things, a number of bytes, and these.
    WriteMany,
    /// An address and two masks.
    Mask,
    /// What is to be read, and what is to be written before.
    ReadWrite,
    /// A code of its own, and data.
    Diagnostic,
    /// The number of an interface, and its data.
    Interface,
}

/// A function.
#[derive(Clone, Copy, Debug)]
pub(super) struct Function {
    pub(super) code: u8,
    pub(super) name: &'static str,
    pub(super) access: u8,
    pub(super) layout: Layout,
}

/// Coils or inputs that a message may read.
pub(super) const BITS_READ: u16 = 2000;

/// Registers that a message may read.
pub(super) const REGISTERS_READ: u16 = 125;

const fn plain(code: u8, name: &'static str, request: Len, response: Len) -> Function {
    Function { code, name, access: 0, layout: Layout::Bytes(request, response) }
}

const fn reading(code: u8, name: &'static str, table: u8, quantity_max: u16) -> Function {
    Function { code, name, access: READ | table, layout: Layout::Read { quantity_max } }
}

const fn writing(code: u8, name: &'static str, access: u8, layout: Layout) -> Function {
    Function { code, name, access: WRITE | access, layout }
}

use Len::{Any, AtLeast, Exactly};

/// The functions that are known.
const FUNCTIONS: &[Function] = &[
    reading(1, "RdCoils", COILS, BITS_READ),
    reading(2, "RdDiscreteInputs", DISCRETES, BITS_READ),
    reading(3, "RdHoldRegs", HOLDING, REGISTERS_READ),
    reading(4, "RdInputRegs", INPUT, REGISTERS_READ),
    writing(5, "WrSingleCoil", COILS | SINGLE, Layout::WriteOne),
    writing(6, "WrSingleReg", HOLDING | SINGLE, Layout::WriteOne),
    plain(7, "RdExcStatus", Exactly(0), Exactly(1)),
    Function { code: 8, name: "Diagnostic", access: 0, layout: Layout::Diagnostic },
    plain(9, "Program484", Any, Any),
    plain(10, "Poll484", Any, Any),
    plain(11, "GetCommEventCtr", Exactly(0), Exactly(4)),
    plain(12, "GetCommEventLog", Exactly(0), Any),
    plain(13, "ProgramController", Any, Any),
    plain(14, "PollController", Any, Any),
    writing(15, "WrMultCoils", COILS | MULTIPLE, Layout::WriteMany),
    writing(16, "WrMultRegs", HOLDING | MULTIPLE, Layout::WriteMany),
    plain(17, "ReportServerID", Exactly(0), Any),
    plain(18, "Program884", Any, Any),
    plain(19, "ResetCommLink", Any, Any),
    plain(20, "RdFileRec", AtLeast(1), Any),
    plain(21, "WrFileRec", AtLeast(1), Any),
    writing(22, "MaskWrReg", HOLDING, Layout::Mask),
    writing(23, "RdWrMultRegs", READ | HOLDING | MULTIPLE, Layout::ReadWrite),
    plain(24, "RdFIFOQueue", Exactly(2), Any),
    Function { code: 43, name: "MEI", access: 0, layout: Layout::Interface },
];

/// The function of a code.
pub(super) fn function_of(code: u8) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|f| f.code == code)
}

/// Who a code without a known function belongs to.
pub(super) fn category_of(code: u8) -> u8 {
    match code {
        41 | 42 | 90 | 91 | 125..=127 => category::RESERVED,
        65..=72 | 100..=110 => category::USER,
        1..=127 => category::UNASSIGNED,
        _ => 0,
    }
}

/// Names of the codes of diagnostics (chapter 6.8.1); a code without one is reserved.
pub(super) fn diagnostic_name(code: u16) -> Option<&'static str> {
    Some(match code {
        0 => "RetQueryData",
        1 => "RestartCommOpt",
        2 => "RetDiagReg",
        3 => "ChangeInputDelimiter",
        4 => "ForceListenOnlyMode",
        10 => "ClearCtrDiagReg",
        11 => "RetBusMsgCount",
        12 => "RetBusCommErrCount",
        13 => "RetBusExcErrCount",
        14 => "RetServerMsgCount",
        15 => "RetServerNoRespCount",
        16 => "RetServerNAKCount",
        17 => "RetServerBusyCount",
        18 => "RetBusCharOverrunCount",
        19 => "RetOverrunErrCount",
        20 => "ClearOverrunCounterFlag",
        21 => "GetClearPlusStats",
        _ => return None,
    })
}

/// Names of encapsulated interfaces (chapter 6.19); a number without one is reserved.
pub(super) fn interface_name(number: u8) -> Option<&'static str> {
    Some(match number {
        13 => "CANOpenGenRefReqResp",
        14 => "RdDevId",
        _ => return None,
    })
}

/// Names of exceptions (chapter 7).
pub(super) fn exception_name(code: u8) -> Option<&'static str> {
    Some(match code {
        1 => "IllegalFunction",
        2 => "IllegalDataAddr",
        3 => "IllegalDataValue",
        4 => "ServerDeviceFail",
        5 => "Ack",
        6 => "ServerDeviceBusy",
        7 => "NegAck",
        8 => "MemParityErr",
        10 => "GatewayPathUnavailable",
        11 => "GatewayTargetFailToResp",
        _ => return None,
    })
}
