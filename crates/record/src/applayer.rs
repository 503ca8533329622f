//! What an application protocol declares about itself for the rest of the sensor: tables only.
//!
//! The rule language must know which buffers, integer keywords and events exist without depending
//! on any parser; parsers must not know rules. They meet here: each protocol folder carries constant
//! tables of these types, the registry joins them into one [`Catalog`], and the rule compiler takes
//! the catalog as an argument. Adding a protocol therefore adds rows, never code, to the language.

use crate::Direction;
pub use crate::transport::Transport;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Index of a protocol in the registry (and in the catalog). 0 is "not known yet".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ProtoId(pub u8);

impl ProtoId {
    /// Not detected yet.
    pub const UNKNOWN: ProtoId = ProtoId(0);
    /// Detection gave up: EVE writes `failed`.
    pub const FAILED: ProtoId = ProtoId(255);

    /// A real protocol: neither unknown nor failed.
    #[inline]
    pub fn is_known(self) -> bool {
        self.0 != 0 && self.0 != 255
    }
}

/// Index of a buffer in the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferId(pub u16);

/// Where a buffer, integer or condition of a protocol can be had: direction, from which progress on,
/// and under which number the protocol's transaction knows it. The protocol is the one whose table the
/// hook is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hook {
    /// Direction in which it is inspected.
    pub direction: Direction,
    /// Least progress of the transaction in that direction at which it can be inspected.
    pub progress: u8,
    /// The protocol's own number for it, passed back to its transactions.
    pub local: u16,
}

impl Hook {
    /// A hook in that direction.
    pub const fn new(direction: Direction, progress: u8, local: u16) -> Hook {
        Hook { direction, progress, local }
    }
}

/// What a literal must look like to be able to match a buffer at all. The compiler refuses others
/// and brings the letters of the rest into the case the buffer is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LiteralForm {
    /// Anything.
    #[default]
    Any,
    /// 32 hex digits, lower case in the buffer (an MD5: `ja3.hash`).
    Md5,
    /// 59 bytes of hex pairs with colons, lower case in the buffer (`tls.cert_fingerprint`).
    Fingerprint,
    /// Hex pairs with colons unless it is one pair, upper case in the buffer (`tls.cert_serial`).
    Serial,
}

/// What a parser does only where somebody looks into a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BufferNeed {
    /// Nothing: the buffer is there anyway.
    #[default]
    Nothing,
    /// A JA3 hash.
    Ja3,
    /// A HASSH hash.
    Hassh,
    /// Bodies of messages are unpacked.
    Bodies,
    /// The same, and the content of files is kept.
    FileData,
    /// The same, and the type of files is found.
    FileMagic,
}

impl BufferNeed {
    /// Whether bodies of messages are unpacked for it.
    pub const fn is_of_bodies(self) -> bool {
        matches!(self, BufferNeed::Bodies | BufferNeed::FileData | BufferNeed::FileMagic)
    }
}

/// A named byte string of a transaction that rules inspect.
#[derive(Clone, Copy, Debug)]
pub struct BufferDef {
    /// The keyword that selects it (`http.uri`).
    pub name: &'static str,
    /// The name Suricata uses inside its reports and messages (`http_uri`).
    pub internal: &'static str,
    /// How Suricata's reports describe it (`http request uri`), empty when unknown.
    pub description: &'static str,
    /// Further sticky keywords for the same buffer (`dns_query`).
    pub aliases: &'static [&'static str],
    /// The legacy modifier that moves the content before it here (`http_uri`), if there is one.
    pub modifier: Option<&'static str>,
    /// The pcre flag letter that selects it (`U`), if there is one.
    pub pcre_flag: Option<u8>,
    /// Fast-pattern priority: lower is preferred (Suricata's: nearly all 2, methods 4).
    pub priority: u8,
    /// A transaction may have several instances, each inspected on its own.
    pub multi: bool,
    /// Grows while the transaction lives and is inspected in windows (bodies, file data).
    pub streaming: bool,
    /// Contents with upper-case letters can never match (the buffer is lower case): refused.
    pub lower_case: bool,
    /// What literals must look like.
    pub form: LiteralForm,
    /// What the parser does only for it.
    pub need: BufferNeed,
    /// A rule that names it goes in this direction, whatever an earlier `flow` asked for; a later one must not contradict.
    pub sets_flow: Option<Direction>,
    /// Where it can be had.
    pub hooks: &'static [Hook],
}

