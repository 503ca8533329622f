//! The configured protocols, shared by all workers.

use super::allowance::RecordAllowance;
use super::detection::{Detection, is_detected, is_parsed};
use crate::error::ConfigError;
use gabion_proto::registry::protocol;
use gabion_proto::{Parser, Protocol, Requirements, Settings, Sparing};
use gabion_record::applayer::{ProtoId, Transport};
use gabion_record::eve::Wants;
use gabion_record::{Direction, Tree};

/// Protocols as configured: shared by all workers.
pub struct Protocols {
    pub(crate) detection: Detection,
    settings: Vec<Option<Settings>>,
    pub(crate) requirements: Requirements,
    /// Frames that are wanted, one bit a kind, by protocol id; empty: none of any protocol.
    pub(crate) frames: Vec<u32>,
    /// Protocols, by id, whose transactions no rule looks at.
    unlooked: Vec<bool>,
    /// The records to write.
    wants: Wants,
    parsed: u64,
    /// By place in the registry: whether flows over TCP and UDP are recognized as it.
    detected: Vec<[bool; 2]>,
}

impl Protocols {
    /// Reads every protocol's part of the configuration.
    pub fn new(config: &Tree, requirements: Requirements) -> Result<Protocols, ConfigError> {
        let registry: Vec<&'static Protocol> = gabion_proto::registry().to_vec();
        let detection = Detection::new(&registry, config);
        let mut settings = Vec::with_capacity(registry.len());
        for p in &registry {
            let parsed = p.table.transports.iter().any(|t| is_parsed(p, config, *t));
            settings.push(if parsed {
                let node = config.get(&format!("app-layer.protocols.{}", p.config_name));
                Some((p.configure)(node)?)
            } else {
                None
            });
        }
        let on = settings.iter().enumerate().filter(|(_, s)| s.is_some());
        let parsed = on.fold(0, |bits, (at, _)| bits | 1_u64.checked_shl(at as u32).unwrap_or(0));
        let is_on = |p: &Protocol, transport| {
            p.table.transports.contains(&transport) && is_detected(p, config, transport)
        };
        let transports = [Transport::Tcp, Transport::Udp];
        let detected = registry.iter().map(|p| transports.map(|t| is_on(p, t))).collect();
        let (frames, unlooked, wants) = (Vec::new(), Vec::new(), Wants::default());
        Ok(Protocols {
            detection,
            settings,
            requirements,
            frames,
            unlooked,
            wants,
            parsed,
            detected,
        })
    }

    /// Whether flows over a transport are recognized as the protocol at this place of the registry: the configuration
    /// does not switch it off.
    pub fn is_detected(&self, place: usize, transport: Transport) -> bool {
        let which = usize::from(transport == Transport::Udp);
        self.detected.get(place).is_some_and(|both| both[which])
    }

    /// Names the frames that are wanted: kinds as bits by protocol id, or all.
    pub fn want_frames(&mut self, mut kinds: Vec<u32>, all: bool) {
        if all {
            kinds = vec![u32::MAX; gabion_proto::registry().len() + 1];
        }
        if kinds.iter().any(|k| *k != 0) {
            self.frames = kinds;
        }
    }

    /// Sets the protocols whose transactions no rule looks at, by protocol id, and the records to write.
    pub fn leave(&mut self, unlooked: Vec<bool>, wants: Wants) {
        (self.unlooked, self.wants) = (unlooked, wants);
    }

    /// A parser of a protocol, if the protocol is parsed.
    pub(super) fn open(&self, id: ProtoId, transport: Transport) -> Option<Box<dyn Parser>> {
        let p = protocol(id)?;
        let settings = self.settings.get(usize::from(id.0) - 1)?.as_ref()?;
        Some((p.open)(settings, transport))
    }
}

impl Protocols {
    /// Protocols that are parsed, one bit each by their place in the registry.
    pub(super) fn parsed(&self) -> u64 {
        self.parsed
    }

    /// Whether no rule looks at transactions of a protocol.
    pub(super) fn is_unlooked(&self, proto: ProtoId) -> bool {
        self.unlooked.get(usize::from(proto.0)) == Some(&true)
    }

    /// What need not be kept of transactions of a protocol that no rule looks at, in a flow that
    /// had these records and whose packets have `sent` bytes.
    pub(super) fn sparing(
        &self,
        proto: ProtoId,
        had: &RecordAllowance,
        sent: u64,
    ) -> Option<Sparing> {
        self.is_unlooked(proto).then(|| Sparing {
            last: Direction::BOTH.map(|d| protocol(proto).map_or(1, |p| p.table.last_state(d))),
            has_records: self.wants.app,
            has_event_records: self.wants.anomaly_app,
            left: had.left(sent),
            refused: 0,
        })
    }
}

impl std::fmt::Debug for Protocols {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Protocols").finish_non_exhaustive()
    }
}
