//! The page is whole and harmless, its links lead somewhere, and it fits a narrow screen.

use super::*;
use std::collections::BTreeSet;

fn finding(ip: &str, text: &str, n: u32) -> Finding {
    let ts = TimeNs(1_700_000_000_000_000_000);
    Finding {
        id: format!("0000-{n}"),
        ts,
        span: (ts, TimeNs(ts.0 + 90 * SECOND)),
        ip: ip.into(),
        kind: "VERTICAL_PORT_SCAN",
        technique: "T1046",
        level: ThreatLevel::High,
        confidence: 0.5,
        text: text.into(),
        window: 1,
        times: 10,
        ends: "10.0.0.1 → <b>192.0.2.1:443</b> tcp".into(),
        count: 40,
        uids: vec!["C<1>".into(), "C2".into()],
        report_ids: vec![(ts, "10 ports".into()), (ts, "<i>101 ports".into())],
        pair: Some(("10.0.0.1".into(), "192.0.2.1".into())),
    }
}

/// A page with something in each place, and `name` wherever a text comes from outside.
fn page(name: &str) -> Page {
    let flow = AlertFlow {
        ts: TimeNs(1_700_000_000_000_000_000),
        ends: ("10.0.0.1:40000".into(), "2001:db8::1:443".into()),
        flow_id: Some(7),
        packet: Some(12),
        capture: name.into(),
    };
    Page {
        counts: vec![("flows".into(), 1_234_567)],
        span: Some((TimeNs(1_700_000_000_000_000_000), TimeNs(1_700_009_000_000_000_000))),
        places: [("10.0.0.1".to_owned(), format!("AS64500 {name} DE"))].into(),
        calls: vec![Call {
            from: "10.0.0.1".into(),
            to: name.into(),
            port: 443,
            threat: 0.9,
            what: "beacon".into(),
            level: ThreatLevel::High,
            count: 1_000,
            bytes: 5_000,
            finding: Some("0000-1".into()),
        }],
        calls_total: 3,
        hosts_total: 40,
        sorts: vec![Sort {
            kind: "VERTICAL_PORT_SCAN",
            technique: "T1046",
            level: ThreatLevel::High,
            count: 7,
        }],
        hosts: ["10.0.0.1", "2001:db8::1"]
            .map(|ip| Host {
                ip: ip.into(),
                worst: 0.8,
                kind: "VERTICAL_PORT_SCAN".into(),
                level: ThreatLevel::High,
                kinds: 2,
                score: 12.5,
                alerts: 1,
                levels: [1, 0, 2, 3, 0],
            })
            .to_vec(),
        findings: vec![finding("10.0.0.1", name, 1), finding("2001:db8::1", name, 2)],
        findings_total: 7,
        moments: (0..200).map(|n| (1_700_000_000 + n * 60, LEVELS[n as usize % 5], 1)).collect(),
        scans: vec![
            ("10.0.0.1".into(), "23/tcp".into(), 100),
            ("10.0.0.2".into(), name.into(), 10),
        ],
        pairs: vec![Pair {
            from: "10.0.0.1".into(),
            to: "192.0.2.1".into(),
            seconds: (0..50).map(|n| n * 60 + n % 3).collect(),
        }],
        alerts: vec![("10.0.0.1".into(), 1, 15.2)],
        has_network: true,
        rules: vec![RuleAlert {
            gid: 1,
            sid: 1,
            msg: name.into(),
            severity: 2,
            count: 3,
            flows: vec![flow.clone()],
        }],
        alerted: vec![AlertedHost {
            ip: "2001:db8::1".into(),
            alerts: 3,
            severity: 2,
            rules: vec![(1, 1, 3, Some(flow))],
        }],
        alerted_total: 1,
        records: vec![("dns".into(), 40), (name.into(), 4)],
        named: vec![name.into()],
        inputs: vec![(name.into(), "5 records".into())],
        ledger: vec![("logs".into(), "received 5".into())],
        has_system_calls: true,
        syscall_rules: vec![SyscallRule {
            rule: name.into(),
            priority: name.into(),
            level: ThreatLevel::High,
            tags: vec![name.into()],
            count: 2,
            alerts: vec![SyscallSeen {
                ts: TimeNs(1_700_000_000_000_000_000),
                number: 7,
                capture: name.into(),
                message: name.into(),
                processes: vec![(1, name.into(), name.into())],
                is_partial: true,
            }],
        }],
        syscall_moments: vec![(1_700_000_000, ThreatLevel::High, 2)],
    }
}

