//! What people look at after a run: `behavior list` with each of its options, `behavior show`, and the page.

mod program;

use program::gabion;
use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;

/// 2023-11-14 00:00 UTC.
const START: i64 = 1_699_920_000;

/// A line of Zeek's conn.log.
fn flow(at: i64, src: &str, dst: &str, port: u16, is_answered: bool) -> String {
    let (state, sent) = if is_answered { ("SF", 1_000) } else { ("S0", 0) };
    format!(
        "{{\"ts\":{at}.0,\"uid\":\"C{at}x{port}\",\"id.orig_h\":\"{src}\",\"id.orig_p\":40000,\"id.resp_h\":\"{dst}\",\
         \"id.resp_p\":{port},\"proto\":\"tcp\",\"duration\":0.5,\"orig_bytes\":{sent},\"resp_bytes\":500,\
         \"conn_state\":\"{state}\",\"orig_pkts\":2,\"resp_pkts\":2}}\n"
    )
}

/// A run over a made log: a beacon of 200 calls, a scan of 43 ports, and ten other hosts.
fn run(folder: &Path, more: &[&str]) -> String {
    let log = folder.join("conn.log");
    let mut lines = Vec::new();
    for n in 0..200 {
        lines.push((START + n * 300, flow(START + n * 300, "10.0.0.1", "203.0.113.9", 443, true)));
    }
    for port in 0..43 {
        let at = START + 7_000 + i64::from(port);
        lines.push((at, flow(at, "10.0.0.5", "198.51.100.7", 2_000 + port, false)));
    }
    for host in 0..10 {
        let at = START + 100 + host * 6_000;
        let line = flow(at, &format!("10.0.0.{}", 20 + host), "198.51.100.8", 31_337, true);
        lines.push((at, line));
    }
    lines.sort();
    let mut text = String::new();
    lines.iter().for_each(|(_, line)| write!(text, "{line}").unwrap());
    std::fs::write(&log, text).unwrap();
    let out = folder.join("out").display().to_string();
    let log = log.display().to_string();
    let mut args = vec!["read", log.as_str(), "--behavior", "-q", "-l", &out];
    args.extend(more);
    let ran = gabion(&args);
    assert_eq!(ran.code, 0, "{}", ran.err);
    out
}

/// Findings of `behavior list --json` with these options.
fn listed(out: &str, options: &[&str]) -> Vec<Value> {
    let mut args = vec!["behavior", "list", out, "--json"];
    args.extend(options);
    let said = gabion(&args);
    assert!(said.code < 2, "{options:?}: {}", said.err);
    let report: Value = serde_json::from_str(&said.out).unwrap();
    let found = report["findings"].as_array().unwrap().clone();
    assert_eq!(said.code == 1, found.is_empty(), "{options:?}");
    assert!(report["calls_out"].is_array() && report["hosts"].is_array());
    found
}

