//! Lists of what is bad: which files the configuration and `--intel` name, reading them, and reading
//! them again when they change or when asked to (SIGUSR2).

use crate::error::PACKED_LIST;
use crate::limits::{LIST_BYTES_MAX, LIST_FOLDERS_MAX, OPEN_LISTS_MAX, PIPED_LIST_BYTES_MAX};
use crate::{Error, Notices};
use gabion_behavior::intel::{Builder, Intel, Purpose, Texts};
use gabion_record::Tree;
use gabion_record::evidence::ThreatLevel;
use gabion_runtime::limits::NAMED_FILE_BYTES_MAX;
use gabion_runtime::{Signals, operator_file};
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// Bytes read at once.
const CHUNK: usize = 1 << 20;
/// How often files are looked at for changes.
const LOOK: Duration = Duration::from_secs(10);

/// Where lists stand.
#[derive(Clone, Debug, Default)]
pub struct ListFiles {
    /// Files and folders, with what they are read for.
    paths: Vec<(PathBuf, Purpose, Must)>,
    /// Levels of files by their name, from lists of feeds.
    levels: HashMap<String, ThreatLevel>,
    /// What came through pipes: they can be read only once, and lists are read again.
    piped: Arc<Mutex<HashMap<PathBuf, Arc<Vec<u8>>>>>,
}

/// Whether a path has to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Must {
    Be,
    MayBe,
}

/// Sections of Slips' configuration that name folders.
const FOLDERS: [&str; 2] = [
    "threatintelligence.local_threat_intelligence_files",
    "threatintelligence.download_path_for_remote_threat_intelligence",
];
/// … and lists of feeds: `address or file, level, [tags]`.
const FEEDS: [&str; 3] =
    ["threatintelligence.ti_files", "threatintelligence.ja3_feeds", "threatintelligence.ssl_feeds"];
/// Files of other purposes.
const OTHERS: [(&str, Purpose); 5] = [
    ("gabion.tor_exit_nodes", Purpose::TorExits),
    ("gabion.harmless_files", Purpose::Harmless),
    ("gabion.autonomous_systems", Purpose::Systems),
    ("gabion.domain_ages", Purpose::Ages),
    ("gabion.mac_vendors", Purpose::Makers),
];

impl ListFiles {
    /// What the configuration names, and these files and folders.
    pub fn from_config(tree: &Tree, named: &[PathBuf]) -> ListFiles {
        let mut places = ListFiles::default();
        let path = |key: &str| tree.text(key).map(str::trim).filter(|t| !t.is_empty());
        for key in FEEDS {
            if let Some(list) =
                path(key).and_then(|p| operator_file::text(Path::new(p), NAMED_FILE_BYTES_MAX).ok())
            {
                places.feeds(&list);
            }
        }
        for key in FOLDERS {
            // Slips' configuration names folders of its own installation.
            places.paths.extend(path(key).map(|p| (p.into(), Purpose::Indicators, Must::MayBe)));
        }
        for (key, purpose) in OTHERS {
            places.paths.extend(path(key).map(|p| (p.into(), purpose, Must::Be)));
        }
        places.paths.extend(named.iter().map(|p| (p.clone(), Purpose::Indicators, Must::Be)));
        places
    }

    /// Tables of autonomous systems alone.
    pub fn systems(tree: &Tree) -> ListFiles {
        let path = tree.text("gabion.autonomous_systems").map(str::trim).filter(|t| !t.is_empty());
        let paths = path.map(|p| (p.into(), Purpose::Systems, Must::Be)).into_iter().collect();
        ListFiles { paths, ..ListFiles::default() }
    }

