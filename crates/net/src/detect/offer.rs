//! What a packet offers of what rules require of it before any of their conditions is looked at.
//!
//! Suricata asks a rule only on packets that have what the rule's conditions need, whether these are
//! negated or not (`docs/semantics.md`, "Which rules are asked on a packet").

use crate::view::PacketView;
use gabion_packet::TransportHeader;
use gabion_rules::SignatureFlags;

/// Requirements that depend on the packet alone.
const REQUIREMENTS: SignatureFlags = SignatureFlags(
    SignatureFlags::PAYLOAD.0
        | SignatureFlags::NO_PAYLOAD.0
        | SignatureFlags::TCP_INIT.0
        | SignatureFlags::TCP_UNUSUAL.0,
);

/// FIN, SYN and RST.
const INIT_FLAGS: u8 = 0x07;
/// URG, ECE and CWR.
const UNUSUAL_FLAGS: u8 = 0xe0;

/// What one packet offers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Offer {
    /// The requirements that it does not meet.
    missing: u32,
}

impl Offer {
    /// The offer of a packet. `releases_data`: stream data is inspected with it.
    pub(crate) fn new(p: &PacketView<'_>, releases_data: bool) -> Offer {
        let has_payload = (!p.payload.is_empty() && !p.no_payload) || releases_data;
        let mut has =
            if has_payload { SignatureFlags::PAYLOAD } else { SignatureFlags::NO_PAYLOAD }.0;
        if let TransportHeader::Tcp(t) = &p.headers.transport {
            if t.flags & INIT_FLAGS != 0 {
                has |= SignatureFlags::TCP_INIT.0;
            }
            if t.flags & UNUSUAL_FLAGS != 0 {
                has |= SignatureFlags::TCP_UNUSUAL.0;
            }
        }
        Offer { missing: REQUIREMENTS.0 & !has }
    }

    /// Whether a rule with these flags is asked.
    #[inline]
    pub(crate) fn meets(self, flags: SignatureFlags) -> bool {
        flags.0 & self.missing == 0
    }
}
