//! The engine's own messages, on the console as Suricata writes them (`E: detect: …`) and in the
//! files the configuration asks for, as text or as JSON lines. The caller prints on the console.

use gabion_net::script::{Severity, Voice};
use gabion_outputs::timestamp::Stamp;
use gabion_record::Tree;
use gabion_record::files::FileOpener;
use gabion_record::json::Json;
use gabion_runtime::output::{Existing, OutputFile};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// How much a message matters; what is less than an output's level is not written there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Error,
    Warning,
    Notice,
    Info,
    Perf,
    Config,
    Debug,
}

impl Level {
    const ALL: [Level; 7] = [
        Level::Error,
        Level::Warning,
        Level::Notice,
        Level::Info,
        Level::Perf,
        Level::Config,
        Level::Debug,
    ];

    /// The word in Suricata's messages.
    fn name(self) -> &'static str {
        match self {
            Level::Error => "Error",
            Level::Warning => "Warning",
            Level::Notice => "Notice",
            Level::Info => "Info",
            Level::Perf => "Perf",
            Level::Config => "Config",
            Level::Debug => "Debug",
        }
    }

    /// The letter in its short form.
    fn letter(self) -> char {
        match self {
            Level::Error => 'E',
            Level::Warning => 'W',
            Level::Debug => 'd',
            Level::Notice | Level::Info | Level::Perf | Level::Config => 'i',
        }
    }

    fn from_text(text: &str) -> Option<Level> {
        Level::ALL.into_iter().find(|l| l.name().eq_ignore_ascii_case(text))
    }
}

/// A file of messages.
struct LogFile {
    path: PathBuf,
    file: Option<OutputFile>,
    is_json: bool,
    level: Level,
}

/// A line for the console, without its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsoleLine<'a> {
    /// For standard output.
    Output(&'a str),
    /// For standard error.
    Error(&'a str),
}

/// Prints a line on the console, on any thread.
type Print = Box<dyn Fn(ConsoleLine<'_>) + Send>;

/// Where messages go. Scripts have a share of it, as they speak on any thread.
#[derive(Clone)]
pub struct EngineLog(Arc<Mutex<Inner>>);

impl std::fmt::Debug for EngineLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EngineLog")
    }
}

struct Inner {
    files: Vec<LogFile>,
    /// Opens them, also after a rotation.
    opener: FileOpener,
    /// `None`: the configuration lists outputs and the console is not among them.
    console: Option<Level>,
    stamp: Stamp,
    print: Print,
}

