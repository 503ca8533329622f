//! A file of lines: buffered, counted, and never left with half a line.
//!
//! A line that can't be written (disk full) is counted, reported once, and never ends in half a line
//! followed by another: the file is cut back to its last whole line.

use crate::error::{OutputError, SettingError};
use crate::output::{Destination, Piece, PieceKind};
use crate::rotation::Rotation;
use gabion_record::Tree;
use gabion_record::files::FileOpener;
use gabion_record::ledger::{Ledger, ShedReason};
use gabion_runtime::output::{Existing, OutputFile};
use std::fs::Permissions;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes kept before they are written.
const BUFFER_BYTES: usize = 256 * 1024;

/// The path that a configured one stands for now: conversions of strftime(3) in the file's name (`%Y-%m-%d`) become
/// parts of the local time. A name with others stays as it is.
pub fn dated(path: &Path) -> PathBuf {
    let Some(name) = path.file_name().and_then(|n| n.to_str()).filter(|n| n.contains('%')) else {
        return path.to_path_buf();
    };
    let seconds = i64::try_from(now()).unwrap_or(i64::MAX);
    let Ok(now) = jiff::Timestamp::from_second(seconds) else { return path.to_path_buf() };
    let now = now.to_zoned(jiff::tz::TimeZone::system());
    match jiff::fmt::strtime::format(name, &now) {
        Ok(dated) => path.with_file_name(dated),
        Err(_) => path.to_path_buf(),
    }
}

/// A file of lines.
#[derive(Debug)]
pub struct LineFile {
    /// The path as configured, where its name may hold the parts of a date.
    template: PathBuf,
    path: PathBuf,
    file: Option<OutputFile>,
    /// Opens it again after a rotation.
    files: FileOpener,
    buffer: Vec<u8>,
    /// Where each line ends in the buffer. A text of several lines that belongs together counts as one.
    ends: Vec<usize>,
    /// Bytes known to be in the file.
    written: u64,
    ledger: Ledger,
    failure: Option<OutputError>,
    /// Stands before each line.
    prefix: Vec<u8>,
    /// Who may read it, where its output says so.
    mode: Option<u32>,
    /// When the clock makes it be opened again, where its output says so.
    rotation: Option<Rotation>,
    /// Bytes after which another file begins, where its output says so.
    size_max: Option<u64>,
}

/// What the node of an output says of its file.
#[derive(Debug, Default)]
pub(crate) struct FileSettings {
    mode: Option<u32>,
    rotation: Option<Rotation>,
    size_max: Option<u64>,
}

/// What the node of an output says about who may read its file, and about when another one begins.
///
/// # Errors
/// The value that can't be one.
pub(crate) fn settings(node: &Tree) -> Result<FileSettings, SettingError> {
    let mode = node.text("filemode").map(|mode| {
        u32::from_str_radix(mode, 8).map_err(|_| SettingError::FileMode(mode.to_owned()))
    });
    let rotation = node.text("rotate-interval").map(|text| Rotation::parse(text, now()));
    let size = |text: &str| {
        let bytes = node.size("rotate-size").filter(|bytes| *bytes > 0);
        bytes.ok_or_else(|| SettingError::RotateSize(text.to_owned()))
    };
    let size_max = node.text("rotate-size").map(size).transpose()?;
    Ok(FileSettings { mode: mode.transpose()?, rotation: rotation.transpose()?, size_max })
}

/// Seconds since the epoch, by the machine's clock.
fn now() -> u64 {
    gabion_runtime::clock::since_epoch().as_secs()
}

impl LineFile {
    /// Creates (or continues) a file that `files` opens, now and after each rotation.
    ///
    /// # Errors
    /// Why it can't be written; that it is a link in a folder that others may write.
    pub fn create(
        files: &FileOpener,
        path: &Path,
        existing: Existing,
    ) -> Result<LineFile, OutputError> {
        let (template, path) = (path.to_path_buf(), &*dated(path));
        let opened = OutputFile::open(files, path, existing).map_err(|e| not_writable(path, e))?;
        let written = opened.file().metadata().map(|m| m.len()).unwrap_or(0);
        Ok(LineFile {
            template,
            path: path.to_path_buf(),
            file: Some(opened),
            files: files.clone(),
            buffer: Vec::with_capacity(BUFFER_BYTES + 16 * 1024),
            ends: Vec::new(),
            written,
            ledger: Ledger::default(),
            failure: None,
            prefix: Vec::new(),
            mode: None,
            rotation: None,
            size_max: None,
        })
    }

