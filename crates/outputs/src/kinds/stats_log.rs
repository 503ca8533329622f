//! `stats.log`: the counters of a run as a table for people, as Suricata 8.0.7 writes it (observed).

use crate::output::{Format, Output, Piece, Pieces, Record, StatsTexts};
use crate::output_kind::{Opened, Opening, OutputKind};
use crate::timestamp::Stamp;
use gabion_record::Tree;
use gabion_record::eve::Wants;

pub(crate) const KIND: OutputKind = OutputKind::new("stats", open).with_file("stats.log");

fn open(o: &mut Opening<'_>) -> Opened {
    let file = o.line_file("stats.log")?;
    Ok(Some(Output::new(StatsLog::from_config(o.node), file)))
}

/// Seconds since the start of a run as the table shows them.
fn time_up(seconds: u64) -> String {
    let (days, hours) = (seconds / 86_400, seconds / 3_600 % 24);
    format!("{days}d, {hours:02}h {:02}m {:02}s", seconds / 60 % 60, seconds % 60)
}

/// A table of counters.
#[derive(Clone, Copy, Debug)]
struct StatsLog {
    /// Counters at zero are listed too.
    zeros: bool,
    /// Those of all workers together are listed, and those of each.
    totals: bool,
    threads: bool,
}

impl StatsLog {
    /// Reads the node of a `stats` output.
    fn from_config(node: &Tree) -> StatsLog {
        StatsLog {
            zeros: node.flag("null-values") == Some(true),
            totals: node.flag("totals") != Some(false),
            threads: node.flag("threads") == Some(true),
        }
    }

    /// Gives the lines of the table. Over captures there is one at the end, without an uptime.
    fn table(&self, ts_ns: u64, texts: &StatsTexts, take: &mut dyn FnMut(&[u8])) {
        let mut at = Vec::new();
        Stamp::new().fast(ts_ns, &mut at);
        // `MM/DD/YYYY-HH:MM:SS.uuuuuu`
        let at = String::from_utf8_lossy(at.get(..19).unwrap_or_default()).replace('-', " -- ");
        let rule = format!("{:-<99}\n", "");
        let row = |a: &str, b: &str, c: &str| format!("{a:<60} | {b:<25} | {c}\n");
        for line in [
            rule.clone(),
            format!("Date: {at} (uptime: {})\n", time_up(texts.uptime)),
            rule.clone(),
            row("Counter", "TM Name", "Value"),
            rule,
        ] {
            take(line.as_bytes());
        }
        // What the line with the date has is no counter.
        let is_listed = |(name, value): &&(String, u64)| {
            (self.zeros || *value > 0) && name.as_str() != "uptime"
        };
        for (name, value) in texts.counters.iter().filter(is_listed).filter(|_| self.totals) {
            take(row(name, "Total", &value.to_string()).as_bytes());
        }
        for (thread, counters) in texts.thread_counters.iter().filter(|_| self.threads) {
            for (name, value) in counters.iter().filter(is_listed) {
                take(format!("{name:<45} | {thread:<25} | {value}\n").as_bytes());
            }
        }
    }
}

impl Format for StatsLog {
    fn wants(&self) -> Wants {
        Wants::default()
    }

    fn write_record(&mut self, record: &Record<'_>, to: &mut dyn Pieces) -> bool {
        if let Record::Stats(ts_ns, texts) = record {
            self.table(*ts_ns, texts, &mut |line| to.put(Piece::line(line)));
        }
        false
    }

    fn clone_for_worker(&self) -> Box<dyn Format> {
        Box::new(*self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines as Suricata 8.0.7 writes them.
    #[test]
    fn the_table_is_that_of_suricata() {
        let counters = vec![("decoder.pkts".to_string(), 1264), ("decoder.invalid".to_string(), 0)];
        let thread_counters = vec![("W#01".to_string(), counters.clone())];
        let mut counters = counters;
        counters.push(("uptime".to_string(), 93_784));
        let texts =
            StatsTexts { counters, thread_counters, uptime: 93_784, ..StatsTexts::default() };
        let mut out = String::new();
        let mut take = |line: &[u8]| out.push_str(&String::from_utf8_lossy(line));
        StatsLog::from_config(&Tree::default()).table(0, &texts, &mut take);
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines.len(), 6);
        assert_eq!(lines[0], "-".repeat(99));
        assert!(lines[1].starts_with("Date: ") && lines[1].contains(" -- "), "{}", lines[1]);
        assert!(lines[1].ends_with(" (uptime: 1d, 02h 03m 04s)"), "{}", lines[1]);
        assert_eq!(
            lines[3],
            "Counter                                                      | TM Name                   \
             | Value"
        );
        assert_eq!(
            lines[5],
            "decoder.pkts                                                 | Total                     \
             | 1264"
        );
        let mut node = Tree::default();
        node.set("threads", "yes");
        node.set("totals", "no");
        let mut out = String::new();
        let mut take = |line: &[u8]| out.push_str(&String::from_utf8_lossy(line));
        StatsLog::from_config(&node).table(0, &texts, &mut take);
        assert_eq!(
            out.lines().nth(5).unwrap(),
            "decoder.pkts                                  | W#01                      | 1264"
        );
        assert_eq!(out.lines().count(), 6);
    }
}
