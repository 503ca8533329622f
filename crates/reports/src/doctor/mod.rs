//! `gabion doctor`: what a person would look up by hand when a sensor was killed or lost something.
//!
//! Limits of the cgroups and of the machine, the most memory that was used, all that the kernel counted
//! there, kills among it, the budget that follows; of a run's folder what was shed at which stage and
//! why, budgets and their use; and for each finding what to change.

mod guard;
mod interfaces;
mod run;

use crate::Error;
use gabion_outputs::table::{Align, Table};
use gabion_record::budget::ByteSize;
use gabion_record::json::Json;
use gabion_record::ledger::ShedReason;
use gabion_runtime::memory::{LimitOrigin, MemoryLevel, MemoryState};
use gabion_seal::Locked;
use gabion_sensor::guard::GuardHealth;
use gabion_sensor::packets::InterfaceHealth;
use run::Run;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// The memory of this machine and of the process, what a run lost, and what to change.
pub struct HealthReport {
    state: MemoryState,
    run: Option<Run>,
    guard: GuardHealth,
    interfaces: Vec<InterfaceHealth>,
    advice: Vec<Advice>,
}

impl HealthReport {
    /// Reads `proc` and `sys/fs/cgroup` below `root`, and the summary that a run left in `folder`.
    ///
    /// # Errors
    /// If the folder has no summary of a run.
    pub fn read_folder(root: &Path, folder: Option<&Path>) -> Result<HealthReport, Error> {
        let state = MemoryState::read_below(root);
        let run = folder.map(Run::read_folder).transpose()?;
        let guard = GuardHealth::look_below(root);
        let mut advice = advice(&state, run.as_ref());
        advice.extend(guard.advice().map(|(what, change)| Advice { what, change }));
        Ok(HealthReport { state, run, guard, interfaces: Vec::new(), advice })
    }

    /// Looks at these interfaces too.
    #[must_use]
    pub fn with_interfaces(mut self, interfaces: Vec<InterfaceHealth>) -> HealthReport {
        let found = interfaces.iter().flat_map(InterfaceHealth::advice);
        self.advice.extend(found.map(|(what, change)| Advice { what, change }));
        self.interfaces = interfaces;
        self
    }

    /// Whether there is nothing to change.
    pub fn is_good(&self) -> bool {
        self.advice.is_empty()
    }

    /// For people. `locked`: what of a process that signs is kept out of swap; `width`: columns of the terminal.
    pub fn text(&self, locked: Locked, width: Option<u16>) -> String {
        text(self, locked, width)
    }

    /// One JSON object, with its line end.
    pub fn json(&self, locked: Locked) -> String {
        json(self, locked)
    }
}

/// What was found wrong, and what to do about it.
struct Advice {
    what: String,
    change: String,
}

/// A share of the limit from which use is close to it.
const CLOSE: f64 = 0.9;
/// Memory below which some engine has too little.
const LEAST: u64 = 64 << 20;

