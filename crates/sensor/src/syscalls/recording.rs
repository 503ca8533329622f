//! Records the system calls of this host into a scap file.

use super::account::{LiveAccount, balanced};
use super::live::{LiveCalls, LiveSettings};
use super::statistics::LiveStatistics;
use crate::Error;
use gabion_probe::host::HostCounts;
use gabion_probe::syscalls::{Counts, Settings};
use gabion_record::files::{FileOpener, OpenMode};
use gabion_runtime::StopFlag;
use gabion_runtime::clock;
use gabion_scap::Writer;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long the reader sleeps when all rings are empty.
const PAUSE: Duration = Duration::from_millis(2);

/// What is recorded, and for how long.
pub struct Recording {
    /// The calls, and the memory of the rings.
    pub settings: Settings,
    /// Where `proc` and `etc` of the host are.
    pub root: PathBuf,
    /// After this time the recording ends.
    pub lasting: Option<Duration>,
    /// After this number of events the recording ends.
    pub events: Option<u64>,
    /// Asks to end it.
    pub stop: StopFlag,
}

/// What was recorded.
#[derive(Debug)]
pub struct Recorded {
    /// Events in the file.
    pub events: u64,
    /// What existed before the first one.
    pub before: HostCounts,
    /// The counters of the kernel's programs.
    pub counts: Counts,
    /// What the kernel refused, a line for each.
    pub absent: Vec<String>,
    /// What programs did that is not seen, if it was noticed.
    pub unseen: Option<&'static str>,
    /// What was counted from the start to the end.
    pub statistics: LiveStatistics,
}

impl Recorded {
    /// Whether each call that was received is an event, or shed and counted.
    ///
    /// # Errors
    /// [`Error::Unbalanced`] if not.
    pub fn balance(&self) -> Result<(), Error> {
        let counts = self.counts.clone();
        let (read, before) = (self.events, self.before);
        let account = LiveAccount { counts, read, before, ..LiveAccount::default() };
        balanced(&account.ledgers())
    }
}

impl Recording {
    /// The same into a new file, which `files` makes. After a fault it keeps what was recorded before; an empty one is removed.
    ///
    /// # Errors
    /// As [`Recording::write`]; the file is there already: it is another recording, or a pipe that waits for its reader.
    pub fn write_file(&self, files: &FileOpener, path: &Path) -> Result<Recorded, Error> {
        let fault = |source| Error::File { path: path.to_owned(), source };
        let file = files.open(path, OpenMode::CreateNew).map_err(fault)?;
        self.write(BufWriter::new(&file)).map_err(|e| {
            if file.metadata().is_ok_and(|found| found.len() == 0) {
                let _ = std::fs::remove_file(path);
            }
            match e {
                Error::File { source, .. } => fault(source),
                other => other,
            }
        })
    }

    /// Records until the time is over or somebody asks to stop.
    ///
    /// # Errors
    /// The kernel refuses the programs, or the destination refuses.
    pub fn write(&self, to: impl Write) -> Result<Recorded, Error> {
        let settings = LiveSettings { session: self.settings.clone(), root: self.root.clone() };
        let mut live = LiveCalls::start(&settings)?;
        let refused = |e: io::Error| Error::File { path: "recording".into(), source: e };
        let mut writer = Writer::new(to);
        // The programs are attached before the lists are read, so that no thread is missed in between.
        writer.section().map_err(refused)?;
        let mut written = Ok(());
        live.list_host(&mut |item| {
            if written.is_ok() {
                written = writer.write(&item);
            }
        });
        written.map_err(refused)?;
        let end = self.lasting.map(|lasting| clock::now() + lasting);
        let mut failure = None;
        let mut write = |call: &gabion_probe::syscalls::Call<'_>| {
            if failure.is_none()
                && let Err(error) = writer.event(&call.event)
            {
                failure = Some(error);
            }
            failure.is_some()
        };
        loop {
            let mut has_failed = false;
            live.poll(&mut |call| has_failed |= write(call));
            let is_over = end.is_some_and(|end| clock::now() >= end)
                || self.events.is_some_and(|most| live.account().read >= most)
                || self.stop.is_set()
                || has_failed;
            if is_over {
                break;
            }
            if !live.is_behind() {
                std::thread::sleep(PAUSE);
            }
        }
        live.end(&mut |call| {
            write(call);
        });
        if let Some(error) = failure {
            return Err(refused(error));
        }
        writer.finish().map_err(refused)?;
        let statistics = live.statistics();
        let LiveAccount { counts, read: events, before, .. } = statistics.account.clone();
        let (absent, unseen) = (live.absent(), live.unseen());
        Ok(Recorded { events, before, counts, absent, unseen, statistics })
    }
}
