//! What happens once a rule has matched, and how often it may alert.

use crate::action::Action;
use crate::packet::{FlowintValue, HostbitsTrack, XbitsTrack};
use crate::text::Text;
use gabion_record::Addr;

/// What a match does in addition to alerting, in the order written.
#[derive(Clone, Debug)]
pub enum PostMatch {
    /// `flowbits:set|unset|toggle`.
    Flowbits {
        /// Number in [`crate::Ruleset::flowbits`].
        bit: u32,
        /// What is done.
        command: BitCommand,
    },
    /// `flowint:name,=|+|-,value`.
    Flowint {
        /// Number in [`crate::Ruleset::flowints`].
        variable: u32,
        /// What is done.
        command: FlowintCommand,
        /// With what.
        value: FlowintValue,
    },
    /// `xbits:set|unset|toggle`.
    Xbits {
        /// Number in [`crate::Ruleset::xbits`].
        bit: u32,
        /// What is done.
        command: BitCommand,
        /// Whose.
        track: XbitsTrack,
        /// Seconds until it is forgotten.
        expire_s: u32,
    },
    /// `hostbits:set|unset|toggle`.
    Hostbits {
        /// Number in [`crate::Ruleset::hostbits`].
        bit: u32,
        /// What is done.
        command: BitCommand,
        /// Whose.
        track: HostbitsTrack,
        /// Seconds until it is forgotten.
        expire_s: u32,
    },
    /// `tag`.
    Tag(Tag),
    /// `filestore`.
    Filestore {
        /// Direction of the files.
        direction: FilestoreDirection,
        /// Which files.
        scope: FilestoreScope,
    },
    /// `tls_store`.
    TlsStore,
    /// `config`.
    Config(ConfigAction),
    /// `bypass`.
    Bypass,
    /// `nfq_set_mark`.
    NfqSetMark {
        /// Mark.
        mark: u32,
        /// Bits changed.
        mask: u32,
    },
    /// `replace`: the content before it (index in the payload inspection) is overwritten.
    Replace {
        /// Index of the inspection in [`crate::Signature::buffers`].
        inspection: u8,
        /// Index of the content in it.
        condition: u8,
        /// The new bytes, as many as the content has.
        bytes: Box<[u8]>,
    },
}

/// Writing commands on bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitCommand {
    /// `set`
    Set,
    /// `unset`
    Unset,
    /// `toggle`
    Toggle,
}

/// Writing commands on flow integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowintCommand {
    /// `=`
    Set,
    /// `+`
    Add,
    /// `-`
    Subtract,
}

/// `tag`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// The flow, or a host.
    pub scope: TagScope,
    /// How much.
    pub count: u32,
    /// Of what.
    pub metric: TagMetric,
}

/// What a `tag` follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagScope {
    /// `session`
    Session,
    /// `host,…,src`
    HostSource,
    /// `host,…,dst`
    HostDestination,
}

/// Unit of a `tag`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagMetric {
    /// `packets`
    Packets,
    /// `seconds`
    Seconds,
    /// `bytes`
    Bytes,
}

/// Direction of `filestore`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FilestoreDirection {
    /// That of the rule.
    #[default]
    Default,
    /// `request`, `to_server`
    ToServer,
    /// `response`, `to_client`
    ToClient,
    /// `both`
    Both,
}

/// Scope of `filestore`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FilestoreScope {
    /// The file at hand.
    #[default]
    File,
    /// `tx`: all files of the transaction.
    Transaction,
    /// `flow`, `ssn`: all files of the flow.
    Flow,
}

/// `config:logging disable, type tx|flow, scope tx|flow`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigAction {
    /// Subsystem.
    pub subsystem: ConfigSubsystem,
    /// Whose configuration changes.
    pub kind: ConfigKind,
    /// For how long.
    pub scope: ConfigScope,
}

/// What `config` changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigSubsystem {
    /// `logging disable`
    LoggingDisable,
    /// `tracking disable` (firewall: files, …)
    TrackingDisable,
}

/// `type` of `config`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigKind {
    /// `tx`
    Transaction,
    /// `flow`
    Flow,
}

/// `scope` of `config`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigScope {
    /// `tx`
    Transaction,
    /// `flow`
    Flow,
    /// `packet`
    Packet,
}

/// What thresholds count by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ThresholdTrack {
    /// `by_src`
    Source,
    /// `by_dst`
    Destination,
    /// `by_both`
    Both,
    /// `by_rule`
    Rule,
    /// `by_flow`
    Flow,
    /// `by_either`: only in `suppress`.
    Either,
}

/// Kind of a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThresholdKind {
    /// `limit`
    Limit,
    /// `threshold`
    Threshold,
    /// `both`
    Both,
    /// `backoff`, with its multiplier.
    Backoff {
        /// Factor between alerts.
        multiplier: u32,
    },
    /// `detection_filter`
    DetectionFilter,
    /// `rate_filter` of the threshold file.
    Rate {
        /// What the rule does meanwhile.
        new_action: Action,
        /// For how long, seconds.
        timeout_s: u32,
    },
}

/// A threshold on a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// Kind.
    pub kind: ThresholdKind,
    /// What it counts by.
    pub track: ThresholdTrack,
    /// Count.
    pub count: u32,
    /// Window, seconds.
    pub seconds: u32,
}

/// A `suppress` of the threshold file that applies to a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suppression {
    /// Whose address; `None`: whatever the addresses.
    pub track: Option<ThresholdTrack>,
    /// The addresses, number in [`crate::Ruleset::addresses`].
    pub addresses: Option<crate::address::AddressId>,
}

impl Suppression {
    /// Whether an alert from these addresses is suppressed; `contains` asks the set.
    pub fn applies(
        &self,
        source: Addr,
        destination: Addr,
        contains: impl Fn(Addr) -> bool,
    ) -> bool {
        match self.track {
            None => true,
            Some(ThresholdTrack::Source) => contains(source),
            Some(ThresholdTrack::Destination) => contains(destination),
            Some(_) => contains(source) || contains(destination),
        }
    }
}

/// `target`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// `src_ip`
    Source,
    /// `dest_ip`
    Destination,
}

/// A reference: `url,example.com`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Its system (`url`, `cve`).
    pub system: Text,
    /// Its text.
    pub text: Text,
}