#[test]
fn each_option_of_the_list_narrows_or_orders() {
    let folder = tempfile::tempdir().unwrap();
    let out = run(folder.path(), &[]);
    let all = listed(&out, &[]);
    assert!(all.len() > 8, "{all:?}");
    let text = |f: &Value, key: &str| f[key].as_str().unwrap_or_default().to_owned();
    // --type, in any case, several times.
    let scans = listed(&out, &["--type", "vertical_port_scan"]);
    assert_eq!(
        (scans.len(), scans[0]["description"].as_str().unwrap().contains("43 TCP ports")),
        (1, true)
    );
    let two = listed(&out, &["--type", "VERTICAL_PORT_SCAN", "--type", "BEACON"]);
    assert!(two.len() > 1 && two.iter().any(|f| f["type"] == "BEACON"), "{two:?}");
    // --level: that one or above.
    let high = listed(&out, &["--level", "HIGH"]);
    assert!(!high.is_empty() && high.len() < all.len());
    assert!(high.iter().all(|f| ["high", "critical"].contains(&f["level"].as_str().unwrap())));
    // --host: either end, a name or an address in any form.
    let by = |host: &str| listed(&out, &["--host", host]);
    assert!(
        by("10.0.0.5")
            .iter()
            .all(|f| text(f, "source") == "10.0.0.5" || text(f, "target") == "10.0.0.5")
    );
    assert_eq!(by("198.51.100.7"), by("::ffff:198.51.100.7"));
    assert!(by("192.0.2.1").is_empty());
    // --since, in the forms of journalctl.
    let since = |time: &str| listed(&out, &["--since", time]).len();
    assert_eq!(since("2023-11-14"), all.len());
    assert!((1..all.len()).contains(&since("2023-11-14 03:00")));
    assert_eq!(since("2023-11-14T03:00:00Z"), since("2023-11-14 03:00"));
    assert_eq!(since(&format!("@{}", START + 3 * 3_600)), since("2023-11-14 03:00"));
    for later in ["yesterday", "2h", "2h30m", "-2h", "today", "now", "1 week ago"] {
        assert_eq!(since(later), 0, "{later}");
    }
    // --sort: each key is in order.
    let sorted = |order: &str, key: &str| -> Vec<String> {
        let found = listed(&out, &["--sort", order]);
        assert_eq!(found.len(), all.len(), "{order}");
        found.iter().map(|f| text(f, key)).collect()
    };
    assert!(sorted("time", "when").is_sorted() && sorted("host", "source").is_sorted());
    assert!(sorted("type", "type").is_sorted());
    let number = |order: &str, key: &str| -> Vec<f64> {
        listed(&out, &["--sort", order]).iter().map(|f| -f[key].as_f64().unwrap_or(0.0)).collect()
    };
    assert!(number("count", "count").is_sorted() && number("threat", "threat").is_sorted());
    assert_eq!(listed(&out, &["--sort", "rank"]), all);
    // --csv: the same findings, a line each, with ids of flows; --rows is for tables.
    let csv = gabion(&["behavior", "list", &out, "--csv"]);
    assert_eq!(csv.out.lines().count(), all.len() + 1, "{}", csv.out);
    assert!(csv.out.starts_with("finding,when,type,level,") && csv.out.contains(",BEACON,high,"));
    let beacon = csv.out.lines().find(|l| l.contains(",BEACON,")).unwrap();
    assert!(beacon.contains(" C1") && beacon.contains("x443"), "{beacon}");
    let table = gabion(&["behavior", "list", &out, "--rows", "2"]).out;
    assert!(table.contains("Calls out") && table.contains("Hosts, by their worst"), "{table}");
    assert!(table.contains("more: --rows N shows them"), "{table}");
    // An empty result is reported, and has exit code 1.
    let nothing = gabion(&["behavior", "list", &out, "--level", "critical"]);
    assert_eq!((nothing.code, nothing.out.as_str()), (1, "No findings match.\n"));
    let nothing = gabion(&["behavior", "list", &out, "--level", "critical", "--csv"]);
    assert!(nothing.code == 1 && nothing.out.lines().count() == 1);
    assert!(nothing.err.contains("no findings match"), "{}", nothing.err);
}

/// Both tables of a list are those of the run, also where most findings are only counted and have no line; narrowed
/// ones are made of lines, and say so.
#[test]
fn tables_of_the_list_are_those_of_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("conn.log");
    let mut text = String::new();
    for n in 0..3_000 {
        // A source each, with an upload of its own size: more than are reported one by one.
        let src = format!("10.{}.{}.7", n / 250, n % 250);
        let line = flow(START + n, &src, &format!("198.51.100.{}", n % 200), 31_337, true);
        write!(
            text,
            "{}",
            line.replace("\"orig_bytes\":1000", &format!("\"orig_bytes\":{}", 900_000_000 + n))
        )
        .unwrap();
    }
    for n in 0..200 {
        write!(text, "{}", flow(START + 3_000 + n * 300, "10.0.0.1", "203.0.113.9", 443, true))
            .unwrap();
    }
    std::fs::write(&log, text).unwrap();
    let (out, log) = (folder.path().join("out").display().to_string(), log.display().to_string());
    let ran = gabion(&["read", &log, "--behavior", "-q", "-l", &out]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let run = std::fs::read_to_string(folder.path().join("out/run.json")).unwrap();
    let run: Value = serde_json::from_str(&run).unwrap();
    let list = gabion(&["behavior", "list", &out, "--json"]).out;
    let list: Value = serde_json::from_str(&list).unwrap();
    for table in ["calls_out", "hosts", "calls_out_left", "hosts_left", "rows_dropped"] {
        assert_eq!(run[table], list[table], "{table}");
    }
    let left = run["hosts_left"].as_u64().unwrap();
    let lines = std::fs::read_to_string(folder.path().join("out/alerts.json")).unwrap();
    let sources: std::collections::BTreeSet<_> = lines
        .lines()
        .filter_map(|l| l.split("\"Source\":[{\"IP\":\"").nth(1)?.split('"').next())
        .collect();
    // Some hosts have no line of their own.
    assert!(sources.len() + 100 < left as usize + 1_000, "{left} {}", sources.len());
    let text = gabion(&["behavior", "list", &out]).out;
    let header = format!("Hosts, by their worst finding (the first 20 of 1,{left})");
    assert!(text.contains(&header), "{text}");
    let text = gabion(&["behavior", "list", &out, "--host", "10.0.0.1"]).out;
    assert!(
        text.contains("made of the findings that match") && !text.contains("10.1.1.7"),
        "{text}"
    );
}

