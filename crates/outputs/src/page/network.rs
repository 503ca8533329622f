//! What the network engine found: hosts in alerts, rules with their first alerts, records.

use super::{AlertFlow, Page, anchor, chart, escaped, grouped, more, row, second, table};
use crate::limits::PAGE_ROWS_MAX;
use std::fmt::Write;

/// Rows of hosts.
const HOSTS: usize = 50;

impl Page {
    pub(super) fn network(&self, h: &mut String) {
        if !self.alerted.is_empty() {
            self.alerted_hosts(h);
        }
        self.rules(h);
        h.push_str("<h2 id=\"protocols\">Records by kind</h2>");
        h.push_str(&chart::counts(&self.records));
    }

    fn alerted_hosts(&self, h: &mut String) {
        const COLUMNS: [(&str, &str); 4] = [
            ("Host", ""),
            ("Priority", "n"),
            ("Alerts", "n"),
            ("Rules, and the first alert of each", "w"),
        ];
        h.push_str("<h2 id=\"alerted\">Hosts in alerts</h2>");
        table(&COLUMNS, h);
        for host in self.alerted.iter().take(HOSTS) {
            let mut rules = String::new();
            for (n, (gid, sid, count, first)) in host.rules.iter().enumerate() {
                if n > 0 {
                    rules.push_str("<br>");
                }
                let rule = self.rules.iter().find(|r| (r.gid, r.sid) == (*gid, *sid));
                let msg = rule.map_or(String::new(), |r| escaped(&r.msg));
                let _ = write!(
                    rules,
                    "<a href=\"#r-{gid}-{sid}\">{sid}</a> {msg}, {}",
                    if *count == 1 {
                        "once".to_owned()
                    } else {
                        format!("{} times", grouped(*count))
                    },
                );
                if let Some(first) = first {
                    let _ = write!(rules, " <small>{}</small>", self.flow(first));
                }
            }
            let cells = [
                escaped(&host.ip) + &self.place(&host.ip),
                host.severity.to_string(),
                grouped(host.alerts),
                rules,
            ];
            row(&format!("n-{}", anchor(&host.ip)), &COLUMNS, &cells, h);
        }
        h.push_str("</tbody></table>");
        if self.alerted_total > self.alerted.len().min(HOSTS) as u64 {
            let (shown, all) = (self.alerted.len().min(HOSTS), grouped(self.alerted_total));
            let _ = write!(
                h,
                "<p class=\"none\">The first {shown} of {all}; all are in the files.</p>"
            );
        }
    }

    fn rules(&self, h: &mut String) {
        const COLUMNS: [(&str, &str); 4] =
            [("Signature", "n"), ("Priority", "n"), ("Message", "w"), ("Alerts", "n")];
        h.push_str("<h2 id=\"rules\">Rules that alerted</h2>");
        if self.rules.is_empty() {
            h.push_str("<p class=\"none\">None.</p>");
            return;
        }
        table(&COLUMNS, h);
        for r in self.rules.iter().take(PAGE_ROWS_MAX) {
            let mut what = escaped(&r.msg);
            if !r.flows.is_empty() {
                let first = match (r.flows.len() as u64, r.count) {
                    (_, 1) => "its alert".to_owned(),
                    (some, all) if some < all => format!("the first {some} alerts"),
                    (some, _) => format!("its {some} alerts"),
                };
                let _ = write!(what, "<details><summary>{first}</summary><ul>");
                for flow in &r.flows {
                    let _ = write!(what, "<li>{}</li>", self.flow(flow));
                }
                what.push_str("</ul></details>");
            }
            let cells = [r.sid.to_string(), r.severity.to_string(), what, grouped(r.count)];
            row(&format!("r-{}-{}", r.gid, r.sid), &COLUMNS, &cells, h);
        }
        h.push_str("</tbody></table>");
        more(self.rules.len(), h);
    }

    /// When, between which addresses, in which flow and capture.
    fn flow(&self, f: &AlertFlow) -> String {
        let (from, to) = (self.end(&f.ends.0), self.end(&f.ends.1));
        let mut h = format!("{} {from} → {to}", second(f.ts));
        if let Some(id) = f.flow_id {
            let _ = write!(h, ", flow <code>{id}</code>");
        }
        if let Some(n) = f.packet {
            let _ = write!(h, ", packet {n}");
        }
        if !f.capture.is_empty() {
            let _ = write!(h, " of {}", escaped(&f.capture));
        }
        h
    }

    /// An end of a flow, with a link to the host's alerts.
    fn end(&self, end: &str) -> String {
        let ip = match end.rsplit_once(':') {
            Some((ip, port)) if port.parse::<u16>().is_ok() => ip,
            _ => end,
        };
        match self.alerted.iter().take(HOSTS).find(|h| h.ip == ip || h.ip == end) {
            Some(host) => format!("<a href=\"#n-{}\">{}</a>", anchor(&host.ip), escaped(end)),
            None => escaped(end),
        }
    }
}
