//! The rows of the event table: what they hold and what is asked of them.

/// The bit of a row's flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeFlags(pub u32);

impl TypeFlags {
    /// The event creates a file descriptor.
    pub const CREATES_FD: TypeFlags = TypeFlags(1);
    /// The event closes a file descriptor.
    pub const DESTROYS_FD: TypeFlags = TypeFlags(2);
    /// The event uses a file descriptor.
    pub const USES_FD: TypeFlags = TypeFlags(4);
    /// The event reads from a file descriptor.
    pub const READS_FROM_FD: TypeFlags = TypeFlags(8);
    /// The event writes to a file descriptor.
    pub const WRITES_TO_FD: TypeFlags = TypeFlags(16);
    /// The event changes what is known of threads, descriptors or users.
    pub const MODIFIES_STATE: TypeFlags = TypeFlags(32);
    /// No event of this type is ever recorded.
    pub const UNUSED: TypeFlags = TypeFlags(64);
    /// The call may wait for something outside of the thread.
    pub const WAITS: TypeFlags = TypeFlags(128);
    /// The event leaves what was remembered of the thread's last event as it is.
    pub const SKIPPARSERESET: TypeFlags = TypeFlags(256);
    /// Only old files hold events of this type.
    pub const OLD_VERSION: TypeFlags = TypeFlags(512);
    /// The lengths of parameters have 32 bits instead of 16.
    pub const LARGE_PAYLOAD: TypeFlags = TypeFlags(2048);
    /// The merger handles events of this type.
    pub const CONVERTER_MANAGED: TypeFlags = TypeFlags(4096);

    /// Whether all bits of `other` are set.
    #[inline]
    #[must_use]
    pub const fn has(self, other: TypeFlags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Where events of a type come from, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sources(pub u16);

impl Sources {
    /// Made by the program that reads, not by the kernel.
    pub const INTERNAL: Sources = Sources(256);
    /// A switch of the scheduler.
    pub const SCHEDULER: Sources = Sources(128);
    /// A wait.
    pub const WAIT: Sources = Sources(64);
    /// A system call.
    pub const SYSCALL: Sources = Sources(512);
    /// A tracepoint other than those of system calls.
    pub const TRACEPOINT: Sources = Sources(1024);
    /// A plugin of Falco.
    pub const PLUGIN: Sources = Sources(2048);
    /// Something about the recording itself.
    pub const METAEVENT: Sources = Sources(4096);
    /// An iterator over what existed before the first event.
    pub const ITER: Sources = Sources(8192);

    /// Whether all bits of `other` are set.
    #[inline]
    #[must_use]
    pub const fn has(self, other: Sources) -> bool {
        self.0 & other.0 == other.0
    }
}

/// What a call is about (`evt.category` in Falco).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are Falco's")]
pub enum Category {
    Unknown,
    Other,
    File,
    Net,
    Ipc,
    Memory,
    Process,
    Sleep,
    System,
    Signal,
    User,
    Time,
    IoRead,
    IoWrite,
    IoOther,
}

/// How the bytes of a parameter are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are Falco's")]
pub enum ParameterKind {
    Int8,
    Int16,
    Int32,
    Int64,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Charbuf,
    Bytebuf,
    Errno,
    Sockaddr,
    Socktuple,
    Fd,
    Pid,
    Fdlist,
    Fspath,
    Fsrelpath,
    Syscallid,
    Sigtype,
    Sigset,
    Reltime,
    Abstime,
    Port,
    Ipv4addr,
    Ipv6addr,
    Dyn,
    Flags8,
    Flags16,
    Flags32,
    Enumflags8,
    Enumflags16,
    Enumflags32,
    Mode,
    Uid,
    Gid,
    Charbufarray,
    CharbufPairArray,
    Fd32,
    Pid32,
}

impl ParameterKind {
    /// The number of bytes of a value of this kind; none if it varies.
    #[must_use]
    pub const fn size(self) -> Option<usize> {
        use ParameterKind as K;
        Some(match self {
            K::Int8 | K::Uint8 | K::Sigtype | K::Flags8 | K::Enumflags8 => 1,
            K::Int16 | K::Uint16 | K::Syscallid | K::Port | K::Flags16 | K::Enumflags16 => 2,
            K::Int32 | K::Uint32 | K::Sigset | K::Ipv4addr | K::Flags32 | K::Enumflags32 => 4,
            K::Mode | K::Uid | K::Gid | K::Fd32 | K::Pid32 => 4,
            K::Int64 | K::Uint64 | K::Errno | K::Fd | K::Pid | K::Reltime | K::Abstime => 8,
            K::Ipv6addr => 16,
            K::Charbuf | K::Bytebuf | K::Sockaddr | K::Socktuple | K::Fdlist => return None,
            K::Fspath | K::Fsrelpath | K::Dyn | K::Charbufarray | K::CharbufPairArray => {
                return None;
            }
        })
    }
}

/// The number of bytes of a value of this kind as [`EventType::sizes`] has it.
pub(super) const fn size_or_max(kind: ParameterKind) -> u16 {
    match kind.size() {
        Some(size) => size as u16,
        None => u16::MAX,
    }
}

/// How a number is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The kind alone decides.
    Na,
    /// Decimal.
    Dec,
    /// Hexadecimal.
    Hex,
    /// Octal.
    Oct,
}

/// Names of values or bits of a parameter, in the order in which they are looked for.
#[derive(Debug, PartialEq, Eq)]
pub struct FlagTable {
    /// The call and the parameter that use the table first.
    pub name: &'static str,
    /// Names with their values.
    pub values: &'static [(&'static str, u32)],
}

