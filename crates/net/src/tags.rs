//! Tags: flows and hosts whose packets are logged after an alert.

use crate::context::PacketContext;
use crate::lapsing::Lapsing;
use crate::limits::{TAGS_MAX, reached};
use crate::records::{header, link_of};
use gabion_record::Addr;
use gabion_record::eve::PacketRecord;
use gabion_rules::compiled::{Tag, TagMetric, TagScope};

/// The flow or host that a tag follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Tagged {
    Flow(u64),
    Host(Addr),
}

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

/// Flows and hosts whose packets are logged.
#[derive(Debug, Default)]
pub(crate) struct Tags {
    active: Lapsing<Tagged, TagState>,
}

impl Tags {
    /// A flow has ended: its packets are not logged any more.
    pub(crate) fn untag(&mut self, flow: u64) {
        if !self.active.is_empty() {
            self.active.remove(&Tagged::Flow(flow));
        }
    }

    /// A rule tags the packet's flow or one of its hosts.
    pub(crate) fn tag(&mut self, tag: Tag, cx: &PacketContext<'_>) {
        let (view, flow) = (cx.view, cx.flow.as_deref());
        let key = match (tag.scope, flow) {
            (TagScope::Session, Some(f)) => Tagged::Flow(f.id),
            (TagScope::Session, None) => return,
            (TagScope::HostSource, _) => Tagged::Host(view.headers.src),
            (TagScope::HostDestination, _) => Tagged::Host(view.headers.dst),
        };
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
        if self.active.entry(key, TAGS_MAX, is_over, || state).is_none() {
            reached::TAGS_MAX.count();
        }
    }

    /// Logs the packet if its flow or one of its hosts is tagged.
    #[inline]
    pub(crate) fn log_tagged(&mut self, cx: &mut PacketContext<'_>) {
        if !self.active.is_empty() && !cx.view.is_pseudo {
            self.log_if_tagged(cx);
        }
    }

    fn log_if_tagged(&mut self, cx: &mut PacketContext<'_>) {
        let (view, flow) = (cx.view, cx.flow.as_deref());
        let keys = [
            flow.map(|f| Tagged::Flow(f.id)),
            Some(Tagged::Host(view.headers.src)),
            Some(Tagged::Host(view.headers.dst)),
        ];
        let mut log = false;
        for key in keys.into_iter().flatten() {
            let Some(t) = self.active.get_mut(&key) else { continue };
            cx.outcome.is_tagged = Some(true);
            if t.since == view.number {
                continue;
            }
            t.packets += 1;
            t.bytes += u64::from(view.headers.len);
            let over = match t.tag.metric {
                TagMetric::Packets => t.packets > u64::from(t.tag.count),
                TagMetric::Bytes => t.bytes > u64::from(t.tag.count),
                TagMetric::Seconds => t.is_past(view.clock_ns),
            };
            if over {
                cx.outcome.is_tagged = Some(false);
                self.active.remove(&key);
            } else {
                log = true;
            }
        }
        if log {
            cx.sink.packet(&PacketRecord {
                header: header(view, flow, None),
                packet: view.headers.bytes(view.frame),
                link: link_of(view),
            });
        }
    }
}
