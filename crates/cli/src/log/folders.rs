//! Folders, keys and the writer that verbs open.

use super::LogFault;
use super::options::{LogFolder, SealOptions};
use super::times::now_ns;
use crate::exit::about;
use crate::{direct_opener, operator_file};
use gabion_seal::checkpoints::Vkey;
use gabion_seal::files::{IDENTITY_FILE, RECIPIENTS_FILE};
use gabion_seal::limits::{IDENTITY_FILE_MAX, SMALL_FILE_MAX};
use gabion_seal::storage::{Files, Storage};
use gabion_seal::verify::Verdict;
use gabion_seal::{Identity, Locked, Opened, Policy, Recipient, SecretKey, Writer, guard_secrets};
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The state folder of a log.
pub(crate) fn state_of(log: &Path, state: Option<&Path>) -> PathBuf {
    match state {
        Some(state) => state.to_path_buf(),
        None => {
            let mut name = log.file_name().unwrap_or_default().to_os_string();
            name.push(".state");
            log.with_file_name(name)
        }
    }
}

/// Opens the folder of a log.
pub(super) fn open(path: &Path) -> Result<Files, LogFault> {
    Files::open_log(&direct_opener(), path).map_err(|e| LogFault::input(&e))
}

/// Reads a small text file.
pub(super) fn read_text(path: &Path) -> Result<String, LogFault> {
    let bytes = read_bytes(path, SMALL_FILE_MAX)?;
    String::from_utf8(bytes).map_err(|_| LogFault::input(format!("{}: not text", path.display())))
}

/// Reads a file of at most this length. A device is refused, and a pipe that has a name, since nobody may ever write
/// into it; what a shell's `<(…)` gives is read to its end.
pub(super) fn read_bytes(path: &Path, most: u64) -> Result<Vec<u8>, LogFault> {
    let failed = |e| LogFault::input(about(path.display(), &e));
    let opened = operator_file::open(path).map_err(failed)?;
    if opened.is_stream && is_named_pipe(&opened.file).map_err(failed)? {
        return Err(LogFault::input(format!("{}: is a pipe: name a file", path.display())));
    }
    opened.bytes(most).map_err(failed)
}

/// Whether it is a named pipe.
fn is_named_pipe(file: &std::fs::File) -> std::io::Result<bool> {
    use std::os::unix::fs::FileTypeExt;
    /// Of the file system that holds pipes without names, as statfs(2) has it.
    const PIPEFS_MAGIC: i128 = 0x5049_5045;
    let is_pipe = file.metadata()?.file_type().is_fifo();
    Ok(is_pipe && i128::from(rustix::fs::fstatfs(file)?.f_type) != PIPEFS_MAGIC)
}

/// Reads a small file of a log's folder or of its state. Others may be able to write there: nothing but a
/// regular file is opened, and no link is followed.
pub(super) fn read_in(folder: &Path, name: &str, most: u64) -> Result<Vec<u8>, LogFault> {
    let shown = folder.join(name);
    let failed = |e: std::io::Error| LogFault::input(&e).about(&shown);
    let bytes = open(folder)?.read_file(name, most).map_err(failed)?;
    bytes.ok_or_else(|| failed(std::io::ErrorKind::NotFound.into()))
}

/// What a log is, out of its folder.
pub(super) fn identity_of(log: &Path) -> Result<Identity, LogFault> {
    let bytes = read_in(log, IDENTITY_FILE, IDENTITY_FILE_MAX)?;
    Identity::parse(&bytes).map_err(|e| LogFault::from(e).about(log))
}

/// Reads a file that should hold a key; why not, without its name.
fn read_key(path: &Path) -> Result<String, String> {
    let bytes = operator_file::open(path).and_then(|opened| {
        if opened.is_stream && is_named_pipe(&opened.file)? {
            Err(std::io::Error::other("is a pipe: name a file"))
        } else {
            opened.bytes(SMALL_FILE_MAX)
        }
    });
    String::from_utf8(bytes.map_err(|e| e.to_string())?).map_err(|_| "not text".to_owned())
}

/// Writes a new file for its owner alone.
pub(super) fn write_secret(path: &Path, text: &str) -> Result<(), LogFault> {
    write_new(path, text, 0o600)
}

/// Writes a new file.
pub(super) fn write_new(path: &Path, text: &str, mode: u32) -> Result<(), LogFault> {
    use std::os::unix::fs::OpenOptionsExt;
    let failed = |e: std::io::Error| LogFault::environment(about(path.display(), &e));
    let mut file =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path).map_err(
            |e| match e.kind() {
                std::io::ErrorKind::AlreadyExists => LogFault::input(format!(
                    "{}: is there already, and nothing is overwritten: name another folder",
                    path.display()
                )),
                _ => failed(e),
            },
        )?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)
}

/// Private keys of readers.
pub(super) fn secret_keys(paths: &[PathBuf]) -> Result<Vec<SecretKey>, LogFault> {
    paths.iter().map(|p| secret_key(p, "a reader's private key")).collect()
}

/// A private key of that kind.
pub(super) fn secret_key(path: &Path, kind: &str) -> Result<SecretKey, LogFault> {
    let wanted =
        |why: String| LogFault::input(format!("{why}: name a file with {kind}")).about(path);
    let text = read_key(path).map_err(wanted)?;
    SecretKey::parse_file(&text).map_err(|e| wanted(e.to_string()))
}

