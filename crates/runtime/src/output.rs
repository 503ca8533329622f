//! Files and streams that a run writes: opened so that nobody else chooses what is overwritten, written
//! so that a request to stop is heard.
//!
//! **Links.** A program that runs as root and writes into a folder where others may write, too, must not
//! follow what they have put there: a symbolic link named `eve.json` would have it cut `/etc/passwd`. In
//! such a folder a link, symbolic or a file of several names, is refused. That is judged by the
//! descriptor that was opened, so that nobody can exchange the file between the look and the write. In
//! one's own folders links are followed, and `/dev/stdout` and `>(…)` are such links.
//!
//! **Waits.** A pipe that nobody reads makes its writer wait, and a system call that waits is restarted
//! after a signal. So pipes and terminals are asked first whether there is room, a moment at a time.

use crate::limits;
use crate::signals::{self, StopFlag};
use gabion_record::files::{FileOpener, OpenMode};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{
    Access, AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, openat, statat, unlinkat,
};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path};
use std::sync::atomic::{AtomicU64, Ordering};

/// What is done with a file that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// What comes is added.
    Append,
    /// Its content goes.
    Truncate,
}

impl Existing {
    /// How an output is opened for that.
    pub fn open_mode(self) -> OpenMode {
        match self {
            Existing::Append => OpenMode::Append,
            Existing::Truncate => OpenMode::Truncate,
        }
    }
}

/// A file, pipe or device that was opened for writing.
#[derive(Debug)]
pub struct OutputFile {
    file: File,
    /// Writing can wait for a reader.
    is_stream: bool,
}

impl OutputFile {
    /// Opens a file through `files`, and makes it where it is not there. A pipe without a reader is waited for until
    /// somebody asks the process to stop.
    ///
    /// # Errors
    /// What the system says; that it is a link in a folder that others may write.
    pub fn open(files: &FileOpener, path: &Path, existing: Existing) -> io::Result<OutputFile> {
        OutputFile::from_file(files.open(path, existing.open_mode())?)
    }

    /// A file that was opened for writing.
    ///
    /// # Errors
    /// When the system does not say what it is.
    pub fn from_file(file: File) -> io::Result<OutputFile> {
        let kind = FileType::from_raw_mode(fstat(&file)?.st_mode);
        Ok(OutputFile { file, is_stream: kind != FileType::RegularFile })
    }

    /// The file itself.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Whether this path names another file than the one that is open, or none: somebody moved it away.
    pub fn is_moved(&self, path: &Path) -> bool {
        use std::os::unix::fs::MetadataExt;
        match (self.file.metadata(), path.metadata()) {
            (Ok(open), Ok(named)) => (open.dev(), open.ino()) != (named.dev(), named.ino()),
            _ => true,
        }
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_stream { write_stream(self.file.as_fd(), bytes) } else { self.file.write(bytes) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Adds bytes to a file, in one write, and has the disk take them.
///
/// # Errors
/// Those of [`OutputFile::open`]; what the system says.
pub fn append_synced(files: &FileOpener, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut out = OutputFile::open(files, path, Existing::Append)?;
    out.write_all(bytes)?;
    out.file().sync_all()
}

/// Opens a file for writing with the rights of this process: [`OpenMode::Append`] and [`OpenMode::Truncate`].
pub(crate) fn open_file(path: &Path, existing: Existing) -> io::Result<File> {
    let place = Place::from_path(path)?;
    let append = if existing == Existing::Append { OFlags::APPEND } else { OFlags::empty() };
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NONBLOCK | OFlags::NOCTTY | append;
    let stop = StopFlag::of_process();
    let file = loop {
        match place.open(flags) {
            Err(Errno::INTR) => {}
            Err(Errno::NXIO) if place.is_pipe() => {
                if stop.is_set() {
                    return Err(io::Error::other("no program reads this pipe"));
                }
                std::thread::sleep(LOOK);
            }
            Err(e) => return Err(place.refusal(e)),
            Ok(file) => break file,
        }
    };
    let stat = fstat(&file)?;
    let is_regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if is_regular && place.is_shared && stat.st_nlink > 1 {
        return Err(refused());
    }
    if is_regular && existing == Existing::Truncate {
        rustix::fs::ftruncate(&file, 0)?;
    }
    Ok(File::from(file))
}

/// Whole files written so far, by which their temporary names are kept distinct.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// Writes a whole file so that what is there under its name is always whole: into a file next to it,
/// which then takes its name. What is no file of its own (a pipe, a device, a link that may be
/// followed) is written as it is.
///
/// # Errors
/// What the system says; that it is a link in a folder that others may write. A file that was there
/// stays as it was, unless it is written as it is.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let place = Place::from_path(path)?;
    let mode = match place.find_entry()? {
        None => None,
        Some(stat) => match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile if stat.st_nlink <= 1 => Some(Mode::from_raw_mode(stat.st_mode)),
            _ => return write_in_place(path, bytes),
        },
    };
    // Two threads may write the same file at the same time: the later one's stays.
    let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
    let end = format!(".{}.{number}.new", std::process::id());
    let fresh = match Replacement::next_to(place, &end, NEW_FILE) {
        Ok(fresh) => fresh,
        // The file may be written, the folder not.
        Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => return write_in_place(path, bytes),
        Err(e) => return Err(e.into()),
    };
    let written = mode.map_or(Ok(()), |mode| rustix::fs::fchmod(&fresh.file, mode));
    let written = written.map_err(Into::into).and_then(|()| fresh.file().write_all(bytes));
    match written {
        Ok(()) => fresh.take_place().map(drop),
        Err(e) => {
            fresh.give_up();
            Err(e)
        }
    }
}

/// A file that is written next to the one whose place it takes once it is whole.
#[derive(Debug)]
pub struct Replacement {
    place: Place,
    fresh: OsString,
    file: File,
}

impl Replacement {
    /// Begins one for a file that only its owner may read. What an earlier run left unfinished goes.
    ///
    /// # Errors
    /// What the system says; that the file is a link in a folder that others may write.
    pub fn begin(path: &Path) -> io::Result<Replacement> {
        let place = Place::from_path(path)?;
        place.find_entry()?;
        Ok(Replacement::next_to(place, ".new", Mode::RUSR | Mode::WUSR)?)
    }