fn advice(state: &MemoryState, run: Option<&Run>) -> Vec<Advice> {
    let mut all = Vec::new();
    let mut say = |what: String, change: String| all.push(Advice { what, change });
    let below = ByteSize(state.limit / 8);
    for level in &state.levels {
        let place = level.folder.display();
        if let Some(kills) = level.event("oom_kill").filter(|k| *k > 0) {
            say(
                format!("the kernel has killed {kills} times for want of memory in {place}"),
                format!(
                    "raise the limit ({}), or leave more memory outside the budget with --budget {below}",
                    limit_file(state),
                ),
            );
        }
        if level.event("under_oom").is_some_and(|n| n > 0) {
            say(
                format!("processes in {place} are stopped at this moment: there is no memory left"),
                format!("raise the limit ({}) now", limit_file(state)),
            );
        }
        let met = |name: &str| level.event(name).filter(|n| *n > 0);
        if let Some(n) = met("high") {
            say(
                format!(
                    "{n} times memory.high was met in {place}: the kernel slows its processes down"
                ),
                "raise memory.high, or use a smaller --budget".to_owned(),
            );
        }
        if let (Some(n), None) = (met("max").or_else(|| met("failcnt")), met("oom_kill")) {
            // Page cache fills any limit: that alone is no fault.
            let held = level.anonymous.zip(level.limit);
            if held.is_some_and(|(held, limit)| held as f64 >= CLOSE * limit as f64) {
                say(
                    format!(
                        "{n} times the limit was met in {place}, and processes hold nearly all of it"
                    ),
                    format!("raise the limit, or use --budget {below}"),
                );
            }
        }
    }
    if let Some(peak) = state.peak.filter(|p| *p as f64 >= CLOSE * state.limit as f64) {
        say(
            format!("at its most {} of {} were in use", ByteSize(peak), ByteSize(state.limit)),
            "page cache counts too and is released under pressure; when kills are listed above, raise the limit"
                .into(),
        );
    }
    if state.limit < LEAST {
        say(
            format!("only {} of memory may be used", ByteSize(state.limit)),
            "give at least 64MiB, 256MiB for floods of ten million sources".into(),
        );
    }
    if let Some(run) = run {
        of_run(run, &mut say);
    }
    all
}

/// The advice from the summary of a run.
fn of_run(run: &Run, say: &mut dyn FnMut(String, String)) {
    if let (Some(peak), Some(limit)) = (run.peak, run.limit)
        && peak as f64 >= CLOSE * limit as f64
    {
        say(
            format!("the run held {} of the {} it had", ByteSize(peak), ByteSize(limit)),
            format!("give it more memory, or --budget {}", ByteSize(limit / 8)),
        );
    }
    if run.lost > 0 {
        say(
            format!("{} workers were lost", run.lost),
            "a worker failed or stalled: report it with the line it printed".into(),
        );
    }
    for stage in &run.unbalanced {
        say(
            format!("the ledger of {stage} does not balance"),
            "a fault of gabion: report it".into(),
        );
    }
    for (stage, reason, items) in &run.sheds {
        let described = ShedReason::from_name(reason).map_or("", ShedReason::description);
        if let Some(remedy) = remedy(reason) {
            say(format!("{stage}: {items} shed as {reason}: {described}"), remedy.to_owned());
        }
    }
    for budget in run.budgets.iter().filter(|b| b.refused > 0) {
        let (name, n, limit) = (&budget.name, budget.refused, ByteSize(budget.limit));
        say(
            format!("the budget {name} of {limit} had not enough {n} times"),
            "raise --budget, or the memcap of that name in the configuration".into(),
        );
    }
}

