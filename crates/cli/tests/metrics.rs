//! `--metrics` of `gabion read` and `gabion suricata`: what a scrape shows of packets, rules, budgets, loads and
//! interfaces, while the run waits for more.
#![allow(clippy::disallowed_methods, reason = "waits for another process, by the clock")]

mod program;

use program::packets::{CLIENT, SERVER, ipv4, udp};
use program::wire::{Wire, ip, wait_until};
use program::{command, demo, gabion, ran, repository};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::time::Duration;

/// An address at which nobody listens.
fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// What a scrape gives, by series; nothing where nobody answers.
fn scrape(address: SocketAddr) -> BTreeMap<String, u64> {
    let Ok(mut stream) = TcpStream::connect(address) else { return BTreeMap::new() };
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let lines = text.lines().filter(|line| line.starts_with("gabion_"));
    lines
        .map(|line| {
            let (series, value) = line.rsplit_once(' ').unwrap();
            (series.to_owned(), value.parse().unwrap())
        })
        .collect()
}

/// The sum of all series of a family.
fn sum(found: &BTreeMap<String, u64>, family: &str) -> u64 {
    let of = |series: &&String| series.split('{').next() == Some(family);
    found.keys().filter(of).map(|series| found[series]).sum()
}

#[test]
fn a_run_shows_packets_rules_budgets_and_loads() {
    let read = ["read", "PIPE", "-q", "-l", "OUT", "-S", "RULES"];
    let by_two = [&read[..], &["--workers", "2"]].concat();
    let suricata = ["suricata", "-r", "PIPE", "-k", "none", "-l", "OUT", "-S", "RULES"];
    for args in [&read[..], &by_two, &suricata] {
        let dir = tempfile::tempdir().unwrap();
        let place = |name: &str| dir.path().join(name).display().to_string();
        std::fs::create_dir(place("out")).unwrap();
        std::fs::copy(repository("demo/gabion.rules"), place("rules")).unwrap();
        assert!(Command::new("mkfifo").arg(place("pipe")).status().unwrap().success());
        let address = free_address();
        let shown = address.to_string();
        let mut args: Vec<String> = args
            .iter()
            .map(|arg| match *arg {
                "PIPE" => place("pipe"),
                "OUT" => place("out"),
                "RULES" => place("rules"),
                other => other.to_owned(),
            })
            .collect();
        args.extend(["--metrics".to_owned(), shown]);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let mut command = command(&args);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut pipe = std::fs::OpenOptions::new().write(true).open(place("pipe")).unwrap();
        pipe.write_all(&std::fs::read(demo()).unwrap()).unwrap();
        // The pipe stays open: workers answer though nothing comes.
        wait_until("all packets are shown", || {
            sum(&scrape(address), "gabion_packets_total") >= 1264
        });
        let found = scrape(address);
        assert_eq!(found["gabion_stats{name=\"decoder.pkts\"}"], 1264, "{args:?} {found:?}");
        let bytes = sum(&found, "gabion_packet_bytes_total");
        assert_eq!(found["gabion_stats{name=\"decoder.bytes\"}"], bytes, "{found:?}");
        assert!(found["gabion_rules{state=\"loaded\"}"] > 0, "{found:?}");
        assert!(found["gabion_rules_loaded_at_seconds"] > 1_700_000_000, "{found:?}");
        assert!(sum(&found, "gabion_rule_checks_total") > 0, "{found:?}");
        assert!(sum(&found, "gabion_rule_ticks_total") > 0, "{found:?}");
        assert!(sum(&found, "gabion_budget_limit_bytes") > 0, "{found:?}");
        assert!(found["gabion_budget_used_bytes{budget=\"process/net/flow\"}"] > 0, "{found:?}");
        for part in ["texts", "signatures", "matchers"] {
            let row = format!("gabion_budget_used_bytes{{budget=\"rules/{part}\"}}");
            assert!(found[&*row] > 0, "{part}: {found:?}");
        }
        assert!(sum(&found, "gabion_stage_received_items_total") > 1264, "{found:?}");
        assert!(found["gabion_resident_bytes"] > 1 << 20, "{found:?}");
        assert_eq!(found["gabion_rule_loads_total{outcome=\"done\"}"], 0, "{found:?}");

        // Other rules are loaded while the run waits.
        std::fs::write(
            place("rules"),
            "alert ip any any -> any any (msg:\"data\"; dsize:>0; sid:7;)\n",
        )
        .unwrap();
        let id = child.id().to_string();
        assert!(Command::new("kill").args(["-USR2", &id]).status().unwrap().success());
        let done = "gabion_rule_loads_total{outcome=\"done\"}";
        wait_until("rules are loaded", || scrape(address).get(done) == Some(&1));
        let found = scrape(address);
        assert_eq!(found["gabion_rules{state=\"loaded\"}"], 1, "{found:?}");
        assert!(found["gabion_rule_load_last_microseconds"] > 0, "{found:?}");
        std::fs::write(place("rules"), "alert nothing\n").unwrap();
        assert!(Command::new("kill").args(["-USR2", &id]).status().unwrap().success());
        let failed = "gabion_rule_loads_total{outcome=\"failed\"}";
        wait_until("a load has failed", || scrape(address).get(failed) == Some(&1));

        pipe.write_all(&std::fs::read(demo()).unwrap()[24..]).unwrap();
        wait_until("more are shown", || sum(&scrape(address), "gabion_packets_total") >= 2528);
        let pause = "gabion_rule_load_pause_longest_microseconds";
        wait_until("a pause is shown", || scrape(address).get(pause).is_some_and(|us| *us > 0));
        drop(pipe);
        let done = ran(child.wait_with_output().unwrap());
        assert_eq!(done.code, 0, "{}{}", done.out, done.err);
        let fast = std::fs::read_to_string(place("out/fast.log")).unwrap();
        assert!(fast.contains("[1:7:"), "{args:?}: the rules that were loaded alert");
        assert!(TcpStream::connect(address).is_err(), "the listener ends with the run");
    }
}

