//! Tags: flows and hosts whose packets are logged after an alert.
//!
//! Those of flows belong to the worker that has the flow. Those of hosts belong to all workers, which look at them in packet
//! order, for every packet, if a rule tags hosts: what is logged does not depend on the number of workers.

use crate::context::PacketContext;
use crate::lapsing::Lapsing;
use crate::limits::{TAGS_MAX, reached};
use crate::ordered::Ordered;
use crate::records::{header, link_of};
use crate::view::PacketView;
use gabion_record::Addr;
use gabion_record::eve::PacketRecord;
use gabion_rules::compiled::actions::{Tag, TagMetric, TagScope};
use std::hash::Hash;

#[derive(Clone, Copy, Debug)]
struct TagState {
    tag: Tag,
    start_ns: u64,
    packets: u64,
    bytes: u64,
    /// Number of the packet that set it: it is not logged itself.
    since: u64,
}

impl TagState {
    /// Whether its seconds are over.
    fn is_past(&self, now_ns: u64) -> bool {
        let lasts_ns = u64::from(self.tag.count) * 1_000_000_000;
        now_ns > self.start_ns.saturating_add(lasts_ns)
    }
}

/// Flows, or hosts, whose packets are logged.
#[derive(Debug)]
struct Tagged<K>(Lapsing<K, TagState>);

impl<K> Default for Tagged<K> {
    fn default() -> Self {
        Tagged(Lapsing::default())
    }
}

impl<K: Hash + Eq> Tagged<K> {
    fn tag(&mut self, key: K, tag: Tag, view: &PacketView<'_>) {
        let now_ns = view.clock_ns;
        let state = TagState {
            tag,
            start_ns: now_ns,
            packets: 1,
            bytes: u64::from(view.headers.len),
            since: view.number,
        };
        // Tags that count packets or bytes wait for them; the tags of a flow end with the flow.
        let is_over = |t: &TagState| t.tag.metric == TagMetric::Seconds && t.is_past(now_ns);
        if self.0.entry(key, TAGS_MAX, is_over, || state).is_none() {
            reached::TAGS_MAX.count();
        }
    }

    /// Counts a packet; `None` where nothing is tagged.
    fn count(&mut self, key: &K, view: &PacketView<'_>) -> Option<Counted> {
        let t = self.0.get_mut(key)?;
        if t.since == view.number {
            return Some(Counted::First);
        }
        t.packets += 1;
        t.bytes += u64::from(view.headers.len);
        let is_over = match t.tag.metric {
            TagMetric::Packets => t.packets > u64::from(t.tag.count),
            TagMetric::Bytes => t.bytes > u64::from(t.tag.count),
            TagMetric::Seconds => t.is_past(view.clock_ns),
        };
        if is_over {
            self.0.remove(key);
            return Some(Counted::Over);
        }
        Some(Counted::Logged)
    }
}

/// What a tag says of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counted {
    /// It was set with this packet.
    First,
    /// The packet is logged.
    Logged,
    /// The tag has ended before it.
    Over,
}

/// Hosts whose packets are logged.
#[derive(Debug, Default)]
pub(crate) struct HostTags(Tagged<Addr>);

/// Flows and hosts whose packets are logged.
#[derive(Debug, Default)]
pub(crate) struct Tags {
    flows: Tagged<u64>,
    hosts: Ordered<HostTags>,
    /// A rule tags hosts, or one of an earlier load did.
    asks_hosts: bool,
}

impl Tags {
    /// Tags with those of hosts.
    pub(crate) fn new(hosts: Ordered<HostTags>) -> Tags {
        Tags { flows: Tagged::default(), hosts, asks_hosts: false }
    }

    /// A flow has ended: its packets are not logged any more.
    pub(crate) fn untag(&mut self, flow: u64) {
        if !self.flows.0.is_empty() {
            self.flows.0.remove(&flow);
        }
    }

    /// A rule tags the packet's flow or one of its hosts.
    pub(crate) fn tag(&mut self, tag: Tag, cx: &PacketContext<'_>) {
        let (view, flow) = (cx.view, cx.flow.as_deref());
        match (tag.scope, flow) {
            (TagScope::Session, Some(f)) => self.flows.tag(f.id, tag, view),
            (TagScope::Session, None) => {}
            (TagScope::HostSource, _) => {
                self.hosts.write(|hosts| hosts.0.tag(view.headers.src, tag, view));
            }
            (TagScope::HostDestination, _) => {
                self.hosts.write(|hosts| hosts.0.tag(view.headers.dst, tag, view));
            }
        }
    }

    /// Logs the packet if its flow or one of its hosts is tagged.
    #[inline]
    pub(crate) fn log_tagged(&mut self, cx: &mut PacketContext<'_>) {
        self.asks_hosts |= cx.engine.detector.as_ref().is_some_and(|d| d.tags_hosts);
        if (self.asks_hosts || !self.flows.0.is_empty()) && !cx.view.is_pseudo {
            self.log_if_tagged(cx);
        }
    }

    fn log_if_tagged(&mut self, cx: &mut PacketContext<'_>) {
        let (view, flow) = (cx.view, cx.flow.as_deref());
        let of_flow = flow.and_then(|f| self.flows.count(&f.id, view));
        let of_hosts = if self.asks_hosts {
            self.hosts.write(|hosts| {
                let ends = [view.headers.src, view.headers.dst];
                ends.map(|host| hosts.0.count(&host, view))
            })
        } else {
            [None; 2]
        };
        let mut is_logged = false;
        for counted in [of_flow].into_iter().chain(of_hosts) {
            match counted {
                None => {}
                Some(Counted::First) => cx.outcome.is_tagged = Some(true),
                Some(Counted::Over) => cx.outcome.is_tagged = Some(false),
                Some(Counted::Logged) => {
                    cx.outcome.is_tagged = Some(true);
                    is_logged = true;
                }
            }
        }
        if is_logged {
            cx.sink.packet(&PacketRecord {
                header: header(view, flow, None),
                packet: view.headers.bytes(view.frame),
                link: link_of(view),
            });
        }
    }
}
