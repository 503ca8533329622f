//! Firewall mode by small rule sets on one HTTP exchange: what alerts, in which table, and how many
//! packets the firewall and the rules after it let through.
//!
//! Expected values are those that Suricata 8.0.7 wrote with the same rules and settings.

mod program;

use program::{gabion, repository};
use std::path::Path;

const ALL_TCP: &str = "accept:hook tcp:all any any -> any any (sid:100;)";
const STARTED: &str = "accept:hook http1:request_started any any -> any any (alert; sid:101;)";

struct Case {
    what: &'static str,
    firewall: &'static [&'static str],
    others: &'static [&'static str],
    /// `PATH=ACTION,SECONDARY`, below `firewall.policies`.
    policies: &'static [&'static str],
    /// Packet, signature, table and policy of each alert.
    alerts: &'static [&'static str],
    counts: &'static str,
}

const CASES: &[Case] = &[
    Case {
        what: "packets that no rule accepts are dropped",
        firewall: &[
            "accept:packet tcp:all any any -> any any (flow:not_established; alert; sid:1;)",
        ],
        others: &[],
        policies: &[],
        alerts: &[
            "1 1 packet:filter accept:packet,alert",
            "2 1 packet:filter accept:packet,alert",
            "3 1 packet:filter accept:packet,alert",
        ],
        counts: "accepted 3 blocked 7 rejected 0 default_packet_policy 7; ips accepted 3 blocked 0",
    },
    Case {
        what: "a flow that is accepted is not filtered any more",
        firewall: &[
            "accept:flow tcp:flow_start any any -> any 80 (alert; sid:1;)",
            "drop:packet tcp:all any any -> any any (sid:2;)",
        ],
        others: &[],
        policies: &[],
        alerts: &["1 1 packet:filter accept:flow,alert"],
        counts: "accepted 10 blocked 0 rejected 0; ips accepted 10 blocked 0",
    },
    Case {
        what: "every state of a transaction needs a rule",
        firewall: &[
            ALL_TCP,
            STARTED,
            "accept:hook http1:request_line any any -> any any (http.method; content:\"POST\"; alert; sid:102;)",
        ],
        others: &[],
        policies: &[],
        alerts: &["4 101 http:request_started accept:hook,alert"],
        counts: "accepted 3 blocked 7 rejected 0 default_app_policy 1 flow_drop 6; ips accepted 3 blocked 0",
    },
    Case {
        what: "the first rule of a table that matches decides",
        firewall: &[
            ALL_TCP,
            STARTED,
            "drop:flow http1:request_line any any -> any any (alert; sid:999;)",
            "accept:hook http1:request_line any any -> any any (alert; sid:102;)",
        ],
        others: &[],
        policies: &[],
        alerts: &[
            "4 101 http:request_started accept:hook,alert",
            "4 999 http:request_line drop:flow,alert",
        ],
        counts: "accepted 3 blocked 7 rejected 0 flow_drop 6 rules 1; ips accepted 3 blocked 0",
    },
    Case {
        what: "states up to a hook are accepted with it",
        firewall: &[
            ALL_TCP,
            "accept:hook,alert http1:<request_complete any any -> any any (sid:999;)",
            "accept:flow,alert http1:<response_body any any -> any any (http.response_body; content:\"uid\"; sid:998;)",
        ],
        others: &[],
        policies: &[],
        alerts: &[
            "4 999 http:request_complete accept:hook,alert",
            "6 998 http:response_body accept:flow,alert",
        ],
        counts: "accepted 10 blocked 0 rejected 0; ips accepted 10 blocked 0",
    },
    Case {
        what: "and are not when its header does not fit",
        firewall: &[
            ALL_TCP,
            "accept:hook http1:<request_headers 1.2.3.4 any -> any any (alert; sid:1;)",
        ],
        others: &[],
        policies: &[],
        alerts: &[],
        counts: "accepted 3 blocked 7 rejected 0 default_app_policy 1 flow_drop 6; ips accepted 3 blocked 0",
    },
    Case {
        what: "a transaction is accepted in both directions",
        firewall: &[ALL_TCP, "accept:tx http1:request_started any any -> any any (alert; sid:1;)"],
        others: &["alert http any any -> any any (http.stat_code; content:\"200\"; sid:9;)"],
        policies: &[],
        alerts: &["4 1 http:request_started accept:tx,alert", "6 9"],
        counts: "accepted 10 blocked 0 rejected 0; ips accepted 10 blocked 0",
    },
    Case {
        what: "threat detection may drop what was accepted",
        firewall: &["accept:flow,alert tcp:all any any -> any any (sid:1;)"],
        others: &["drop:flow http any any -> any any (http.method; content:\"GET\"; sid:9;)"],
        policies: &[],
        alerts: &["1 1 packet:filter accept:flow,alert", "4 9"],
        counts: "accepted 10 blocked 0 rejected 0; ips accepted 3 blocked 7",
    },
    Case {
        what: "pass together with accept keeps threat detection away",
        firewall: &["accept:flow,pass:flow,alert tcp:all any any -> any any (sid:1;)"],
        others: &["drop:flow http any any -> any any (http.method; content:\"GET\"; sid:9;)"],
        policies: &[],
        alerts: &["1 1 packet:filter accept:flow,pass:flow,alert"],
        counts: "accepted 10 blocked 0 rejected 0; ips accepted 10 blocked 0",
    },
    Case {
        what: "hooks in front of flow and stream",
        firewall: &[
            ALL_TCP,
            "accept:hook tcp:pre_flow any any -> any any (alert; sid:102;)",
            "drop:flow tcp:pre_stream any any -> any any (flags:A; alert; sid:103;)",
        ],
        others: &[],
        policies: &[],
        alerts: &[
            "1 102 packet:pre_flow accept:hook,alert",
            "2 102 packet:pre_flow accept:hook,alert",
            "3 102 packet:pre_flow accept:hook,alert",
            "3 103 packet:pre_stream drop:flow,alert",
            "4 102 packet:pre_flow accept:hook,alert",
            "5 102 packet:pre_flow accept:hook,alert",
            "5 103 packet:pre_stream drop:flow,alert",
            "6 102 packet:pre_flow accept:hook,alert",
            "7 102 packet:pre_flow accept:hook,alert",
            "7 103 packet:pre_stream drop:flow,alert",
            "8 102 packet:pre_flow accept:hook,alert",
            "9 102 packet:pre_flow accept:hook,alert",
            "10 102 packet:pre_flow accept:hook,alert",
            "10 103 packet:pre_stream drop:flow,alert",
        ],
        counts: "accepted 2 blocked 8 rejected 0 flow_drop 7 pre_stream_hook 1; ips accepted 2 blocked 0",
    },
    Case {
        what: "an established session is known before the stream",
        firewall: &[
            "drop:packet tcp:pre_stream any any -> any any (flow:established; sid:1;)",
            ALL_TCP,
        ],
        others: &[],
        policies: &[],
        alerts: &[],
        counts: "accepted 3 blocked 7 rejected 0 pre_stream_hook 7; ips accepted 3 blocked 0",
    },
    Case {
        what: "what is not tracked has no flow",
        firewall: &[
            "accept:packet tcp:all any any -> any any (sid:1;)",
            "config:packet ip:pre_flow any any -> any any (config: tracking disable, type flow, scope packet; sid:2;)",
        ],
        others: &[],
        policies: &[],
        alerts: &[],
        counts: "accepted 10 blocked 0 rejected 0; ips accepted 10 blocked 0",
    },
    Case {
        what: "rejected flows",
        firewall: &[
            ALL_TCP,
            STARTED,
            "reject:flow http1:request_line any any -> any any (alert; sid:102;)",
        ],
        others: &[],
        policies: &[],
        alerts: &[
            "4 101 http:request_started accept:hook,alert",
            "4 102 http:request_line rejectsrc:flow,alert",
        ],
        counts: "accepted 3 blocked 6 rejected 1 flow_drop 6 rules 1; ips accepted 3 blocked 0",
    },
    Case {
        what: "policies of packets",
        firewall: &["accept:hook udp:all any any -> any any (sid:1;)"],
        others: &[],
        policies: &["packet.filter=drop:packet,alert"],
        alerts: &[
            "1 2201000 packet:filter drop:packet,alert",
            "2 2201000 packet:filter drop:packet,alert",
            "3 2201000 packet:filter drop:packet,alert",
            "4 2201000 packet:filter drop:packet,alert",
            "5 2201000 packet:filter drop:packet,alert",
            "6 2201000 packet:filter drop:packet,alert",
            "7 2201000 packet:filter drop:packet,alert",
            "8 2201000 packet:filter drop:packet,alert",
            "9 2201000 packet:filter drop:packet,alert",
            "10 2201000 packet:filter drop:packet,alert",
        ],
        counts: "accepted 0 blocked 10 rejected 0 default_packet_policy 10; ips accepted 0 blocked 0",
    },
    Case {
        what: "policies of states",
        firewall: &["accept:hook udp:all any any -> any any (sid:1;)"],
        others: &[],
        policies: &[
            "packet.default-policy=accept:hook",
            "app.default-policy=accept:hook,alert",
            "app.http1.response-line=drop:flow,alert",
        ],
        alerts: &[
            "4 2201001 http:request_started accept:hook,alert",
            "4 2201001 http:request_line accept:hook,alert",
            "4 2201001 http:request_headers accept:hook,alert",
            "4 2201001 http:request_body accept:hook,alert",
            "4 2201001 http:request_trailer accept:hook,alert",
            "4 2201001 http:request_complete accept:hook,alert",
            "6 2201001 http:response_started accept:hook,alert",
            "6 2201001 http:response_line drop:flow,alert",
        ],
        counts: "accepted 5 blocked 5 rejected 0 default_app_policy 1 flow_drop 4; ips accepted 5 blocked 0",
    },
];