impl EngineLog {
    /// Opens the outputs of `logging.outputs`; each `-v` shows a level more. `opener` opens files, `print` prints
    /// a line on the console.
    pub fn open(
        opener: FileOpener,
        config: &Tree,
        folder: &Path,
        verbose: u32,
        print: impl Fn(ConsoleLine<'_>) + Send + 'static,
    ) -> EngineLog {
        let base = config.text("logging.default-log-level").and_then(Level::from_text);
        let base = base.unwrap_or(Level::Info);
        let asked = match verbose {
            0 => Level::Error,
            n => Level::ALL.get(2 + n as usize).copied().unwrap_or(Level::Debug),
        };
        let level_of =
            |node: &Tree| node.text("level").and_then(Level::from_text).unwrap_or(base).max(asked);
        let mut log = Inner {
            files: Vec::new(),
            opener,
            console: Some(base.max(asked)),
            stamp: Stamp::new(),
            print: Box::new(print),
        };
        let Some(list) = config.get("logging.outputs") else { return EngineLog::from_inner(log) };
        log.console = None;
        for node in list.items("console").filter(|n| n.flag("enabled") != Some(false)) {
            log.console = Some(level_of(node));
        }
        for node in list.items("file").filter(|n| n.flag("enabled") == Some(true)) {
            let name = node.text("filename").unwrap_or("suricata.log");
            let path: PathBuf =
                if Path::new(name).is_absolute() { name.into() } else { folder.join(name) };
            let is_json = matches!(node.text("type").or(node.text("format")), Some("json"));
            match OutputFile::open(&log.opener, &path, Existing::Append) {
                Ok(file) => {
                    let (file, level) = (Some(file), level_of(node));
                    log.files.push(LogFile { path, file, is_json, level });
                }
                Err(e) => log.complain(&path, &e, ""),
            }
        }
        EngineLog::from_inner(log)
    }

    fn from_inner(inner: Inner) -> EngineLog {
        EngineLog(Arc::new(Mutex::new(inner)))
    }

    /// Writes a message to all outputs whose level it has.
    fn write(&mut self, level: Level, module: &str, message: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(level, module, message);
    }

    /// A voice for scripts: what they print goes to standard output.
    pub fn voice(&self) -> Voice {
        let log = self.clone();
        Voice::new(move |severity, who, text| {
            log.clone().report(severity, who, text);
        })
    }

    /// Writes a message of an engine or of what reads a configuration.
    pub fn report(&mut self, severity: Severity, module: &str, message: &str) {
        let level = match severity {
            Severity::Error => Level::Error,
            Severity::Warning => Level::Warning,
            Severity::Notice => Level::Notice,
            Severity::Info => Level::Info,
            Severity::Debug => Level::Debug,
            Severity::Print => return self.print(message),
        };
        self.write(level, module, message);
    }

    /// Writes an error.
    pub fn error(&mut self, module: &str, message: &str) {
        self.write(Level::Error, module, message);
    }

    /// Writes a warning.
    pub fn warning(&mut self, module: &str, message: &str) {
        self.write(Level::Warning, module, message);
    }

    /// Writes what is of interest to those who ask for more (`-v`).
    pub fn info(&mut self, module: &str, message: &str) {
        self.write(Level::Info, module, message);
    }

    /// Writes a notice.
    pub fn notice(&mut self, module: &str, message: &str) {
        self.write(Level::Notice, module, message);
    }

    /// Opens its files by their names again, after log rotation.
    pub fn reopen(&mut self) {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Inner { files, opener, .. } = &mut *log;
        for f in files {
            if f.file.as_ref().is_none_or(|file| file.is_moved(&f.path)) {
                f.file = OutputFile::open(opener, &f.path, Existing::Append).ok();
            }
        }
    }

    /// Prints what a script prints.
    fn print(&self, message: &str) {
        let log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (log.print)(ConsoleLine::Output(message));
    }
}

impl Inner {
    /// Prints that a file of messages can't be written.
    fn complain(&self, path: &Path, e: &std::io::Error, effect: &str) {
        let line = format!("W: logopenfile: {}: {e}{effect}", path.display());
        (self.print)(ConsoleLine::Error(&line));
    }

    /// Writes a message to all outputs whose level it has.
    fn write(&mut self, level: Level, module: &str, message: &str) {
        if let Some(most) = self.console.filter(|most| level <= *most) {
            let line = match most {
                Level::Error | Level::Warning | Level::Notice => {
                    format!("{}: {module}: {message}", level.letter())
                }
                Level::Info | Level::Debug => format!("{}: {module}: {message}", level.name()),
                Level::Perf | Level::Config => {
                    format!("[{}] {}: {module}: {message}", std::process::id(), level.name())
                }
            };
            match level {
                Level::Error => (self.print)(ConsoleLine::Error(&line)),
                _ => (self.print)(ConsoleLine::Output(&line)),
            }
        }
        if self.files.iter().any(|f| level <= f.level) {
            self.write_files(level, module, message);
        }
    }

    fn write_files(&mut self, level: Level, module: &str, message: &str) {
        let mut at = Vec::new();
        self.stamp.iso(gabion_runtime::clock::epoch_ns(), &mut at);
        let mut j = Json::new();
        j.open();
        j.field("timestamp", &at);
        j.field_plain("log_level", level.name());
        j.field_plain("event_type", "engine");
        j.open_key("engine");
        j.field("message", message);
        j.field_plain("thread_name", "Suricata-Main");
        j.field("module", module);
        j.close();
        j.close();
        let at = String::from_utf8_lossy(at.get(..19).unwrap_or_default()).replace('T', " ");
        let text = format!(
            "[{} - Suricata-Main] {at} {}: {module}: {message}",
            std::process::id(),
            level.name()
        );
        let mut failed = Vec::new();
        for f in self.files.iter_mut().filter(|f| level <= f.level) {
            let line = if f.is_json { j.bytes() } else { text.as_bytes() };
            let Some(file) = &mut f.file else { continue };
            // A log file that can't be written must not stop the run, but it is reported once.
            if let Err(e) = file.write_all(&[line, b"\n"].concat()) {
                f.file = None;
                failed.push((f.path.clone(), e));
            }
        }
        failed.iter().for_each(|(path, e)| self.complain(path, e, ": messages are lost"));
    }
}
