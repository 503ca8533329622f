//! `gabion doctor`: what a person would look up by hand when a sensor was killed or lost something.
//!
//! Limits of the cgroup and of the machine, the most memory that was used, kills by the kernel, the
//! budget that follows from it; of a run's folder what was shed and why; and for each finding what to
//! change.

use crate::exit::{Exit, Fault};
use clap::Args;
use gabion_outputs::table::{Align, Table};
use gabion_record::budget::ByteSize;
use gabion_record::json::Json;
use gabion_record::ledger::ShedReason;
use gabion_runtime::memory::{LimitOrigin, MemoryState};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Options of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorOptions {
    /// Folder that a run wrote (its run.json says what was shed)
    #[arg(value_name = "OUTDIR")]
    folder: Option<PathBuf>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// What was found wrong, and what to do about it.
struct Advice {
    what: String,
    change: String,
}

/// A share of the limit from which use is close to it.
const CLOSE: f64 = 0.9;

/// Runs the verb. Exit code 1 when there is something to change.
pub(crate) fn run(o: &DoctorOptions) -> Result<Exit, Fault> {
    let state = MemoryState::read();
    let sheds = match &o.folder {
        Some(folder) => sheds(folder)?,
        None => Vec::new(),
    };
    let advice = advice(&state, &sheds);
    let said = if o.json { json(&state, &sheds, &advice) } else { text(&state, &sheds, &advice) };
    super::answer(&said);
    Ok(if advice.is_empty() { Exit::Done } else { Exit::No })
}

/// What a run shed: reason and items, out of the ledgers of its `run.json`.
fn sheds(folder: &Path) -> Result<Vec<(String, u64)>, Fault> {
    let path = folder.join("run.json");
    let text = std::fs::read(&path).map_err(|e| {
        Fault::input(format!("{}: {e}: name a folder that `gabion read -l` wrote", path.display()))
    })?;
    let mut all: Vec<(String, u64)> = Vec::new();
    // Ledgers stand side by side; a reason's items are summed over those that are no sum themselves.
    let whole = gabion_flowlog::json::members(&text, |key, value| {
        if !matches!(key, b"ledger" | b"sources" | b"workers") {
            return;
        }
        // One ledger, or one for each joint.
        each_object(value.raw(), &mut |key, value| {
            if key == b"shed" {
                let _ = gabion_flowlog::json::members(value.raw(), |reason, tally| {
                    let mut items = 0;
                    let _ = gabion_flowlog::json::members(tally.raw(), |key, n| {
                        if key == b"items" {
                            items = gabion_flowlog::field::number(n.raw()).unwrap_or(0);
                        }
                    });
                    if items > 0 {
                        all.push((String::from_utf8_lossy(reason).into_owned(), items));
                    }
                });
            }
        });
    });
    if whole.is_none() {
        let shown = path.display();
        return Err(Fault::input(format!(
            "{shown}: no JSON object: name a folder of a run that ended"
        )));
    }
    Ok(all)
}

/// Members of an object, or of all objects of an array.
fn each_object(text: &[u8], each: &mut dyn FnMut(&[u8], gabion_flowlog::json::Value<'_>)) {
    let mut rest = text;
    while let Some(at) = rest.iter().position(|b| *b == b'{') {
        rest = rest.get(at..).unwrap_or_default();
        let _ = gabion_flowlog::json::members(rest, &mut *each);
        let Some(len) = gabion_flowlog::json::len(rest) else { return };
        rest = rest.get(len..).unwrap_or_default();
    }
}

fn advice(state: &MemoryState, sheds: &[(String, u64)]) -> Vec<Advice> {
    let mut all = Vec::new();
    let mut say = |what: String, change: String| all.push(Advice { what, change });
    if let Some(kills) = state.oom_kills.filter(|k| *k > 0) {
        say(
            format!("the kernel has killed {kills} times for want of memory in this cgroup"),
            format!(
                "raise the limit ({}), or leave more room beside the budget with --budget {}",
                limit_file(state),
                ByteSize(state.limit / 8)
            ),
        );
    }
    if let Some(peak) = state.peak.filter(|p| *p as f64 >= CLOSE * state.limit as f64) {
        say(
            format!("at its most {} of {} were in use", ByteSize(peak), ByteSize(state.limit)),
            "page cache counts too and is given back; when kills stand above, raise the limit"
                .into(),
        );
    }
    if state.limit < 64 << 20 {
        say(
            format!("only {} of memory may be used", ByteSize(state.limit)),
            "give at least 64MiB, 256MiB for floods of ten million sources".into(),
        );
    }
    for (reason, items) in sheds {
        let described = ShedReason::from_name(reason).map_or("", ShedReason::description);
        say(format!("{items} items shed as {reason}: {described}"), remedy(reason).to_owned());
    }
    all
}

/// What helps against a reason.
fn remedy(reason: &str) -> &'static str {
    match reason {
        "profile_folded" => {
            "sources seen once were folded to stay within the budget: raise --budget when \
                             that is not a flood"
        }
        "unreadable_record" => "look at the lines that the run named on standard error",
        "unused_log" => "nothing: no detector uses these logs or events",
        "worker_lost" => "a worker failed or stalled: report it with the line it said",
        "ring_full" | "kernel_drop" => {
            "more workers (--workers), or fewer rules; `gabion rules cost` says which"
        }
        "flow_memcap" | "stream_memcap" | "reassembly_memcap" | "defrag_memcap" | "app_memcap" => {
            "raise --budget, or the memcap of that name in the configuration"
        }
        "output_failed" => "see that the output's disk has room and may be written",
        "stopped" => "nothing: the run was asked to stop before its end",
        _ => "see docs/limits.md",
    }
}

fn limit_file(state: &MemoryState) -> String {
    match &state.origin {
        LimitOrigin::Cgroup(file) => file.display().to_string(),
        LimitOrigin::Machine => "the machine's memory".to_owned(),
        LimitOrigin::Unknown => "unknown".to_owned(),
    }
}

fn version(state: &MemoryState) -> &'static str {
    match &state.origin {
        LimitOrigin::Cgroup(file) if file.ends_with("memory.limit_in_bytes") => "cgroup v1",
        LimitOrigin::Cgroup(_) => "cgroup v2",
        LimitOrigin::Machine => "no cgroup limit below the machine's memory",
        LimitOrigin::Unknown => "neither cgroup nor machine tell a limit",
    }
}