#[test]
fn an_interface_shows_what_the_kernel_counted() {
    let Some(wire) = Wire::new("an_interface_shows_what_the_kernel_counted") else { return };
    assert!(ip(&format!("-n {} link set lo up", wire.space)));
    for workers in ["single", "workers"] {
        let rules = repository("demo/gabion.rules").display().to_string();
        let address = SocketAddr::from(([127, 0, 0, 1], 9187));
        let shown = address.to_string();
        let threads = "af-packet.0.threads=2";
        let sensor = wire.start(&[
            "--af-packet=in",
            "-S",
            &rules,
            "-k",
            "none",
            "--metrics",
            &shown,
            "--runmode",
            workers,
            "--set",
            "af-packet.0.interface=in",
            "--set",
            threads,
        ]);
        let frames: Vec<Vec<u8>> = (0..100)
            .map(|n| {
                let packet = ipv4(17, n, 0, [CLIENT, SERVER], &udp([1000 + n, 9], b"datagram"));
                [&b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02\x08\0"[..], &packet].concat()
            })
            .collect();
        wire.send(&frames);
        let space = wire.space.clone();
        let within = move || {
            let space = File::open(format!("/run/netns/{space}")).unwrap();
            move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            let series = "gabion_kernel_packets_total{interface=\"in\"}";
            wait_until("frames are shown", || scrape(address).get(series) == Some(&100));
            wait_until("packets are shown", || {
                sum(&scrape(address), "gabion_packets_total") == 100
            });
            scrape(address)
        };
        // A thread of its own, since it stays in the namespace.
        let found = std::thread::spawn(within).join().unwrap();
        assert_eq!(found["gabion_kernel_drops_total{interface=\"in\"}"], 0, "{found:?}");
        assert_eq!(found["gabion_before_socket_drops_total{place=\"interface_dropped\"}"], 0);
        let log = sensor.log.clone();
        let (code, said) = sensor.stop();
        assert_eq!(code, 0, "{said}");
        std::fs::remove_dir_all(log).unwrap();
    }
}

#[test]
fn an_address_of_others_or_in_use_is_refused_in_one_line() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().display().to_string();
    let capture = demo();
    for (address, words) in [("0.0.0.0:9187", "127.0.0.1"), (&*taken, "name another")] {
        let read = gabion(&["read", &capture, "--metrics", address]);
        assert!(read.code > 1 && read.err.contains(words), "{}", read.err);
        let args = ["suricata", "-r", &capture, "-l", &out, "--metrics", address];
        let suricata = gabion(&args);
        let said = [&*suricata.out, &suricata.err].concat();
        assert!(suricata.code == 1 && said.contains(words), "{said}");
    }
}