    fn feeds(&mut self, list: &str) {
        for line in list.lines().map(str::trim).filter(|l| !l.starts_with(['#', ';'])) {
            let mut columns = line.split(',').map(|c| c.trim().trim_matches('"'));
            let (Some(feed), Some(level)) = (columns.next(), columns.next()) else { continue };
            let Some(level) = ThreatLevel::from_name(level.as_bytes()) else { continue };
            let name = feed.trim_end_matches('/').rsplit('/').next().unwrap_or(feed);
            self.levels.insert(name.to_owned(), level);
            let local = Path::new(feed.strip_prefix("file://").unwrap_or(feed));
            if !feed.contains("://") && local.is_file() {
                self.paths.push((local.to_owned(), Purpose::Indicators, Must::MayBe));
            }
        }
    }

    /// All files, in order of their names, each with whether the operator named it himself; what is to be there and
    /// is not; folders too deep to be looked into.
    #[allow(clippy::type_complexity, reason = "three lists, each said in words")]
    fn files(
        &self,
    ) -> (Vec<(PathBuf, Purpose, Must)>, Vec<(PathBuf, std::io::Error)>, Vec<PathBuf>) {
        let (mut files, mut missing, mut deep) = (Vec::new(), Vec::new(), Vec::new());
        for (path, purpose, must) in &self.paths {
            match std::fs::metadata(path) {
                Ok(m) if m.is_dir() => below(path, *purpose, (&mut files, &mut deep), 0),
                Ok(_) => files.push((path.clone(), purpose_of(path, *purpose), *must)),
                Err(e) if *must == Must::Be => missing.push((path.clone(), e)),
                Err(_) => {}
            }
        }
        let mut seen = std::collections::HashSet::new();
        files.retain(|(path, ..)| seen.insert(path.clone()));
        (files, missing, deep)
    }

    /// Whether nothing is named.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Reads all of them; also what a person should know.
    ///
    /// # Errors
    /// When one that has to be there can't be read.
    pub fn load(&self) -> Result<(Intel, Vec<String>), Error> {
        let (files, missing, deep) = self.files();
        if let Some((path, source)) = missing.into_iter().next() {
            return Err(Error::NoList { path, source });
        }
        let mut notes: Vec<String> = deep
            .iter()
            .map(|folder| {
                let folder = folder.display();
                format!("{folder}: is more than {LIST_FOLDERS_MAX} folders deep: lists in it are not read")
            })
            .collect();
        let mut builder = Builder::default();
        let mut open = Vec::new();
        let mut buffer = vec![0; CHUNK];
        for (path, purpose, must) in files {
            let name = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into());
            let level = self.levels.get(&name).copied().unwrap_or(ThreatLevel::Medium);
            let list = match self.open(&path) {
                Ok(list) => list,
                Err(e) => {
                    unread(&mut notes, &path, must, Unread::Io(e))?;
                    continue;
                }
            };
            if name.ends_with(".gz") || name.ends_with(".zst") || name.ends_with(".zip") {
                unread(&mut notes, &path, must, Unread::Packed)?;
                continue;
            }
            if !builder.file(&name, level, purpose) {
                notes.push(format!(
                    "{}: too many lists: this and later ones are left out",
                    path.display()
                ));
                break;
            }
            match list {
                Opened::Piped(bytes) => {
                    builder.push(&bytes);
                    open.push(Some(Opened::Piped(bytes)));
                }
                Opened::File(file) => {
                    if let Err(e) = push(&file, &mut buffer, &mut builder) {
                        unread(&mut notes, &path, must, Unread::Io(e))?;
                    }
                    open.push((open.len() < OPEN_LISTS_MAX).then_some(Opened::File(file)));
                }
            }
        }
        let closed = open.iter().filter(|list| list.is_none()).count();
        if closed > 0 {
            notes.push(format!(
                "{closed} lists beyond {OPEN_LISTS_MAX}: of their entries only the list and the level are reported"
            ));
        }
        let intel = builder.finish(Some(Box::new(Files(open))));
        for source in intel.sources().iter().filter(|s| s.counts.wrong > 0) {
            let lines: Vec<String> =
                source.counts.wrong_lines.iter().map(ToString::to_string).collect();
            let (name, wrong) = (&source.name, source.counts.wrong);
            notes.push(format!(
                "{name}: {wrong} entries could not be read (line {})",
                lines.join(", ")
            ));
        }
        Ok((intel, notes))
    }

    /// Opens a list. A pipe is read to its end the first time, and what it held is kept.
    fn open(&self, path: &Path) -> std::io::Result<Opened> {
        let is_file = path.metadata()?.is_file();
        let mut piped = self.piped.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(bytes), false) = (piped.get(path), is_file) {
            return Ok(Opened::Piped(Arc::clone(bytes)));
        }
        let opened = operator_file::open(path)?;
        if !opened.is_stream {
            return Ok(Opened::File(opened.file));
        }
        let bytes = Arc::new(opened.bytes(PIPED_LIST_BYTES_MAX)?);
        piped.insert(path.to_owned(), Arc::clone(&bytes));
        Ok(Opened::Piped(bytes))
    }

    /// What distinguishes one state of the files from another.
    fn stamp(&self) -> Vec<(PathBuf, Option<SystemTime>, u64)> {
        let stamp = |(path, ..): (PathBuf, Purpose, Must)| {
            let m = std::fs::metadata(&path).ok();
            let changed = m.as_ref().and_then(|m| m.modified().ok());
            (path, changed, m.map_or(0, |m| m.len()))
        };
        self.files().0.into_iter().map(stamp).collect()
    }
}