/// The remedy for a reason; none where nothing is wrong.
fn remedy(reason: &str) -> Option<&'static str> {
    Some(match reason {
        // The traffic or the logs are so, or it was asked for: nothing can be changed.
        "unused_log" | "stopped" | "decode_invalid" | "filtered" | "no_alert" | "empty_message" => {
            return None;
        }
        "snap_cut" => "capture whole frames (tcpdump -s 0)",
        "torn_file" => "the capture was cut off: read one that was written to its end",
        "unsupported_link" => "capture Ethernet, raw IP or Linux's cooked frames",
        "stream_depth" => {
            "raise stream.reassembly.depth in the configuration where rules look further into streams"
        }
        "stream_gap" | "sequence_gap" => {
            "packets were lost before they came here: look at what the capturing program and the network dropped"
        }
        "ring_evicted" => "raise --alert-pcap-ring",
        "matcher_overload" => "`gabion rules cost` says which rules search most",
        "alert_queue" => "raise packet-alert-max in the configuration",
        "profile_folded" => {
            "sources seen once were folded to stay within the budget: raise --budget when \
                             that is not a flood"
        }
        "unreadable_record" => "look at the lines that the run named on standard error",
        "worker_lost" => "a worker failed or stalled: report it with the line it printed",
        "ring_full" | "kernel_drop" | "pressure_bypass" | "pressure_records"
        | "pressure_detection" => {
            "more workers (--workers), or fewer rules; `gabion rules cost` says which"
        }
        "flow_memcap" | "stream_memcap" | "reassembly_memcap" | "defrag_memcap" | "app_memcap" => {
            "raise --budget, or the memcap of that name in the configuration"
        }
        "limit_reached" => {
            "traffic that is made to reach a fixed limit, mostly: `limits` in run.json names each, \
             docs/limits.md says what it means"
        }
        "prefix_limit" | "new_flow_limit" => {
            "new flows were more than the host's tables and packet work bear: --allow names flows that must pass"
        }
        "budget_charged" | "budget_measured" => {
            "packet work was kept to its budget: raise --budget, or name with --allow what must pass"
        }
        "bad_checksum" => {
            "when the capture was made on the host that sent the packets, whose network card computes \
             checksums, read it with -k none"
        }
        "output_failed" => "check that the output's disk has space and is writable",
        _ => "docs/outputs.md says what it means",
    })
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
        LimitOrigin::Unknown => "neither the cgroup nor the machine has a limit",
    }
}

fn size(n: Option<u64>) -> String {
    n.map_or_else(|| "unknown".to_owned(), |n| ByteSize(n).to_string())
}

/// Adds a sentence, broken between words where the terminal has fewer columns.
fn push_wrapped(out: &mut String, indent: &str, sentence: &str, width: Option<u16>) {
    let most = width.map_or(usize::MAX, usize::from);
    let mut used = 0;
    for word in sentence.split(' ') {
        let long = word.chars().count();
        if used > 0 && used + 1 + long <= most {
            out.push(' ');
            used += 1 + long;
        } else {
            if used > 0 {
                out.push('\n');
            }
            out.push_str(indent);
            used = indent.len() + long;
        }
        out.push_str(word);
    }
    out.push('\n');
}

fn text(report: &HealthReport, locked: Locked, width: Option<u16>) -> String {
    let HealthReport { state, run, guard, interfaces, advice } = report;
    let mut table = Table::new(&[("", Align::Left), ("", Align::Right), ("", Align::Left)]);
    table.row([
        "limit".into(),
        size(Some(state.limit)),
        format!("{}, {}", limit_file(state), version(state)),
    ]);
    table.row(["in use".into(), size(state.current), parts(state.levels.first())]);
    table.row(["peak".into(), size(state.peak), "page cache included".into()]);
    let kills = state.oom_kills.map_or_else(|| "unknown".to_owned(), |n| n.to_string());
    table.row(["kills".into(), kills, "by the kernel, for want of memory".into()]);
    let budget = ByteSize(state.default_budget()).to_string();
    table.row([
        "budget".into(),
        budget,
        "tables and profiles, unless --budget says otherwise".into(),
    ]);
    let kept = match locked {
        Locked::All => "all memory of a process that signs is kept out of swap",
        Locked::Seed | Locked::Nothing => locked.complaint().unwrap_or_default(),
    };
    table.row(["locked", locked.name(), kept]);
    let mut out = String::from("Memory\n");
    out.push_str(&table.render(width));
    if !state.levels.is_empty() {
        levels(&state.levels, width, &mut out);
    }
    if let Some(run) = run {
        run_text(run, width, &mut out);
    }
    interfaces::write_text(interfaces, width, &mut out);
    guard::write_text(guard, width, &mut out);
    out.push_str(if advice.is_empty() { "\nNothing to change.\n" } else { "\nWhat to change\n" });
    for a in advice {
        push_wrapped(&mut out, "  ", &a.what, width);
        push_wrapped(&mut out, "    ", &a.change, width);
    }
    out
}

