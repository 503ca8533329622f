//! Detectors: one file each, and one line in the registry.
//!
//! A detector has state of a time window and state that outlasts windows, takes records of some
//! kinds of logs, and says evidence. It updates in O(1) and asks nothing but its state, the record
//! and what the site knows. Its [`About`] is what `docs/detections.md` is made of.

use crate::ahead::Ahead;
use crate::context::Context;
use crate::context::{Closing, Waking};
use crate::state::{Decoder, Slot, State, Stored};
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
    /// Settings that change it, under Slips' names.
    pub settings: &'static [&'static str],
}

/// A detector.
pub(crate) trait Detector {
    /// State of one time window.
    type Window: State + Stored;
    /// State that outlasts windows.
    type Kept: State + Stored;
    /// What it is.
    const ABOUT: About;
    /// The kinds of logs it takes, a bit each ([`bit`]).
    const KINDS: u32;

    /// Whether it may say something of the first flow of a profile, or ask to be woken by it, where that flow
    /// fits a seed ([`crate::seeds`]): of such a flow a seed knows how long it lasted and what it sent. What such a
    /// flow leaves in its state is made when the second comes.
    #[inline]
    fn speaks_first(context: &Context<'_, '_>) -> bool {
        let _ = context;
        true
    }

    /// Prefetches what a flow changes beyond what [`State::prefetch`] reads.
    #[inline]
    fn prefetch(window: &Slot<Self::Window>, kept: &Slot<Self::Kept>, ahead: &Ahead) -> usize {
        let _ = (window, kept, ahead);
        0
    }

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
pub(crate) const fn bit(kind: LogKind) -> u32 {
    1 << kind as u16
}

macro_rules! registry {
    ($($module:ident::$detector:ident,)+) => {
        $(pub(crate) mod $module;)+

        /// State of all detectors of one window.
        #[derive(Debug, Default)]
        pub(crate) struct WindowStates {
            $($module: Slot<<$module::$detector as Detector>::Window>,)+
        }

        /// State of all detectors that outlasts windows.
        #[derive(Debug, Default)]
        pub(crate) struct KeptStates {
            $($module: Slot<<$module::$detector as Detector>::Kept>,)+
        }

        /// What all detectors are, in the order they are asked.
        pub const ALL: &[(&str, About)] =
            &[$((stringify!($module), <$module::$detector as Detector>::ABOUT),)+];

        fn run<const KIND: u32>(
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

        /// Gives the first flow of a profile, one that fits a seed, to the detectors that may say something of
        /// it, or else to the others, which would only remember it.
        fn run_first<const SPEAKS: bool>(
            window: &mut WindowStates,
            kept: &mut KeptStates,
            context: &mut Context<'_, '_>,
        ) {
            $(if <$module::$detector as Detector>::KINDS & bit(LogKind::Conn) != 0
                && <$module::$detector as Detector>::speaks_first(context) == SPEAKS
            {
                <$module::$detector as Detector>::record(
                    &mut window.$module,
                    &mut kept.$module,
                    context,
                );
            })+
        }

        /// Prefetches where the states are that a flow changes: see [`State::prefetch`].
        #[inline]
        pub(crate) fn prefetch_places(window: &WindowStates, kept: &KeptStates) -> usize {
            0 $(^ if <$module::$detector as Detector>::KINDS & bit(LogKind::Conn) != 0 {
                window.$module.prefetch_place() ^ kept.$module.prefetch_place()
            } else {
                0
            })+
        }

        /// Prefetches what a flow changes first of each state.
        #[inline]
        pub(crate) fn prefetch_states(window: &WindowStates, kept: &KeptStates) -> usize {
            0 $(^ if <$module::$detector as Detector>::KINDS & bit(LogKind::Conn) != 0 {
                window.$module.prefetch() ^ kept.$module.prefetch()
            } else {
                0
            })+
        }

        /// Prefetches what this flow changes of each state.
        #[inline]
        pub(crate) fn prefetch_flow(window: &WindowStates, kept: &KeptStates, ahead: &Ahead) -> usize {
            0 $(^ if <$module::$detector as Detector>::KINDS & bit(LogKind::Conn) != 0 {
                <$module::$detector as Detector>::prefetch(&window.$module, &kept.$module, ahead)
            } else {
                0
            })+
        }

        /// Asks every detector what waits.
        pub(crate) fn wake(kept: &mut KeptStates, waking: &mut Waking<'_>) {
            $(<$module::$detector as Detector>::wake(&mut kept.$module, waking);)+
        }

        /// Asks every detector for the last numbers of a window.
        pub(crate) fn close_window(window: &mut WindowStates, closing: &mut Closing<'_>) {
            $(<$module::$detector as Detector>::close_window(&mut window.$module, closing);)+
        }

        /// Asks every detector for the last numbers of what outlasts windows.
        pub(crate) fn close_kept(kept: &mut KeptStates, closing: &mut Closing<'_>) {
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

// The one table. Scans come first: a scanner is not reported for each unknown port. Signatures come before the
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
    rule_alert::RuleAlert,
    threat_intelligence::ThreatIntelligence,
    listed_fingerprints::ListedFingerprints,
}

/// Destinations and names of a profile whose flows are kept exactly.
pub(crate) fn pairs(kept: &KeptStates) -> impl Iterator<Item = beacon::Calls<'_>> {
    kept.beacon.peek().into_iter().flat_map(beacon::Pairs::each)
}

/// Destinations and ports of a window with the letters of their flows.
pub(crate) fn tuples(window: &WindowStates) -> impl Iterator<Item = command_control::Tuple<'_>> {
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
pub(crate) fn record(
    window: &mut WindowStates,
    kept: &mut KeptStates,
    context: &mut Context<'_, '_>,
) {
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
        LogKind::RuleAlert => run::<{ bit(LogKind::RuleAlert) }>(window, kept, context),
    }
}

/// Gives the first flow of a profile, one that fits a seed, to the detectors that may say something of it.
pub(crate) fn first(
    window: &mut WindowStates,
    kept: &mut KeptStates,
    context: &mut Context<'_, '_>,
) {
    run_first::<true>(window, kept, context);
}

/// Gives that flow to the detectors that would only have remembered it: a second one has come.
#[cold]
pub(crate) fn after_first(
    window: &mut WindowStates,
    kept: &mut KeptStates,
    context: &mut Context<'_, '_>,
) {
    run_first::<false>(window, kept, context);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Flows of many kinds that fit a seed: the evidence of each, and when it wants to be asked again, is the same
    /// whether its profile is made or not.
    #[test]
    fn the_first_flow_says_the_same_without_a_profile() {
        use crate::outlet::Outlet;
        use crate::profile::{NEVER, Profile, first, step};
        use crate::seeds::Seed;
        use crate::settings::Settings;
        use crate::site::Site;
        use crate::trial::conn;
        let eager = Settings { upload_mb: 1, long_connection_s: 10.0, ..Settings::default() };
        let (mut said, mut asked, mut seeds) = (0, 0, 0);
        for settings in [Settings::default(), eager] {
            let mut site = Site::new(None, &settings);
            for n in 0..40_000u32 {
                let pick = |of: u32, by: u32| crate::sketch::mix(u64::from(n / by)) as u32 % of;
                let src = ["10.0.0.1", "9.9.9.9", "192.168.3.4"][pick(3, 1) as usize];
                let dst = ["1.2.3.4", "10.0.0.7", "192.168.9.9", "224.0.0.5"][pick(4, 2) as usize];
                let port = [0, 22, 23, 53, 80, 123, 443, 4444, 40_000][pick(9, 3) as usize];
                let mut c = conn(i64::from(n) * 7, src, dst, port);
                c.service = ["", "ssl", "http", "dns"][pick(4, 5) as usize];
                c.src_port = [0, 53, 40_000][pick(3, 7) as usize];
                c.bytes =
                    [0, 100, 70_000, 2_000_000, 200_000_000, 900_000_000][pick(6, 11) as usize];
                c.seconds = [0.0, 3.0, 65.0, 5_000.0, 50_000.0][pick(5, 13) as usize];
                c = if pick(2, 17) == 0 { c } else { c.udp() };
                c = if pick(2, 19) == 0 { c } else { c.refused() };
                if pick(4, 23) == 0 {
                    c.state = "REJ";
                }
                let r = c.record();
                let facts = site.see(&r, &settings);
                if Seed::from_record(&r).is_none() {
                    continue;
                }
                seeds += 1;
                let (mut with, mut without) = (Outlet::default(), Outlet::default());
                let seen = (&r, &facts);
                let (mut made, mut small) = (Profile::new(r.src), Profile::new(r.src));
                let timer = step(&mut made, &[seen], &settings, &mut with);
                assert_eq!(first(&mut small, seen, &settings, &mut without), timer, "{r:?}");
                let (with, without) = (with.drain_evidence(), without.drain_evidence());
                assert_eq!(format!("{without:?}"), format!("{with:?}"), "{r:?}");
                small.remember(Seed::from_record(&r).unwrap());
                assert!(small.bytes() <= made.bytes() + size_of::<Seed>());
                said += with.len();
                asked += usize::from(timer != NEVER);
            }
        }
        assert!(seeds > 10_000 && said > 5_000 && asked > 500, "{seeds} {said} {asked}");
    }

    /// What waits is a profile with its first flow packed in it: the flow counts once a second comes, and once
    /// a reader of the profile asks for all of it.
    #[test]
    fn a_packed_first_flow_counts_when_the_second_comes() {
        use crate::profile::Profile;
        use crate::settings::Settings;
        use crate::site::Facts;
        use crate::trial::{Trial, at, conn};
        let mut trial = Trial::new();
        trial.give(&conn(0, "10.0.0.1", "1.2.3.4", 443));
        let letters =
            |p: &Profile| p.tuples().map(|t| (t.flows, t.letters.len())).collect::<Vec<_>>();
        let profile = trial.engine.profile(at("10.0.0.1")).unwrap();
        assert!(letters(profile).is_empty() && profile.timer() != crate::profile::NEVER);
        let mut bytes = Vec::new();
        profile.encode(&mut bytes);
        let mut back = Profile::decode(&bytes).unwrap();
        let (mut half, other) =
            (Profile::decode(&bytes).unwrap(), Profile::decode(&bytes).unwrap());
        back.complete(&Facts::default(), &Settings::default());
        assert_eq!(letters(&back)[0].0, 1);
        half.merge(other);
        half.complete(&Facts::default(), &Settings::default());
        assert_eq!(letters(&half)[0].0, 2);
        trial.give(&conn(60, "10.0.0.1", "1.2.3.4", 443));
        let profile = trial.engine.profile(at("10.0.0.1")).unwrap();
        assert_eq!(letters(profile)[0].0, 2);
        assert!(bytes.len() < 1 << 10 && size_of::<Profile>() <= 512, "{}", size_of::<Profile>());
    }

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