/// Nothing from outside becomes markup, nothing is loaded, and each tag that is opened is closed.
#[test]
fn a_page_is_whole_and_harmless() {
    for name in [
        "x.log",
        "<script>alert('x')</script> & \"more\"",
        "\" onload=\"x",
        "'><img src=//a>",
        "http://a.example/\u{202e}gnp.exe\u{7}",
        "</style></title>",
    ] {
        let html = page(name).html();
        assert!(
            !html.contains("<script")
                && !html.contains("<img")
                && !html.contains("</style></title")
        );
        assert!(!html.contains(" onload=\"") && !html.contains("<i>101"));
        assert!(!html.contains(['\u{202e}', '\u{7}']));
        assert!(!html.contains("href=\"http") && !html.contains("src=\""));
        for tag in [
            "table", "thead", "tbody", "svg", "div", "figure", "tr", "td", "th", "h2", "h3",
            "code", "span", "a", "details", "summary", "ul", "li", "small", "b", "p", "nav",
        ] {
            let opened = html.matches(&format!("<{tag}>")).count()
                + html.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, html.matches(&format!("</{tag}>")).count(), "{tag}");
        }
    }
    let html = page("x.log").html();
    for text in
        ["of x.log", "2023-11-14 22:13 to 2023-11-15 00:43 UTC (2 h)", "1,234,567", "AS64500"]
    {
        assert!(html.contains(text), "{text}");
    }
    // A page of nothing is a page.
    assert!(Page::default().html().contains("</html>"));
}

/// Every link leads somewhere on the page: from a call and a host to findings, from there to the chart, from an
/// alert to its hosts and rules; and no id is there twice.
#[test]
fn links_lead_from_hosts_to_findings_to_flows() {
    let html = page("x.log").html();
    let all = |what: &str| -> Vec<String> {
        let parts = html.split(what).skip(1);
        parts.filter_map(|p| p.split('"').next().map(str::to_owned)).collect()
    };
    let ids: Vec<String> = all(" id=\"");
    let known: BTreeSet<&String> = ids.iter().collect();
    assert_eq!(ids.len(), known.len(), "{ids:?}");
    let links = all("href=\"#");
    links.iter().for_each(|link| assert!(known.contains(link), "{link}"));
    for link in
        ["h-10.0.0.1", "h-2001:db8::1", "f-0000-1", "b-0", "r-1-1", "n-2001:db8::1", "calls"]
    {
        assert!(links.iter().any(|l| l == link), "{link} in {links:?}");
    }
    for id in [
        "calls",
        "who",
        "when",
        "what",
        "scans",
        "beacons",
        "why",
        "alerted",
        "rules",
        "protocols",
        "ledger",
    ] {
        assert!(html.contains(&format!("<h2 id=\"{id}\">")), "{id}");
    }
    // A finding has its course and its flows.
    for text in [
        "10 ports",
        "&lt;i&gt;101 ports",
        "the first 2 of 40 flows",
        "<code>C2</code>",
        "flow <code>7</code>",
    ] {
        assert!(html.contains(text), "{text}");
    }
}

/// On a narrow screen each cell is a line that begins with its column's name, and no drawing that is stretched
/// has letters in it.
#[test]
fn a_page_fits_a_narrow_screen() {
    let html = page("x.log").html();
    let ledger = html.find("id=\"ledger\"").unwrap_or(0);
    let (tables, _) = html.split_at(ledger);
    let cells = tables.matches("<td").count();
    assert!(cells > 30);
    assert_eq!(cells, tables.matches(" data-l=\"").count());
    for svg in html.split("<svg").skip(1).filter_map(|s| s.split("</svg>").next()) {
        let is_stretched = svg.contains("preserveAspectRatio=\"none\"");
        assert_ne!(is_stretched, svg.contains("<text"));
    }
    assert_eq!(html.matches("class=\"wide\"").count(), html.matches("class=\"narrow\"").count());
    assert!(html.contains("width=device-width") && STYLE.contains("@media(max-width:46rem)"));
}