/// `threads` of records of statistics and of `stats.log`: each worker's counters, which together are the totals.
#[test]
fn counters_of_single_threads_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let yaml = dir.path().join("suricata.yaml");
    let out = dir.path().display().to_string();
    for (totals, has_totals) in [("yes", true), ("no", false)] {
        let text = format!(
            "%YAML 1.1\n---\noutputs:\n  - eve-log: {{ enabled: yes, filename: eve-{totals}.json, types: [{{ stats: {{ totals: {totals}, threads: yes }} }}] }}\n  \
             - stats: {{ enabled: yes, filename: stats-{totals}.log, totals: {totals}, threads: yes }}\n"
        );
        std::fs::write(&yaml, text).unwrap();
        let yaml = yaml.display().to_string();
        let ran =
            gabion(&["read", "-q", "-c", &yaml, "-l", &out, "--append", "--workers", "2", &demo()]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let eve = std::fs::read_to_string(dir.path().join(format!("eve-{totals}.json"))).unwrap();
        let record: serde_json::Value = serde_json::from_str(eve.lines().last().unwrap()).unwrap();
        let stats = &record["stats"];
        let packets = |name: &str| stats["threads"][name]["decoder"]["pkts"].as_u64().unwrap();
        assert_eq!(packets("W#01") + packets("W#02"), 1264, "{stats}");
        assert!(packets("W#01") > 0 && packets("W#02") > 0, "{stats}");
        let all = stats["decoder"]["pkts"].as_u64();
        assert_eq!((all, stats["uptime"].is_u64()), (has_totals.then_some(1264), true), "{stats}");
        let log = std::fs::read_to_string(dir.path().join(format!("stats-{totals}.log"))).unwrap();
        assert!(log.contains("| W#01 ") && log.contains("| W#02 "), "{log}");
        assert_eq!(log.contains("| Total "), has_totals, "{log}");
    }
}

/// `deltas` of records of statistics: after each counter its growth, which in the only record of a run is all of it (Suricata
/// 8.0.7 writes the same names for the same capture).
#[test]
fn growth_of_counters_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let yaml = dir.path().join("suricata.yaml");
    let out = dir.path().display().to_string();
    for (deltas, has_deltas) in [("yes", true), ("no", false)] {
        let text = format!(
            "%YAML 1.1\n---\noutputs:\n  - eve-log: {{ enabled: yes, filename: eve-{deltas}.json, types: [{{ stats: {{ deltas: {deltas} }} }}] }}\n"
        );
        std::fs::write(&yaml, text).unwrap();
        let yaml = yaml.display().to_string();
        let ran = gabion(&["read", "-q", "-c", &yaml, "-l", &out, "--append", &demo()]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let eve = std::fs::read_to_string(dir.path().join(format!("eve-{deltas}.json"))).unwrap();
        let record: serde_json::Value = serde_json::from_str(eve.lines().last().unwrap()).unwrap();
        for object in ["decoder", "flow", "tcp"] {
            let counters = record["stats"][object].as_object().unwrap();
            let own = counters.iter().filter(|(name, n)| !name.ends_with("_delta") && n.is_u64());
            for (name, value) in own {
                let growth = counters.get(&format!("{name}_delta"));
                assert_eq!(growth, has_deltas.then_some(value), "{object}.{name}");
            }
        }
        assert_eq!(record["stats"]["decoder"]["pkts"], 1264);
    }
}