#[test]
fn bad_values_of_the_list_are_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let out = run(folder.path(), &[]);
    for (option, value, hint) in [
        ("--type", "BEACONS", "docs/detections.md"),
        ("--level", "worst", "info, low, medium, high, critical"),
        ("--since", "soon", "2026-11-23"),
        ("--since", "2026-02-30", "yesterday"),
        ("--since", "2y", "an age such as 2h"),
        ("--host", "", "an address or a name"),
    ] {
        gabion(&["behavior", "list", &out, option, value]).refuses(2, &[option, hint]);
    }
    // What the parser of the command line itself refuses.
    for wrong in [["--sort", "worst"], ["--rows", "many"], ["--csv", "--json"]] {
        let said = gabion(&["behavior", "list", &out, wrong[0], wrong[1]]);
        assert_eq!(said.code, 2, "{wrong:?}: {}", said.err);
    }
    gabion(&["behavior", "list", "/nowhere"]).refuses(3, &["/nowhere", "gabion read --behavior"]);
}

/// Bytes are those that the host sent, the findings that windows count are those of the timeline, and each finding
/// names its flows.
#[test]
fn a_host_is_shown_with_its_own_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let out = run(folder.path(), &[]);
    let show = |ip: &str| -> Value {
        let said = gabion(&["behavior", "show", &out, "--profile", ip, "--json"]);
        assert_eq!(said.code, 0, "{}", said.err);
        serde_json::from_str(&said.out).unwrap()
    };
    for (ip, flows, sent) in [("10.0.0.1", 200, 200_000), ("10.0.0.5", 43, 0)] {
        let report = show(ip);
        let last = report["windows"].as_array().unwrap().last().unwrap().clone();
        assert_eq!((&last["flows"], &last["bytes_sent"]), (&flows.into(), &sent.into()), "{last}");
        let timeline = report["timeline"].as_array().unwrap();
        assert_eq!(last["findings"], timeline.len(), "{report}");
        let ids: std::collections::HashSet<_> =
            timeline.iter().map(|f| f["finding"].as_str()).collect();
        assert_eq!(ids.len(), timeline.len());
        // What stands for many that were only counted names hosts, not flows.
        let of_one = |f: &&Value| !f["description"].as_str().unwrap().contains("more findings");
        let mut single = timeline.iter().filter(of_one);
        assert!(single.all(|f| !f["uids"].as_array().unwrap().is_empty()), "{timeline:?}");
    }
    let text = gabion(&["behavior", "show", &out, "--profile", "10.0.0.1"]).out;
    assert!(text.contains("195.3 KiB"), "{text}");
    assert!(text.contains("BEACON") && text.contains("x443"), "{text}");
}

/// `--json` of a run has hosts, calls and findings.
#[test]
fn a_run_as_json_has_hosts_and_findings() {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), &[]);
    let log = folder.path().join("conn.log").display().to_string();
    let said = gabion(&["read", &log, "--behavior", "-q", "--json"]);
    let report: Value = serde_json::from_str(&said.out).unwrap();
    let hosts: Vec<_> =
        report["hosts"].as_array().unwrap().iter().map(|h| h["host"].as_str()).collect();
    assert!(hosts.contains(&Some("10.0.0.1")) && hosts.contains(&Some("10.0.0.5")), "{hosts:?}");
    assert_eq!(report["calls_out"][0]["src"], "10.0.0.1");
    let types: Vec<_> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| f["_gabion"]["type"].as_str())
        .collect();
    assert!(
        types.contains(&Some("BEACON")) && types.contains(&Some("VERTICAL_PORT_SCAN")),
        "{types:?}"
    );
    assert_eq!(report["first"], "2023-11-14T00:00:00.000000+00:00");
}