    /// The same file, with what the node of its output says: `prefix` before each line, who may read it
    /// (`filemode`, octal), and when another begins (`rotate-interval`, `rotate-size`).
    ///
    /// # Errors
    /// The value that can't be one.
    pub fn configured(mut self, node: &Tree) -> Result<LineFile, OutputError> {
        self.prefix = node.text("prefix").unwrap_or_default().as_bytes().to_vec();
        let FileSettings { mode, rotation, size_max } = settings(node)
            .map_err(|source| OutputError::Setting { path: self.template.clone(), source })?;
        if let (Some(mode), Some(file)) = (mode, &self.file) {
            set_mode(file, mode).map_err(|e| permissions(&self.path, mode, e))?;
        }
        (self.mode, self.rotation, self.size_max) = (mode, rotation, size_max);
        Ok(self)
    }

    /// Adds one line (its end included).
    pub fn line(&mut self, line: &[u8]) {
        if let Some(rotation) = &mut self.rotation
            && rotation.is_due(now())
        {
            self.reopen();
        }
        let len = (self.prefix.len() + line.len()) as u64;
        if let Some(most) = self.size_max {
            let so_far = self.written + self.buffer.len() as u64;
            if so_far > 0 && so_far + len > most {
                self.begin_next();
            }
        }
        self.ledger.receive(1, len);
        if self.file.is_none() {
            self.ledger.shed(ShedReason::OutputFailed, 1, len);
            return;
        }
        self.buffer.extend_from_slice(&self.prefix);
        self.buffer.extend_from_slice(line);
        self.ends.push(self.buffer.len());
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush();
        }
    }

    /// Writes what is buffered.
    pub fn flush(&mut self) {
        let Some(file) = &mut self.file else { return };
        let mut done = 0;
        let mut error = None;
        while done < self.buffer.len() {
            match file.write(&self.buffer[done..]) {
                Ok(0) => {
                    error = Some(std::io::Error::other("nothing could be written"));
                    break;
                }
                Ok(n) => done += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => {
                    error = Some(e);
                    break;
                }
            }
        }
        match error {
            None => {
                self.written += done as u64;
                self.ledger.pass(self.ends.len() as u64, done as u64);
            }
            Some(e) => self.give_up(done, e),
        }
        self.buffer.clear();
        self.ends.clear();
    }

    /// Writes what is buffered and opens the file by its name again: a file that was moved away keeps what
    /// was written so far, and a new file gets the rest. A file that was not moved stays open (else the reader of a pipe
    /// would see the end); a file that failed gets another chance.
    pub fn reopen(&mut self) {
        self.flush();
        let path = dated(&self.template);
        let is_same = path == self.path;
        self.path = path;
        if is_same && self.file.as_ref().is_some_and(|file| !file.is_moved(&self.path)) {
            return;
        }
        match OutputFile::open(&self.files, &self.path, Existing::Append) {
            Ok(file) => {
                self.written = file.file().metadata().map(|m| m.len()).unwrap_or(0);
                if let Some(mode) = self.mode
                    && let Err(e) = set_mode(&file, mode)
                {
                    self.failure = Some(permissions(&self.path, mode, e));
                }
                self.file = Some(file);
            }
            Err(e) => {
                self.failure = Some(not_writable(&self.path, e));
                self.file = None;
            }
        }
    }

    /// Gives the file, which is as large as its output allows, the second of now as the end of its name, and begins another
    /// by its own name. Where that can't be, the file grows on, which is a fault of the output. A device or a pipe has no size.
    fn begin_next(&mut self) {
        self.flush();
        let is_file = |file: &OutputFile| file.file().metadata().is_ok_and(|m| m.is_file());
        if !self.file.as_ref().is_some_and(is_file) {
            return;
        }
        // A name with a date may be another one by now.
        if dated(&self.template) == self.path
            && let Err(source) = put_aside(&self.path, now())
        {
            self.size_max = None;
            let path = self.path.clone();
            self.failure = Some(OutputError::NotRotated { path, source: Arc::new(source) });
            return;
        }
        self.reopen();
    }

    /// Cuts the file back to its last whole line and takes nothing more.
    fn give_up(&mut self, done: usize, error: std::io::Error) {
        let good = self.ends.partition_point(|end| *end <= done);
        let whole = self.ends[..good].last().copied().unwrap_or(0);
        if let Some(file) = &mut self.file {
            let end = self.written + whole as u64;
            if file.file().set_len(end).is_ok() {
                let _ = file.file().seek(SeekFrom::Start(end));
            }
        }
        self.ledger.pass(good as u64, whole as u64);
        let lost = (self.ends.len() - good) as u64;
        self.ledger.shed(ShedReason::OutputFailed, lost, (self.buffer.len() - whole) as u64);
        self.failure = Some(OutputError::Lost { path: self.path.clone(), source: Arc::new(error) });
        self.file = None;
    }

    /// What was written is on the disk; its bytes.
    ///
    /// # Errors
    /// When the system says otherwise.
    pub fn sync_data(&self) -> Result<u64, OutputError> {
        // By another descriptor: the file is flushed, not its writer.
        let synced = self.files.open_to_read(&self.path).and_then(|file| file.sync_data());
        synced.map_err(OutputError::io(&self.path))?;
        Ok(self.written)
    }

    /// Why nothing is written any more.
    pub fn failure(&self) -> Option<&OutputError> {
        self.failure.as_ref()
    }

    /// Lines and bytes.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Destination for LineFile {
    fn write(&mut self, piece: &Piece<'_>) {
        match piece.kind {
            PieceKind::Line | PieceKind::Finding(_) => self.line(piece.bytes),
            // What is no line has no place in a file of lines.
            PieceKind::FlowRecord(_)
            | PieceKind::Frame(_)
            | PieceKind::FileRecord(_)
            | PieceKind::StreamBytes(_)
            | PieceKind::Certificates(_) => {}
        }
    }

    fn flush(&mut self) -> Result<(), OutputError> {
        LineFile::flush(self);
        self.failure.clone().map_or(Ok(()), Err)
    }

    fn flush_lines(&mut self) {
        LineFile::flush(self);
    }

    fn reopen(&mut self) {
        LineFile::reopen(self);
    }

    fn sync(&mut self) -> Result<Option<u64>, OutputError> {
        Destination::flush(self)?;
        self.sync_data().map(Some)
    }

    fn line_file(&self) -> Option<(&Path, &Ledger)> {
        Some((&self.path, &self.ledger))
    }
}

