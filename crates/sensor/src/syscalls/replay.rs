//! A scap file event by event, with the state of threads and descriptors after each.

use super::ScapAccount;
use super::input;
use crate::Error;
use crate::limits;
use gabion_record::budget::Budget;
use gabion_runtime::StopFlag;
use gabion_scap::{Event, Item, Merger, Reader};
use gabion_syscall::{Options, State};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Reads one input from its beginning to its end.
pub struct Replay {
    path: PathBuf,
    reader: Reader,
    merger: Merger,
    state: State,
    stop: StopFlag,
}

impl std::fmt::Debug for Replay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replay").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Replay {
    /// Opens an input: a file, a pipe, or `-` for standard input. The state has `options` and the usual budget.
    ///
    /// # Errors
    /// The input is not there or cannot be read.
    pub fn open(path: &Path, options: Options, stop: &StopFlag) -> Result<Replay, Error> {
        Ok(Replay {
            path: path.to_owned(),
            reader: input::open(path, stop)?,
            merger: Merger::new(),
            state: State::new(options, Budget::standalone("syscalls", limits::SYSCALL_STATE_BYTES)),
            stop: stop.clone(),
        })
    }

    /// The state after the last event.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// What was counted so far.
    pub fn account(&self) -> ScapAccount {
        ScapAccount {
            read: self.reader.counts().clone(),
            merged: Some(self.merger.counts().clone()),
        }
    }

    /// Reads to the end, until `then` breaks or a request to stop is heard. `then` is called after each event that is
    /// no longer waiting for another.
    ///
    /// # Errors
    /// The input is no scap file, or one that a newer program wrote.
    pub fn run(
        &mut self,
        mut then: impl FnMut(&State, &Event<'_>) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let scap = |source| Error::Scap { path: self.path.clone(), source };
        while let Some(item) = self.reader.next_item().map_err(scap)? {
            match item {
                Item::Section { .. } => {
                    self.merger.finish();
                    self.state.clear();
                }
                Item::Machine(machine) => self.state.set_hostname(&machine.hostname),
                Item::Process(entry) => self.state.add_process(&entry),
                Item::Fd(entry) => self.state.add_fd(&entry),
                Item::Interface(entry) => self.state.add_interface(&entry),
                Item::User(entry) => self.state.add_account(&entry),
                Item::Event(event) => {
                    let Some(event) = self.merger.merge(event) else { continue };
                    self.state.apply(&event);
                    if then(&self.state, &event).is_break() {
                        break;
                    }
                }
            }
            if self.stop.is_set() {
                break;
            }
        }
        self.merger.finish();
        Ok(())
    }
}
