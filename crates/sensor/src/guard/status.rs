//! `gabion guard status`: what a guard that runs reports of itself, and what the kernel and the undo records hold without
//! one.

use super::host_counters::interface_index;
use super::undo_folder::{LeftState, UndoFolder};
use crate::limits::{STATUS_ANSWER_BYTES_MAX, reached};
use gabion_probe::attach::XdpMode;
use gabion_probe::interface::Attached;
use gabion_record::json::Json;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long the guard is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where to look.
#[derive(Clone, Debug)]
pub struct GuardStatus {
    /// The address of `--metrics`.
    pub metrics: SocketAddr,
    /// The folder of undo records.
    pub undo_folder: PathBuf,
    /// Where `proc` and `sys` are looked for.
    pub root: PathBuf,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct GuardState {
    /// The metrics of the guard that runs, by name with labels; none where no guard answered.
    pub live: Option<BTreeMap<String, u64>>,
    /// Why there are none.
    pub silent: Option<String>,
    /// XDP programs: interface, mode, program.
    pub programs: Vec<(String, String, String)>,
    /// Changes of the host: what, the old and the new value, the one that is there, and what is to be done.
    pub changes: Vec<GuardChange>,
    /// Why the undo records can't be read.
    pub unreadable: Option<String>,
}

/// A change of the host that has a record.
#[derive(Clone, Debug)]
pub struct GuardChange {
    /// The file of the value.
    pub what: String,
    /// The value before.
    pub old: String,
    /// The guard's value.
    pub new: String,
    /// The value that is there.
    pub now: Option<String>,
    /// What its state is, for people.
    pub state: &'static str,
    /// Something is left to undo.
    pub is_left: bool,
}

impl GuardStatus {
    /// Asks the guard, the kernel and the folder of undo records.
    #[must_use]
    pub fn read_state(&self) -> GuardState {
        let mut found = self.below_root();
        match ask(self.metrics) {
            Ok(text) => found.live = Some(parse(&text)),
            Err(e) => found.silent = Some(format!("no guard answers at {}: {e}", self.metrics)),
        }
        if let Ok(programs) = programs() {
            found.programs = programs;
        }
        found
    }

    /// What the undo records say; no guard and no kernel is asked.
    #[must_use]
    pub fn below_root(&self) -> GuardState {
        let folder = self.undo_folder.strip_prefix("/").unwrap_or(&self.undo_folder);
        let survey = UndoFolder::new(&self.root.join(folder), &self.root).survey();
        let mut found = GuardState::default();
        match survey {
            Ok(all) => found.changes = all.into_iter().filter_map(change).collect(),
            Err(e) => found.unreadable = Some(e.to_string()),
        }
        found
    }
}

fn change(left: super::undo_folder::Left) -> Option<GuardChange> {
    let (state, is_left) = match left.state {
        LeftState::Held => ("in force: undone when the guard that runs ends", false),
        LeftState::ToUndo => {
            ("left by a guard that was killed: start gabion guard enforce once", true)
        }
        LeftState::OtherNamespace => {
            ("left in another network namespace: start gabion guard enforce there once", true)
        }
        LeftState::Over(_) => ("nothing is left to undo", false),
        LeftState::NotMade => return None,
        LeftState::Unreadable => {
            ("this file is not an undo record: look at it, and remove it", true)
        }
    };
    let file = left.file.display().to_string();
    let record = left.record;
    let of = |part: fn(&gabion_guard::undo::UndoRecord) -> &String| {
        record.as_ref().map_or_else(String::new, |record| part(record).clone())
    };
    let what = of(|record| &record.what);
    Some(GuardChange {
        what: if what.is_empty() { file } else { what },
        old: of(|record| &record.old),
        new: of(|record| &record.new),
        now: left.value,
        state,
        is_left,
    })
}

impl GuardState {
    /// Whether an incident lasts.
    #[must_use]
    pub fn is_incident(&self) -> bool {
        self.value("gabion_guard_incident") == Some(1)
    }

    /// Whether something is left to undo.
    #[must_use]
    pub fn is_left(&self) -> bool {
        self.changes.iter().any(|change| change.is_left)
    }

    fn value(&self, name: &str) -> Option<u64> {
        self.live.as_ref()?.get(name).copied()
    }