/// The alerts and the counts of a run.
fn outcome(folder: &Path) -> (Vec<String>, String) {
    let text = std::fs::read_to_string(folder.join("eve.json")).unwrap();
    let (mut alerts, mut counts) = (Vec::new(), String::new());
    for line in text.lines() {
        let r: serde_json::Value = serde_json::from_str(line).unwrap();
        match r["event_type"].as_str() {
            Some("alert") => {
                let of = |key: &str| r["firewall"][key].as_str().unwrap_or("").to_string();
                let sid = &r["alert"]["signature_id"];
                let alert = format!("{} {sid} {} {}", r["pcap_cnt"], of("hook"), of("policy"));
                alerts.push(alert.trim_end().to_string());
            }
            Some("stats") => counts = counted(&r["stats"]),
            _ => {}
        }
    }
    (alerts, counts)
}

fn counted(stats: &serde_json::Value) -> String {
    let (firewall, ips) = (&stats["firewall"], &stats["ips"]);
    let mut text = format!(
        "accepted {} blocked {} rejected {}",
        firewall["accepted"], firewall["blocked"], firewall["rejected"]
    );
    let mut reasons: Vec<String> = firewall["drop_reason"]
        .as_object()
        .unwrap()
        .iter()
        .filter(|(_, n)| **n != 0)
        .map(|(reason, n)| format!(" {reason} {n}"))
        .collect();
    reasons.sort();
    text.extend(reasons);
    text + &format!("; ips accepted {} blocked {}", ips["accepted"], ips["blocked"])
}