impl BufferDef {
    /// The usual case, to be refined with struct update syntax.
    pub const PLAIN: BufferDef = BufferDef {
        name: "",
        internal: "",
        description: "",
        aliases: &[],
        modifier: None,
        pcre_flag: None,
        priority: 2,
        multi: false,
        streaming: false,
        lower_case: false,
        form: LiteralForm::Any,
        need: BufferNeed::Nothing,
        sets_flow: None,
        hooks: &[],
    };

    /// The same, which the parser fills only where somebody looks into it.
    pub const fn needing(self, need: BufferNeed) -> BufferDef {
        BufferDef { need, ..self }
    }
}

/// Width of an integer keyword: bounds what a rule may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntegerWidth {
    /// 8 bits.
    U8,
    /// 16 bits.
    U16,
    /// 32 bits.
    U32,
    /// 64 bits.
    U64,
}

/// A number of a transaction that rules compare (`dns.opcode`, `tls.cert_chain_len`).
#[derive(Clone, Copy, Debug)]
pub struct IntegerDef {
    /// The keyword.
    pub name: &'static str,
    /// Further names of the keyword.
    pub aliases: &'static [&'static str],
    /// Bounds of the value.
    pub width: IntegerWidth,
    /// A transaction may have several values; the rule matches when one does.
    pub multi: bool,
    /// A rule may name the values that it compares after a comma: `any`, `all`, or one by its place.
    pub is_indexed: bool,
    /// Names that may stand for values.
    pub names: &'static [(&'static str, u64)],
    /// Names of its bits, for those whose value is a set of flags: a rule may list some, each to be
    /// set or, after `!`, not to be set.
    pub bits: &'static [(&'static str, u64)],
    /// Where it can be had.
    pub hooks: &'static [Hook],
}

impl IntegerDef {
    /// The usual case, to be refined with struct update syntax.
    pub const PLAIN: IntegerDef = IntegerDef {
        name: "",
        aliases: &[],
        width: IntegerWidth::U8,
        multi: false,
        is_indexed: false,
        names: &[],
        bits: &[],
        hooks: &[],
    };
}

/// Which of several values must meet a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Instances {
    /// At least one.
    Any,
    /// All of them, if there is one.
    All,
    /// The one at this place: from 0 on, or from -1 down for places counted from the end.
    At(i32),
}

impl Instances {
    /// Reads what follows the comma.
    pub fn from_text(text: &str) -> Option<Instances> {
        match text.trim() {
            "any" => Some(Instances::Any),
            "all" => Some(Instances::All),
            place => place.parse().ok().map(Instances::At),
        }
    }
}

/// A condition on a transaction that is neither bytes nor a number, made by the protocol itself
/// from the text of the keyword (`ssl_state`, `tls_cert_expired`, `dcerpc.iface`).
pub trait TxCondition: Send + Sync + fmt::Debug {
    /// Whether the transaction meets it. `tx` is the protocol's own transaction type.
    fn matches(&self, tx: &dyn Any, direction: Direction) -> bool;

    /// A rule may have one condition of this keyword only: two can't hold together.
    fn is_single(&self) -> bool {
        false
    }
}

/// What is wrong with the text of a keyword whose condition a protocol makes. Messages are Suricata's
/// where it has them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConditionError {
    /// There is no value.
    #[error("{keyword} needs a value")]
    NeedsValue {
        /// The keyword.
        keyword: &'static str,
    },
    /// There is a value.
    #[error("takes no value")]
    TakesNoValue,
    /// The same in Suricata's words.
    #[error("unexpected option to {keyword} keyword: '{keyword}'")]
    UnexpectedValue {
        /// The keyword.
        keyword: &'static str,
    },
    /// No command of the protocol.
    #[error("Invalid command value")]
    NotACommand,
    /// Neither yes nor no.
    #[error("invalid value; specify yes or no")]
    NotATruth,
    /// No number.
    #[error("not a number")]
    NotANumber,
    /// A number that the protocol does not have.
    #[error("{what} is {range}")]
    OutOfRange {
        /// What the number is.
        what: &'static str,
        /// Which numbers there are.
        range: &'static str,
    },
    /// None of the texts that there are.
    #[error("{keyword}: '{text}' is not {expected}")]
    NotOneOf {
        /// The keyword.
        keyword: &'static str,
        /// The text.
        text: String,
        /// Which texts there are.
        expected: &'static str,
    },
    /// No date.
    #[error("'{text}' is not a date")]
    NotADate {
        /// The text.
        text: String,
    },
    /// A range that holds nothing.
    #[error("second value in range must not be smaller than the first")]
    EmptyRange,
    /// Another keyword took its place.
    #[error("{keyword} is obsolete, use now {instead}")]
    Obsolete {
        /// The keyword.
        keyword: &'static str,
        /// The one to use.
        instead: &'static str,
    },
}