    /// The metrics of a name, with the value of their label.
    fn labelled<'a>(&'a self, name: &str) -> impl Iterator<Item = (&'a str, u64)> {
        let start = format!("{name}{{");
        self.live.iter().flatten().filter_map(move |(key, value)| {
            let label = key.strip_prefix(&start)?.split('"').nth(1)?;
            Some((label, *value))
        })
    }

    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut lines = Vec::new();
        if self.live.is_some() {
            let incident = if self.is_incident() { "an incident lasts" } else { "calm" };
            let of = |name| self.value(name).unwrap_or(0);
            let rung = match of("gabion_guard_rung") {
                1 => "throttles by native XDP",
                2 => "throttles by generic XDP",
                3 => "only advises, as dropping has no effect",
                _ => "observes",
            };
            lines.push(format!(
                "guard: {incident}; it {rung}; {} incidents since its start",
                of("gabion_guard_incidents")
            ));
            if of("gabion_guard_rung") > 0 {
                let mut line = format!(
                    "set point: {} us of packet work in 4 ms, {} ns a packet",
                    of("gabion_guard_budget_nanoseconds") / 1000,
                    of("gabion_guard_cost_nanoseconds")
                );
                if of("gabion_guard_new_flow_limit") > 0 {
                    line += &format!(", {} new flows a second", of("gabion_guard_new_flow_limit"));
                }
                lines.push(line);
                let verdicts: Vec<String> = self
                    .labelled("gabion_guard_verdict_packets")
                    .filter(|(_, n)| *n > 0)
                    .map(|(verdict, n)| format!("{verdict} {n}"))
                    .collect();
                lines.push(format!("packets: {}", verdicts.join(", ")));
            }
            let absent: Vec<&str> = self
                .labelled("gabion_guard_instrument")
                .filter(|(_, n)| *n == 0)
                .map(|(name, _)| name)
                .collect();
            if !absent.is_empty() {
                lines.push(format!("absent instruments: {}", absent.join(", ")));
            }
        }
        lines.extend(self.silent.clone());
        for (interface, mode, program) in &self.programs {
            lines.push(format!("{interface}: {mode} XDP: {program}"));
        }
        if self.programs.is_empty() && self.live.is_none() {
            lines.push("no interface of this network namespace has an XDP program".to_owned());
        }
        lines.extend(self.unreadable.clone());
        for change in &self.changes {
            let now = change.now.as_deref().unwrap_or("not there");
            lines.push(format!(
                "{}: {} before, {} by the guard, now {now}: {}",
                change.what, change.old, change.new, change.state
            ));
        }
        if self.changes.is_empty() && self.unreadable.is_none() {
            lines.push("nothing is left to undo".to_owned());
        }
        lines.join("\n") + "\n"
    }

    /// For programs.
    pub fn write_json(&self, j: &mut Json) {
        j.open();
        j.boolean("is_live", self.live.is_some());
        j.boolean("incident", self.is_incident());
        j.boolean("left_to_undo", self.is_left());
        if let Some(live) = &self.live {
            j.open_key("metrics");
            for (name, value) in live {
                j.key_text(name.as_bytes());
                j.push_number(*value);
            }
            j.close();
        }
        j.open_array_key("programs");
        for (interface, mode, program) in &self.programs {
            j.open();
            j.field("interface", interface);
            j.field("mode", mode);
            j.field("program", program);
            j.close();
        }
        j.close_array();
        j.open_array_key("changes");
        for change in &self.changes {
            j.open();
            j.field("what", &change.what);
            j.field("old", &change.old);
            j.field("new", &change.new);
            if let Some(now) = &change.now {
                j.field("now", now);
            }
            j.field_plain("state", change.state);
            j.close();
        }
        j.close_array();
        if let Some(why) = &self.unreadable {
            j.field("unreadable", why);
        }
        j.close();
    }
}

/// XDP programs of the interfaces of this network namespace.
fn programs() -> Result<Vec<(String, String, String)>, gabion_probe::Error> {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    let names = text.lines().filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned()));
    let mut all = Vec::new();
    for (name, index) in names.filter_map(|name| Some((name.clone(), interface_index(&name)?))) {
        let attached = Attached::query_interface(index)?;
        if attached.program == 0 {
            continue;
        }
        let mode = attached.mode.map_or("several modes", XdpMode::name);
        all.push((name, mode.to_owned(), attached.describe()));
    }
    Ok(all)
}

