//! Detectors: one file each, and one line in the registry.
//!
//! A detector has state of a time window and state that outlasts windows, takes records of some
//! kinds of logs, and says evidence. It updates in O(1) and asks nothing but its state, the record
//! and what the site knows. Its [`About`] is what `docs/detections.md` is made of.

use crate::finding::Context;
use crate::profile::{Closing, Waking};
use crate::state::{Decoder, Slot, State};
use gabion_record::evidence::EvidenceType;
use gabion_record::logs::LogKind;

/// What a detector is, for people.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// The evidence it says.
    pub types: &'static [&'static EvidenceType],
    /// When it says it.
    pub condition: &'static str,
    /// Threat level and confidence.
    pub level: &'static str,
    /// Settings that change it, under the peer's names.
    pub settings: &'static [&'static str],
}

/// A detector.
pub trait Detector {
    /// State of one time window.
    type Window: State;
    /// State that outlasts windows.
    type Kept: State;
    /// What it is.
    const ABOUT: About;
    /// The kinds of logs it takes, a bit each ([`bit`]).
    const KINDS: u16;

    /// Takes a record in.
    fn record(
        window: &mut Slot<Self::Window>,
        kept: &mut Slot<Self::Kept>,
        context: &mut Context<'_, '_>,
    );

    /// A window is over, or the input is: says the last numbers of what was found in it and has grown since.
    fn close_window(window: &mut Slot<Self::Window>, closing: &mut Closing<'_>) {
        let _ = (window, closing);
    }

    /// The same of what outlasts windows.
    fn close_kept(kept: &mut Slot<Self::Kept>, closing: &mut Closing<'_>) {
        let _ = (kept, closing);
    }

    /// Decides what waits for the moment that has come.
    fn wake(kept: &mut Slot<Self::Kept>, waking: &mut Waking<'_>) {
        let _ = (kept, waking);
    }
}

/// The bit of a kind in [`Detector::KINDS`].
pub const fn bit(kind: LogKind) -> u16 {
    1 << kind as u16
}

macro_rules! registry {
    ($($module:ident::$detector:ident,)+) => {
        $(pub mod $module;)+

        /// State of all detectors of one window.
        #[derive(Debug, Default)]
        pub struct WindowStates {
            $($module: Slot<<$module::$detector as Detector>::Window>,)+
        }

        /// State of all detectors that outlasts windows.
        #[derive(Debug, Default)]
        pub struct KeptStates {
            $($module: Slot<<$module::$detector as Detector>::Kept>,)+
        }

        /// What all detectors are, in the order they are asked.
        pub const ALL: &[(&str, About)] =
            &[$((stringify!($module), <$module::$detector as Detector>::ABOUT),)+];

        fn run<const KIND: u16>(
            window: &mut WindowStates,
            kept: &mut KeptStates,
            context: &mut Context<'_, '_>,
        ) {
            $(if <$module::$detector as Detector>::KINDS & KIND != 0 {
                <$module::$detector as Detector>::record(
                    &mut window.$module,
                    &mut kept.$module,
                    context,
                );
            })+
        }

        /// Looks at where the states are that a flow changes: see [`State::touch`].
        #[inline]
        pub(crate) fn places(window: &WindowStates, kept: &KeptStates) -> usize {
            0 $(^ if <$module::$detector as Detector>::KINDS & bit(LogKind::Conn) != 0 {
                window.$module.place() ^ kept.$module.place()
            } else {
                0
            })+
        }

        /// Looks at what a flow changes first of each state.
        #[inline]
        pub(crate) fn touch(window: &WindowStates, kept: &KeptStates) -> usize {
            0 $(^ if <$module::$detector as Detector>::KINDS & bit(LogKind::Conn) != 0 {
                window.$module.touch() ^ kept.$module.touch()
            } else {
                0
            })+
        }

        /// Asks every detector what waits.
        pub fn wake(kept: &mut KeptStates, waking: &mut Waking<'_>) {
            $(<$module::$detector as Detector>::wake(&mut kept.$module, waking);)+
        }

        /// Asks every detector for the last numbers of a window.
        pub fn close_window(window: &mut WindowStates, closing: &mut Closing<'_>) {
            $(<$module::$detector as Detector>::close_window(&mut window.$module, closing);)+
        }

        /// Asks every detector for the last numbers of what outlasts windows.
        pub fn close_kept(kept: &mut KeptStates, closing: &mut Closing<'_>) {
            $(<$module::$detector as Detector>::close_kept(&mut kept.$module, closing);)+
        }

        states! { WindowStates { $($module,)+ } }
        states! { KeptStates { $($module,)+ } }
    };
}

macro_rules! states {
    ($name:ident { $($field:ident,)+ }) => {
        impl State for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                $(self.$field.encode(out);)+
            }
            fn decode(from: &mut Decoder<'_>) -> Option<Self> {
                Some($name { $($field: State::decode(from)?,)+ })
            }
            fn merge(&mut self, other: Self) {
                $(self.$field.merge(other.$field);)+
            }
            fn heap(&self) -> usize {
                0 $(+ self.$field.heap())+
            }
        }
    };
}

