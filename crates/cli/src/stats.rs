//! The statistics record.

use gabion_flow::{DefragCounters, FlowCounters, TcpCounters};
use gabion_net::{Engine, NetCounters, Worker};
use gabion_packet::{Counter, DecodeCounters, DecoderEvent};
use gabion_record::json::Json;

/// Wall time, for records that are about the run itself.
pub(crate) fn now_ns() -> u64 {
    u64::try_from(gabion_runtime::clock::since_epoch().as_nanos()).unwrap_or(u64::MAX)
}

/// A tree of counters, so that dotted names become nested objects in the order they come.
#[derive(Default)]
struct Node {
    value: Option<u64>,
    children: Vec<(String, Node)>,
}

impl Node {
    fn set(&mut self, path: &str, n: u64) {
        let (head, rest) = path.split_once('.').map_or((path, None), |(h, r)| (h, Some(r)));
        let at = match self.children.iter().position(|(k, _)| k == head) {
            Some(at) => at,
            None => {
                self.children.push((head.to_string(), Node::default()));
                self.children.len() - 1
            }
        };
        let child = &mut self.children[at].1;
        match rest {
            Some(r) => child.set(r, n),
            None => child.value = Some(child.value.unwrap_or(0) + n),
        }
    }

    fn write(&self, j: &mut Json) {
        for (k, c) in &self.children {
            if c.children.is_empty() {
                j.number(k, c.value.unwrap_or(0));
            } else {
                j.open_key(k);
                c.write(j);
                j.close();
            }
        }
    }
}

/// A worker's counters, kept when the worker itself is gone.
pub(crate) struct WorkerStats {
    decode: DecodeCounters,
    flow: FlowCounters,
    tcp: TcpCounters,
    defrag: DefragCounters,
    pub(crate) net: NetCounters,
}

impl WorkerStats {
    /// What the worker has counted so far.
    pub(crate) fn of(w: &Worker) -> WorkerStats {
        let (flow, tcp, defrag) = w.flow_counters();
        let (decode, net) = (w.decode_counters().clone(), w.counters().clone());
        WorkerStats { decode, flow, tcp, defrag, net }
    }
}

/// The `stats` object of these workers together.
pub(crate) fn json(
    workers: &[&WorkerStats],
    engine: &Engine,
    counts: Option<gabion_rules::Counts>,
) -> Vec<u8> {
    let mut n = Node::default();
    n.set("uptime", 0);
    for w in workers {
        let d = &w.decode;
        for c in Counter::ALL {
            n.set(&format!("decoder.{}", c.name()), d.get(*c));
        }
        for e in DecoderEvent::ALL {
            n.set(&format!("decoder.event.{}", e.counter_name()), d.event(*e));
        }
        w.tcp.each(&mut |name, v| n.set(&format!("tcp.{name}"), v));
        w.flow.each(&mut |name, v| n.set(&format!("flow.{name}"), v));
        w.defrag.each(&mut |name, v| n.set(&format!("defrag.{name}"), v));
        let c = &w.net;
        n.set("detect.alert", c.alerts);
        n.set("detect.alert_queue_overflow", c.alert_queue_overflow);
        n.set("detect.alerts_suppressed", c.alerts_suppressed);
        if engine.options.inline {
            n.set("ips.blocked", c.ips_blocked);
            n.set("ips.rejected", c.ips_rejected);
            n.set("ips.accepted", c.packets.saturating_sub(c.ips_blocked));
            for (reason, times) in &c.drop_reasons {
                n.set(&format!("ips.drop_reason.{}", reason.replace(' ', "_")), *times);
            }
        }
        app_layer(&mut n, c, engine);
        exception_policies(&mut n, c);
    }
    let mut j = Json::new();
    j.open();
    n.write(&mut j);
    let mut text = j.take();
    if let Some(counts) = counts {
        // `engines` is an array: it goes in front of the other members of `detect`.
        let engines = format!(
            "\"engines\":[{{\"id\":0,\"rules_loaded\":{},\"rules_failed\":{},\"rules_skipped\":{}}}],",
            counts.loaded, counts.failed, counts.skipped
        );
        let key = b"\"detect\":{";
        if let Some(at) = text.windows(key.len()).position(|w| w == key) {
            let at = at + key.len();
            text.splice(at..at, engines.into_bytes());
        }
    }
    text.push(b'}');
    text
}

/// Times each exception policy was carried out, where one was at all (the peer leaves out policies
/// that are `ignore`).
fn exception_policies(n: &mut Node, c: &NetCounters) {
    const WHOLE_FLOW: [&str; 5] = ["pass_flow", "bypass", "drop_flow", "reject", "reject_both"];
    const PACKET: [&str; 5] = ["pass_packet", "bypass", "drop_packet", "reject", "reject_both"];
    const BOTH: [&str; 7] =
        ["pass_packet", "pass_flow", "bypass", "drop_packet", "drop_flow", "reject", "reject_both"];
    for (trigger, path, policies) in [
        ("defrag_memcap", "defrag.memcap", &PACKET[..]),
        ("flow_memcap", "flow.memcap", &PACKET[..]),
        ("stream_memcap", "tcp.ssn_memcap", &BOTH[..]),
        ("stream_reassembly_memcap", "tcp.reassembly", &BOTH[..]),
        ("stream_midstream", "tcp.midstream", &WHOLE_FLOW[..]),
        ("app_layer_error", "app_layer.error", &BOTH[..]),
    ] {
        let mine: Vec<_> =
            c.exceptions.iter().filter(|(t, p, _)| *t == trigger && *p != "ignore").collect();
        if mine.is_empty() {
            continue;
        }
        for p in policies {
            let times = mine.iter().filter(|(_, q, _)| q == p).map(|(_, _, n)| *n).sum();
            n.set(&format!("exception_policy.{path}.{p}"), times);
        }
    }
}

fn app_layer(n: &mut Node, c: &NetCounters, engine: &Engine) {
    use gabion_record::applayer::Transport;
    for (which, name) in [(0, "failed_tcp"), (1, "failed_udp")] {
        n.set(&format!("app_layer.flow.{name}"), c.app.flows.first().map_or(0, |f| f[which]));
    }
    for (i, p) in engine.catalog.protocols.iter().enumerate() {
        let both = p.transports.len() > 1;
        for t in p.transports {
            let which = usize::from(*t == Transport::Udp);
            let name = match (both, which) {
                (false, _) => p.eve_name.to_string(),
                (true, 0) => format!("{}_tcp", p.eve_name),
                (true, _) => format!("{}_udp", p.eve_name),
            };
            let get = |v: &[[u64; 2]]| v.get(i + 1).map_or(0, |x| x[which]);
            n.set(&format!("app_layer.flow.{name}"), get(&c.app.flows));
            n.set(&format!("app_layer.error.{name}.gap"), get(&c.app.gaps));
            n.set(&format!("app_layer.error.{name}.parser"), get(&c.app.errors));
            n.set(&format!("app_layer.tx.{name}"), get(&c.app.txs));
        }
    }
    n.set("app_layer.expectations", c.app.expectations);
}