/// Turns the text after a keyword's colon into a condition.
pub type ConditionParser = fn(value: Option<&str>) -> Result<Arc<dyn TxCondition>, ConditionError>;

/// A keyword whose condition the protocol itself defines.
#[derive(Clone, Copy)]
pub struct ConditionDef {
    /// The keyword.
    pub name: &'static str,
    /// Further names of the keyword.
    pub aliases: &'static [&'static str],
    /// Makes the condition.
    pub parse: ConditionParser,
    /// Where it can be had.
    pub hooks: &'static [Hook],
}

impl fmt::Debug for ConditionDef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConditionDef").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A named irregularity of a protocol (`app-layer-event:http.missing_host_header`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventDef {
    /// Lower-case name as rules write it, without the protocol. EVE writes it in capitals for some
    /// protocols, see [`ProtoTable::events_in_capitals`].
    pub name: &'static str,
    /// The number transactions carry.
    pub code: u16,
}

/// An event of protocol detection: of no protocol, so that rules look at it with the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DetectionEvent {
    /// Each side speaks another protocol.
    MismatchBothDirections,
    /// The side that must not spoke first.
    WrongDirectionFirstData,
    /// The protocol shows in one direction only.
    OnlyOneDirection,
    /// Detection was left out.
    Skipped,
    /// A session that announced encryption continues without it.
    NoTlsAfterStarttls,
    /// A change of protocol led to another than was announced.
    UnexpectedProtocol,
}

impl DetectionEvent {
    /// All events.
    pub const ALL: [DetectionEvent; 6] = [
        DetectionEvent::MismatchBothDirections,
        DetectionEvent::WrongDirectionFirstData,
        DetectionEvent::OnlyOneDirection,
        DetectionEvent::Skipped,
        DetectionEvent::NoTlsAfterStarttls,
        DetectionEvent::UnexpectedProtocol,
    ];

    /// The name after `app-layer-event:` in a rule, and in records.
    pub const fn name(self) -> &'static str {
        match self {
            DetectionEvent::MismatchBothDirections => "applayer_mismatch_protocol_both_directions",
            DetectionEvent::WrongDirectionFirstData => "applayer_wrong_direction_first_data",
            DetectionEvent::OnlyOneDirection => "applayer_detect_protocol_only_one_direction",
            DetectionEvent::Skipped => "applayer_proto_detection_skipped",
            DetectionEvent::NoTlsAfterStarttls => "applayer_no_tls_after_starttls",
            DetectionEvent::UnexpectedProtocol => "applayer_unexpected_protocol",
        }
    }

    /// The event of this name.
    pub fn from_name(name: &str) -> Option<DetectionEvent> {
        DetectionEvent::ALL.into_iter().find(|e| e.name() == name)
    }
}

/// The log of lines that Suricata has for one protocol alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineLog {
    /// `http.log`.
    Http,
    /// `tls.log`.
    Tls,
}

/// Outputs that Suricata has for single protocols, in addition to records of EVE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnOutputs {
    /// Its transactions are lines of this log.
    pub line_log: Option<LineLog>,
    /// Bodies of its messages go to outputs and scripts that log bodies.
    pub logs_bodies: bool,
    /// A script that is an output may ask for its transactions.
    pub has_scripts: bool,
    /// A script of a rule could need it before rules had hooks; such a script is refused.
    pub was_script_need: bool,
}

impl OwnOutputs {
    /// None.
    pub const NONE: OwnOutputs = OwnOutputs {
        line_log: None,
        logs_bodies: false,
        has_scripts: false,
        was_script_need: false,
    };

    /// Scripts may ask for it, those of rules only once.
    pub const SCRIPTS: OwnOutputs =
        OwnOutputs { has_scripts: true, was_script_need: true, ..OwnOutputs::NONE };
}

