//! Flows that others announced and that have not come yet.

use crate::limits::{EXPECTATION_SECONDS, EXPECTATIONS_MAX};
use gabion_flow::Flow;
use gabion_proto::{Endpoints, Expectation};
use gabion_record::Addr;
use gabion_record::applayer::ProtoId;
use std::collections::VecDeque;

/// One announced flow.
#[derive(Clone, Debug)]
struct Waiting {
    a: Addr,
    b: Addr,
    port_a: Option<u16>,
    port_b: Option<u16>,
    proto: ProtoId,
    payload: Vec<u8>,
    announced_by: u64,
    until_ns: u64,
}

/// Announced flows, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Expectations {
    waiting: VecDeque<Waiting>,
}

impl Expectations {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Remembers what a flow announced.
    pub(crate) fn add<T>(&mut self, e: Expectation, of: &Flow<T>, ends: &Endpoints, now_ns: u64) {
        let at = gabion_proto::registry().iter().position(|p| p.table.name == e.proto);
        let Some(at) = at else { return };
        if self.waiting.len() >= EXPECTATIONS_MAX {
            self.waiting.pop_front();
        }
        self.waiting.push_back(Waiting {
            a: ends.client,
            b: e.address.unwrap_or(ends.server),
            port_a: e.client_port,
            port_b: e.server_port,
            proto: ProtoId(at as u8 + 1),
            payload: e.payload,
            announced_by: of.id,
            until_ns: now_ns.saturating_add(EXPECTATION_SECONDS * 1_000_000_000),
        });
    }

    /// The announcement of a new flow, taken out.
    pub(crate) fn take(
        &mut self,
        src: (Addr, u16),
        dst: (Addr, u16),
        now_ns: u64,
    ) -> Option<(ProtoId, Vec<u8>, u64)> {
        while self.waiting.front().is_some_and(|w| w.until_ns < now_ns) {
            self.waiting.pop_front();
        }
        let port = |want: Option<u16>, is: u16| want.is_none_or(|p| p == is);
        let at = self.waiting.iter().position(|w| {
            let forth =
                w.a == src.0 && w.b == dst.0 && port(w.port_a, src.1) && port(w.port_b, dst.1);
            let back =
                w.a == dst.0 && w.b == src.0 && port(w.port_a, dst.1) && port(w.port_b, src.1);
            forth || back
        })?;
        let w = self.waiting.remove(at)?;
        Some((w.proto, w.payload, w.announced_by))
    }
}
