//! Standard output: the one place of the program that writes there.
//!
//! `println!` is no way to give results: it panics when the disk is full, and what is written through
//! `std::io::stdout()` is lost silently when the error is dropped. Here the first error is kept and what
//! could not be written is counted; at the end of the program [`finish`] makes an exit code of it. A
//! reader that went away (`gabion log show L | head`) has read what it wanted: then nothing is printed, and
//! the exit code is the verdict's own. `clippy::print_stdout` is denied, so that nobody goes past this.

use gabion_runtime::output::write_stdout;
use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The outcome of all writes so far.
struct State {
    failure: Option<Failure>,
    /// Bytes that could not be written.
    lost_bytes: u64,
}

/// Why nothing is written any more.
#[derive(Clone)]
enum Failure {
    /// The reader went away.
    Closed,
    /// Anything else, in the system's words.
    Failed(String),
}

static STATE: Mutex<State> = Mutex::new(State { failure: None, lost_bytes: 0 });

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while self.failure.is_none() && !rest.is_empty() {
            match write_stdout(rest) {
                Ok(0) => {
                    self.failure = Some(Failure::Failed("nothing could be written".to_owned()))
                }
                Ok(n) => rest = rest.get(n..).unwrap_or_default(),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::BrokenPipe => self.failure = Some(Failure::Closed),
                Err(e) => self.failure = Some(Failure::Failed(e.to_string())),
            }
        }
        self.lost_bytes += rest.len() as u64;
        match &self.failure {
            None => Ok(()),
            Some(Failure::Closed) => Err(ErrorKind::BrokenPipe.into()),
            Some(Failure::Failed(why)) => Err(io::Error::other(why.clone())),
        }
    }
}

/// Writes a report as JSON, or as text for the terminal's width.
pub(crate) fn report(
    is_json: bool,
    json: impl Fn() -> String,
    table: impl Fn(Option<u16>) -> String,
) {
    text(if is_json { json() } else { table(crate::terminal::width()) });
}

/// Writes a text. That it could not be written is kept for [`finish`].
pub(crate) fn text(text: impl Display) {
    let _ = state().write(text.to_string().as_bytes());
}

/// Writes a line: the text and its end.
pub(crate) fn line(line: impl Display) {
    text(format_args!("{line}\n"));
}

/// For a command that writes much and ends early when nobody reads it: errors are returned, and kept for
/// [`finish`] too.
#[derive(Debug)]
pub(crate) struct StandardOutput;

impl Write for StandardOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        state().write(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The exit code of the program, when it would have been `code`: `failed` where results could not be
/// written, which is reported. An internal error (5) takes precedence.
pub(crate) fn finish(code: u8, failed: u8) -> u8 {
    let state = state();
    let Some(Failure::Failed(why)) = &state.failure else { return code };
    let verdict = match code {
        0 => String::new(),
        _ => format!(", the exit code would have been {code}"),
    };
    eprintln!(
        "gabion: standard output: {why}: {} bytes of the results are lost{verdict}: make space or write \
         them somewhere else",
        state.lost_bytes
    );
    if code == crate::exit::Exit::Internal.code() { code } else { failed }
}