    fn next_to(place: Place, end: &str, mode: Mode) -> Result<Replacement, Errno> {
        let mut fresh = place.name.clone();
        fresh.push(end);
        // Made new, so that it is no link that somebody put there.
        match unlinkat(&place.folder, &fresh, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(e) => return Err(e),
        }
        let new = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | new;
        let file = openat(&place.folder, &fresh, flags, mode)?;
        Ok(Replacement { place, fresh, file: File::from(file) })
    }

    /// The file to be written.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Puts it in the place of the file that was there; it stays open for more.
    ///
    /// # Errors
    /// What the system says; that there is a link now that others could have made. Then the file that was
    /// there stays.
    pub fn take_place(self) -> io::Result<File> {
        let Place { folder, name, .. } = &self.place;
        let moved = self.place.find_entry().and_then(|_| {
            rustix::fs::renameat(folder, &self.fresh, folder, name)?;
            Ok(())
        });
        match moved {
            Ok(()) => Ok(self.file),
            Err(e) => {
                self.give_up();
                Err(e)
            }
        }
    }

    fn give_up(&self) {
        let _ = unlinkat(&self.place.folder, &self.fresh, AtFlags::empty());
    }
}

/// Refuses a link in a folder that others may write. A file that is not there, and any in one's own folder,
/// may be written.
///
/// # Errors
/// That it is such a link; what the system says.
pub fn refuse_link(path: &Path) -> io::Result<()> {
    Place::from_path(path)?.find_entry().map(drop)
}

/// Takes away what an earlier run left in a file: the file, or, where it is a link that may be followed, what it
/// leads to is emptied. A pipe or a device holds nothing and stays.
///
/// # Errors
/// That it is a link in a folder that others may write; what the system says.
pub fn clear(path: &Path) -> io::Result<()> {
    let place = Place::from_path(path)?;
    match place.find_entry()? {
        None => Ok(()),
        Some(stat) if is_link(&stat) => match path.metadata() {
            Ok(held) if held.is_file() && held.len() > 0 => {
                open_file(path, Existing::Truncate).map(drop)
            }
            _ => Ok(()),
        },
        Some(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile => {
            Ok(unlinkat(&place.folder, &place.name, AtFlags::empty())?)
        }
        Some(_) => Ok(()),
    }
}

/// Opens an output of an earlier run to read it, and to cut it where `is_cut`. Nothing is created again.
///
/// # Errors
/// What the system says, also that it is not there; that it is a link in a folder that others may write; that it is
/// no file.
pub fn open_earlier(path: &Path, is_cut: bool) -> io::Result<File> {
    let place = Place::from_path(path)?;
    let access = if is_cut { OFlags::RDWR } else { OFlags::RDONLY };
    let file = place.open(access | OFlags::NONBLOCK).map_err(|e| place.refusal(e))?;
    let stat = fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(io::Error::other("not a file, so no earlier run has left it"));
    }
    if place.is_shared && stat.st_nlink > 1 {
        return Err(refused());
    }
    Ok(File::from(file))
}

/// The bytes of an output of an earlier run, where there is one.
///
/// # Errors
/// Those of [`open_earlier`], but that it is not there.
pub fn read_earlier(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    match open_earlier(path, false) {
        Ok(mut file) => file.read_to_end(&mut bytes).map(|_| Some(bytes)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Makes a folder for stored files, and what of the folders above it is not there. Others than owner and group may not
/// look into it, as into Suricata's: what traffic carried may be confidential.
///
/// # Errors
/// What the system says.
pub fn make_store_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o750).create(folder)
}

fn write_in_place(path: &Path, bytes: &[u8]) -> io::Result<()> {
    OutputFile::from_file(open_file(path, Existing::Truncate)?)?.write_all(bytes)
}

/// Makes an empty file that was not there, for who can open files only by their name.
///
/// # Errors
/// What the system says; that there is something of that name; that a folder on the way is a link that
/// others could have made.
pub fn create_empty(path: &Path) -> io::Result<()> {
    let place = Place::from_path(path)?;
    place.open(OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL).map_err(|e| place.refusal(e))?;
    Ok(())
}

/// Makes a folder that outputs go to, when it is not there.
///
/// # Errors
/// When it is something else or can't be made; the folder is not named.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    if folder.exists() && !folder.is_dir() {
        return Err(io::Error::other("is not a folder"));
    }
    std::fs::create_dir_all(folder)
        .map_err(|e| io::Error::new(e.kind(), format!("cannot be made: {e}")))
}