/// Why a list is not read.
enum Unread {
    Io(std::io::Error),
    Packed,
}

/// A list that can't be read: an error where somebody named it, a note where it lies in a folder.
fn unread(notes: &mut Vec<String>, path: &Path, must: Must, why: Unread) -> Result<(), Error> {
    match (must, why) {
        (Must::Be, Unread::Io(source)) => {
            Err(Error::UnreadableList { path: path.to_owned(), source })
        }
        (Must::Be, Unread::Packed) => Err(Error::PackedList { path: path.to_owned() }),
        (Must::MayBe, Unread::Io(e)) => {
            notes.push(format!("{}: {e}", path.display()));
            Ok(())
        }
        (Must::MayBe, Unread::Packed) => {
            notes.push(format!("{}: {PACKED_LIST}", path.display()));
            Ok(())
        }
    }
}

fn below(
    folder: &Path,
    purpose: Purpose,
    (files, deep): (&mut Vec<(PathBuf, Purpose, Must)>, &mut Vec<PathBuf>),
    depth: usize,
) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut paths: Vec<PathBuf> = entries.filter_map(|e| e.ok().map(|e| e.path())).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into());
        if name.starts_with('.') || name.ends_with(".md") {
            continue;
        }
        if !path.is_dir() {
            let purpose = purpose_of(&path, purpose);
            files.push((path, purpose, Must::MayBe));
        } else if depth < LIST_FOLDERS_MAX {
            below(&path, purpose, (files, deep), depth + 1);
        } else {
            deep.push(path);
        }
    }
}

/// What a file in a folder of lists is read for, by the names that such files are known under.
fn purpose_of(path: &Path, given: Purpose) -> Purpose {
    let name = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().to_lowercase());
    let has = |part: &str| name.contains(part);
    match given {
        Purpose::Indicators if has("known_fp") => Purpose::Harmless,
        Purpose::Indicators if has("torbulkexitlist") || has("tor_exit") || has("tor-exit") => {
            Purpose::TorExits
        }
        Purpose::Indicators if has("ip2asn") || has("asn-blocks") => Purpose::Systems,
        other => other,
    }
}

/// A list that was opened.
enum Opened {
    File(File),
    /// What came through a pipe.
    Piped(Arc<Vec<u8>>),
}

