//! A run over logs of flows, from its sources to its outputs: logs that have an end, or logs that grow and
//! exporters that keep sending.

use super::checkpoint::{self, Checkpoint, Tag};
use super::lists::Lists;
use super::live::LiveSource;
use super::outcome::Ran;
use super::parallel::{self, Plan};
use super::single;
use super::sink::Sink;
use super::source::{LogSource, Source, streams};
use crate::packets::{Input, InputOpener};
use crate::{Error, Notices};
use gabion_behavior::stages::{Back, Front, Section, Shards};
use gabion_behavior::{Engine, RestoreError, Settings};
use gabion_flowlog::limits::{FOLDER_DEPTH_MAX, reached};
use gabion_flowlog::netflow;
use gabion_flowlog::source::{LineRead, Lines, is_read_once};
use gabion_flowlog::{Feed, Format, InputReport, Line, Options};
use gabion_record::files::FileOpener;
use gabion_record::logs::TimeNs;
use gabion_runtime::{StopFlag, jobs};
use std::io;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a run reads.
pub enum FlowInputs {
    /// Logs that have an end.
    Files {
        /// The logs.
        paths: Vec<PathBuf>,
        /// What opens them; it may hold a pipe that was looked into.
        opener: Arc<InputOpener>,
    },
    /// Logs that grow, and a socket that exporters of NetFlow and IPFIX send to.
    Live {
        /// Files and folders.
        paths: Vec<PathBuf>,
        /// What opens files, again and again as they grow.
        files: FileOpener,
        /// The socket.
        netflow: Option<UdpSocket>,
        /// How long a record waits for earlier ones.
        horizon_ns: i64,
    },
}

impl FlowInputs {
    /// Whether inputs are logs of flows, each by what it holds, or a folder that holds some, by their names, and no
    /// captures.
    pub fn are_logs(files: &FileOpener, inputs: &[PathBuf]) -> bool {
        !inputs.is_empty() && inputs.iter().all(|path| FlowInputs::is_log(files, path))
    }

    fn is_log(opener: &FileOpener, path: &Path) -> bool {
        if path.is_file() {
            return !Input::is_capture(opener, path) && begins_with_records(opener, path);
        }
        if !path.is_dir() {
            return false;
        }
        let Ok(files) = gabion_capture::list_recursive(path) else { return false };
        let is_named = |f: &PathBuf| gabion_flowlog::kind_of(&f.to_string_lossy()).is_some();
        files.iter().any(is_named) && !files.iter().any(|f| Input::is_capture(opener, f))
    }

    /// The files that paths stand for: folders all files below them, in order of their names. Pipes and the
    /// like are read where they are named themselves.
    ///
    /// # Errors
    /// When a folder can't be read, or what can be read only once is named twice.
    pub fn list_logs(inputs: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
        let mut all = Vec::new();
        for path in inputs {
            if is_read_once(path) && all.contains(path) {
                return Err(Error::NamedTwice { path: path.clone() });
            }
            if !is_read_once(path) && path.is_dir() {
                below(path, &mut all, 0)
                    .map_err(|source| Error::UnreadableLogs { path: path.clone(), source })?;
            } else {
                all.push(path.clone());
            }
        }
        Ok(all)
    }

    /// Whether inputs are captures: all that are named, or a folder that holds captures and no logs.
    ///
    /// # Errors
    /// When one is not there, or captures and logs are named together.
    pub fn are_captures(files: &FileOpener, inputs: &[PathBuf]) -> Result<bool, Error> {
        super::captured::are_captures(files, inputs)
    }
}

/// A run over logs of flows that is to be made.
pub struct FlowRun {
    /// What is read.
    pub inputs: FlowInputs,
    /// What logs are; each is looked at where this does not say it.
    pub format: Option<Format>,
    /// What the engine looks for.
    pub settings: Settings,
    /// Lists of what is bad, read again while the run continues.
    pub lists: Lists,
    /// The request to stop.
    pub stop: StopFlag,
    /// Threads that detect; 0 and 1 are one.
    pub workers: usize,
    /// Bytes for seeds and profiles.
    pub budget: usize,
    /// What a run over live inputs continues from.
    pub earlier: Option<Checkpoint>,
    /// What happens to workers is reported here.
    pub notices: Notices,
    /// What is no trouble is reported here: the address that is listened on, and a checkpoint that was read.
    pub news: Notices,
}