/// Whether a file could be written, without a change to it.
///
/// # Errors
/// That it is a link in a folder that others may write; what the system says.
pub fn check(path: &Path) -> io::Result<()> {
    let place = Place::from_path(path)?;
    let may = |name: &OsStr| {
        rustix::fs::accessat(&place.folder, name, Access::WRITE_OK, AtFlags::empty())
    };
    match place.find_entry()? {
        Some(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
            Err(Errno::ISDIR.into())
        }
        Some(_) => Ok(may(&place.name)?),
        None => Ok(may(OsStr::new("."))?),
    }
}

fn is_link(stat: &Stat) -> bool {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => true,
        FileType::RegularFile => stat.st_nlink > 1,
        _ => false,
    }
}

/// Writes to standard output what there is room for; waits for room until somebody asks the process to
/// stop, and a moment longer.
///
/// # Errors
/// What the system says.
pub fn write_stdout(bytes: &[u8]) -> io::Result<usize> {
    // A program that has not taken over the signals is ended by them wherever it waits.
    if signals::are_installed() {
        write_stream(rustix::stdio::stdout(), bytes)
    } else {
        Ok(rustix::io::write(rustix::stdio::stdout(), bytes)?)
    }
}

/// A look for room, or for a reader.
const LOOK: std::time::Duration = std::time::Duration::from_millis(limits::STOP_LOOK_MS as u64);

/// Rights of a new file, before the umask.
const NEW_FILE: Mode = Mode::from_raw_mode(0o666);

fn write_stream(to: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    let kind = FileType::from_raw_mode(fstat(to)?.st_mode);
    if kind == FileType::RegularFile {
        return Ok(rustix::io::write(to, bytes)?);
    }
    // So much there is room for when the system says that there is some: a write of more would wait.
    let bytes = bytes.get(..limits::PIPE_ROOM_BYTES).unwrap_or(bytes);
    loop {
        wait_for_room(to)?;
        match rustix::io::write(to, bytes) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            done => return Ok(done?),
        }
    }
}