/// Gives a builder what a file holds.
fn push(file: &File, buffer: &mut [u8], builder: &mut Builder) -> std::io::Result<()> {
    let mut file = file.take(LIST_BYTES_MAX);
    loop {
        match file.read(buffer) {
            Ok(0) if file.limit() == 0 => {
                return Err(std::io::Error::other("is too large: the rest is left out"));
            }
            Ok(0) => return Ok(()),
            Ok(n) => builder.push(buffer.get(..n).unwrap_or_default()),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

/// The files, kept open so that entries are read from what was loaded even when a file is replaced.
struct Files(Vec<Option<Opened>>);

impl Texts for Files {
    fn read_text(&self, file: usize, offset: u64, len: usize) -> Option<Vec<u8>> {
        let file = match self.0.get(file)?.as_ref()? {
            Opened::File(file) => file,
            Opened::Piped(bytes) => {
                let from = usize::try_from(offset).ok()?;
                let rest = bytes.get(from..)?;
                return Some(rest.get(..len).unwrap_or(rest).to_vec());
            }
        };
        let mut text = vec![0; len];
        let mut filled = 0;
        while let Some(rest) = text.get_mut(filled..).filter(|r| !r.is_empty()) {
            match file.read_at(rest, offset + filled as u64) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
        text.truncate(filled);
        Some(text)
    }
}

/// Reads lists again during the run: when they change, or when asked to.
struct Reload {
    ask: Option<Sender<()>>,
    ready: Arc<Mutex<Option<Arc<Intel>>>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Reload {
    /// Begins to watch; where there is nothing to watch or no thread, lists stay as they are.
    fn watch(places: ListFiles, notices: Notices) -> Reload {
        let ready = Arc::default();
        let mut reload = Reload { ask: None, ready, thread: None };
        if places.is_empty() {
            return reload;
        }
        let (ask, asked) = channel();
        let ready = Arc::clone(&reload.ready);
        let run = move || watch(&places, &asked, &ready, &notices);
        if let Ok(thread) = std::thread::Builder::new().name("lists".into()).spawn(run) {
            (reload.ask, reload.thread) = (Some(ask), Some(thread));
        }
        reload
    }

    /// Asks for the lists to be read again.
    fn ask(&self) {
        if let Some(ask) = &self.ask {
            // Without the thread there is nobody to ask, and lists stay as they are.
            let _ = ask.send(());
        }
    }

    /// Lists that were read again.
    fn take_intel(&self) -> Option<Arc<Intel>> {
        self.ready.lock().ok()?.take()
    }
}

impl Drop for Reload {
    fn drop(&mut self) {
        self.ask = None;
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has reported that itself.
            let _ = thread.join();
        }
    }
}

fn watch(
    places: &ListFiles,
    asked: &Receiver<()>,
    ready: &Mutex<Option<Arc<Intel>>>,
    notices: &Notices,
) {
    let mut stamp = places.stamp();
    loop {
        let is_asked = match asked.recv_timeout(LOOK) {
            Ok(()) => true,
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let now = places.stamp();
        if !is_asked && now == stamp {
            continue;
        }
        stamp = now;
        match places.load() {
            Ok((intel, notes)) => {
                notices.report(&format!("lists: read again, {} indicators", intel.len()));
                notes.iter().for_each(|note| notices.report(&format!("lists: {note}")));
                if let Ok(mut slot) = ready.lock() {
                    *slot = Some(Arc::new(intel));
                }
            }
            Err(e) => notices.report_failure(&e, "lists stay as they are"),
        }
    }
}

/// Lists of what is bad, read again while a run continues.
pub struct Lists {
    signals: Option<Signals>,
    reload: Reload,
}

impl Lists {
    /// Watches these files; requests to read them again (SIGUSR2) come with `signals`.
    pub fn watch(files: ListFiles, signals: Option<Signals>, notices: Notices) -> Lists {
        Lists { signals, reload: Reload::watch(files, notices) }
    }

    /// Whether the run was asked to end by SIGTERM.
    pub(crate) fn is_terminated(&self) -> bool {
        self.signals.as_ref().is_some_and(Signals::is_terminated)
    }

    /// Lists that were read again, by themselves or because somebody asked (SIGUSR2).
    pub(crate) fn take_intel(&self) -> Option<Arc<Intel>> {
        if self.signals.as_ref().is_some_and(Signals::take_reload) {
            self.reload.ask();
        }
        self.reload.take_intel()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_behavior::intel::Indicator;
    use gabion_record::logs::TimeNs;

    #[test]
    fn folders_and_levels_come_from_the_configuration() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        file("feed.txt", "1.2.3.4 first\nevil.example\nrubbish at the end\n");
        file("known_fp_md5_hashes.csv", "\"x\", d41d8cd98f00b204e9800998ecf8427e\n");
        file("feeds.csv", "# feeds\nhttps://lists.example/a/feed.txt,critical,['t']\n");
        let mut tree = Tree::default();
        tree.set(
            "threatintelligence.local_threat_intelligence_files",
            &dir.path().to_string_lossy(),
        );
        tree.set("threatintelligence.ti_files", &dir.path().join("feeds.csv").to_string_lossy());
        let places = ListFiles::from_config(&tree, &[]);
        let (intel, notes) = places.load().unwrap();
        let found = intel.domain(b"evil.example").unwrap();
        assert_eq!(found.level, ThreatLevel::Critical);
        let entry = intel.entry(&found, &Indicator::Domain(b"evil.example"), TimeNs(0)).unwrap();
        assert_eq!(entry.source, "feed.txt");
        assert!(intel.is_harmless(b"d41d8cd98f00b204e9800998ecf8427e"));
        assert!(notes.iter().any(|n| n.contains("line 3")), "{notes:?}");
        let gone = ListFiles::from_config(&Tree::default(), &[dir.path().join("gone")]);
        assert!(gone.load().is_err());
    }

    /// A pipe is read once, and is there when lists are read again; a device that is named is refused, one that
    /// lies in a folder is a note.
    #[test]
    fn a_list_may_come_through_a_pipe() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, mode, 0).unwrap();
        let to = pipe.clone();
        let writer =
            std::thread::spawn(move || std::fs::write(to, "1.2.3.4,high,x\nevil.example\n"));
        let refused =
            ListFiles::from_config(&Tree::default(), &["/dev/zero".into()]).load().unwrap_err();
        assert!(matches!(refused, Error::UnreadableList { .. }));
        assert!(refused.to_string().contains("/dev/zero: is a device"), "{refused}");
        let folder = dir.path().join("folder");
        std::fs::create_dir(&folder).unwrap();
        std::os::unix::fs::symlink("/dev/zero", folder.join("zero")).unwrap();
        let places = ListFiles::from_config(&Tree::default(), &[pipe, folder]);
        for _ in 0..2 {
            let (intel, notes) = places.load().unwrap();
            assert_eq!(intel.len(), 2);
            assert!(notes.iter().any(|n| n.contains("is a device")), "{notes:?}");
            let found = intel.domain(b"evil.example").unwrap();
            let what = Indicator::Domain(b"evil.example");
            assert_eq!(intel.entry(&found, &what, TimeNs(0)).unwrap().source, "pipe");
        }
        writer.join().unwrap().unwrap();
    }

    #[test]
    fn lists_are_read_again_when_asked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("own.csv");
        std::fs::write(&path, "1.2.3.4,high,x\n").unwrap();
        let reload = Reload::watch(
            ListFiles::from_config(&Tree::default(), std::slice::from_ref(&path)),
            Notices::default(),
        );
        std::fs::write(&path, "1.2.3.5,high,x\n1.2.3.6,high,x\n").unwrap();
        reload.ask();
        let end = gabion_runtime::clock::now() + Duration::from_secs(20);
        let intel = loop {
            match reload.take_intel() {
                Some(intel) => break intel,
                None if gabion_runtime::clock::now() > end => panic!("not read again"),
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        assert_eq!(intel.len(), 2);
    }
}