/// A run that came to its end.
pub struct FlowsDone {
    /// What the engine did.
    pub ran: Ran,
    /// Somebody asked to stop before all was read.
    pub is_stopped: bool,
    /// It was SIGTERM.
    pub is_terminated: bool,
    source: ReadSource,
}

enum ReadSource {
    Files(Box<LogSource>),
    Live(Box<LiveSource>),
}

impl FlowsDone {
    /// What happened to each input.
    pub fn reports(&self) -> Vec<&InputReport> {
        match &self.source {
            ReadSource::Files(source) => source.feed.reports().collect(),
            ReadSource::Live(source) => source.reports(),
        }
    }

    /// Files that were not followed for want of room.
    pub fn files_beyond(&self) -> u64 {
        match &self.source {
            ReadSource::Files(_) => 0,
            ReadSource::Live(source) => source.beyond(),
        }
    }

    /// What was met in datagrams of exporters, and how many of them the kernel dropped.
    pub fn datagrams(&self) -> Option<(netflow::Counts, u64)> {
        match &self.source {
            ReadSource::Files(_) => None,
            ReadSource::Live(source) => source.datagrams(),
        }
    }
}

impl FlowRun {
    /// Reads all inputs to their end, or until somebody asks to stop; findings go to the sink.
    ///
    /// # Errors
    /// When inputs, a checkpoint or threads can't be had, or the engine's only thread makes no progress.
    pub fn read_logs(self, sink: &mut Sink) -> Result<FlowsDone, Error> {
        let FlowRun {
            inputs,
            format,
            settings,
            lists,
            stop,
            workers,
            budget,
            earlier,
            notices,
            news,
        } = self;
        let engine = EngineRun { settings, workers, budget, notices };
        match inputs {
            FlowInputs::Files { paths, opener } => {
                let options = Options {
                    format,
                    parts: workers,
                    run: jobs::run_at_once,
                    ..Options::default()
                };
                let feed = Feed::survey(opener.files(), &paths, options);
                let feed = feed.opening_once(streams(&stop, opener));
                let source = LogSource { feed, stop, lists, is_stopped: false };
                let state = source.feed.surveyed().completeness().to_string();
                let start = source.feed.start();
                let begun = Begun { start, state, is_finite: true, earlier: None };
                let (source, ran) = engine.detect(source, begun, sink)?;
                let (is_stopped, is_terminated) = (source.is_stopped, source.lists.is_terminated());
                let source = ReadSource::Files(Box::new(source));
                Ok(FlowsDone { ran, is_stopped, is_terminated, source })
            }
            FlowInputs::Live { paths, files, netflow, horizon_ns } => {
                let address = netflow.as_ref().and_then(|socket| socket.local_addr().ok());
                let lists = (Some(lists), &engine.notices);
                let mut source =
                    LiveSource::new((files, paths), netflow, format, horizon_ns, stop, lists)
                        .map_err(|source| Error::Listen { address, source })?;
                if let Some(address) = source.address() {
                    news.report(&format!("netflow: listening on {address}"));
                }
                if sink.folder.is_some() {
                    let settings = &engine.settings;
                    let window_ns =
                        if settings.is_one_window { i64::MAX } else { settings.window_ns };
                    source.save_windows(window_ns, Arc::clone(&sink.is_asked));
                }
                if let Some(earlier) = &earlier {
                    let other = || unfit(sink.folder.as_deref(), RestoreError::OtherVersion);
                    let section = |tag| earlier.section(tag).ok_or_else(other);
                    let (from_source, from_sink) = (section(Tag::Source)?, section(Tag::Sink));
                    source.restore(from_source).ok_or_else(other)?;
                    let from_sink = from_sink?;
                    let is_restored = sink.restore(from_sink).is_some();
                    if !is_restored {
                        return Err(unfit(sink.folder.as_deref(), RestoreError::OtherVersion));
                    }
                    let folder = sink.folder.as_deref().unwrap_or(Path::new("")).display();
                    news.report(&format!("{folder}: continues from its checkpoint"));
                }
                let begun =
                    Begun { start: None, state: "live".to_owned(), is_finite: false, earlier };
                let (source, ran) = engine.detect(source, begun, sink)?;
                let source = ReadSource::Live(Box::new(source));
                Ok(FlowsDone { ran, is_stopped: false, is_terminated: false, source })
            }
        }
    }
}

