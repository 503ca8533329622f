//! What every packet run does when all is read: what rules have learned is saved, the last record and all that is buffered are written, and the ledger is checked.

use super::packet_log::{LostFrames, PacketLogCounts};
use super::run::Done;
use crate::{Error, LostTrack};
use gabion_net::Engine;
use gabion_outputs::{OutputError, Outputs};
use gabion_record::Tree;
use gabion_record::ledger::{Ledger, ShedReason, stages};
use gabion_record::limits;
use gabion_runtime::clock;
use gabion_runtime::output::write_whole;
use std::io;
use std::path::{Path, PathBuf};

/// What could not be written at the end of a run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unwritten {
    /// What a dataset has learned.
    #[error("{}: cannot be written: {source}", .path.display())]
    Dataset {
        /// Its file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Records of an output.
    #[error("{0}")]
    Output(#[from] OutputError),
    /// Frames of a packet log.
    #[error("{0}: make space or choose another place")]
    Frames(#[from] LostFrames),
}

impl Done {
    /// Writes what is left to write; returns what could not be.
    pub fn finish(
        &mut self,
        outputs: &mut Outputs,
        engine: &Engine,
        config: &Tree,
        logged: &PacketLogCounts,
    ) -> Vec<Unwritten> {
        finish(self, outputs, engine, config, logged)
    }

    /// Checks each stage, and that what one passed on is what the next received.
    ///
    /// # Errors
    /// The stage that does not balance.
    pub fn check_balance(&self) -> Result<(), Error> {
        check_balance(self)
    }

    /// The ledger in a few words: what the reader gave the engine.
    pub fn ledger_in_short(&self) -> String {
        let sums = self.ledgers.by_stage();
        let entry = sums.iter().find(|e| e.stage == stages::ENGINE).map(|e| e.ledger.clone());
        entry.unwrap_or_default().to_string()
    }
}

fn finish(
    done: &mut Done,
    outputs: &mut Outputs,
    engine: &Engine,
    config: &Tree,
    logged: &PacketLogCounts,
) -> Vec<Unwritten> {
    let mut failures = Vec::new();
    let folder = Path::new(config.text("default-data-dir").unwrap_or("."));
    for (path, text) in engine.detector.iter().flat_map(|d| d.datasets.saves()) {
        let path = folder.join(path);
        if let Err(source) = write_whole(&path, text.as_ref()) {
            failures.push(Unwritten::Dataset { path, source });
        }
    }
    outputs.stats(clock::epoch_ns(), &done.stats);
    if let Err(e) = outputs.flush() {
        failures.push(e.into());
    }
    failures.extend(logged.failure().map(Unwritten::from));
    for (path, ledger) in outputs.files() {
        let name = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        done.ledgers.add(&name, None, ledger);
    }
    let (wants, sum) = (outputs.wants(), outputs.sum());
    if wants.file_store {
        done.ledgers.add("file store", None, &sum.store);
    }
    if wants.wire {
        done.ledgers.add("packet log", None, &sum.packet_log);
    }
    enter_limits(done);
    failures
}

/// Enters which fixed limits were reached: workers' own counts, shed already, and those of all other
/// threads, that stand in a line of the ledger of their own.
fn enter_limits(done: &mut Done) {
    let others = limits::take_all();
    let mut ledger = Ledger::new();
    ledger.receive(others.total(), 0);
    ledger.shed(ShedReason::LimitReached, others.total(), 0);
    done.ledgers.add(stages::LIMITS, None, &ledger);
    done.limits = done.counters.limits.clone();
    done.limits.merge(&others);
}

fn check_balance(done: &Done) -> Result<(), Error> {
    let fault = |stage: &str, what: LostTrack| Error::Unbalanced { stage: stage.to_owned(), what };
    done.ledgers.balance().map_err(|(stage, e)| fault(&stage, e.into()))?;
    let sums = done.ledgers.by_stage();
    let find = |name: &str| sums.iter().find(|e| e.stage == name).map(|e| &e.ledger);
    let into_decode = if find(stages::WORKER).is_some() { stages::WORKER } else { stages::ENGINE };
    for (from, to) in [
        (stages::READER, stages::ENGINE),
        (stages::ENGINE, stages::READER_TO_WORKER),
        (stages::READER_TO_WORKER, stages::WORKER),
        (into_decode, stages::DECODE),
    ] {
        // What a lost worker had done by then is not known.
        if done.lost_workers > 0 && to == stages::DECODE {
            continue;
        }
        let (Some(a), Some(b)) = (find(from), find(to)) else { continue };
        let (passed, received) = (a.passed(), b.received());
        if passed != received {
            return Err(fault(to, LostTrack::Between { from, passed, received }));
        }
    }
    Ok(())
}