/// The page names the log, its time, systems and countries, and links hosts to findings to flows.
#[test]
fn the_page_leads_from_hosts_to_flows() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html").display().to_string();
    let table = folder.path().join("asn.tsv");
    std::fs::write(&table, "203.0.113.0\t203.0.113.255\t64501\tCZ\tEVIL <b>HOSTING\n").unwrap();
    let systems = format!("gabion.autonomous_systems={}", table.display());
    run(folder.path(), &["--report", &page, "--set", &systems]);
    let html = std::fs::read_to_string(&page).unwrap();
    for part in [
        "conn.log · 2023-11-14 00:00 to 2023-11-14 16:35 UTC",
        "<a href=\"#h-10.0.0.1\">10.0.0.1</a>",
        "<h3 id=\"h-10.0.0.1\">",
        "<small>AS64501 EVIL &lt;b&gt;HOSTING, CZ</small>",
        "<a href=\"#b-0\">intervals</a>",
        "43 TCP ports",
        "x443</code>",
    ] {
        assert!(html.contains(part), "{part}");
    }
    for link in html.split("href=\"#").skip(1).filter_map(|l| l.split('"').next()) {
        assert!(html.contains(&format!("id=\"{link}\"")), "{link}");
    }
}

/// Alerts of a folder say which capture they are of, in EVE and on the page; those of one capture need not.
#[test]
fn alerts_of_a_folder_name_their_capture() {
    let folder = tempfile::tempdir().unwrap();
    let captures = folder.path().join("captures");
    std::fs::create_dir(&captures).unwrap();
    let demo = program::repository("demo/demo.pcap");
    for name in ["one.pcap", "two.pcap"] {
        std::fs::copy(&demo, captures.join(name)).unwrap();
    }
    let rules = program::repository("demo/gabion.rules").display().to_string();
    let read = |input: &Path, name: &str, more: &[&str]| {
        let out = folder.path().join(name).display().to_string();
        let page = format!("{out}.html");
        let input = input.display().to_string();
        let mut args =
            vec!["read", input.as_str(), "-q", "-S", &rules, "-l", &out, "--report", &page];
        args.extend(more);
        let ran = gabion(&args);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let eve = std::fs::read_to_string(Path::new(&out).join("eve.json")).unwrap();
        let alerts = eve.lines().filter(|l| l.contains("\"event_type\":\"alert\""));
        let of = |name: &str| {
            let part = format!("{name}\"");
            alerts.clone().filter(|l| l.contains("\"pcap_filename\":") && l.contains(&part)).count()
        };
        let counts = (of("one.pcap"), of("two.pcap"), alerts.clone().count());
        (counts, std::fs::read_to_string(&page).unwrap())
    };
    for workers in ["1", "2"] {
        let ((one, two, all), html) = read(&captures, workers, &["--workers", workers]);
        assert!(one > 0 && two > 0 && one + two == all, "{one} {two} {all}");
        assert!(html.contains(" of ") && html.contains("captures/one.pcap"), "{workers}");
        assert!(html.contains("<h2 id=\"alerted\">") && html.contains("2026-11-21 11:26"));
        assert!(html.contains("flow <code>") && html.contains("href=\"#n-198.51.100.23\""));
    }
    let ((one, two, all), html) = read(&captures.join("one.pcap"), "alone", &[]);
    assert!(one == 0 && two == 0 && all > 0);
    assert!(html.contains("one.pcap · 2026-11-21 11:26 UTC"));
}

/// A list that is named and can't be read ends the run; what lies in a folder of lists is a note.
#[test]
fn a_list_that_is_named_has_to_be_readable() {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), &[]);
    let log = folder.path().join("conn.log").display().to_string();
    for list in ["/dev/zero", "/nowhere/list.csv"] {
        gabion(&["read", &log, "--behavior", "-q", "--intel", list]).refuses(3, &["lists", list]);
    }
    let lists = folder.path().join("lists");
    std::fs::create_dir(&lists).unwrap();
    std::os::unix::fs::symlink("/dev/zero", lists.join("zero")).unwrap();
    let ran = gabion(&["read", &log, "--behavior", "--intel", &lists.display().to_string()]);
    assert!(ran.code == 0 && ran.err.contains("zero: is a device"), "{} {}", ran.code, ran.err);
}
