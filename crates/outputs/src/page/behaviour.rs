//! What the behaviour engine found: calls of hosts, hosts, when, how much of what, and each finding with its
//! flows, host by host.

use super::{
    Finding, LEVELS, Page, anchor, chart, escaped, grouped, more, pill, row, second, table,
};
use crate::limits::PAGE_ROWS_MAX;
use gabion_record::budget::ByteSize;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Rows of calls and of hosts.
pub(crate) const ROWS: usize = 50;

/// What can be linked to.
struct Links<'a> {
    hosts: BTreeSet<&'a str>,
    findings: BTreeSet<&'a str>,
}

impl Links<'_> {
    /// An address, with a link to what was found about it.
    fn host(&self, ip: &str) -> String {
        if self.hosts.contains(ip) {
            format!("<a href=\"#h-{}\">{}</a>", anchor(ip), escaped(ip))
        } else {
            escaped(ip)
        }
    }

    /// A text, with a link to a finding.
    fn finding(&self, id: Option<&str>, text: &str) -> String {
        match id.filter(|id| self.findings.contains(id)) {
            Some(id) => format!("<a href=\"#f-{}\">{}</a>", anchor(id), escaped(text)),
            None => escaped(text),
        }
    }
}

impl Page {
    pub(super) fn behaviour(&self, h: &mut String) {
        let shown = self.findings.get(..self.findings.len().min(PAGE_ROWS_MAX)).unwrap_or_default();
        let links = Links {
            hosts: shown.iter().map(|f| f.ip.as_str()).collect(),
            findings: shown.iter().map(|f| f.id.as_str()).collect(),
        };
        if !self.calls.is_empty() {
            self.calls(&links, h);
        }
        self.hosts(&links, h);
        h.push_str("<h2 id=\"when\">When: evidence over time</h2>");
        h.push_str(&chart::timeline(&self.moments));
        if !self.sorts.is_empty() {
            self.sorts(shown, &links, h);
        }
        if !self.scans.is_empty() {
            h.push_str("<h2 id=\"scans\">Scans: who, and what</h2>");
            h.push_str(&chart::scans(&self.scans));
        }
        if !self.pairs.is_empty() {
            h.push_str("<h2 id=\"beacons\">Beacons: time from one flow to the next</h2>");
            self.pairs.iter().enumerate().for_each(|(n, p)| h.push_str(&chart::intervals(p, n)));
        }
        self.findings(shown, h);
    }

    fn calls(&self, links: &Links<'_>, h: &mut String) {
        const COLUMNS: [(&str, &str); 7] = [
            ("Threat", "n"),
            ("From", ""),
            ("To", ""),
            ("What", ""),
            ("Flows", "n"),
            ("Sent", "n"),
            ("Level", "d"),
        ];
        h.push_str("<h2 id=\"calls\">Calls out: hosts and their destinations, by threat</h2>");
        table(&COLUMNS, h);
        for call in self.calls.iter().take(ROWS) {
            let to = match call.port {
                0 => call.to.clone(),
                port if call.to.contains(':') => format!("[{}]:{port}", call.to),
                port => format!("{}:{port}", call.to),
            };
            let sent = if call.bytes > 0 { ByteSize(call.bytes).to_string() } else { "–".into() };
            let cells = [
                format!("{:.3}", call.threat),
                links.host(&call.from) + &self.place(&call.from),
                escaped(&to) + &self.place(&call.to),
                links.finding(call.finding.as_deref(), &call.what),
                grouped(call.count),
                sent,
                pill(call.level),
            ];
            row("", &COLUMNS, &cells, h);
        }
        h.push_str("</tbody></table>");
        put_shown_part(self.calls.len().min(ROWS), self.calls_total, h);
    }

    fn hosts(&self, links: &Links<'_>, h: &mut String) {
        const COLUMNS: [(&str, &str); 6] = [
            ("Host", ""),
            ("Worst", "n"),
            ("By", ""),
            ("Kinds", "n"),
            ("Alerts", "n"),
            ("Evidence by level", "b"),
        ];
        h.push_str("<h2 id=\"who\">Who: hosts by their worst finding</h2><p class=\"keys\">");
        LEVELS.iter().for_each(|level| h.push_str(&pill(*level)));
        h.push_str("</p>");
        let most = self.hosts.iter().map(|h| h.score).fold(1e-9, f64::max);
        table(&COLUMNS, h);
        for host in self.hosts.iter().take(ROWS) {
            let cells = [
                links.host(&host.ip) + &self.place(&host.ip),
                format!("{:.2}", host.worst),
                format!("{} {}", pill(host.level), escaped(&host.kind)),
                grouped(host.kinds),
                grouped(host.alerts),
                chart::level_bar(&host.levels, host.score / most),
            ];
            row("", &COLUMNS, &cells, h);
        }
        h.push_str("</tbody></table>");
        put_shown_part(self.hosts.len().min(ROWS), self.hosts_total, h);
        if !self.alerts.is_empty() {
            const COLUMNS: [(&str, &str); 3] =
                [("Host alerted", ""), ("Window", "n"), ("Sum reached", "n")];
            table(&COLUMNS, h);
            for (ip, window, sum) in self.alerts.iter().take(ROWS) {
                let cells = [links.host(ip), window.to_string(), format!("{sum:.1}")];
                row("", &COLUMNS, &cells, h);
            }
            h.push_str("</tbody></table>");
            put_shown_part(self.alerts.len().min(ROWS), self.alerts.len() as u64, h);
        }
    }