impl FlagTable {
    /// The value with this name.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<u32> {
        self.values.iter().find(|(n, _)| *n == name).map(|(_, value)| *value)
    }

    /// The name of exactly this value.
    #[must_use]
    pub fn name_of(&self, value: u32) -> Option<&'static str> {
        self.values.iter().find(|(_, v)| *v == value).map(|(name, _)| *name)
    }

    /// The names of the bits that are set, in the order of the table; for 0 the name of 0 if there is one.
    pub fn names_of(&self, value: u32) -> impl Iterator<Item = &'static str> + '_ {
        let matches = move |flag: u32| match value {
            0 => flag == 0,
            value => flag != 0 && value & flag == flag,
        };
        self.values.iter().filter(move |(_, flag)| matches(*flag)).map(|(name, _)| *name)
    }
}

/// One parameter of an event type.
#[derive(Debug)]
pub struct Parameter {
    /// Its name, as in `evt.arg.NAME`.
    pub name: &'static str,
    /// How its bytes are read.
    pub kind: ParameterKind,
    /// How a number is printed.
    pub format: Format,
    /// Names of its values or bits.
    pub flags: Option<&'static FlagTable>,
    /// For a relative path: the place of the parameter with the folder's descriptor.
    pub directory: Option<u8>,
    /// For [`ParameterKind::Dyn`]: what the first byte chooses from.
    pub alternatives: &'static [(ParameterKind, Format)],
}

/// One event type.
#[derive(Debug)]
pub struct EventType {
    /// Its number; enter events have even numbers, exit events odd ones.
    pub number: u16,
    /// Its name in Falco's libs, without the prefix `PPME_SYSCALL_` or `PPME_SOCKET_`.
    pub constant: &'static str,
    /// The name of the call (`evt.type`).
    pub name: &'static str,
    /// What the call is about.
    pub category: Category,
    /// Where the events come from.
    pub sources: Sources,
    /// What the type says about its events.
    pub flags: TypeFlags,
    /// Its parameters in the order of the bytes.
    pub parameters: &'static [Parameter],
    /// The number of bytes of each parameter; `u16::MAX` where it varies.
    pub(crate) sizes: &'static [u16],
    /// The place of the parameter that names the descriptor which the event uses: the first descriptor after the
    /// result.
    pub fd: Option<usize>,
    /// How the merger handles events of this type, by their number of parameters.
    pub conversions: &'static [Conversion],
}

impl EventType {
    /// Whether events of this type are recorded when a call ends.
    #[inline]
    #[must_use]
    pub const fn is_exit(&self) -> bool {
        self.number % 2 == 1
    }

    /// Whether the lengths of parameters have 32 bits.
    #[inline]
    #[must_use]
    pub const fn is_large(&self) -> bool {
        self.flags.has(TypeFlags::LARGE_PAYLOAD)
    }

    /// The place of the parameter with this name.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<usize> {
        self.parameters.iter().position(|p| p.name == name)
    }

    /// The conversion of events with this number of parameters.
    #[inline]
    #[must_use]
    pub fn conversion(&self, parameters: usize) -> Option<&'static Conversion> {
        self.conversions.iter().find(|c| usize::from(c.parameters) == parameters)
    }
}

/// How events of a type with a certain number of parameters become events of today.
#[derive(Debug)]
pub struct Conversion {
    /// The number of parameters that the event has.
    pub parameters: u8,
    /// What happens to the event.
    pub action: Action,
    /// What is appended, or what the new event is made of.
    pub sources: &'static [Source],
    /// Parameters of the enter event are appended and nothing else, one after the other from the one with this place.
    pub(crate) enter_from: Option<usize>,
    /// Parameters that are unknown are appended and nothing else.
    pub(crate) is_empty_added: bool,
}

impl Conversion {
    /// Whether a value comes from the enter event.
    #[inline]
    #[must_use]
    pub fn takes_enter(&self) -> bool {
        self.sources.iter().any(|source| matches!(source, Source::Enter(..)))
    }
}

/// What happens to an event that is converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It passes as it is.
    Pass,
    /// It waits for the exit event of its thread.
    Store,
    /// It waits for the exit event of its thread, and passes.
    StoreAndPass,
    /// It keeps its parameters and gets more.
    AddParams,
    /// It becomes an event of this type.
    ChangeType(u16),
}

/// Where a parameter of a converted event comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The parameter of the event itself with this place.
    Old(u8),
    /// The parameter of the enter event with this place; without an enter event the default value of the kind
    /// (`true`) or nothing (`false`).
    Enter(u8, bool),
    /// Zero bytes, or for user and group ids the id that means none.
    Default,
    /// Nothing: the value is unknown.
    Empty,
    /// A text in JSON made of all parameters of an old event of a container.
    ContainerJson,
}

/// One code of a system call or tracepoint (`ppm_sc` in Falco's libs).
#[derive(Debug)]
pub struct Call {
    /// The code, which is the same on all machines.
    pub code: u16,
    /// Its name.
    pub name: &'static str,
    /// Whether events of it change what is known of threads and descriptors.
    pub is_state: bool,
    /// Whether it is in the set for consumers that do not want reads and writes.
    pub is_simple: bool,
    /// Its number on x86_64.
    pub x86_64: Option<u16>,
    /// Its number on aarch64.
    pub aarch64: Option<u16>,
    /// Whether the table describes its events by a type of its own.
    pub is_used: bool,
    /// Whether sampling keeps all its events.
    pub is_never_dropped: bool,
    /// Whether sampling drops all its events.
    pub is_always_dropped: bool,
    /// The type of its exit events today.
    pub exit: Option<u16>,
    /// All types that events of it have or had.
    pub events: &'static [u16],
}
