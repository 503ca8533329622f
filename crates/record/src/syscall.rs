//! Alerts of rules about system calls, as engines hand them to outputs.

/// The value of a field in an alert.
#[derive(Clone, Debug, PartialEq)]
pub enum AlertValue {
    /// Text; it need not be UTF-8.
    Text(Vec<u8>),
    /// A number without sign.
    Unsigned(u64),
    /// A number with sign.
    Signed(i64),
    /// A number with a fraction.
    Float(f64),
    /// Yes or no.
    Bool(bool),
    /// The event has no such value.
    Absent,
}

/// A field of an alert.
#[derive(Clone, Debug, PartialEq)]
pub struct AlertField {
    /// The name as the rule's output writes it.
    pub name: String,
    /// Its value.
    pub value: AlertValue,
}

/// A process in the line of ancestors of an alert's process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessLine {
    /// Its number.
    pub pid: i64,
    /// Its name.
    pub name: Vec<u8>,
    /// Its command line.
    pub command: Vec<u8>,
}

/// An alert of a rule about a system call, or of the sensor about itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct SyscallAlert<'a> {
    /// When, in nanoseconds since 1970.
    pub time_ns: u64,
    /// The priority in full: `Warning`.
    pub priority: &'a str,
    /// The rule.
    pub rule: &'a str,
    /// The source of the event: `syscall`, or `internal` for alerts of the sensor about itself.
    pub source: &'a str,
    /// The rule's tags.
    pub tags: &'a [String],
    /// The message, without time and priority.
    pub message: &'a [u8],
    /// The fields of the message.
    pub fields: &'a [AlertField],
    /// The number of the event (`evt.num`); 0 if there is none.
    pub number: u64,
    /// The host of the event; empty if it is the one that the sensor runs on.
    pub host: &'a [u8],
    /// The event's process and its ancestors, as far as they are known and asked for.
    pub processes: &'a [ProcessLine],
    /// Something that the rule asks for is not known, for another reason than that the event can't have it.
    pub is_partial: bool,
}