#[test]
fn tables_decide_as_in_suricata() {
    let input = "suricata-verify/tests/flowbit-oring/input.pcap";
    let Some(capture) = gabion_corpus::find("tables_decide_as_in_suricata", input) else { return };
    for case in CASES {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, lines: &[&str]| {
            let path = dir.path().join(name);
            std::fs::write(&path, lines.join("\n") + "\n").unwrap();
            path.display().to_string()
        };
        let firewall = file("firewall.rules", case.firewall);
        let others = file("td.rules", case.others);
        let config = repository("crates/cli/tests/data/firewall.yaml").display().to_string();
        let (out, pcap) = (dir.path().display().to_string(), capture.display().to_string());
        let mut args: Vec<&str> = vec!["suricata", "--simulate-ips", "-k", "none", "-l", &out];
        args.extend(["-c", &config, "-r", &pcap, "-S", &others]);
        args.extend(["--firewall-rules-exclusive", &firewall]);
        let policies: Vec<String> = case
            .policies
            .iter()
            .filter_map(|p| p.split_once('='))
            .flat_map(|(path, items)| {
                items
                    .split(',')
                    .enumerate()
                    .map(move |(n, item)| format!("firewall.policies.{path}.{n}={item}"))
            })
            .collect();
        for p in &policies {
            args.extend(["--set", p]);
        }
        let ran = gabion(&args);
        assert_eq!(ran.code, 0, "{}: {}{}", case.what, ran.out, ran.err);
        let (alerts, counts) = outcome(dir.path());
        assert_eq!(alerts, case.alerts, "{}", case.what);
        assert_eq!(counts, case.counts, "{}", case.what);
    }
}

/// `firewall.json` has the tables that Suricata 8.0.7 wrote of the same rules; those of some protocols are kept in
/// `golden/firewall`.
#[test]
fn the_report_on_tables_is_that_of_suricata() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/firewall");
    let out = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.join(name).display().to_string();
    let (firewall, others) = (path("firewall.rules"), path("td.rules"));
    let exclusive = format!("--firewall-rules-exclusive={firewall}");
    let into = out.path().display().to_string();
    let args =
        ["suricata", "--firewall", &exclusive, "-S", &others, "--engine-analysis", "-l", &into];
    let ran = gabion(&args);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let json = |path: &Path| -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    };
    let (ours, wanted) =
        (json(&out.path().join("firewall.json")), json(&folder.join("firewall.json")));
    for (name, table) in wanted["tables"].as_object().unwrap() {
        assert_eq!(ours["tables"][name], *table, "{name}");
    }
    assert_eq!(ours["lists"]["td"], wanted["lists"]["td"]);
    let count = |name: &str| ours["lists"][name]["rules"].as_array().unwrap().len();
    assert_eq!((count("firewall"), count("all")), (13, 21));
    assert!(ours["tables"]["smb"]["app:smb:request-started"]["warnings"].is_array());
}
