//! `gabion guard watch`: what the CPUs do, second by second, and a line for each incident.

use super::printer::Printer;
use crate::exit::{Exit, Fault};
use crate::listen::by_kind;
use crate::log::seal_findings::SealedFindings;
use crate::{direct_opener, existing, values};
use clap::Args;
use gabion_outputs::guard_events;
use gabion_record::json::Json;
use gabion_runtime::files::NamedFiles;
use gabion_runtime::signals::Signals;
use gabion_sensor::guard::{GuardCpuSecond, GuardNews, GuardSecond, GuardWatch};
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// Options of `guard watch`.
#[derive(Debug, Args)]
pub(crate) struct WatchOptions {
    /// The interface that the advice names
    #[arg(long, value_name = "IF", value_parser = values::text())]
    interface: Option<String>,
    #[command(flatten)]
    common: LiveOptions,
}

/// What `watch` and `enforce` have in common.
#[derive(Debug, Args)]
pub(crate) struct LiveOptions {
    /// Share of a CPU that packet work may use, percent
    #[arg(long, value_name = "PERCENT", default_value_t = 30, value_parser = values::number::<u8>(5, 90))]
    budget: u8,
    /// Folder for guard.json
    #[arg(short = 'l', long = "log-dir", value_name = "OUTDIR")]
    log_dir: Option<PathBuf>,
    /// Record from 10 s before each incident to 10 s after it
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Record all the time
    #[arg(long, requires = "record")]
    record_all: bool,
    /// Seal each event in this log
    #[arg(long, value_name = "LOG")]
    seal: Option<PathBuf>,
    /// Metrics for Prometheus on this address, which must be the machine's own
    #[arg(long, value_name = "ADDR:PORT", value_parser = values::place)]
    metrics: Option<SocketAddr>,
    /// Watch the counters of another network namespace
    #[arg(long, value_name = "FILE")]
    netns: Option<PathBuf>,
    /// End after this many seconds
    #[arg(long, value_name = "N", value_parser = values::seconds)]
    seconds: Option<u64>,
    /// Print one JSON object a second
    #[arg(long)]
    json: bool,
    /// Print lines about incidents, and none for each second
    #[arg(short, long, conflicts_with = "json")]
    quiet: bool,
}

impl LiveOptions {
    /// The watch that they ask for, until a signal ends it.
    pub(super) fn watch(
        &self,
        signals: &Signals,
        sealed: Option<&SealedFindings>,
    ) -> Result<GuardWatch, Fault> {
        let mut named = NamedFiles::default();
        named.keep("is read by this run", &self.netns);
        if let Some(log) = &self.seal {
            named.keep_folder("belongs to the sealed log", log);
        }
        let events = self.log_dir.as_deref().map(guard_events::path_in);
        existing::refuse_destroyers(named, self.record.iter().chain(&events))
            .map_err(Fault::usage)?;
        // Metrics are served where the program was started, not in the network namespace that it watches.
        let metrics =
            self.metrics.map(gabion_intake::bind_metrics).transpose().map_err(|e| by_kind(&e))?;
        Ok(GuardWatch {
            files: direct_opener(),
            interface: None,
            budget_percent: self.budget,
            folder: self.log_dir.clone(),
            sealer: sealed.map(|sealed| sealed.log.sealer("guard")),
            metrics: metrics.map(Arc::new),
            record: self.record.clone(),
            records_all: self.record_all,
            netns: self.netns.clone(),
            enforce: None,
            seconds: self.seconds,
            stop: signals.stop().clone(),
        })
    }

    /// What is printed.
    pub(super) fn printed(&self) -> Printed {
        match (self.json, self.quiet) {
            (true, _) => Printed::Json,
            (_, true) => Printed::Incidents,
            _ if crate::terminal::width().is_some() => Printed::Screen,
            _ => Printed::Lines,
        }
    }

    /// Opens the sealed log, if one is named.
    pub(super) fn sealed(&self) -> Result<Option<SealedFindings>, Fault> {
        self.seal.as_deref().map(SealedFindings::open).transpose()
    }
}

/// Closes the sealed log: everything in it is durable and signed.
pub(super) fn close(sealed: Option<SealedFindings>) -> Result<(), Fault> {
    sealed.map_or(Ok(()), |sealed| sealed.finish(false))
}

/// Runs the verb.
pub(super) fn run(o: &WatchOptions) -> Result<Exit, Fault> {
    let signals = signals()?;
    let sealed = o.common.sealed()?;
    let common = o.common.watch(&signals, sealed.as_ref())?;
    let watch = GuardWatch { interface: o.interface.clone(), ..common };
    let (printed, mut printer) = (o.common.printed(), Printer::start()?);
    let ran = watch.run(&|| false, &mut |news| show(&news, printed, &mut printer));
    finish(printer);
    drop(watch);
    close(sealed)?;
    let done = ran?;
    if done.late_periods > 0 {
        eprintln!("gabion: guard: {} periods of 8 ms were read late", done.late_periods);
    }
    Ok(Exit::Done)
}

/// Takes over the signals: SIGTERM and SIGINT end the guard in order.
pub(super) fn signals() -> Result<Signals, Fault> {
    Signals::install().map_err(|e| Fault::environment(format!("signals: {e}: report it")))
}

/// What is printed of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Printed {
    /// An object of JSON each second.
    Json,
    /// Lines about incidents.
    Incidents,
    /// And lines for each second.
    Lines,
    /// The last second, drawn again in its place on a terminal.
    Screen,
}