/// Public keys of readers.
pub(super) fn recipients(paths: &[PathBuf]) -> Result<Vec<Recipient>, LogFault> {
    let mut all = Vec::new();
    for path in paths {
        let wanted = |why: String| {
            LogFault::input(format!("{why}: name a file with a reader's public key")).about(path)
        };
        let text = read_key(path).map_err(wanted)?;
        let found = Recipient::parse_file(&text).map_err(|e| wanted(e.to_string()))?;
        all.extend(found.into_iter().filter(|r| !all.contains(r)).collect::<Vec<_>>());
    }
    Ok(all)
}

/// A verification key, or a file that holds one.
pub(super) fn vkey(given: &OsStr) -> Result<Vkey, LogFault> {
    if let Some(Ok(key)) = given.to_str().map(Vkey::parse) {
        return Ok(key);
    }
    let wrong = |e: String| {
        let advice = "write a public key `name+id+key`, or name a file with one";
        LogFault::input(format!("{}: {e}: {advice}", given.display()))
    };
    let file = read_key(Path::new(given)).map_err(wrong)?;
    let line =
        file.lines().find(|l| !l.trim().is_empty() && !l.starts_with('#')).unwrap_or_default();
    Vkey::parse(line.trim()).map_err(|e| wrong(e.to_string()))
}

/// Refuses a log that is not the one whose public key was kept off the host.
pub(super) fn pinned(log: &Path, wanted: Option<&OsStr>) -> Result<(), LogFault> {
    let Some(wanted) = wanted else { return Ok(()) };
    let wanted = vkey(wanted)?;
    if identity_of(log)?.vkey == wanted {
        return Ok(());
    }
    Err(LogFault::verdict(Verdict::Tampered, "not signed by the pinned key").about(log))
}

/// The readers that a state names.
pub(super) fn stored_recipients(state: &Path) -> Result<Vec<Recipient>, LogFault> {
    let wanted = "name the public keys of the log's readers, one file after the other";
    let wrong = |why: &str| LogFault::input(format!("{why}: {wanted}"));
    open(state)?; // its refusal has an advice of its own
    let bytes = read_in(state, RECIPIENTS_FILE, SMALL_FILE_MAX).map_err(|e| wrong(e.text()))?;
    let text = String::from_utf8(bytes)
        .map_err(|_| wrong("not text").about(&state.join(RECIPIENTS_FILE)))?;
    let mut all = Vec::new();
    let mut rest = text.as_str();
    // PEM keys and our own lines may follow each other.
    while let Some(at) = rest.find("-----END PUBLIC KEY-----") {
        let (block, after) = rest.split_at(at + "-----END PUBLIC KEY-----".len());
        let (lines, pem) = block.split_at(block.find("-----BEGIN").unwrap_or(0));
        if lines.lines().any(|l| !l.trim().is_empty() && !l.starts_with('#')) {
            all.extend(Recipient::parse_file(lines)?);
        }
        all.extend(Recipient::parse_file(pem)?);
        rest = after;
    }
    if rest.lines().any(|l| !l.trim().is_empty() && !l.starts_with('#')) {
        all.extend(Recipient::parse_file(rest)?);
    }
    Ok(all)
}

/// Refuses a log, or a state, that could not be written to, before anything else is looked at: what can be known of it by
/// reading.
pub(super) fn check_writable(log: &Path, state: Option<&Path>) -> Result<(), LogFault> {
    looked_at(log, state).map(drop)
}

/// The folders of a log and of its signer's state, and the readers that the state names.
fn looked_at(log: &Path, state: Option<&Path>) -> Result<(Files, Files, Vec<Recipient>), LogFault> {
    let folder = open(log)?;
    if !log.join(IDENTITY_FILE).exists() {
        let text = "no log here: log.id is missing: make one with `gabion log init`";
        return Err(LogFault::input(text).about(log));
    }
    let state = state_of(log, state);
    let recipients = stored_recipients(&state)?;
    Ok((folder, open(&state)?, recipients))
}

/// Opens a log for writing and repairs the end that a crash left, which it reports on standard error.
pub(super) fn writer(
    folder: &LogFolder,
    seal: Option<&SealOptions>,
) -> Result<(Writer<Files>, Opened), LogFault> {
    writer_at(&folder.log, folder.state.as_deref(), seal)
}

/// The same by paths.
pub(super) fn writer_at(
    log: &Path,
    state: Option<&Path>,
    seal: Option<&SealOptions>,
) -> Result<(Writer<Files>, Opened), LogFault> {
    writer_reporting(log, state, seal, &mut |_, _| Ok(()))
}

/// The same; `found` receives what [`Writer::open_reporting`] reports.
pub(super) fn writer_reporting(
    log: &Path,
    state: Option<&Path>,
    seal: Option<&SealOptions>,
    found: &mut dyn FnMut([u8; 16], &Opened) -> gabion_seal::Result<()>,
) -> Result<(Writer<Files>, Opened), LogFault> {
    // A short run is hardly swapped out: only a complete failure to lock memory is reported.
    if let (Locked::Nothing, Some(text)) = (guard_secrets(), Locked::Nothing.complaint()) {
        eprintln!("gabion: {text}");
    }
    let (folder, state, recipients) = looked_at(log, state)?;
    let mut policy = Policy::default();
    if let Some(seal) = seal {
        policy.manner.is_padded = seal.pad;
        policy.manner.is_rounded = seal.hide_times;
        if seal.no_compress {
            policy.manner.level = None;
        }
        policy.classes.clone_from(&seal.classes);
    }
    let (writer, opened) =
        Writer::open_reporting(folder, state, recipients, policy, now_ns(), found)
            .map_err(|e| LogFault::from(e).about(log))?;
    if opened.was_torn() {
        eprintln!(
            "gabion: {}: recovered after a crash: {} bytes after the last commit cut off",
            log.display(),
            opened.cut_bytes + opened.cut_note_bytes
        );
    }
    Ok((writer, opened))
}