/// Asks a guard for its metrics.
fn ask(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: guard\r\n\r\n")?;
    let mut bytes = Vec::new();
    stream.take(STATUS_ANSWER_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    if !reached::STATUS_ANSWER_BYTES_MAX.holds(bytes.len()) {
        return Err(std::io::Error::other("the answer is too long to be that of a guard"));
    }
    let text = String::from_utf8_lossy(&bytes);
    let (_, body) = text.split_once("\r\n\r\n").unwrap_or_default();
    if body.contains("gabion_guard_rung ") {
        Ok(body.to_owned())
    } else {
        Err(std::io::Error::other("the program there is not a guard"))
    }
}

/// The values of an exposition by name with labels.
fn parse(text: &str) -> BTreeMap<String, u64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let value = |line: &str| {
        let (name, value) = line.rsplit_once(' ')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    lines.filter_map(value).collect()
}

/// The status of this host with the places that a guard uses unless it is asked for others.
#[must_use]
pub(super) fn guard_status_below(root: &Path) -> GuardStatus {
    GuardStatus {
        metrics: SocketAddr::from(([127, 0, 0, 1], GuardStatus::PORT)),
        undo_folder: PathBuf::from(GuardStatus::UNDO_FOLDER),
        root: root.to_path_buf(),
    }
}

impl GuardStatus {
    /// The port of `--metrics` in the units, which `status` asks unless another address is named.
    pub const PORT: u16 = 9418;
    /// The folder of undo records, unless another one is named. It does not outlive the boot, as the changes do not.
    pub const UNDO_FOLDER: &'static str = "/run/gabion-guard";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn state(text: &str) -> GuardState {
        GuardState { live: Some(parse(text)), ..GuardState::default() }
    }

    #[test]
    fn a_guard_that_runs_is_described_by_its_metrics() {
        let text = "# HELP x y\ngabion_guard_incident 1\ngabion_guard_rung 1\ngabion_guard_incidents 3\n\
                    gabion_guard_budget_nanoseconds 1200000\ngabion_guard_cost_nanoseconds 2100\n\
                    gabion_guard_verdict_packets{verdict=\"known\"} 7\n\
                    gabion_guard_verdict_packets{verdict=\"arp\"} 0\n\
                    gabion_guard_instrument{instrument=\"gaps\"} 1\n\
                    gabion_guard_instrument{instrument=\"conntrack\"} 0\n";
        let found = state(text);
        assert!(found.is_incident() && !found.is_left());
        let text = found.text();
        for part in [
            "an incident lasts; it throttles by native XDP; 3 incidents",
            "1200 us of packet work in 4 ms, 2100 ns a packet",
            "packets: known 7\n",
            "absent instruments: conntrack\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn what_answers_and_is_no_guard_is_not_taken_for_one() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 64];
            let _ = stream.read(&mut request);
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nhello\n").unwrap();
        });
        assert!(ask(address).unwrap_err().to_string().contains("is not a guard"));
        server.join().unwrap();
        assert!(ask(address).is_err(), "nobody listens any more");
    }

    #[test]
    fn an_answer_without_an_end_is_refused_and_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let part = [b'x'; 4096];
            while stream.write_all(&part).is_ok() {}
        });
        assert!(ask(address).unwrap_err().to_string().contains("too long"));
        server.join().unwrap();
    }

    #[test]
    fn changes_that_are_left_are_found_below_another_root() {
        let root = tempfile::tempdir().unwrap();
        let of = |name: &str| root.path().join(name);
        std::fs::create_dir_all(of("proc/sys/kernel/random")).unwrap();
        std::fs::create_dir_all(of("proc/sys/net/core")).unwrap();
        std::fs::create_dir_all(of("run/gabion-guard")).unwrap();
        std::fs::write(of("proc/sys/kernel/random/boot_id"), "b1\n").unwrap();
        std::fs::write(of("proc/sys/net/core/dev_weight"), "16\n").unwrap();
        let record =
            "what=/proc/sys/net/core/dev_weight\nold=64\nnew=16\nboot_id=b1\nnetns=0\npid=7\nend\n";
        std::fs::write(of("run/gabion-guard/7-0.undo"), record).unwrap();
        let found = guard_status_below(root.path()).below_root();
        assert!(found.is_left(), "{found:?}");
        assert_eq!(found.changes[0].now.as_deref(), Some("16"));
        std::fs::write(of("proc/sys/kernel/random/boot_id"), "b2\n").unwrap();
        assert!(!guard_status_below(root.path()).below_root().is_left());
    }
}