/// Prints what is new. What concerns instruments goes to standard error.
pub(super) fn show(news: &GuardNews<'_>, printed: Printed, to: &mut Printer) {
    match (news, printed) {
        (GuardNews::Absent(line), _) => to.error(format!("gabion: guard: absent: {line}")),
        (GuardNews::Incident(line), Printed::Json) => to.error(format!("gabion: guard: {line}")),
        // Below the picture of a second, which the next second covers: lines about incidents stay above it.
        (GuardNews::Incident(line), Printed::Screen) => to.output(format!("{CLEAR}{line}\n")),
        (GuardNews::Incident(line), _) => to.output(format!("{line}\n")),
        (GuardNews::Second(second), Printed::Json) => {
            let mut j = Json::new();
            second.write_json(&mut j);
            to.output(j.into_line());
        }
        (GuardNews::Second(_), Printed::Incidents) => {}
        (GuardNews::Second(second), Printed::Lines) => to.output(text_of(second)),
        (GuardNews::Second(second), Printed::Screen) => {
            let width = usize::from(crate::terminal::width().unwrap_or(80));
            let text = text_of(second);
            // A line that the terminal breaks would take two, and the next picture would begin too low.
            let lines = text.lines().map(|line| line.chars().take(width).collect::<String>());
            let (up, cut) = (text.lines().count(), lines.collect::<Vec<_>>().join("\n"));
            to.output(format!("{CLEAR}{cut}\n\x1b[{up}A"));
        }
    }
}

/// Waits until all is printed, and reports what could not be.
pub(super) fn finish(printer: Printer) {
    match printer.finish() {
        0 => {}
        lost => {
            eprintln!("gabion: guard: {lost} lines are not printed, as standard output was full")
        }
    }
}

/// Clears the terminal from the cursor to its end.
const CLEAR: &str = "\x1b[J";

/// A second as lines: one for the host, and two for each CPU that does packet work or makes programs wait.
fn text_of(second: &GuardSecond) -> String {
    let mut text = format!("{:>6} s  {}", second.at_ms / 1000, second.reason);
    if let Some((median, most, before)) = second.grace_us {
        let ms = |us: u32| f64::from(us) / 1000.0;
        let (median, most, before) = (ms(median), ms(most), ms(before));
        let _ =
            write!(text, "  grace periods {median:.1} ms, max {most:.1} (before: p99 {before:.1})");
    }
    for (name, entries, max) in &second.tables {
        let _ = write!(text, "  {name} {entries} of {max}");
    }
    if let Some(throttle) = &second.throttle {
        let _ = write!(text, "\n          {throttle}");
    }
    let _ = writeln!(text, "  own cost {:.1} %", second.own_cost * 100.0);
    for cpu in &second.cpus {
        cpu_line(cpu, &mut text);
    }
    text
}

fn cpu_line(cpu: &GuardCpuSecond, text: &mut String) {
    let percent = |share: f64| share * 100.0;
    let _ = write!(
        text,
        "    CPU{:<3} packet work {:>5.1} % (ksoftirqd {:.1}, threads {:.1})  {:>8} pps",
        cpu.cpu,
        percent(cpu.packet_work),
        percent(cpu.in_ksoftirqd),
        percent(cpu.in_threads),
        cpu.packets
    );
    if let Some((p99, most)) = cpu.gaps_us {
        let ms = |us: u32| f64::from(us) / 1000.0;
        let _ = write!(text, "  gaps p99 {:.1} ms, max {:.1}", ms(p99), ms(most));
    }
    let mut others: Vec<_> = cpu.vectors.iter().filter(|(_, share)| *share >= 0.01).collect();
    others.sort_by(|a, b| b.1.total_cmp(&a.1));
    for (vector, share) in others.into_iter().take(2) {
        let _ = write!(text, "  {} {:.0} %", vector.name(), percent(*share));
    }
    if cpu.steal >= 0.01 {
        let _ = write!(text, "  steal {:.0} %", percent(cpu.steal));
    }
    if cpu.backlog_dropped > 0 {
        let _ = write!(text, "  backlog dropped {}", cpu.backlog_dropped);
    }
    if let Some(line) = cpu.without_detail() {
        let _ = write!(text, "  ({line})");
    }
    let _ = writeln!(text, "\n           {}", sparkline(&cpu.recent));
}

/// Packet work of the last periods, a character each.
fn sparkline(recent: &[u8]) -> String {
    // A calm CPU shows a line of dots, not a blank one.
    const STEPS: [char; 9] = ['·', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let step = |percent: &u8| STEPS.get(usize::from(*percent).div_ceil(13)).copied().unwrap_or('█');
    recent.iter().map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_figures_of_a_cpu() {
        let cpu = GuardCpuSecond {
            cpu: 1,
            packet_work: 0.74,
            in_ksoftirqd: 0.46,
            packets: 362_000,
            gaps_us: Some((7300, 22_800)),
            backlog_dropped: 5,
            recent: vec![0, 50, 100],
            ..GuardCpuSecond::default()
        };
        let second = GuardSecond { at_ms: 3000, cpus: vec![cpu], ..GuardSecond::default() };
        let text = text_of(&second);
        for part in [
            "packet work  74.0 % (ksoftirqd 46.0",
            "362000 pps",
            "p99 7.3 ms, max 22.8",
            "backlog dropped 5",
            "·▄█",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