fn wait_for_room(to: BorrowedFd<'_>) -> io::Result<()> {
    let stop = StopFlag::of_process();
    let moment = Timespec { tv_sec: 0, tv_nsec: limits::STOP_LOOK_MS * 1_000_000 };
    let mut looks = 0;
    loop {
        match poll(&mut [PollFd::new(&to, PollFlags::OUT)], Some(&moment)) {
            Ok(0) => {
                looks += u32::from(stop.is_set());
                if looks >= limits::LOOKS_AFTER_STOP {
                    return Err(io::Error::other("asked to stop while no program read it"));
                }
            }
            Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(e) => return Err(e.into()),
        }
    }
}

/// The folder that a file is in, opened, and its name there.
#[derive(Debug)]
struct Place {
    folder: OwnedFd,
    name: OsString,
    is_shared: bool,
}

impl Place {
    /// Goes to the folder step by step. In one that others may write, no link is followed.
    fn from_path(path: &Path) -> io::Result<Place> {
        let name =
            path.file_name().filter(|_| !path.as_os_str().as_encoded_bytes().ends_with(b"/"));
        let name = name.ok_or_else(|| io::Error::other("the path has no file name"))?;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let mut folder = openat(CWD, ".", flags, Mode::empty())?;
        let mut is_shared = is_shared(&fstat(&folder)?);
        for part in path.parent().into_iter().flat_map(Path::components) {
            let part = match part {
                Component::CurDir => continue,
                Component::RootDir | Component::Prefix(_) => OsStr::new("/"),
                Component::ParentDir => OsStr::new(".."),
                Component::Normal(name) => name,
            };
            let follow = if is_shared { OFlags::NOFOLLOW } else { OFlags::DIRECTORY };
            folder = openat(&folder, part, flags | follow, Mode::empty())?;
            let stat = fstat(&folder)?;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => is_shared = self::is_shared(&stat),
                FileType::Symlink => return Err(refused()),
                _ => return Err(Errno::NOTDIR.into()),
            }
        }
        Ok(Place { folder, name: name.to_owned(), is_shared })
    }

    /// What is there under the name, itself and not what it leads to. A link that others could have made is refused.
    fn find_entry(&self) -> io::Result<Option<Stat>> {
        match statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if self.is_shared && is_link(&stat) => Err(refused()),
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    fn open(&self, flags: OFlags) -> Result<OwnedFd, Errno> {
        let follow = if self.is_shared { OFlags::NOFOLLOW } else { OFlags::empty() };
        openat(&self.folder, &self.name, flags | follow | OFlags::CLOEXEC, NEW_FILE)
    }

    fn is_pipe(&self) -> bool {
        statat(&self.folder, &self.name, AtFlags::empty())
            .is_ok_and(|s| FileType::from_raw_mode(s.st_mode) == FileType::Fifo)
    }

    fn refusal(&self, e: Errno) -> io::Error {
        if e == Errno::LOOP && self.is_shared { refused() } else { e.into() }
    }
}

fn refused() -> io::Error {
    io::Error::other("is a link in a folder that others may write, and is not followed")
}