fn text(state: &MemoryState, sheds: &[(String, u64)], advice: &[Advice]) -> String {
    let mut table = Table::new(&[("", Align::Left), ("", Align::Right), ("", Align::Left)]);
    let unknown = || "unknown".to_owned();
    let size = |n: Option<u64>| n.map_or_else(unknown, |n| ByteSize(n).to_string());
    table.row([
        "limit".into(),
        size(Some(state.limit)),
        format!("{}, {}", limit_file(state), version(state)),
    ]);
    table.row(["in use".into(), size(state.current), String::new()]);
    table.row(["peak".into(), size(state.peak), String::new()]);
    let kills = state.oom_kills.map_or_else(unknown, |n| n.to_string());
    table.row(["kills".into(), kills, "by the kernel, for want of memory".into()]);
    let budget = ByteSize(state.default_budget()).to_string();
    table.row([
        "budget".into(),
        budget,
        "tables and profiles, unless --budget says otherwise".into(),
    ]);
    let mut out = String::from("Memory\n");
    out.push_str(&table.render(None));
    if !sheds.is_empty() {
        let mut table = Table::new(&[("SHED", Align::Left), ("ITEMS", Align::Right)]);
        sheds.iter().for_each(|(reason, n)| table.row([reason.clone(), n.to_string()]));
        out.push_str("\nThe run\n");
        out.push_str(&table.render(None));
    }
    out.push_str(if advice.is_empty() { "\nNothing to change.\n" } else { "\nWhat to change\n" });
    for a in advice {
        let _ = writeln!(out, "  {}\n    {}", a.what, a.change);
    }
    out
}

fn json(state: &MemoryState, sheds: &[(String, u64)], advice: &[Advice]) -> String {
    let mut j = Json::new();
    j.open();
    j.open_key("memory");
    j.number("limit", state.limit);
    j.field("origin", limit_file(state).as_bytes());
    j.field_plain("version", version(state));
    for (name, n) in
        [("current", state.current), ("peak", state.peak), ("oom_kills", state.oom_kills)]
    {
        if let Some(n) = n {
            j.number(name, n);
        }
    }
    j.number("default_budget", state.default_budget());
    j.close();
    j.open_key("shed");
    for (reason, n) in sheds {
        j.number(reason, *n);
    }
    j.close();
    j.open_array_key("advice");
    for a in advice {
        j.open();
        j.field("what", a.what.as_bytes());
        j.field("change", a.change.as_bytes());
        j.close();
    }
    j.close_array();
    j.close();
    j.into_line()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> MemoryState {
        MemoryState {
            limit: 8 << 30,
            origin: LimitOrigin::Cgroup("/sys/fs/cgroup/memory.max".into()),
            current: Some(1 << 30),
            peak: Some((8 << 30) + 1024),
            oom_kills: Some(5),
        }
    }

    /// What the seed found by hand: a limit of 8 GiB, a peak 1 MB beside it, five kills.
    #[test]
    fn kills_and_a_peak_at_the_limit_are_told() {
        let all = advice(&state(), &[("profile_folded".into(), 7)]);
        let said: Vec<&str> = all.iter().map(|a| a.what.as_str()).collect();
        assert!(said[0].contains("killed 5 times") && said[1].contains("8"), "{said:?}");
        assert!(said[2].contains("7 items shed as profile_folded"));
        let text = text(&state(), &[], &all);
        assert!(text.contains("cgroup v2") && text.contains("What to change"), "{text}");
        let quiet = MemoryState { peak: Some(1), oom_kills: Some(0), ..state() };
        assert!(advice(&quiet, &[]).is_empty());
    }

    #[test]
    fn sheds_are_read_out_of_a_runs_summary() {
        let folder = tempfile::tempdir().unwrap();
        let run = r#"{"counts":{"records":5},"ledger":{"received":{"items":5,"bytes":9},"shed":
            {"unreadable_record":{"items":2,"bytes":9},"unused_log":{"items":0,"bytes":0}}},
            "sources":{"shed":{"profile_folded":{"items":3,"bytes":0}}}}"#;
        std::fs::write(folder.path().join("run.json"), run).unwrap();
        let found = sheds(folder.path()).unwrap();
        assert_eq!(found, [("unreadable_record".to_owned(), 2), ("profile_folded".to_owned(), 3)]);
        assert!(sheds(&folder.path().join("none")).is_err());
        for reason in ShedReason::ALL {
            assert!(!remedy(reason.name()).is_empty());
        }
    }
}
