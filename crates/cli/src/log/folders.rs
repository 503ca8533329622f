//! Folders, keys and the writer that verbs open.

use super::LogFault;
use super::options::{LogFolder, SealOptions};
use super::times::now_ns;
use gabion_seal::identity;
use gabion_seal::note::Vkey;
use gabion_seal::storage::Files;
use gabion_seal::{Opened, Policy, Recipient, SecretKey, Writer};
use std::io::Write;
use std::path::{Path, PathBuf};

/// File of the readers' public keys in the signer's state: in the log's folder, whoever can write to the
/// disk could add himself.
pub(super) const RECIPIENTS: &str = "recipients";

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

/// Opens a folder.
pub(super) fn open(path: &Path) -> Result<Files, LogFault> {
    Files::open(path).map_err(|e| {
        let does = match e.kind() {
            std::io::ErrorKind::NotFound => {
                "name the folder of a log, or make one with `gabion log init`"
            }
            std::io::ErrorKind::NotADirectory => {
                "a log is a folder: name the one that holds log.id"
            }
            std::io::ErrorKind::PermissionDenied => "run this as a user who may read it",
            _ => "name the folder of a log",
        };
        LogFault::input(format!("{}: {e}: {does}", path.display()))
    })
}

/// Reads a small text file.
pub(super) fn read_text(path: &Path) -> Result<String, LogFault> {
    let bytes = read_bytes(path, 1 << 20)?;
    String::from_utf8(bytes).map_err(|_| LogFault::input(format!("{}: not text", path.display())))
}

/// Reads a file of at most this length.
pub(super) fn read_bytes(path: &Path, most: u64) -> Result<Vec<u8>, LogFault> {
    let failed = |e| LogFault::input(format!("{}: {e}", path.display()));
    let file = std::fs::File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.len() > most {
        return Err(LogFault::input(format!("{}: longer than {most} bytes", path.display())));
    }
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut std::io::Read::take(file, most), &mut bytes).map_err(failed)?;
    Ok(bytes)
}

/// Reads a file that should hold a key; why not, without its name.
fn read_key(path: &Path) -> Result<String, String> {
    let bytes = std::fs::File::open(path).and_then(|file| {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut std::io::Read::take(file, 1 << 20), &mut bytes)?;
        Ok(bytes)
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
    let failed = |e: std::io::Error| LogFault::environment(format!("{}: {e}", path.display()));
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

/// Keeps the readers' public keys beside the signer, for the verbs that write later.
///
/// # Errors
/// If the file can't be written; the text names it.
pub(crate) fn store_recipients(state: &Path, recipients: &[Recipient]) -> Result<(), String> {
    let text: String = recipients.iter().map(|r| r.to_text()).collect();
    let stored = state.join(RECIPIENTS);
    std::fs::write(&stored, text).map_err(|e| format!("{}: {e}", stored.display()))
}

/// Private keys of readers.
pub(super) fn secret_keys(paths: &[PathBuf]) -> Result<Vec<SecretKey>, LogFault> {
    paths
        .iter()
        .map(|p| {
            let wanted = |why: String| {
                LogFault::input(format!("{why}: a reader's private key is wanted")).about(p)
            };
            let text = read_key(p).map_err(wanted)?;
            SecretKey::parse_file(&text).map_err(|e| wanted(e.to_string()))
        })
        .collect()
}

/// Public keys of readers.
pub(super) fn recipients(paths: &[PathBuf]) -> Result<Vec<Recipient>, LogFault> {
    let mut all = Vec::new();
    for path in paths {
        let wanted = |why: String| {
            LogFault::input(format!("{why}: a reader's public key is wanted")).about(path)
        };
        let text = read_key(path).map_err(wanted)?;
        let found = Recipient::parse_file(&text).map_err(|e| wanted(e.to_string()))?;
        all.extend(found.into_iter().filter(|r| !all.contains(r)).collect::<Vec<_>>());
    }
    Ok(all)
}

/// A verification key, or a file that holds one.
pub(super) fn vkey(text: &str) -> Result<Vkey, LogFault> {
    if let Ok(key) = Vkey::parse(text) {
        return Ok(key);
    }
    let file = read_key(Path::new(text)).map_err(|e| {
        LogFault::input(format!(
            "{text}: {e}: a public key `name+id+key` is wanted, or a file with one"
        ))
    })?;
    let line =
        file.lines().find(|l| !l.trim().is_empty() && !l.starts_with('#')).unwrap_or_default();
    Vkey::parse(line.trim()).map_err(|e| LogFault::input(format!("{text}: {e}")))
}

/// Refuses a log that is not the one whose public key was kept off the host.
pub(super) fn pinned(log: &Path, wanted: Option<&str>) -> Result<(), LogFault> {
    let Some(wanted) = wanted else { return Ok(()) };
    let wanted = vkey(wanted)?;
    let bytes = read_bytes(&log.join(identity::FILE), 1 << 16)?;
    if identity::Identity::parse(&bytes).map_err(|e| LogFault::from(e).about(log))?.vkey == wanted {
        return Ok(());
    }
    Err(LogFault::with_code(20, "not signed by the pinned key").about(log))
}

/// The readers that a state names.
pub(super) fn stored_recipients(state: &Path) -> Result<Vec<Recipient>, LogFault> {
    let path = state.join(RECIPIENTS);
    let text = read_text(&path).map_err(|_| {
        LogFault::input(format!(
            "{}: not there: the public keys of the log's readers are wanted, one file behind the other",
            path.display()
        ))
    })?;
    let mut all = Vec::new();
    let mut rest = text.as_str();
    // PEM keys and our own lines may stand one after the other.
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

/// Opens a log for writing, mending what a crash left; says so on standard error.
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
    guard_secrets();
    let folder = open(log)?;
    if !log.join(identity::FILE).exists() {
        let text = "no log here: log.id is missing: make one with `gabion log init`";
        return Err(LogFault::input(text).about(log));
    }
    let state = state_of(log, state);
    let recipients = stored_recipients(&state)?;
    let mut policy = Policy::default();
    if let Some(seal) = seal {
        policy.manner.is_padded = seal.pad;
        policy.manner.is_rounded = seal.hide_times;
        if seal.no_compress {
            policy.manner.level = None;
        }
        policy.classes.clone_from(&seal.classes);
    }
    let (writer, opened) = Writer::open(folder, open(&state)?, recipients, policy, now_ns())
        .map_err(|e| LogFault::from(e).about(log))?;
    if opened.was_torn() {
        eprintln!(
            "gabion: {}: recovered after a crash: {} bytes behind the last commit cut off",
            log.display(),
            opened.cut_bytes + opened.cut_note_bytes
        );
    }
    Ok((writer, opened))
}

/// A process that holds a signing seed leaves no copy of its memory behind: neither in a core dump nor,
/// where it may lock memory, in swap. Not only the seed's page is locked, because the cryptographic
/// library keeps copies of its own. Where the limit on locked memory stands, nothing is locked: a later
/// allocation would fail by it.
pub(crate) fn guard_secrets() {
    use rustix::mm::{MlockAllFlags, mlockall};
    use rustix::process::{DumpableBehavior, Resource, Rlimit};
    use rustix::process::{getrlimit, set_dumpable_behavior, setrlimit};
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    let unlimited = Rlimit { current: None, maximum: None };
    let may_lock = getrlimit(Resource::Memlock).current.is_none()
        || setrlimit(Resource::Memlock, unlimited).is_ok();
    if may_lock {
        // Pages are locked as they are used; else everything that is mapped would be read in now.
        let _ = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT);
    }
}