    /// How much of what, the worst first.
    fn sorts(&self, shown: &[Finding], links: &Links<'_>, h: &mut String) {
        const COLUMNS: [(&str, &str); 4] =
            [("Level", "d"), ("Type", ""), ("Technique", ""), ("Evidence", "n")];
        h.push_str("<h2 id=\"what\">How bad: evidence by type</h2>");
        table(&COLUMNS, h);
        for s in self.sorts.iter().take(PAGE_ROWS_MAX) {
            let one = shown.iter().find(|f| f.kind == s.kind && f.level == s.level);
            let cells = [
                pill(s.level),
                links.finding(one.map(|f| f.id.as_str()), s.kind),
                s.technique.to_owned(),
                grouped(s.count),
            ];
            row("", &COLUMNS, &cells, h);
        }
        h.push_str("</tbody></table>");
    }

    /// Each finding, host by host.
    fn findings(&self, shown: &[Finding], h: &mut String) {
        const COLUMNS: [(&str, &str); 5] =
            [("When", "t"), ("Level", "d"), ("What", "w"), ("Sure", "n"), ("Times", "n")];
        h.push_str("<h2 id=\"why\">Why: findings by host</h2>");
        if shown.is_empty() {
            h.push_str("<p class=\"none\">No findings.</p>");
            return;
        }
        for together in shown.chunk_by(|a, b| a.ip == b.ip) {
            let Some(ip) = together.first().map(|f| f.ip.as_str()) else { continue };
            let (id, shown, place) = (anchor(ip), escaped(ip), self.place(ip));
            let _ = write!(h, "<h3 id=\"h-{id}\">{shown}{place}</h3>");
            table(&COLUMNS, h);
            for f in together {
                let cells = [
                    second(f.ts),
                    pill(f.level),
                    self.what(f),
                    format!("{:.2}", f.confidence),
                    grouped(f.times),
                ];
                row(&format!("f-{}", anchor(&f.id)), &COLUMNS, &cells, h);
            }
            h.push_str("</tbody></table>");
        }
        let all = self.findings_total.max(shown.len() as u64);
        if all > shown.len() as u64 {
            let _ = write!(
                h,
                "<p class=\"none\">{} of {} findings are shown, the weightiest of each host; \
                 <code>gabion behavior list</code> has all.</p>",
                grouped(shown.len() as u64),
                grouped(all)
            );
        }
        more(0, h);
    }

    /// What was found, its course and its flows.
    fn what(&self, f: &Finding) -> String {
        let mut h = format!(
            "<b>{}</b> <small>{} · window {}</small><br><code>{}</code>",
            f.kind,
            f.technique,
            f.window,
            escaped(&f.text)
        );
        let pair = f.pair.as_ref();
        let chart =
            self.pairs.iter().position(|p| pair.is_some_and(|(a, b)| *a == p.from && *b == p.to));
        if let Some(n) = chart {
            let _ = write!(h, " <a href=\"#b-{n}\">intervals</a>");
        }
        let (first, last) = f.span;
        let flows = match (f.uids.len() as u64, f.count) {
            (0, _) => String::new(),
            (1, ..2) => ", 1 flow".to_owned(),
            (some, all) if some < all => {
                format!(", the first {some} of {} flows", grouped(all))
            }
            (some, _) => format!(", {some} flows"),
        };
        let _ = write!(h, "<details><summary>{}", second(first));
        if last > first {
            let _ = write!(h, " to {}", second(last));
        }
        let _ = write!(h, "{flows}</summary><ul>");
        if !f.ends.is_empty() {
            let _ = write!(h, "<li>{}</li>", escaped(&f.ends));
        }
        for (at, text) in &f.report_ids {
            let _ = write!(h, "<li>{}: {}</li>", second(*at), escaped(text));
        }
        if !f.uids.is_empty() {
            h.push_str("<li>flows: ");
            for (n, uid) in f.uids.iter().enumerate() {
                let _ =
                    write!(h, "{}<code>{}</code>", if n == 0 { "" } else { ", " }, escaped(uid));
            }
            h.push_str("</li>");
        }
        let _ = write!(h, "<li>finding <code>{}</code></li></ul></details>", escaped(&f.id));
        h
    }
}

/// How many of how many are shown, where not all are.
fn put_shown_part(shown: usize, all: u64, h: &mut String) {
    if all > shown as u64 {
        let _ = write!(
            h,
            "<p class=\"none\">The first {shown} of {}; <code>gabion behavior list</code> has all.</p>",
            grouped(all)
        );
    }
}