// The one table. Scans come first: who scans is not told of each unknown port. Signatures come before the
// scores of pairs, which ask whether a signature is the pair's own.
mod scan;

registry! {
    vertical_scan::VerticalScan,
    horizontal_scan::HorizontalScan,
    slow_scan::SlowScan,
    long_connection::LongConnection,
    rare_signature::RareSignature,
    pair_totals::PairTotals,
    unknown_port::UnknownPort,
    reconnection::Reconnection,
    port_zero::PortZero,
    private_ip::PrivateIp,
    different_localnet::DifferentLocalnet,
    multiple_ports::MultiplePorts,
    data_upload::DataUpload,
    beacon::Beacon,
    command_control::CommandControl,
    rare_destination::RareDestination,
    device_changing_ip::DeviceChangingIp,
    dga::Dga,
    dns_tunnel::DnsTunnel,
    young_domain::YoungDomain,
    high_entropy_dns::HighEntropyDns,
    invalid_dns::InvalidDns,
    arpa_scan::ArpaScan,
    dns_without_connection::DnsWithoutConnection,
    connection_without_dns::ConnectionWithoutDns,
    plain_port::PlainPort,
    http_traffic::HttpTraffic,
    user_agent_maker::UserAgentMaker,
    paste_site::PasteSite,
    tls::Tls,
    certificate_name::CertificateName,
    https_anomaly::HttpsAnomaly,
    ssh::Ssh,
    ssh_versions::SshVersions,
    smtp::Smtp,
    gre::Gre,
    login::Login,
    dhcp_scan::DhcpScan,
    arp::Arp,
    zeek_notice::ZeekNotice,
    threat_intelligence::ThreatIntelligence,
    listed_fingerprints::ListedFingerprints,
}

pub(crate) use tls::ORGANIZATIONS;

/// Destinations and names of a profile whose flows are kept exactly.
pub fn pairs(kept: &KeptStates) -> impl Iterator<Item = beacon::Calls<'_>> {
    kept.beacon.peek().into_iter().flat_map(beacon::Pairs::each)
}

/// Destinations and ports of a window with the letters of their flows.
pub fn tuples(window: &WindowStates) -> impl Iterator<Item = command_control::Tuple<'_>> {
    window.command_control.peek().into_iter().flat_map(command_control::Pairs::each)
}

/// Bytes of flows kept exactly.
pub(crate) fn flow_bytes(kept: &KeptStates) -> usize {
    kept.beacon.heap()
}

/// Bytes of letters.
pub(crate) fn letter_bytes(window: &WindowStates) -> usize {
    window.command_control.heap()
}

/// Gives a record to the detectors of its kind.
#[inline]
pub fn record(window: &mut WindowStates, kept: &mut KeptStates, context: &mut Context<'_, '_>) {
    match context.record.body.kind() {
        LogKind::Conn => run::<{ bit(LogKind::Conn) }>(window, kept, context),
        LogKind::Dns => run::<{ bit(LogKind::Dns) }>(window, kept, context),
        LogKind::Http => run::<{ bit(LogKind::Http) }>(window, kept, context),
        LogKind::Ssl => run::<{ bit(LogKind::Ssl) }>(window, kept, context),
        LogKind::Ssh => run::<{ bit(LogKind::Ssh) }>(window, kept, context),
        LogKind::Files => run::<{ bit(LogKind::Files) }>(window, kept, context),
        LogKind::Notice => run::<{ bit(LogKind::Notice) }>(window, kept, context),
        LogKind::Software => run::<{ bit(LogKind::Software) }>(window, kept, context),
        LogKind::Weird => run::<{ bit(LogKind::Weird) }>(window, kept, context),
        LogKind::Tunnel => run::<{ bit(LogKind::Tunnel) }>(window, kept, context),
        LogKind::Smtp => run::<{ bit(LogKind::Smtp) }>(window, kept, context),
        LogKind::Ftp => run::<{ bit(LogKind::Ftp) }>(window, kept, context),
        LogKind::Dhcp => run::<{ bit(LogKind::Dhcp) }>(window, kept, context),
        LogKind::Arp => run::<{ bit(LogKind::Arp) }>(window, kept, context),
        LogKind::Login => run::<{ bit(LogKind::Login) }>(window, kept, context),
        LogKind::OpenConn => run::<{ bit(LogKind::OpenConn) }>(window, kept, context),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_a_technique_and_one_detector() {
        let mut names = std::collections::HashSet::new();
        for (module, about) in ALL {
            assert!(!about.condition.is_empty() && !about.types.is_empty(), "{module}");
            for kind in about.types {
                assert!(kind.technique.starts_with('T'), "{}", kind.name);
                names.insert(kind.name);
            }
        }
        assert!(names.len() >= ALL.len() / 2);
    }
}
