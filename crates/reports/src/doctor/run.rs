//! What a run left in its `run.json` for `gabion doctor`: what was shed at which stage, budgets and their
//! use, memory, workers that were lost.

use crate::Error;
use crate::run_tables::RUN_FILE;
use gabion_flowlog::json::number;
use gabion_flowlog::json::{self, Value, members};
use gabion_runtime::limits::NAMED_FILE_BYTES_MAX;
use gabion_runtime::operator_file;
use std::path::Path;

/// A run, as far as it describes its own health.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Run {
    /// Stage, reason, items.
    pub(super) sheds: Vec<(String, String, u64)>,
    /// Stages whose ledger is out of balance.
    pub(super) unbalanced: Vec<String>,
    pub(super) budgets: Vec<Budget>,
    /// Most bytes that the program had in memory at once, and the limit there was then.
    pub(super) peak: Option<u64>,
    pub(super) limit: Option<u64>,
    /// Workers that were lost.
    pub(super) lost: u64,
}

/// A budget: bytes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Budget {
    pub(super) name: String,
    pub(super) limit: u64,
    pub(super) used: u64,
    pub(super) peak: Option<u64>,
    /// How often it had not enough.
    pub(super) refused: u64,
}

impl Run {
    /// Reads what a run left in its folder.
    pub(super) fn read_folder(folder: &Path) -> Result<Run, Error> {
        let path = folder.join(RUN_FILE);
        let text = operator_file::bytes(&path, NAMED_FILE_BYTES_MAX)
            .map_err(|source| Error::Summary { path: path.clone(), source })?;
        let mut run = Run::default();
        run.parse_run(&text).ok_or(Error::NoSummary { path })?;
        Ok(run)
    }

    /// Reads the summary of an engine, which may contain that of another engine.
    fn parse_run(&mut self, text: &[u8]) -> Option<()> {
        members(text, |key, value| match key {
            b"ledger" => each_object(value.raw(), &mut |object| self.ledger("logs", object)),
            b"sources" => self.ledger("sources", value.raw()),
            b"workers" => {
                self.ledger("workers", value.raw());
                let _ = members(value.raw(), |key, value| {
                    if key == b"lost" {
                        self.lost += number(value.raw()).unwrap_or(0);
                    }
                });
            }
            b"budgets" => each_object(value.raw(), &mut |object| self.budget(object)),
            b"memory" => {
                let _ = members(value.raw(), |key, value| match key {
                    b"resident_peak" => self.peak = number(value.raw()),
                    b"limit" => self.limit = number(value.raw()),
                    _ => {}
                });
            }
            b"network" => {
                let _ = self.parse_run(value.raw());
            }
            _ => {}
        })
    }

    /// One stage's ledger; it may hold its name itself. Runs before 0.1 called a stage `joint`.
    fn ledger(&mut self, name: &str, object: &[u8]) {
        let mut stage = name.to_owned();
        let mut found = Vec::new();
        let _ = members(object, |key, value| match key {
            b"stage" | b"joint" => stage = own(value),
            b"balanced" if value.raw() == b"false" => self.unbalanced.push(stage.clone()),
            b"shed" => {
                let _ = members(value.raw(), |reason, tally| {
                    let reason = String::from_utf8_lossy(reason).into_owned();
                    found.push((reason, member(tally.raw(), b"items")));
                });
            }
            _ => {}
        });
        let found = found.into_iter().filter(|(_, items)| *items > 0);
        self.sheds.extend(found.map(|(reason, items)| (stage.clone(), reason, items)));
    }

    fn budget(&mut self, object: &[u8]) {
        let mut budget = Budget::default();
        let _ = members(object, |key, value| {
            let n = number(value.raw());
            match key {
                b"budget" => budget.name = own(value),
                b"limit" => budget.limit = n.unwrap_or(0),
                b"used" => budget.used = n.unwrap_or(0),
                b"peak" => budget.peak = n,
                b"refused" => budget.refused = n.unwrap_or(0),
                _ => {}
            }
        });
        self.budgets.push(budget);
    }
}

fn own(value: Value<'_>) -> String {
    let mut text = Vec::new();
    json::unescape(value.raw(), &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

fn member(object: &[u8], name: &[u8]) -> u64 {
    let mut found = 0;
    let _ = members(object, |key, value| {
        if key == name {
            found = number(value.raw()).unwrap_or(0);
        }
    });
    found
}

/// An object, or all objects of an array.
fn each_object(text: &[u8], each: &mut dyn FnMut(&[u8])) {
    let mut rest = text;
    while let Some(at) = rest.iter().position(|b| *b == b'{') {
        rest = rest.get(at..).unwrap_or_default();
        let Some(len) = json::len(rest) else { return };
        each(rest.get(..len).unwrap_or_default());
        rest = rest.get(len..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_of_before_stages_were_called_so_reads_the_same() {
        let read = |key: &str| {
            let text = format!(
                r#"{{"ledger":[{{"{key}":"reader","shed":{{"torn_file":{{"items":1}}}},"balanced":false}}]}}"#
            );
            let mut run = Run::default();
            run.parse_run(text.as_bytes()).unwrap();
            run
        };
        assert_eq!(read("joint"), read("stage"));
        assert_eq!(read("joint").unbalanced, ["reader"]);
    }

    #[test]
    fn ledgers_budgets_and_lost_workers_are_read_out_of_a_summary() {
        let folder = tempfile::tempdir().unwrap();
        let text = r#"{"counts":{"records":5},"ledger":{"received":{"items":5,"bytes":9},"shed":
            {"unreadable_record":{"items":2,"bytes":9},"unused_log":{"items":0,"bytes":0}},"balanced":true},
            "sources":{"shed":{"profile_folded":{"items":3,"bytes":0}},"balanced":false},
            "workers":{"shed":{},"balanced":true,"lost":1},
            "memory":{"resident_peak":70,"limit":100},
            "budgets":[{"budget":"behavior","limit":9,"used":4,"refused":2}],
            "network":{"ledger":[{"stage":"reader","shed":{"torn_file":{"items":1,"bytes":0}},"balanced":true},
                {"stage":"flows","shed":{"flow_memcap":{"items":6,"bytes":0}},"balanced":true}],
                "budgets":[{"budget":"process/net","limit":8,"used":5,"peak":7,"refused":0}]}}"#;
        std::fs::write(folder.path().join("run.json"), text).unwrap();
        let run = Run::read_folder(folder.path()).unwrap();
        let shed = |j: &str, r: &str, n| (j.to_owned(), r.to_owned(), n);
        let want = [
            shed("logs", "unreadable_record", 2),
            shed("sources", "profile_folded", 3),
            shed("reader", "torn_file", 1),
            shed("flows", "flow_memcap", 6),
        ];
        assert_eq!(run.sheds, want);
        assert_eq!((run.lost, run.peak, run.limit), (1, Some(70), Some(100)));
        assert_eq!(run.unbalanced, ["sources"]);
        let [behavior, net] = &run.budgets[..] else { panic!("{:?}", run.budgets) };
        assert_eq!((behavior.name.as_str(), behavior.used, behavior.refused), ("behavior", 4, 2));
        assert_eq!((net.peak, behavior.peak), (Some(7), None));
        assert!(Run::read_folder(&folder.path().join("none")).is_err());
        std::fs::write(folder.path().join("run.json"), "half").unwrap();
        assert!(Run::read_folder(folder.path()).is_err());
    }
}