/// What is known before the first record.
struct Begun {
    start: Option<TimeNs>,
    /// What evidence says of the input.
    state: String,
    is_finite: bool,
    /// What the run continues from.
    earlier: Option<Checkpoint>,
}

fn unfit(folder: Option<&Path>, why: RestoreError) -> Error {
    let path = checkpoint::path_in(folder.unwrap_or(Path::new("")));
    Error::UnfitCheckpoint { path, source: why }
}

/// An engine and its threads.
struct EngineRun {
    settings: Settings,
    workers: usize,
    budget: usize,
    notices: Notices,
}

impl EngineRun {
    /// Runs the engine over a source, on one thread or several.
    fn detect<S: Source + 'static>(
        self,
        source: S,
        begun: Begun,
        sink: &mut Sink,
    ) -> Result<(S, Ran), Error> {
        let EngineRun { settings, workers, budget, notices } = self;
        // Limits that were reached while the run was prepared are no part of a checkpoint: a run that continues from it
        // is prepared again.
        gabion_record::limits::publish();
        let Begun { start, state, is_finite, earlier } = begun;
        let parts = || earlier.iter().flat_map(Checkpoint::sections);
        let engine_parts = || {
            parts().filter_map(|(tag, bytes)| match tag {
                Tag::Engine(section) => Some((section, bytes)),
                Tag::Source | Tag::Sink => None,
            })
        };
        let folder = sink.folder.clone();
        let unfit = |why| unfit(folder.as_deref(), why);
        let mut say = |line: String| notices.report(&line);
        if workers <= 1 {
            let mut engine = Engine::with_budget(settings, start, budget);
            for (section, bytes) in engine_parts() {
                engine.restore(section, bytes).map_err(unfit)?;
            }
            return single::run(source, engine, state, budget, sink, &mut say);
        }
        let settings = Arc::new(settings);
        let mut front = Front::new(Arc::clone(&settings), start);
        let mut back = Back::new(Arc::clone(&settings));
        let mut shards = earlier.as_ref().map(|_| Shards::new(Arc::clone(&settings), budget));
        for (section, bytes) in engine_parts() {
            match (section, &mut shards) {
                (Section::Front, _) => front.restore(bytes),
                (Section::Back, _) => back.restore(bytes),
                (Section::Shard(number), Some(shards)) => {
                    shards.restore(number, bytes).ok_or(RestoreError::OtherVersion)
                }
                (Section::Shard(_), None) => Ok(()),
            }
            .map_err(unfit)?;
        }
        back.set_input_state(state);
        let plan = Plan {
            workers,
            budget,
            is_finite,
            keeps_windows: sink.keeps_windows(),
            shards,
            #[cfg(test)]
            changes: Vec::new(),
            #[cfg(test)]
            fault: None,
        };
        let done = parallel::run(source, front, back, &settings, plan, sink, &mut say)?;
        let ran = Ran {
            counts: done.counts,
            sources: done.sources,
            team: Some(done.team),
            failed: None,
            budget,
            used: done.used,
            whitelisted: done.whitelisted,
        };
        Ok((done.source, ran))
    }
}

fn below(folder: &Path, all: &mut Vec<PathBuf>, depth: usize) -> io::Result<()> {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder)?
        .collect::<Result<Vec<_>, _>>()?
        .iter()
        .map(|e| e.path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            if depth < FOLDER_DEPTH_MAX {
                below(&path, all, depth + 1)?;
            } else {
                reached::FOLDER_DEPTH_MAX.count();
            }
        } else if !is_read_once(&path) {
            // What nobody named is not waited for.
            all.push(path);
        }
    }
    Ok(())
}
/// Whether there is a record of flows among the first lines of a file.
fn begins_with_records(files: &FileOpener, path: &Path) -> bool {
    /// Headers and comments are shorter.
    const LINES: usize = 100;
    let Ok(file) = files.open_to_read(path) else { return false };
    let mut lines = Lines::from_file(file);
    let mut reader = gabion_flowlog::Reader::new(&path.to_string_lossy(), None);
    (0..LINES).any(|_| {
        let LineRead::Line(start, end) = lines.next_line() else { return false };
        let line = lines.text().get(start..end).unwrap_or_default();
        matches!(reader.line(line), Line::Record(..))
    })
}
