//! Where alerts go: standard output, files, programs, syslog and receivers by HTTP.

use super::http::HttpReceiver;
use gabion_outputs::{Destination, Output, OutputError, Piece, falco};
use gabion_record::files::{FileOpener, OpenMode};
use gabion_runtime::sockets::connect_datagrams;
use gabion_settings::falco::{FalcoSettings, FileOutput, ProgramOutput};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

/// What happened to alerts on their way.
#[derive(Debug, Default)]
pub(super) struct OutputCounts {
    /// Alerts that a receiver did not take.
    pub(super) undelivered: AtomicU64,
    /// Why it did not take the last of them.
    pub(super) refusal: Mutex<Option<String>>,
    /// Some were still on their way when the program ended.
    pub(super) is_left_waiting: AtomicBool,
}

/// The outputs that the settings switch on, in Falco's order; `files` opens their files. What can't be opened is reported by `log`, and the others
/// are used.
pub(super) fn open_outputs(
    files: &FileOpener,
    settings: &FalcoSettings,
    style: &falco::FalcoStyle,
    counts: &Arc<OutputCounts>,
    log: &dyn Fn(&str),
) -> Vec<Output> {
    let mut outputs = Vec::new();
    if settings.to_stdout {
        outputs.push(falco::output(style.clone(), StandardOutput::default()));
    }
    if settings.to_syslog {
        // Messages of syslog are lines of text, unless the alerts are JSON; it adds the time itself.
        outputs.push(falco::syslog_output(style.clone(), Syslog::at(SYSLOG)));
    }
    if let Some(file) = &settings.file {
        outputs.push(falco::output(
            style.clone(),
            AlertFile { files: files.clone(), settings: file.clone(), open: None, fault: None },
        ));
    }
    if let Some(program) = &settings.program {
        let to = Program { settings: program.clone(), running: None, fault: None };
        outputs.push(falco::output(style.clone(), to));
    }
    if let Some(http) = &settings.http {
        match HttpReceiver::start(http, style.is_json, Arc::clone(counts)) {
            Ok(to) => outputs.push(falco::output(style.clone(), to)),
            Err(fault) => log(&fault.to_string()),
        }
    }
    outputs
}

fn fault_of(path: PathBuf, error: io::Error) -> OutputError {
    OutputError::NotWritable { path, source: Arc::new(error) }
}

/// A failure is reported once, when the output is flushed.
fn reported(fault: &mut Option<OutputError>) -> Result<(), OutputError> {
    fault.take().map_or(Ok(()), Err)
}

#[derive(Default)]
struct StandardOutput {
    fault: Option<OutputError>,
}

impl Destination for StandardOutput {
    fn write(&mut self, piece: &Piece<'_>) {
        let mut rest = piece.bytes;
        while !rest.is_empty() {
            match gabion_runtime::output::write_stdout(rest) {
                Ok(0) => break,
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(error) => {
                    self.fault = Some(fault_of("standard output".into(), error));
                    break;
                }
            }
        }
    }

    fn flush(&mut self) -> Result<(), OutputError> {
        reported(&mut self.fault)
    }
}

struct AlertFile {
    files: FileOpener,
    settings: FileOutput,
    open: Option<File>,
    fault: Option<OutputError>,
}

impl AlertFile {
    fn try_write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.open.is_none() {
            let file = self.files.open(&self.settings.path, OpenMode::AppendFollowing)?;
            self.open = Some(file);
        }
        if let Some(file) = &mut self.open {
            file.write_all(bytes)?;
        }
        if !self.settings.keep_alive {
            self.open = None;
        }
        Ok(())
    }
}

impl Destination for AlertFile {
    fn write(&mut self, piece: &Piece<'_>) {
        if let Err(error) = self.try_write(piece.bytes) {
            self.open = None;
            self.fault = Some(fault_of(self.settings.path.clone(), error));
        }
    }

    fn flush(&mut self) -> Result<(), OutputError> {
        reported(&mut self.fault)
    }

    fn reopen(&mut self) {
        self.open = None;
    }
}