/// Everything a protocol offers to rules.
#[derive(Clone, Copy, Debug)]
pub struct ProtoTable {
    /// Name in the registry (`http1`).
    pub name: &'static str,
    /// Name in EVE's `app_proto` (`http`).
    pub eve_name: &'static str,
    /// Names that rules may use in their header (`http`, `http1`).
    pub rule_names: &'static [&'static str],
    /// Transports.
    pub transports: &'static [Transport],
    /// Suricata counts it by transport (`dcerpc_tcp`) although it is looked for over one here.
    pub is_counted_by_transport: bool,
    /// Its session is one transaction, which Suricata does not count (`app_layer.tx`).
    pub has_uncounted_txs: bool,
    /// Names of the progress states to the server, in order of progress: hooks and `ts_progress`. An empty name
    /// is a state that rules can't name.
    pub states_to_server: &'static [&'static str],
    /// The same to the client.
    pub states_to_client: &'static [&'static str],
    /// Buffers.
    pub buffers: &'static [BufferDef],
    /// Integers.
    pub integers: &'static [IntegerDef],
    /// Conditions.
    pub conditions: &'static [ConditionDef],
    /// Events.
    pub events: &'static [EventDef],
    /// Progress to server and to client from which rules on events are asked.
    pub events_from: [u8; 2],
    /// EVE's anomaly records write the events' names in capitals (Suricata's older protocols: http,
    /// smtp, tls, modbus, dnp3), else as rules write them.
    pub events_in_capitals: bool,
    /// Names of its frames without the protocol's (`pdu`), see [`STREAM_FRAME`]; position is the
    /// number its parser reports them by, at most [`FRAME_KINDS_MAX`].
    pub frames: &'static [&'static str],
    /// What Suricata's reports on rules call it together with its other versions (`http_any`).
    pub any_version: Option<&'static str>,
    /// Outputs that Suricata has for it, in addition to records of EVE.
    pub own_outputs: OwnOutputs,
    /// Suricata's report on a rule for it advises modifiers (`http_uri`) where the rule has none.
    pub advises_modifiers: bool,
    /// Suricata's statistics have its memory (`NAME.memuse`, `NAME.memcap`).
    pub has_memory_counters: bool,
    /// Keywords of rules that only its flows can match, though they are no buffer, integer or condition (`tls_store`).
    pub other_keywords: &'static [&'static str],
    /// Suricata refuses a rule for it alone that asks for names of files.
    pub refuses_file_names: bool,
}

/// Frame that is a whole direction of a TCP stream: every protocol over TCP has it, whether it has others or not
/// (Suricata 8.0.7 lists it for those with others only, and takes rules for all).
pub const STREAM_FRAME: u8 = 31;

/// Kinds of app-layer frames of one protocol, in addition to its stream: kinds are kept as bits of a word.
pub const FRAME_KINDS_MAX: usize = 31;

impl ProtoTable {
    /// A protocol of requests and responses that offers nothing yet, to be refined with struct update
    /// syntax: EVE's name is its own, rules have none for it.
    pub const fn of_requests(name: &'static str, transports: &'static [Transport]) -> ProtoTable {
        ProtoTable {
            name,
            eve_name: name,
            rule_names: &[],
            transports,
            is_counted_by_transport: false,
            has_uncounted_txs: false,
            states_to_server: &["request_started", "request_complete"],
            states_to_client: &["response_started", "response_complete"],
            buffers: &[],
            integers: &[],
            conditions: &[],
            events: &[],
            events_from: [0; 2],
            events_in_capitals: false,
            frames: &[],
            any_version: None,
            own_outputs: OwnOutputs::NONE,
            advises_modifiers: false,
            has_memory_counters: false,
            other_keywords: &[],
            refuses_file_names: false,
        }
    }

    /// States of one direction.
    pub fn states(&self, direction: Direction) -> &'static [&'static str] {
        match direction {
            Direction::ToServer => self.states_to_server,
            Direction::ToClient => self.states_to_client,
        }
    }

    /// The number of a frame's name; `None`: there is no such frame.
    pub fn frame(&self, name: &str) -> Option<u8> {
        if name == "stream" && self.transports.contains(&Transport::Tcp) {
            return Some(STREAM_FRAME);
        }
        let at = self.frames.iter().take(FRAME_KINDS_MAX).position(|n| *n == name)?;
        u8::try_from(at).ok()
    }

    /// The name of a frame's number.
    pub fn frame_name(&self, kind: u8) -> &'static str {
        match kind {
            STREAM_FRAME => "stream",
            n => self.frames.get(usize::from(n)).copied().unwrap_or(""),
        }
    }

    /// The last state of one direction: progress at which a transaction is complete there.
    pub fn last_state(&self, direction: Direction) -> u8 {
        u8::try_from(self.states(direction).len().saturating_sub(1)).unwrap_or(u8::MAX)
    }
}

/// All tables of all protocols in registry order; position + 1 is the [`ProtoId`].
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// The tables.
    pub protocols: Vec<ProtoTable>,
    /// Buffers, joined by name over all protocols; position is the [`BufferId`].
    pub buffers: Vec<CatalogBuffer>,
}

/// A buffer with the hooks of all protocols that have it.
#[derive(Clone, Debug)]
pub struct CatalogBuffer {
    /// The definition, as the first protocol that has it defines it (its own `hooks` are in
    /// [`CatalogBuffer::hooks`] too); `multi` when any protocol says so.
    pub def: BufferDef,
    /// Hooks of all protocols.
    pub hooks: Vec<(ProtoId, Hook)>,
}

