//! Exception policies: what happens to a packet or its flow when a limit is reached or a parser fails, and what
//! reached it. Values are Suricata's, in configuration and in EVE.

/// What to do when a limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum ExceptionPolicy {
    /// Depends on mode: see [`ExceptionPolicy::resolve`].
    #[default]
    Auto,
    /// Continue as if nothing had happened.
    Ignore,
    /// Drop this and all later packets of the flow.
    DropFlow,
    /// Drop this packet.
    DropPacket,
    /// Drop and answer with a reset or unreachable.
    Reject,
    /// Let the flow through without any further inspection.
    Bypass,
    /// No inspection of the flow; it is still tracked.
    PassFlow,
    /// No inspection of this packet.
    PassPacket,
}

/// The names of the values, as configuration and EVE write them (EVE with underscores).
pub const EXCEPTION_POLICY_NAMES: [(&str, ExceptionPolicy); 8] = [
    ("auto", ExceptionPolicy::Auto),
    ("ignore", ExceptionPolicy::Ignore),
    ("drop-flow", ExceptionPolicy::DropFlow),
    ("drop-packet", ExceptionPolicy::DropPacket),
    ("reject", ExceptionPolicy::Reject),
    ("bypass", ExceptionPolicy::Bypass),
    ("pass-flow", ExceptionPolicy::PassFlow),
    ("pass-packet", ExceptionPolicy::PassPacket),
];

impl ExceptionPolicy {
    /// The value of a configuration word.
    pub fn from_name(name: &str) -> Option<ExceptionPolicy> {
        let name = name.trim();
        EXCEPTION_POLICY_NAMES.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, p)| *p)
    }

    /// The configuration word.
    pub fn name(self) -> &'static str {
        EXCEPTION_POLICY_NAMES.iter().find(|(_, p)| *p == self).map_or("ignore", |(n, _)| n)
    }

    /// The word in EVE: `drop_flow`.
    pub fn eve_name(self) -> &'static str {
        match self {
            ExceptionPolicy::Auto => "auto",
            ExceptionPolicy::Ignore => "ignore",
            ExceptionPolicy::DropFlow => "drop_flow",
            ExceptionPolicy::DropPacket => "drop_packet",
            ExceptionPolicy::Reject => "reject",
            ExceptionPolicy::Bypass => "bypass",
            ExceptionPolicy::PassFlow => "pass_flow",
            ExceptionPolicy::PassPacket => "pass_packet",
        }
    }

    /// Replaces `Auto`: drop the flow when packets can be dropped, else ignore. For the midstream
    /// trigger with pickup enabled use [`ExceptionPolicy::resolve_midstream`].
    pub fn resolve(self, inline: bool) -> ExceptionPolicy {
        match self {
            ExceptionPolicy::Auto if inline => ExceptionPolicy::DropFlow,
            ExceptionPolicy::Auto => ExceptionPolicy::Ignore,
            other => other,
        }
    }

    /// The midstream policy: with pickup enabled only whole-flow values make sense, and `Auto`
    /// means `Ignore`. The second value is true if `Ignore` replaces the configured policy.
    pub fn resolve_midstream(self, inline: bool, pickup: bool) -> (ExceptionPolicy, bool) {
        if !pickup {
            return (self.resolve(inline), false);
        }
        match self {
            ExceptionPolicy::Auto | ExceptionPolicy::Ignore => (ExceptionPolicy::Ignore, false),
            ExceptionPolicy::Bypass | ExceptionPolicy::PassFlow => (self, false),
            ExceptionPolicy::DropFlow
            | ExceptionPolicy::DropPacket
            | ExceptionPolicy::Reject
            | ExceptionPolicy::PassPacket => (ExceptionPolicy::Ignore, true),
        }
    }
}

/// Which limit was reached, or what failed. The name is EVE's `exception_policy.target`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ExceptionTrigger {
    /// `defrag.memcap`: a fragment was not kept.
    DefragMemcap = 0,
    /// `flow.memcap`: no flow could be created for the packet.
    FlowMemcap = 1,
    /// `stream.memcap`: no TCP session could be created.
    StreamMemcap = 2,
    /// `stream.reassembly.memcap`: a segment was not kept.
    ReassemblyMemcap = 3,
    /// `stream.midstream`: a TCP packet has no session and does not open one.
    Midstream = 4,
    /// `app-layer.error-policy`: a parser failed.
    AppLayerError = 5,
}

impl ExceptionTrigger {
    /// Number of triggers.
    pub const COUNT: usize = 6;
    /// All, in index order.
    pub const ALL: [ExceptionTrigger; 6] = [
        ExceptionTrigger::DefragMemcap,
        ExceptionTrigger::FlowMemcap,
        ExceptionTrigger::StreamMemcap,
        ExceptionTrigger::ReassemblyMemcap,
        ExceptionTrigger::Midstream,
        ExceptionTrigger::AppLayerError,
    ];

    /// EVE's name of the target.
    pub const fn name(self) -> &'static str {
        match self {
            ExceptionTrigger::DefragMemcap => "defrag_memcap",
            ExceptionTrigger::FlowMemcap => "flow_memcap",
            ExceptionTrigger::StreamMemcap => "stream_memcap",
            ExceptionTrigger::ReassemblyMemcap => "stream_reassembly_memcap",
            ExceptionTrigger::Midstream => "stream_midstream",
            ExceptionTrigger::AppLayerError => "app_layer_error",
        }
    }

    /// The trigger's bit in a set of them.
    pub const fn bit(self) -> u8 {
        1 << self as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_follows_the_mode() {
        assert_eq!(ExceptionPolicy::Auto.resolve(true), ExceptionPolicy::DropFlow);
        assert_eq!(ExceptionPolicy::Auto.resolve(false), ExceptionPolicy::Ignore);
        assert_eq!(ExceptionPolicy::PassPacket.resolve(true), ExceptionPolicy::PassPacket);
        assert_eq!(
            ExceptionPolicy::DropPacket.resolve_midstream(true, true),
            (ExceptionPolicy::Ignore, true)
        );
        assert_eq!(
            ExceptionPolicy::PassFlow.resolve_midstream(false, true),
            (ExceptionPolicy::PassFlow, false)
        );
        for (name, policy) in EXCEPTION_POLICY_NAMES {
            assert_eq!(ExceptionPolicy::from_name(name), Some(policy));
            assert_eq!(policy.name(), name);
            assert_eq!(policy.eve_name(), name.replace('-', "_"));
        }
    }
}
