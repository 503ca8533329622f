//! The statistics record.

use super::reload::RuleFacts;
use gabion_flow::{
    DefragCounters, ExceptionPolicy, ExceptionTrigger, FlowCounters, StreamConfig, StreamEvent,
    TcpCounters,
};
use gabion_net::{Engine, MemoryPressure, NetCounters, Policies, Worker};
use gabion_outputs::StatsTexts;
use gabion_outputs::timestamp::Stamp;
use gabion_packet::{Counter, DecodeCounters, DecoderEvent};
use gabion_record::json::Json;
use std::sync::{Mutex, PoisonError};

/// Where the counters of single threads are.
const THREADS: &str = "threads";

/// A tree of counters, so that dotted names become nested objects in the order they come.
#[derive(Clone, Default)]
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

    /// Makes a counter known, at zero.
    fn zero(&mut self, path: &str) {
        self.set(path, 0);
    }

    /// Takes out counters that are zero, and objects that are empty then.
    fn prune(&mut self) {
        for (_, c) in &mut self.children {
            c.prune();
        }
        self.children.retain(|(_, c)| !c.children.is_empty() || c.value.is_some_and(|v| v != 0));
    }

    fn child(&self, name: &str) -> Option<&Node> {
        self.children.iter().find(|(k, _)| k == name).map(|(_, c)| c)
    }

    /// With `deltas`, what each counter has grown by since the record before stands after it: all of it in the first.
    fn write(&self, j: &mut Json, deltas: bool, before: Option<&Node>) {
        for (k, c) in &self.children {
            let before = before.and_then(|b| b.child(k));
            if c.children.is_empty() {
                let value = c.value.unwrap_or(0);
                j.number(k, value);
                if deltas {
                    let before = before.and_then(|b| b.value).unwrap_or(0);
                    j.number(&format!("{k}_delta"), value.saturating_sub(before));
                }
            } else {
                j.open_key(k);
                c.write(j, deltas, before);
                j.close();
            }
        }
    }
}

/// The counters of a run's last record, for what they have grown by in the next.
#[derive(Default)]
pub(crate) struct LastRecord(Mutex<Node>);

/// A worker's counters, kept when the worker itself is gone.
pub(crate) struct WorkerStats {
    decode: DecodeCounters,
    flow: FlowCounters,
    tcp: TcpCounters,
    defrag: DefragCounters,
    pressure: MemoryPressure,
    pub(crate) net: NetCounters,
}

impl WorkerStats {
    /// TCP packets that were not looked at further for their checksum.
    pub(crate) fn wrong_checksums(&self) -> u64 {
        self.tcp.invalid_checksum
    }

    /// What the worker has counted so far.
    pub(crate) fn from_worker(w: &Worker) -> WorkerStats {
        let (flow, tcp, defrag) = w.flow_counters();
        let (decode, net) = (w.decode_counters().clone(), w.counters().clone());
        WorkerStats { decode, flow, tcp, defrag, pressure: w.memory_pressure(), net }
    }

    /// Adds what was counted of fragments before they came to workers.
    pub(crate) fn add_defrag(&mut self, counters: &DefragCounters) {
        self.defrag.merge(counters);
    }
}