/// Renames a file that is full: `eve.json` to `eve.json.1720520130`, with another number behind it where there is such a
/// file.
fn put_aside(path: &Path, second: u64) -> std::io::Result<()> {
    let named = |end: String| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    };
    let mut free = named(format!(".{second}"));
    let mut n = 0_u32;
    while free.exists() {
        n += 1;
        free = named(format!(".{second}.{n}"));
    }
    std::fs::rename(path, free)
}

fn not_writable(path: &Path, source: std::io::Error) -> OutputError {
    OutputError::NotWritable { path: path.to_owned(), source: Arc::new(source) }
}

fn permissions(path: &Path, mode: u32, source: std::io::Error) -> OutputError {
    OutputError::Permissions { path: path.to_owned(), mode, source: Arc::new(source) }
}

/// Sets who may read and write the file. A device or a pipe belongs to others: `filemode` on `/dev/null` would
/// close it to all programs of the host.
fn set_mode(file: &OutputFile, mode: u32) -> std::io::Result<()> {
    let file = file.file();
    if file.metadata()?.is_file() {
        file.set_permissions(Permissions::from_mode(mode))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_runtime::files::direct_opener;

    /// Suricata 8.0.7 writes `eve-%Y-%m-%d.json` into a file with the day in its name.
    #[test]
    fn a_name_may_hold_the_parts_of_a_date() {
        let year = dated(Path::new("out%Y/eve-%Y-%m-%d.json"));
        let text = year.display().to_string();
        let day = text.strip_prefix("out%Y/eve-").and_then(|t| t.strip_suffix(".json")).unwrap();
        assert_eq!((day.len(), day.matches('-').count()), (10, 2), "{text}");
        assert!(day.bytes().all(|b| b.is_ascii_digit() || b == b'-'), "{text}");
        for plain in ["eve.json", "100%.json"] {
            assert_eq!(dated(Path::new(plain)), Path::new(plain));
        }
        let dir = std::env::temp_dir().join(format!("gabion-dated-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let mut file =
            LineFile::create(&direct_opener(), &dir.join("a-%Y.log"), Existing::Truncate).unwrap();
        file.line(b"one\n");
        file.reopen();
        assert!(!file.path().display().to_string().contains('%'));
        assert_eq!(std::fs::read(file.path()).unwrap(), b"one\n");
        std::fs::remove_dir_all(&dir).unwrap_or_default();
    }

    /// A text of several lines is written whole or not at all, and counts once (observed with hex dumps on a full disk).
    #[test]
    fn what_does_not_fit_is_counted_by_texts() {
        let dir = tempfile::tempdir().unwrap();
        let mut file =
            LineFile::create(&direct_opener(), &dir.path().join("a.log"), Existing::Truncate)
                .unwrap();
        let texts: [&[u8]; 3] = [b"a\nb\nc\n", b"d\n", b"e\nf\n"];
        for (done, good, whole) in [(0, 0, 0), (5, 0, 0), (6, 1, 6), (8, 2, 8), (11, 2, 8)] {
            let before = file.ledger().clone();
            for text in texts {
                file.line(text);
            }
            file.give_up(done, std::io::Error::other("full"));
            file.buffer.clear();
            file.ends.clear();
            file.reopen();
            let passed = file.ledger().passed();
            assert_eq!(passed.items - before.passed().items, good, "{done}");
            assert_eq!(passed.bytes - before.passed().bytes, whole, "{done}");
            assert!(file.ledger().balance().is_ok(), "{done}");
        }
    }

    #[test]
    fn the_mode_of_a_device_or_pipe_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        let made = std::process::Command::new("mkfifo").args(["-m", "600"]).arg(&path).status();
        assert!(made.unwrap().success());
        let _reader = std::fs::File::options().read(true).write(true).open(&path).unwrap();
        let mut node = Tree::default();
        node.set("filemode", "644");
        let file = LineFile::create(&direct_opener(), &path, Existing::Append).unwrap();
        let mut file = file.configured(&node).unwrap();
        file.reopen();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let path = dir.path().join("a.log");
        LineFile::create(&direct_opener(), &path, Existing::Append)
            .unwrap()
            .configured(&node)
            .unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o644);
    }

    #[test]
    fn lines_after_a_rotation_go_into_a_new_file() {
        let dir = std::env::temp_dir().join(format!("gabion-lines-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let (path, moved) = (dir.join("a.log"), dir.join("a.log.1"));
        let mut node = Tree::default();
        node.set("prefix", "@cee: ");
        node.set("filemode", "600");
        let mut file = LineFile::create(&direct_opener(), &path, Existing::Truncate)
            .unwrap()
            .configured(&node)
            .unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        file.line(b"one\n");
        std::fs::rename(&path, &moved).unwrap_or_default();
        file.reopen();
        file.line(b"two\n");
        file.flush();
        assert_eq!(std::fs::read(&moved).unwrap(), b"@cee: one\n");
        assert_eq!(std::fs::read(&path).unwrap(), b"@cee: two\n");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(file.ledger().is_complete());
        std::fs::remove_dir_all(&dir).unwrap_or_default();
    }
}