/// Whether others than this user and the machine's administrator may put something into a folder.
fn is_shared(folder: &Stat) -> bool {
    let me = rustix::process::geteuid().as_raw();
    // Inside a container the administrator may have another number; the root folder is his anyway.
    let admin = rustix::fs::stat("/").map_or(0, |root| root.st_uid);
    if ![me, 0, admin].contains(&folder.st_uid) {
        return true;
    }
    let group = rustix::process::getegid().as_raw();
    // Many systems give each user a group of the same number, in which he is alone.
    let is_own_group = folder.st_gid == 0 || (folder.st_gid == group && group == me);
    folder.st_mode & 0o002 != 0 || (folder.st_mode & 0o020 != 0 && !is_own_group)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::direct_opener;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;

    /// A folder with a file `victim`, and below it one that others may write, as `/tmp` is.
    fn folders() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let (shared, victim) = (dir.path().join("shared"), dir.path().join("victim"));
        std::fs::create_dir(&shared).unwrap();
        std::fs::set_permissions(&shared, PermissionsExt::from_mode(0o1777)).unwrap();
        std::fs::write(&victim, "precious").unwrap();
        (dir, shared, victim)
    }

    fn is_refused<T>(done: io::Result<T>) -> bool {
        done.is_err_and(|e| e.to_string().contains("is a link in a folder that others may write"))
    }

    #[test]
    fn links_are_followed_in_ones_own_folder_alone() {
        let files = direct_opener();
        let (dir, shared, victim) = folders();
        let links = [shared.join("symbolic"), shared.join("hard")];
        symlink(&victim, &links[0]).unwrap();
        std::fs::hard_link(&victim, &links[1]).unwrap();
        // A folder that is a link there leads to anywhere.
        symlink(dir.path(), shared.join("folder")).unwrap();
        for path in [&links[0], &links[1], &shared.join("folder/victim")] {
            assert!(
                is_refused(OutputFile::open(&files, path, Existing::Truncate)),
                "{}",
                path.display()
            );
            assert!(
                is_refused(OutputFile::open(&files, path, Existing::Append)),
                "{}",
                path.display()
            );
            assert!(is_refused(write_whole(path, b"bad")), "{}", path.display());
            assert!(is_refused(check(path)), "{}", path.display());
            assert!(is_refused(refuse_link(path)), "{}", path.display());
            assert!(is_refused(clear(path)), "{}", path.display());
            assert!(is_refused(read_earlier(path)), "{}", path.display());
            assert!(is_refused(open_earlier(path, true)), "{}", path.display());
            assert!(is_refused(Replacement::begin(path)), "{}", path.display());
        }
        assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
        std::fs::remove_file(&links[1]).unwrap();
        // An ordinary file is written there.
        write_whole(&shared.join("new"), b"good").unwrap();
        assert_eq!(std::fs::read(shared.join("new")).unwrap(), b"good");
        assert_eq!(std::fs::read_dir(&shared).unwrap().count(), 3);
        // One's own folder: as ever.
        let own = dir.path().join("own");
        symlink(&victim, &own).unwrap();
        check(&own).unwrap();
        write_whole(&own, b"meant").unwrap();
        assert_eq!(std::fs::read(&victim).unwrap(), b"meant");
        OutputFile::open(&files, &own, Existing::Append).unwrap().write_all(b" so").unwrap();
        assert_eq!(std::fs::read(&victim).unwrap(), b"meant so");
        // What is cleared there is what the link leads to; the link stays.
        clear(&own).unwrap();
        assert!(own.is_symlink() && std::fs::read(&victim).unwrap().is_empty());
        clear(&victim).unwrap();
        assert!(!victim.exists());
        clear(&own).unwrap();
    }

    /// A file takes another's place, and a link that others put there meanwhile is not replaced.
    #[test]
    fn what_takes_a_place_takes_no_link_s() {
        let (_dir, shared, victim) = folders();
        let path = shared.join("state");
        for text in ["one", "two"] {
            let fresh = Replacement::begin(&path).unwrap();
            fresh.file().write_all(text.as_bytes()).unwrap();
            fresh.take_place().unwrap();
            assert_eq!(read_earlier(&path).unwrap().as_deref(), Some(text.as_bytes()));
        }
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let fresh = Replacement::begin(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        symlink(&victim, &path).unwrap();
        assert!(is_refused(fresh.take_place()));
        assert_eq!(std::fs::read_link(&path).unwrap(), victim);
        assert_eq!(std::fs::read_dir(&shared).unwrap().count(), 1);
        // What a run leaves is a file: a pipe there is not waited for.
        let pipe = shared.join("pipe");
        let rights = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, rights, 0).unwrap();
        assert!(read_earlier(&pipe).is_err());
        clear(&pipe).unwrap();
        assert!(read_earlier(&shared.join("none")).unwrap().is_none());
    }

    /// Two workers store the same file: both have written it, and nothing is left next to it.
    #[test]
    fn threads_that_write_the_same_file_do_not_disturb_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let write = || (0..300).for_each(|_| write_whole(&path, b"text").unwrap());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(write);
            }
        });
        assert_eq!(std::fs::read(&path).unwrap(), b"text");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_can_t_be_written_whole_stays_as_it_was() {
        let (_dir, shared, _) = folders();
        let path = shared.join("run.json");
        std::fs::write(&path, "before").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        write_whole(&path, b"after").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"after");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o640);
        assert!(write_whole(Path::new("/dev/full"), b"x").is_err());
        assert!(write_whole(&shared.join("gone/run.json"), b"x").is_err());
        assert!(write_whole(&shared, b"x").is_err());
        assert!(create_empty(&path).is_err());
    }

    #[test]
    fn who_moved_a_file_away_gets_a_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let files = direct_opener();
        let file = OutputFile::open(&files, &path, Existing::Append).unwrap();
        assert!(!file.is_moved(&path));
        std::fs::rename(&path, dir.path().join("b")).unwrap();
        assert!(file.is_moved(&path));
    }
}
