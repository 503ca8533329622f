//! Prints from a thread of its own: a terminal or pipe that takes nothing must not hold the controller up, whose heartbeat
//! keeps the throttle in force.

use crate::exit::Fault;
use crate::standard_output;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

/// Texts that wait for standard output: a minute of seconds.
const WAITING: usize = 60;

/// The thread that prints, and what waits for it.
pub(super) struct Printer {
    to: Option<SyncSender<Text>>,
    thread: Option<JoinHandle<()>>,
    lost: u64,
}

/// A text and where it goes.
enum Text {
    Output(String),
    Error(String),
}

impl Printer {
    /// Starts the thread.
    pub(super) fn start() -> Result<Printer, Fault> {
        let (to, texts) = sync_channel(WAITING);
        let thread = std::thread::Builder::new()
            .name("printer".to_owned())
            .spawn(move || print(&texts))
            .map_err(|e| Fault::environment(format!("printer: {e}: free some memory")))?;
        Ok(Printer { to: Some(to), thread: Some(thread), lost: 0 })
    }

    /// Prints a text on standard output.
    pub(super) fn output(&mut self, text: String) {
        self.put(Text::Output(text));
    }

    /// Prints a line on standard error.
    pub(super) fn error(&mut self, line: String) {
        self.put(Text::Error(line));
    }

    fn put(&mut self, text: Text) {
        if let Some(Err(TrySendError::Full(_))) = self.to.as_ref().map(|to| to.try_send(text)) {
            self.lost += 1;
        }
    }

    /// Waits until all is printed. How many texts were not, as standard output took none.
    pub(super) fn finish(mut self) -> u64 {
        self.to = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.lost
    }
}

fn print(texts: &Receiver<Text>) {
    for text in texts {
        match text {
            Text::Output(text) => standard_output::text(text),
            Text::Error(line) => eprintln!("{line}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_place_is_counted_and_nobody_waits() {
        let (to, texts) = sync_channel(1);
        let mut printer = Printer { to: Some(to), thread: None, lost: 0 };
        printer.output("a".to_owned());
        printer.error("b".to_owned());
        printer.output("c".to_owned());
        assert_eq!(printer.finish(), 2);
        assert!(matches!(texts.recv(), Ok(Text::Output(text)) if text == "a"));
    }
}