/// What use is made up of.
fn parts(level: Option<&MemoryLevel>) -> String {
    let Some(held) = level.and_then(|l| l.anonymous.zip(l.cache)) else { return String::new() };
    format!("processes {}, page cache {}", ByteSize(held.0), ByteSize(held.1))
}

/// Each cgroup that limits the process, and what the kernel counted there.
fn levels(levels: &[MemoryLevel], width: Option<u16>, out: &mut String) {
    let right = Align::Right;
    let mut table = Table::new(&[
        ("CGROUP", Align::Left),
        ("LIMIT", right),
        ("IN USE", right),
        ("PEAK", right),
        ("COUNTED BY THE KERNEL", Align::Left),
    ]);
    for level in levels {
        // The counters of version 1 include a setting.
        let counted = level.events.iter().filter(|(name, _)| name != "oom_kill_disable");
        let events: Vec<String> = counted.map(|(name, n)| format!("{name} {n}")).collect();
        let limit = level.limit.or(level.high);
        table.row([
            level.folder.display().to_string(),
            limit.map_or_else(|| "none".to_owned(), |n| ByteSize(n).to_string()),
            size(level.current),
            size(level.peak),
            events.join(", "),
        ]);
    }
    out.push('\n');
    out.push_str(&table.render(width));
}

fn run_text(run: &Run, width: Option<u16>, out: &mut String) {
    out.push_str("\nThe run\n");
    if let Some(peak) = run.peak {
        let of = run.limit.map_or_else(String::new, |n| format!(" of {}", ByteSize(n)));
        let _ = writeln!(out, "  in memory at most: {}{of}", ByteSize(peak));
    }
    let right = Align::Right;
    if !run.budgets.is_empty() {
        let mut table = Table::new(&[
            ("BUDGET", Align::Left),
            ("LIMIT", right),
            ("AT THE END", right),
            ("PEAK", right),
            ("NOT ENOUGH", right),
        ]);
        for b in &run.budgets {
            let limit = match b.limit {
                u64::MAX => "none".to_owned(),
                n => ByteSize(n).to_string(),
            };
            let peak = b.peak.map_or_else(String::new, |n| ByteSize(n).to_string());
            let used = ByteSize(b.used).to_string();
            table.row([b.name.clone(), limit, used, peak, b.refused.to_string()]);
        }
        out.push_str(&table.render(width));
    }
    if run.sheds.is_empty() {
        out.push_str("  nothing was shed\n");
        return;
    }
    let mut table = Table::new(&[("STAGE", Align::Left), ("SHED", Align::Left), ("ITEMS", right)]);
    for (stage, reason, n) in &run.sheds {
        table.row([stage.clone(), reason.clone(), n.to_string()]);
    }
    out.push_str(&table.render(width));
}