/// A program that reads alerts from its standard input. One that has ended is started again with the next alert.
struct Program {
    settings: ProgramOutput,
    running: Option<Child>,
    fault: Option<OutputError>,
}

impl Program {
    fn try_write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.running.is_none() {
            let mut command = Command::new("/bin/sh");
            command.arg("-c").arg(&self.settings.command).stdin(Stdio::piped());
            self.running = Some(command.spawn()?);
        }
        let input = self.running.as_mut().and_then(|child| child.stdin.as_mut());
        let result = input.map_or(Ok(()), |input| input.write_all(bytes));
        if self.settings.keep_alive && result.is_ok() {
            return Ok(());
        }
        // Why a program has ended says more than that its input is closed.
        self.wait_for_end().and(result)
    }

    /// Closes the program's input and waits for its end, so that lines of two programs do not mix. Alerts that were in its
    /// input when it failed are lost without an error of the pipe: its exit status shows it.
    fn wait_for_end(&mut self) -> io::Result<()> {
        let Some(mut child) = self.running.take() else { return Ok(()) };
        drop(child.stdin.take());
        let status = child.wait()?;
        if status.success() {
            return Ok(());
        }
        Err(io::Error::other(format!("the program has ended with {status}")))
    }

    fn note(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.fault = Some(fault_of(self.settings.command.clone().into(), error));
        }
    }
}

impl Destination for Program {
    fn write(&mut self, piece: &Piece<'_>) {
        let result = self.try_write(piece.bytes);
        self.note(result);
    }

    fn flush(&mut self) -> Result<(), OutputError> {
        reported(&mut self.fault)
    }

    fn end(&mut self) -> Result<(), OutputError> {
        let result = self.wait_for_end();
        self.note(result);
        self.flush()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.wait_for_end();
    }
}

/// The system's log, by the socket that all systems have.
struct Syslog {
    path: PathBuf,
    socket: Option<UnixDatagram>,
    fault: Option<OutputError>,
}

const SYSLOG: &str = "/dev/log";

impl Syslog {
    fn at(path: impl Into<PathBuf>) -> Syslog {
        Syslog { path: path.into(), socket: None, fault: None }
    }

    fn try_write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.socket.is_none() {
            self.socket = Some(connect_datagrams(&self.path)?);
        }
        let message = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        self.socket.as_ref().map_or(Ok(0), |socket| socket.send(message)).map(|_| ())
    }
}

impl Destination for Syslog {
    fn write(&mut self, piece: &Piece<'_>) {
        if let Err(error) = self.try_write(piece.bytes) {
            self.socket = None;
            self.fault = Some(fault_of(self.path.clone(), error));
        }
    }

    fn flush(&mut self) -> Result<(), OutputError> {
        reported(&mut self.fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_outputs::PieceKind;

    fn line(bytes: &[u8]) -> Piece<'_> {
        Piece { kind: PieceKind::Line, bytes, later: &[] }
    }

    /// Each line is a message; a log that is gone is a fault, and one that comes back gets the next alert.
    #[test]
    fn the_systems_log_gets_each_alert_as_a_message() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let log = UnixDatagram::bind(&path).unwrap();
        let mut syslog = Syslog::at(&path);
        let mut bytes = [0; 64];
        syslog.write(&line(b"<13>falco: Notice closed 2\n"));
        let n = log.recv(&mut bytes).unwrap();
        assert_eq!(&bytes[..n], b"<13>falco: Notice closed 2");
        assert!(syslog.flush().is_ok());
        drop(log);
        std::fs::remove_file(&path).unwrap();
        syslog.write(&line(b"<13>falco: Notice closed 3\n"));
        let fault = syslog.flush().unwrap_err().to_string();
        assert!(fault.contains(&path.display().to_string()), "{fault}");
        let log = UnixDatagram::bind(&path).unwrap();
        syslog.write(&line(b"<13>falco: Notice closed 4\n"));
        let n = log.recv(&mut bytes).unwrap();
        assert_eq!(&bytes[..n], b"<13>falco: Notice closed 4");
        assert!(syslog.flush().is_ok(), "what was wrong was reported once");
    }
}
