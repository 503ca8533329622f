//! Where records of flows come from: the door of all sources, and logs that have an end.

use super::lists::Lists;
use crate::packets::InputOpener;
use gabion_behavior::intel::Intel;
use gabion_flowlog::{Feed, OpenOnce};
use gabion_record::logs::Record;
use gabion_runtime::StopFlag;
use gabion_runtime::input::Stoppable;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::sync::Arc;

/// What reads.
pub(crate) trait Source: Send {
    /// Reads until the end, until asked to stop or until `each` breaks off.
    fn run(&mut self, each: &mut dyn FnMut(Seen<'_, '_>) -> ControlFlow<()>);
}

/// What is read.
pub(crate) enum Seen<'a, 'r> {
    /// Records, in order.
    Records(&'a [Record<'r>]),
    /// Other lists of what is bad.
    Lists(Arc<Intel>),
    /// What evidence is to say of the input from now on.
    State(String),
    /// Nothing at the moment.
    Idle,
    /// All of the run is to be saved as it is now; with that of the source. With `true` nothing follows: what
    /// waits is decided by the run that continues from there.
    Checkpoint(Vec<u8>, bool),
}

/// Logs as they are.
pub(super) struct LogSource {
    pub(super) feed: Feed,
    pub(super) stop: StopFlag,
    pub(super) lists: Lists,
    pub(super) is_stopped: bool,
}

impl Source for LogSource {
    fn run(&mut self, each: &mut dyn FnMut(Seen<'_, '_>) -> ControlFlow<()>) {
        let mut records = 0u64;
        let (stop, lists, is_stopped) = (&self.stop, &self.lists, &mut self.is_stopped);
        self.feed.run(&mut |together| {
            let before = records;
            records += together.len() as u64;
            // Looking at a flag is cheap, but not needed for each record.
            if records >> 10 != before >> 10 {
                if let Some(intel) = lists.take_intel() {
                    each(Seen::Lists(intel))?;
                }
                if stop.is_set() {
                    *is_stopped = true;
                    return ControlFlow::Break(());
                }
            }
            each(Seen::Records(together))
        });
        // Nobody looked at the flag while a stream was waited for: it was cut off.
        self.is_stopped |= self.stop.is_set() && self.feed.reads_once();
    }
}

/// Opens what can be read only once, through `opener`, so that a request to stop is heard while nothing comes.
pub(super) fn streams(stop: &StopFlag, opener: Arc<InputOpener>) -> OpenOnce {
    let stop = stop.clone();
    Box::new(move |path| {
        let from = match opener.take_input(path, &stop) {
            Some(from) => from,
            None => Box::new(Stoppable::new(opener.open_once(path)?, stop.clone())),
        };
        Ok(Box::new(Cut { from, stop: stop.clone() }))
    })
}

/// A stream that ends early when it is asked to stop. That is no end of what it holds: half a line is no
/// line then, and half a packed block no error.
struct Cut {
    from: Box<dyn Read + Send>,
    stop: StopFlag,
}

impl Read for Cut {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.from.read(into) {
            Ok(0) if self.stop.is_set() => Err(io::ErrorKind::WouldBlock.into()),
            done => done,
        }
    }
}