/// The `stats` object of these workers together, and of each by its number: with all counters, and without those at zero
/// (`null-values: no`).
pub(crate) fn json(
    numbered: &[(usize, &WorkerStats)],
    engine: &Engine,
    rules: Option<RuleFacts>,
    outputs: &[(&'static str, u64)],
    last: Option<&LastRecord>,
) -> StatsTexts {
    let workers: Vec<&WorkerStats> = numbered.iter().map(|(_, stats)| *stats).collect();
    let mut n = tree(&workers, engine);
    for (path, value) in outputs {
        n.set(path, *value);
    }
    let rules = rules.filter(|_| engine.detector.is_some());
    let last = last.map(|last| last.0.lock().unwrap_or_else(PoisonError::into_inner));
    let before = last.as_deref();
    let (all, deltas) = (text(&n, rules, (false, before)), text(&n, rules, (true, before)));
    let counters = named(&n);
    let uptime = n.child("uptime").and_then(|n| n.value).unwrap_or(0);
    let mut whole = n.clone();
    n.prune();
    let without_zeros = text(&n, rules, (false, before));
    let deltas_without_zeros = text(&n, rules, (true, before));
    let mut of = by_thread(numbered, engine);
    let before_of = before.and_then(|before| before.child(THREADS));
    let object = |n: &Node, deltas| {
        let mut j = Json::new();
        j.open();
        n.write(&mut j, deltas, before_of);
        j.close();
        j.take_bytes()
    };
    let (all_of, deltas_of) = (object(&of, false), object(&of, true));
    let counters_of = of.children.iter().map(|(name, n)| (name.clone(), named(n))).collect();
    whole.children.push((THREADS.to_owned(), of.clone()));
    of.prune();
    let (without_zeros_of, deltas_without_zeros_of) = (object(&of, false), object(&of, true));
    if let Some(mut last) = last {
        *last = whole;
    }
    StatsTexts {
        totals: [all, without_zeros, deltas, deltas_without_zeros],
        threads: [all_of, without_zeros_of, deltas_of, deltas_without_zeros_of],
        uptime,
        counters,
        thread_counters: counters_of,
    }
}

/// What each worker counts for itself, by Suricata's names of threads. What holds for all of them is in the totals alone.
fn by_thread(numbered: &[(usize, &WorkerStats)], engine: &Engine) -> Node {
    let of_protocols = with_memory(engine);
    let of_all: Vec<&str> = ["uptime", "memcap"].into_iter().chain(of_protocols).collect();
    let mut threads = Node::default();
    for (number, stats) in numbered {
        let mut of = tree(&[stats], engine);
        of.children.retain(|(name, _)| !of_all.contains(&name.as_str()));
        threads.children.push((format!("W#{:02}", number + 1), of));
    }
    threads
}

fn tree(workers: &[&WorkerStats], engine: &Engine) -> Node {
    let mut n = Node::default();
    n.set("uptime", 0);
    if engine.options.inline {
        for w in workers {
            inline(&mut n, &w.net);
            if engine.options.firewall {
                firewall(&mut n, &w.net);
            }
        }
    }
    for w in workers {
        decoders(&mut n, &w.decode);
        w.tcp.each(&mut |name, v| n.set(name, v));
        w.flow.each(&mut |name, v| n.set(name, v));
    }
    for w in workers {
        exception_policies(&mut n, &w.net, &engine.options.policies, &engine.options.stream);
        w.defrag.each(&mut |name, v| n.set(name, v));
        if engine.options.counts_stream_events {
            stream_events(&mut n, &w.net);
        }
        n.set("flow_bypassed.local_pkts", w.net.bypassed_packets);
        n.set("flow_bypassed.local_bytes", w.net.bypassed_bytes);
        if engine.detector.is_some() {
            n.set("detect.alert", w.net.alerts);
            n.set("detect.alert_queue_overflow", w.net.alert_queue_overflow);
            n.set("detect.alerts_suppressed", w.net.alerts_suppressed);
            n.set("detect.lua.errors", w.net.scripts.errors);
            n.set("detect.lua.blocked_function_errors", w.net.scripts.blocked_functions);
            n.set("detect.lua.instruction_limit_errors", w.net.scripts.instruction_limits);
            n.set("detect.lua.memory_limit_errors", w.net.scripts.memory_limits);
        }
        app_layer(&mut n, &w.net, engine);
    }
    let most = |f: fn(&MemoryPressure) -> u64| workers.iter().map(|w| f(&w.pressure)).max();
    n.set("memcap.pressure", most(|p| p.now).unwrap_or(0));
    n.set("memcap.pressure_max", most(|p| p.most).unwrap_or(0));
    // The record is written when all flows have ended: their parsers hold nothing any more.
    for name in with_memory(engine) {
        n.zero(&format!("{name}.memuse"));
        n.zero(&format!("{name}.memcap"));
    }
    n
}

/// The names of the protocols whose memory Suricata counts.
fn with_memory(engine: &Engine) -> impl Iterator<Item = &'static str> {
    let tables = engine.catalog.tables().map(|(_, table)| table);
    tables.filter(|table| table.has_memory_counters).map(|table| table.eve_name)
}

/// Names with dots and values of these workers' counters.
pub(crate) fn counters(workers: &[&WorkerStats], engine: &Engine) -> Vec<(String, u64)> {
    named(&tree(workers, engine))
}

fn named(n: &Node) -> Vec<(String, u64)> {
    fn walk(path: &str, n: &Node, out: &mut Vec<(String, u64)>) {
        for (k, c) in &n.children {
            let path = if path.is_empty() { k.clone() } else { format!("{path}.{k}") };
            if c.children.is_empty() {
                out.push((path, c.value.unwrap_or(0)));
            } else {
                walk(&path, c, out);
            }
        }
    }
    let mut out = Vec::new();
    walk("", n, &mut out);
    out
}

fn text(n: &Node, rules: Option<RuleFacts>, (deltas, before): (bool, Option<&Node>)) -> Vec<u8> {
    let mut j = Json::new();
    j.open();
    for (k, c) in &n.children {
        if c.children.is_empty() {
            // What stands alone is no counter: how long the run has lasted.
            j.number(k, c.value.unwrap_or(0));
            continue;
        }
        j.open_key(k);
        if let ("detect", Some(rules)) = (k.as_str(), rules) {
            engines(&mut j, rules);
        }
        c.write(&mut j, deltas, before.and_then(|b| b.child(k)));
        j.close();
    }
    if let Some(rules) = rules
        && !n.children.iter().any(|(k, _)| k == "detect")
    {
        j.open_key("detect");
        engines(&mut j, rules);
        j.close();
    }
    let mut text = j.take_bytes();
    text.push(b'}');
    text
}

fn engines(j: &mut Json, RuleFacts { counts, loaded_ns }: RuleFacts) {
    j.open_array_key("engines");
    j.open();
    j.number("id", 0u64);
    let mut loaded = Vec::new();
    Stamp::new().iso(loaded_ns, &mut loaded);
    j.field("last_reload", &loaded);
    j.number("rules_loaded", counts.loaded as u64);
    j.number("rules_failed", counts.failed as u64);
    j.number("rules_skipped", counts.skipped as u64);
    j.close();
    j.close_array();
}

fn decoders(n: &mut Node, d: &DecodeCounters) {
    for c in Counter::ALL {
        n.set(&format!("decoder.{}", c.name()), d.get(*c));
    }
    for e in DecoderEvent::ALL {
        n.set(&format!("decoder.{}", e.counter_name()), d.event(*e));
    }
}

/// Packets with each stream event, under the names of anomaly records.
fn stream_events(n: &mut Node, c: &NetCounters) {
    for event in StreamEvent::ALL {
        let packets = c.stream_events.get(usize::from(event.id())).copied().unwrap_or(0);
        n.set(&format!("stream.{}", event.name()), packets);
    }
}

/// Packets accepted and dropped (inline), with the reasons in Suricata's order.
fn inline(n: &mut Node, c: &NetCounters) {
    const REASONS: [&str; 17] = [
        "decode_error",
        "defrag_error",
        "defrag_memcap",
        "flow_memcap",
        "flow_drop",
        "applayer_error",
        "applayer_memcap",
        "rules",
        "threshold_detection_filter",
        "stream_error",
        "stream_memcap",
        "stream_midstream",
        "stream_reassembly",
        "stream_urgent",
        "nfq_error",
        "tunnel_packet_drop",
        "exception_policy_flow_drop",
    ];
    let through = c.packets.saturating_sub(c.firewall_blocked);
    n.set("ips.accepted", through.saturating_sub(c.ips_blocked));
    n.set("ips.blocked", c.ips_blocked);
    n.set("ips.rejected", c.ips_rejected);
    n.zero("ips.replaced");
    for reason in REASONS {
        n.zero(&format!("ips.drop_reason.{reason}"));
    }
    for (reason, times) in &c.drop_reasons {
        if !reason.is_of_firewall() {
            n.set(&format!("ips.drop_reason.{}", reason.counter()), *times);
        }
    }
}

/// Packets that the firewall accepted and dropped, with the reasons in Suricata's order.
fn firewall(n: &mut Node, c: &NetCounters) {
    const REASONS: [&str; 6] = [
        "rules",
        "default_packet_policy",
        "default_app_policy",
        "pre_stream_hook",
        "pre_flow_hook",
        "flow_drop",
    ];
    n.set("firewall.accepted", c.packets.saturating_sub(c.firewall_blocked));
    n.set("firewall.blocked", c.firewall_blocked.saturating_sub(c.firewall_rejected));
    n.set("firewall.rejected", c.firewall_rejected);
    for reason in REASONS {
        n.zero(&format!("firewall.drop_reason.{reason}"));
    }
    for (reason, times) in &c.drop_reasons {
        if reason.is_of_firewall() {
            n.set(&format!("firewall.drop_reason.{}", reason.counter()), *times);
        }
    }
    n.zero("firewall.discarded_alerts");
}

/// Times each exception policy was carried out. A trigger whose policy is `ignore` is left out, as
/// Suricata does.
fn exception_policies(n: &mut Node, c: &NetCounters, p: &Policies, streams: &StreamConfig) {
    const WHOLE_FLOW: [&str; 5] = ["pass_flow", "bypass", "drop_flow", "reject", "reject_both"];
    const PACKET: [&str; 5] = ["pass_packet", "bypass", "drop_packet", "reject", "reject_both"];
    const BOTH: [&str; 7] =
        ["pass_packet", "pass_flow", "bypass", "drop_packet", "drop_flow", "reject", "reject_both"];
    for (trigger, configured, path, policies) in [
        (ExceptionTrigger::FlowMemcap, p.flow_memcap, "flow.memcap", &PACKET[..]),
        (ExceptionTrigger::DefragMemcap, p.defrag_memcap, "defrag.memcap", &PACKET[..]),
        (ExceptionTrigger::StreamMemcap, p.stream_memcap, "tcp.ssn_memcap", &BOTH[..]),
        (ExceptionTrigger::Midstream, p.midstream, "tcp.midstream", &WHOLE_FLOW[..]),
        (ExceptionTrigger::ReassemblyMemcap, p.reassembly_memcap, "tcp.reassembly", &BOTH[..]),
        (ExceptionTrigger::AppLayerError, p.app_error, "app_layer.error", &BOTH[..]),
    ] {
        if configured == ExceptionPolicy::Ignore {
            continue;
        }
        let midstream = trigger == ExceptionTrigger::Midstream;
        for policy in policies {
            // What Suricata does not offer: a pick-up can only pass, a sensor cannot drop.
            if midstream
                && (streams.midstream && *policy != "pass_flow"
                    || !streams.inline && *policy == "drop_flow")
            {
                continue;
            }
            let mine =
                c.exceptions.iter().filter(|(t, q, _)| *t == trigger && q.eve_name() == *policy);
            let times = mine.map(|(_, _, n)| *n).sum();
            n.set(&format!("exception_policy.{path}.{policy}"), times);
        }
    }
}

fn app_layer(n: &mut Node, c: &NetCounters, engine: &Engine) {
    use gabion_record::applayer::Transport;
    for (which, name) in [(0, "failed_tcp"), (1, "failed_udp")] {
        n.set(&format!("app_layer.flow.{name}"), c.app.flows.first().map_or(0, |f| f[which]));
    }
    for (i, p) in engine.catalog.protocols.iter().enumerate() {
        let both = p.transports.len() > 1 || p.is_counted_by_transport;
        for t in p.transports {
            // As in Suricata, what is switched off has no counters.
            if !engine.protocols.is_detected(i, *t) {
                continue;
            }
            let which = usize::from(*t == Transport::Udp);
            let name = match (both, which) {
                (false, _) => p.eve_name.to_string(),
                (true, 0) => format!("{}_tcp", p.eve_name),
                (true, _) => format!("{}_udp", p.eve_name),
            };
            let get = |v: &[[u64; 2]]| v.get(i + 1).map_or(0, |x| x[which]);
            n.set(&format!("app_layer.flow.{name}"), get(&c.app.flows));
            n.set(&format!("app_layer.error.{name}.gap"), get(&c.app.gaps));
            n.set(&format!("app_layer.error.{name}.alloc"), get(&c.app.refused));
            n.set(&format!("app_layer.error.{name}.parser"), get(&c.app.errors));
            let txs = if p.has_uncounted_txs { 0 } else { get(&c.app.txs) };
            n.set(&format!("app_layer.tx.{name}"), txs);
        }
    }
    n.set("app_layer.expectations", c.app.expectations);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(n: &Node, before: Option<&Node>) -> String {
        let mut j = Json::new();
        j.open();
        n.write(&mut j, true, before);
        j.close();
        String::from_utf8(j.take_bytes()).unwrap()
    }

    /// After each counter is what it has grown by: all of it in the first record (Suricata 8.0.7), and nothing where it has
    /// become smaller.
    #[test]
    fn deltas_follow_their_counters() {
        let mut first = Node::default();
        first.set("decoder.pkts", 91);
        first.set("flow.memuse", 500);
        let expected =
            r#"{"decoder":{"pkts":91,"pkts_delta":91},"flow":{"memuse":500,"memuse_delta":500}}"#;
        assert_eq!(written(&first, None), expected);
        let mut next = Node::default();
        next.set("decoder.pkts", 100);
        next.set("decoder.tcp", 7);
        next.set("flow.memuse", 400);
        let expected = r#"{"decoder":{"pkts":100,"pkts_delta":9,"tcp":7,"tcp_delta":7},"flow":{"memuse":400,"memuse_delta":0}}"#;
        assert_eq!(written(&next, Some(&first)), expected);
    }
}