impl Catalog {
    /// Joins the tables of the registry.
    pub fn new(protocols: &[ProtoTable]) -> Catalog {
        let mut c = Catalog { protocols: protocols.to_vec(), buffers: Vec::new() };
        for (i, p) in protocols.iter().enumerate() {
            for def in p.buffers {
                let at = match c.buffers.iter().position(|b| b.def.name == def.name) {
                    Some(at) => {
                        c.buffers[at].def.multi |= def.multi;
                        at
                    }
                    None => {
                        c.buffers.push(CatalogBuffer { def: *def, hooks: Vec::new() });
                        c.buffers.len() - 1
                    }
                };
                for h in def.hooks {
                    c.buffers[at].hooks.push((ProtoId(i as u8 + 1), *h));
                }
            }
        }
        c
    }

    /// The protocol of that registry name.
    pub fn proto(&self, name: &str) -> Option<ProtoId> {
        self.protocols.iter().position(|p| p.name == name).map(|i| ProtoId(i as u8 + 1))
    }

    /// All protocols that a rule header's name stands for (`http` is `http1` and `http2`).
    pub fn protos_of_rule_name(&self, name: &str) -> Vec<ProtoId> {
        let it = self.protocols.iter().enumerate();
        it.filter(|(_, p)| p.rule_names.contains(&name))
            .map(|(i, _)| ProtoId(i as u8 + 1))
            .collect()
    }

    /// The protocols that have a keyword among their other ones.
    pub fn protos_of_other_keyword(&self, name: &str) -> Vec<ProtoId> {
        let have = self.tables().filter(|(_, table)| table.other_keywords.contains(&name));
        have.map(|(id, _)| id).collect()
    }

    /// All tables with their protocols' ids.
    pub fn tables(&self) -> impl Iterator<Item = (ProtoId, &ProtoTable)> {
        (1u8..).map(ProtoId).zip(&self.protocols)
    }

    /// The table of a protocol.
    pub fn table(&self, id: ProtoId) -> Option<&ProtoTable> {
        self.protocols.get(usize::from(id.0).checked_sub(1)?)
    }

    /// The name EVE writes for a protocol, `failed` and `unknown` included.
    pub fn eve_name(&self, id: ProtoId) -> &'static str {
        match self.table(id) {
            Some(t) => t.eve_name,
            None if id == ProtoId::FAILED => "failed",
            None => "unknown",
        }
    }

    /// The buffer that a sticky keyword selects.
    pub fn buffer_by_keyword(&self, keyword: &str) -> Option<BufferId> {
        let at = self
            .buffers
            .iter()
            .position(|b| b.def.name == keyword || b.def.aliases.contains(&keyword))?;
        Some(BufferId(at as u16))
    }

    /// The buffer that a legacy modifier selects.
    pub fn buffer_by_modifier(&self, modifier: &str) -> Option<BufferId> {
        let at = self.buffers.iter().position(|b| b.def.modifier == Some(modifier))?;
        Some(BufferId(at as u16))
    }

    /// The buffer that a pcre flag letter selects.
    pub fn buffer_by_pcre_flag(&self, flag: u8) -> Option<BufferId> {
        let at = self.buffers.iter().position(|b| b.def.pcre_flag == Some(flag))?;
        Some(BufferId(at as u16))
    }

    /// A buffer.
    pub fn buffer(&self, id: BufferId) -> Option<&CatalogBuffer> {
        self.buffers.get(usize::from(id.0))
    }

    /// The integer keyword of that name with the protocol that offers it.
    pub fn integer(&self, keyword: &str) -> Option<&'static IntegerDef> {
        self.protocols
            .iter()
            .flat_map(|p| p.integers)
            .find(|d| d.name == keyword || d.aliases.contains(&keyword))
    }

    /// The condition keyword of that name.
    pub fn condition(&self, keyword: &str) -> Option<&'static ConditionDef> {
        self.protocols
            .iter()
            .flat_map(|p| p.conditions)
            .find(|d| d.name == keyword || d.aliases.contains(&keyword))
    }

    /// The event `name` of the protocol with that rule name.
    pub fn event(&self, rule_name: &str, event: &str) -> Option<(ProtoId, u16)> {
        self.protocols.iter().enumerate().find_map(|(i, p)| {
            let ours = p.name == rule_name || p.rule_names.contains(&rule_name);
            let e = p.events.iter().find(|e| ours && e.name == event)?;
            Some((ProtoId(i as u8 + 1), e.code))
        })
    }
}
