//! What an entry of the whitelist would have suppressed of a run, for `gabion behavior mute --preview`.

use crate::Error;
use crate::finding_list::json_of;
use crate::findings::{Line, read_findings, second};
use gabion_behavior::whitelist::Whitelist;
use gabion_outputs::table::{Align, Table, thousands};
use gabion_record::json::Json;
use gabion_record::logs::{SECOND, TimeNs};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

/// Findings that a preview shows singly.
const ROWS: usize = 10;

/// The findings of a run that an entry of the whitelist would have suppressed.
#[derive(Debug)]
pub struct MutePreview {
    all: Vec<Line>,
    warning: Option<String>,
    list: Whitelist,
    entry: String,
}

impl MutePreview {
    /// Reads the findings in the folder of a run. `entry` is the line, `list` the whitelist that consists of it.
    ///
    /// # Errors
    /// When the folder has no findings.
    pub fn read_folder(folder: &Path, entry: &str, list: Whitelist) -> Result<MutePreview, Error> {
        let found = read_findings(folder, None, &mut |_| ())?;
        Ok(MutePreview { all: found.all, warning: found.warning, list, entry: entry.to_owned() })
    }

    /// What is wrong with the file of findings.
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// Whether nothing would have been suppressed.
    pub fn is_empty(&self) -> bool {
        Hidden::from_lines(&self.all, &self.list).lines.is_empty()
    }

    /// For people. `width`: columns of the terminal, if it is one.
    pub fn text(&self, width: Option<u16>) -> String {
        text(&self.entry, &Hidden::from_lines(&self.all, &self.list), self.all.len(), width)
    }

    /// One JSON object, with its line end.
    pub fn json(&self) -> String {
        as_json(&self.entry, &Hidden::from_lines(&self.all, &self.list), self.all.len())
    }
}

/// What an entry would have suppressed of a run.
#[derive(Debug, Default)]
struct Hidden<'l> {
    /// Of each type: how many, of how many.
    kinds: BTreeMap<&'l str, (u64, u64)>,
    lines: Vec<&'l Line>,
    /// Hosts of which nothing is left.
    gone: BTreeSet<&'l str>,
    /// Alerts about hosts rest on sums, which would be smaller.
    hosts: BTreeSet<&'l str>,
}

impl<'l> Hidden<'l> {
    fn from_lines(all: &'l [Line], list: &Whitelist) -> Hidden<'l> {
        let mut hidden = Hidden::default();
        let mut left = BTreeSet::new();
        for line in all {
            let of = hidden.kinds.entry(&line.kind).or_default();
            of.1 += 1;
            let ts = TimeNs(second(&line.when).saturating_mul(SECOND));
            if list.ignores(&line.kind, &line.source, &line.target, ts) {
                of.0 += 1;
                hidden.lines.push(line);
                hidden.hosts.insert(&line.source);
            } else {
                left.insert(line.source.as_str());
            }
        }
        hidden.kinds.retain(|_, of| of.0 > 0);
        hidden.gone = hidden.hosts.difference(&left).copied().collect();
        hidden
    }
}

fn text(entry: &str, hidden: &Hidden<'_>, all: usize, width: Option<u16>) -> String {
    let mut out = format!("{entry}\nNothing was written: this is a preview.\n");
    let count = hidden.lines.len();
    if count == 0 {
        let _ =
            writeln!(out, "It would have suppressed none of {} findings.", thousands(all as u64));
        return out;
    }
    let _ = writeln!(
        out,
        "It would have suppressed {} of {} findings; of {} hosts nothing would be left.\n",
        thousands(count as u64),
        thousands(all as u64),
        thousands(hidden.gone.len() as u64)
    );
    let right = Align::Right;
    let mut table = Table::new(&[("TYPE", Align::Left), ("KEPT BACK", right), ("OF", right)]);
    for (kind, of) in &hidden.kinds {
        table.row([(*kind).to_owned(), thousands(of.0), thousands(of.1)]);
    }
    out.push_str(&table.render(width));
    out.push('\n');
    let left = Align::Left;
    let mut table = Table::new(&[("WHEN", left), ("LEVEL", left), ("IN WORDS", left)]);
    for line in hidden.lines.iter().take(ROWS) {
        let when = line.when.get(..19).unwrap_or(&line.when).replace('T', " ");
        table.row([when, line.level.to_string(), line.text.clone()]);
    }
    out.push_str(&table.render(width));
    if count > ROWS {
        let _ = writeln!(out, "{} more: --json has them all", thousands((count - ROWS) as u64));
    }
    out
}

fn as_json(entry: &str, hidden: &Hidden<'_>, all: usize) -> String {
    let mut j = Json::new();
    j.open();
    j.field("entry", entry);
    j.number("findings", all as u64);
    j.number("kept_back", hidden.lines.len() as u64);
    j.open_array_key("hosts_without_findings");
    hidden.gone.iter().for_each(|host| j.item(host));
    j.close_array();
    j.open_array_key("kept_back_findings");
    hidden.lines.iter().for_each(|line| json_of(line, &mut j));
    j.close_array();
    j.close();
    j.into_line()
}
