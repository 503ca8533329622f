//! The sink of a log server: a sealed log that continues when its disk is full or fails, and the wait for space.

use crate::error::{Error, Result};
use crate::notice::{Notice, Report};
use crate::sink::Sink;
use crate::stage::now_ns;
use gabion_runtime::StopFlag;
use gabion_seal::durable::{Dropped, DurableEvent, DurableWriter, LogFolder, OnFull};
use gabion_seal::{Record, Source};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often it is tried whether a disk has room again.
const TRY_EVERY: Duration = Duration::from_millis(500);

/// A sealed log that a server writes.
pub struct SealedLog {
    log: DurableWriter,
    stop: StopFlag,
    next_try: Instant,
}

impl fmt::Debug for SealedLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedLog").field("log", &self.log).finish_non_exhaustive()
    }
}

impl SealedLog {
    /// Opens a log that is there, and one to spill into where it is named. A wait for room ends when the flag is set.
    ///
    /// # Errors
    /// When the log can't be written.
    pub fn open(
        folder: LogFolder,
        spill: Option<LogFolder>,
        on_full: OnFull,
        stop: StopFlag,
        report: &Report,
    ) -> Result<SealedLog> {
        let report = Arc::clone(report);
        let noted = Box::new(move |event: &DurableEvent| report(&Notice::Log(event.clone())));
        let log = DurableWriter::open(folder, spill, on_full, noted, now_ns())?;
        Ok(SealedLog { log, stop, next_try: Instant::now() })
    }

    /// Tries to continue where it is time for that; whether the log continues.
    fn retry_if_due(&mut self) -> bool {
        let is_due = Instant::now() >= self.next_try;
        if is_due {
            self.next_try = Instant::now() + TRY_EVERY;
        }
        is_due && self.log.retry(now_ns())
    }

    /// Whether there is room, after waiting for it where that is what to do.
    fn wait_for_room(&mut self) -> Result<bool> {
        loop {
            if self.retry_if_due() {
                return Ok(true);
            }
            match self.log.on_full() {
                OnFull::Drop => return Ok(false),
                OnFull::Block if self.stop.is_set() => {
                    return Err(Error::StoppedWhileFull { log: self.log.log().to_owned() });
                }
                OnFull::Block => std::thread::sleep(TRY_EVERY / 5),
            }
        }
    }
}

impl Sink for SealedLog {
    fn append(&mut self, source: &Source, record: &Record<'_>) -> Result<()> {
        if self.log.is_full() {
            self.wait_for_room()?;
        }
        // Where there is still none, it is counted and shed.
        Ok(self.log.append(record, source, now_ns())?)
    }

    fn commit(&mut self) -> Result<()> {
        self.log.commit(now_ns())?;
        if self.log.holds_unsynced() && !self.wait_for_room()? {
            self.log.give_up_unsynced();
        }
        Ok(())
    }

    fn tick(&mut self) -> Result<()> {
        if self.log.is_away() {
            self.retry_if_due();
        }
        Ok(self.log.tick(now_ns())?)
    }

    fn close(&mut self) -> Result<()> {
        Ok(self.log.close(now_ns())?)
    }

    fn take_dropped(&mut self) -> Dropped {
        self.log.take_dropped()
    }

    fn is_full(&self) -> bool {
        self.log.is_full()
    }
}