fn json(report: &HealthReport, locked: Locked) -> String {
    let HealthReport { state, run, guard, interfaces, advice } = report;
    let mut j = Json::new();
    let known = |j: &mut Json, all: &[(&str, Option<u64>)]| {
        all.iter().for_each(|(name, n)| n.iter().for_each(|n| j.number(name, *n)));
    };
    j.open();
    j.open_key("memory");
    j.number("limit", state.limit);
    j.field("origin", limit_file(state).as_bytes());
    j.field_plain("version", version(state));
    known(
        &mut j,
        &[("current", state.current), ("peak", state.peak), ("oom_kills", state.oom_kills)],
    );
    j.number("default_budget", state.default_budget());
    j.field_plain("locked", locked.name());
    j.open_array_key("cgroups");
    for level in &state.levels {
        j.open();
        j.field("folder", level.folder.display().to_string());
        known(
            &mut j,
            &[
                ("limit", level.limit),
                ("high", level.high),
                ("current", level.current),
                ("peak", level.peak),
                ("anonymous", level.anonymous),
                ("page_cache", level.cache),
            ],
        );
        j.open_key("events");
        level.events.iter().for_each(|(name, n)| j.number(name, *n));
        j.close();
        j.close();
    }
    j.close_array();
    j.close();
    if let Some(run) = run {
        run_json(run, &mut j);
    }
    interfaces::write_json(interfaces, &mut j);
    guard::write_json(guard, &mut j);
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

fn run_json(run: &Run, j: &mut Json) {
    j.open_key("shed");
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for (_, reason, n) in &run.sheds {
        *sums.entry(reason).or_default() += n;
    }
    sums.iter().for_each(|(reason, n)| j.number(reason, *n));
    j.close();
    j.open_array_key("stages");
    for (stage, reason, n) in &run.sheds {
        j.open();
        j.field("stage", stage);
        j.field("reason", reason);
        j.number("items", *n);
        j.close();
    }
    j.close_array();
    j.open_array_key("budgets");
    for b in &run.budgets {
        j.open();
        j.field("budget", &b.name);
        j.number("limit", b.limit);
        j.number("used", b.used);
        if let Some(peak) = b.peak {
            j.number("peak", peak);
        }
        j.number("refused", b.refused);
        j.close();
    }
    j.close_array();
    if let Some(peak) = run.peak {
        j.number("resident_peak", peak);
    }
    j.number("workers_lost", run.lost);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree of proc and cgroup files.
    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        dir
    }

    const MEMINFO: (&str, &str) = ("proc/meminfo", "MemTotal:       67108864 kB\n");

    fn said(root: &Path, run: Option<Run>) -> (Vec<String>, String, String) {
        let state = MemoryState::read_below(root);
        let advice = advice(&state, run.as_ref());
        let guard = GuardHealth::look_below(root);
        let report = HealthReport { state, run, guard, interfaces: Vec::new(), advice };
        let (text, json) = (report.text(Locked::Seed, None), report.json(Locked::Seed));
        (report.advice.into_iter().map(|a| a.what).collect(), text, json)
    }

    /// What a study of Suricata's memory exhaustion found by hand in version 2: a limit of 10 GB, a peak
    /// close to it, five kills.
    #[test]
    fn kills_and_a_peak_at_the_limit_are_reported() {
        let own = "sys/fs/cgroup/docker/1";
        let file = |name: &str| format!("{own}/{name}");
        let dir = tree(&[
            MEMINFO,
            ("proc/self/cgroup", "0::/docker/1\n"),
            (&file("memory.max"), "10737418240\n"),
            (&file("memory.high"), "max\n"),
            (&file("memory.current"), "3000000\n"),
            (&file("memory.peak"), "10737418240\n"),
            (
                &file("memory.events"),
                "low 0\nhigh 0\nmax 1357\noom 6\noom_kill 5\noom_group_kill 0\n",
            ),
            (&file("memory.stat"), "anon 1048576\nfile 2097152\n"),
        ]);
        let (all, text, json) = said(dir.path(), None);
        assert!(all[0].contains("killed 5 times") && all[1].contains("10"), "{all:?}");
        for words in
            ["cgroup v2", "max 1357, oom 6, oom_kill 5", "processes 1 MiB", "What to change"]
        {
            assert!(text.contains(words), "{words}: {text}");
        }
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let cgroup = &json["memory"]["cgroups"][0];
        assert_eq!(cgroup["events"]["max"], 1357);
        assert_eq!(
            (&cgroup["anonymous"], &cgroup["page_cache"]),
            (&1_048_576.into(), &2_097_152.into())
        );
        assert_eq!(json["memory"]["limit"], 10_737_418_240u64);
    }

    #[test]
    fn sentences_are_broken_between_words() {
        let shown = |width| {
            let mut out = String::new();
            push_wrapped(&mut out, "  ", "raise the limit of memory", width);
            out
        };
        assert_eq!(shown(None), "  raise the limit of memory\n");
        assert_eq!(shown(Some(27)), "  raise the limit of memory\n");
        assert_eq!(shown(Some(26)), "  raise the limit of\n  memory\n");
        assert_eq!(shown(Some(3)), "  raise\n  the\n  limit\n  of\n  memory\n");
    }

    /// Version 1 with the limit above the own group, and memory that is slowed down in version 2.
    #[test]
    fn each_cgroup_with_a_say_is_looked_at() {
        let dir = tree(&[
            MEMINFO,
            ("proc/self/cgroup", "4:memory:/a/b\n0::/\n"),
            ("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n"),
            (
                "sys/fs/cgroup/memory/a/b/memory.oom_control",
                "oom_kill_disable 1\nunder_oom 1\noom_kill 0\n",
            ),
            ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "268435456\n"),
            ("sys/fs/cgroup/memory/a/memory.failcnt", "12\n"),
            ("sys/fs/cgroup/memory/a/memory.stat", "total_cache 1\ntotal_rss 268000000\n"),
        ]);
        let (all, text, _) = said(dir.path(), None);
        assert!(all.iter().any(|a| a.contains("a/b are stopped")), "{all:?}");
        assert!(all.iter().any(|a| a.contains("12 times the limit was met")), "{all:?}");
        assert!(text.contains("cgroup v1") && text.contains("256 MiB"), "{text}");
        let dir = tree(&[
            MEMINFO,
            ("proc/self/cgroup", "0::/c\n"),
            ("sys/fs/cgroup/c/memory.high", "1073741824\n"),
            ("sys/fs/cgroup/c/memory.events", "low 0\nhigh 9\nmax 0\noom 0\noom_kill 0\n"),
        ]);
        let (all, ..) = said(dir.path(), None);
        assert!(all.len() == 1 && all[0].contains("9 times memory.high"), "{all:?}");
        // Nothing but a machine.
        let (all, text, _) = said(tree(&[MEMINFO]).path(), None);
        assert!(all.is_empty() && text.contains("Nothing to change"), "{text}");
        // A limit met by page cache alone is no fault.
        let dir = tree(&[
            MEMINFO,
            ("proc/self/cgroup", "0::/c\n"),
            ("sys/fs/cgroup/c/memory.max", "1073741824\n"),
            ("sys/fs/cgroup/c/memory.events", "low 0\nhigh 0\nmax 900\noom 0\noom_kill 0\n"),
            ("sys/fs/cgroup/c/memory.stat", "anon 1000\nfile 1073000000\n"),
        ]);
        assert!(said(dir.path(), None).0.is_empty());
    }

    #[test]
    fn what_a_run_shed_and_refused_is_reported_with_a_remedy() {
        let run = Run {
            sheds: vec![("sources".into(), "profile_folded".into(), 7)],
            unbalanced: vec!["logs".into()],
            budgets: vec![run::Budget {
                name: "behavior".into(),
                limit: 1 << 20,
                used: 1 << 19,
                peak: None,
                refused: 7,
            }],
            peak: Some(95),
            limit: Some(100),
            lost: 1,
        };
        let (all, text, json) = said(tree(&[MEMINFO]).path(), Some(run));
        for words in [
            "95 B of the 100 B",
            "1 workers were lost",
            "logs does not",
            "7 shed as profile_folded",
            "had not enough 7",
        ] {
            assert!(all.iter().any(|a| a.contains(words)), "{words}: {all:?}");
        }
        assert!(text.contains("1 MiB") && text.contains("profile_folded"), "{text}");
        assert!(
            json.contains("\"profile_folded\":7") && json.contains("\"workers_lost\":1"),
            "{json}"
        );
        for reason in ShedReason::ALL {
            let is_none = matches!(
                reason.name(),
                "unused_log"
                    | "stopped"
                    | "decode_invalid"
                    | "filtered"
                    | "no_alert"
                    | "empty_message"
            );
            assert_eq!(remedy(reason.name()).is_none(), is_none);
        }
    }
}
