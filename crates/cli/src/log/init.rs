//! `gabion log init`: makes a log.

use super::options::Init;
use super::times::now_ns;
use super::{Ended, LogFault, folders, keygen};
use crate::{standard_output, values};
use clap::Args;
use gabion_record::json::Json;
use gabion_seal::epoch::EpochKey;
use gabion_seal::identity::Identity;
use gabion_seal::recipient::Recipient;
use gabion_seal::storage::{Files, Storage};
use gabion_seal::text::{hex, unhex};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// File systems by the magic number of `statfs`: where writing in place does not overwrite, or where a
/// lock does not hold for other machines.
const FILE_SYSTEMS: &[(i64, &str, bool)] = &[
    (0x9123_683e, "btrfs", false),
    (0x2fc1_2fc1, "ZFS", false),
    (0xca45_1a4e, "bcachefs", false),
    (0xf2f5_2010, "f2fs", false),
    (0x794c_7630, "overlayfs", false),
    (0x6969, "NFS", true),
    (0xff53_4d42, "CIFS", true),
    (0xfe53_4d42, "SMB", true),
    (0x6573_5546, "FUSE", true),
    (0x5346_414f, "AFS", true),
    (0x00c3_6400, "Ceph", true),
];

/// Settings of a new log, in addition to its folders and readers.
#[derive(Clone, Debug, Args)]
pub(crate) struct NewLog {
    /// Sign a checkpoint every N chunks at most, in a new log
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = values::number::<u64>(1, u64::from(u32::MAX)))]
    pub(crate) checkpoint_chunks: u64,
    /// Sign a checkpoint every S seconds at most, in a new log
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = values::seconds)]
    pub(crate) checkpoint_seconds: u64,
    /// Make a log where locks may not hold for other machines
    #[arg(long)]
    pub(crate) allow_network_fs: bool,
}

/// Makes a log in folders that are made too, with those above them; where that fails, nothing of it stays.
pub(crate) fn make(
    folders: (&Path, &Path),
    origin: &str,
    recipients: &[Recipient],
    new: &NewLog,
) -> Result<Identity, LogFault> {
    make_undoably(folders, origin, recipients, new).map(|(identity, _)| identity)
}

/// The same; also returns what was made, for a caller that may have to undo it.
pub(crate) fn make_undoably(
    folders: (&Path, &Path),
    origin: &str,
    recipients: &[Recipient],
    new: &NewLog,
) -> Result<(Identity, Made), LogFault> {
    let mut made = Made::default();
    match create(folders, origin, recipients, new, &mut made) {
        Ok(identity) => Ok((identity, made)),
        Err(fault) => {
            made.remove();
            Err(fault)
        }
    }
}

/// Folders that were made for a log.
#[derive(Default)]
pub(crate) struct Made {
    /// Those above its own.
    parents: Vec<PathBuf>,
    /// Its own that were not there.
    own: Vec<PathBuf>,
}

impl Made {
    /// Makes what is missing above a folder.
    fn above(&mut self, path: &Path) -> Result<(), LogFault> {
        let is_missing = |p: &&Path| !p.as_os_str().is_empty() && !p.exists();
        let mut missing: Vec<&Path> = path.ancestors().take_while(is_missing).collect();
        missing.reverse();
        for folder in missing {
            if folder == path {
                self.own.push(folder.to_path_buf());
                continue;
            }
            DirBuilder::new().mode(0o755).create(folder).map_err(|e| {
                let text = format!("{}: {e}: name a folder that can be written", folder.display());
                LogFault::environment(text)
            })?;
            self.parents.push(folder.to_path_buf());
        }
        Ok(())
    }

    /// Removes them: a log that was not made, or that nothing was written to, holds nothing.
    pub(crate) fn remove(&self) {
        for folder in &self.own {
            let _ = std::fs::remove_dir_all(folder);
        }
        for folder in self.parents.iter().rev() {
            // Only where nobody else has put something there meanwhile.
            let _ = std::fs::remove_dir(folder);
        }
    }
}

fn create(
    folders: (&Path, &Path),
    origin: &str,
    recipients: &[Recipient],
    new: &NewLog,
    made: &mut Made,
) -> Result<Identity, LogFault> {
    let (log_path, state_path) = folders;
    made.above(log_path)?;
    made.above(state_path)?;
    let folder = |path: &Path| {
        Files::create_folder(path).map_err(|e| {
            LogFault::environment(format!(
                "{}: {e}: name a folder that can be written",
                path.display()
            ))
        })
    };
    let (mut log, state) = (folder(log_path)?, folder(state_path)?);
    for (files, path) in [(&log, log_path), (&state, state_path)] {
        check_file_system(files, path, new.allow_network_fs)?;
    }
    let init = gabion_seal::Init {
        origin: origin.to_owned(),
        checkpoint_chunks: new.checkpoint_chunks.max(1),
        checkpoint_seconds: new.checkpoint_seconds.max(1),
        now_ns: now_ns(),
    };
    let key = prepared_key(&state, state_path)?;
    let is_prepared = key.is_some();
    let made = match key {
        Some(key) => init.create_with_key(&mut log, state, key),
        None => init.create(&mut log, state),
    };
    let identity = made.map_err(|e| LogFault::from(e).about(log_path))?;
    folders::store_recipients(state_path, recipients).map_err(LogFault::environment)?;
    if is_prepared {
        erase_seed(state_path)?;
    }
    Ok(identity)
}

pub(super) fn run(options: &Init) -> Ended {
    let recipients = folders::recipients(&options.recipients)?;
    let state_path = folders::state_of(&options.folder.log, options.folder.state.as_deref());
    let folders = (options.folder.log.as_path(), state_path.as_path());
    let identity = make(folders, &options.origin, &recipients, &options.new)?;
    let vkey = identity.vkey.to_string();
    if options.output.json {
        let mut json = Json::new();
        json.open();
        json.field("origin", &identity.origin);
        json.field("vkey", &vkey);
        json.field("log_id", hex(&identity.log_id()));
        json.open_array_key("recipients");
        recipients.iter().for_each(|r| json.item(hex(&r.id())));
        json.close_array();
        json.close();
        standard_output::line(String::from_utf8_lossy(json.bytes()));
    } else {
        standard_output::line(vkey);
        eprintln!("gabion: keep this public key off the host: it is what `verify --vkey` pins");
    }
    Ok(0)
}

/// The key that `keygen --signer` left in the state folder.
fn prepared_key(state: &Files, path: &Path) -> Result<Option<EpochKey>, LogFault> {
    let bytes = state
        .read(keygen::SEED, 64)
        .map_err(|e| LogFault::input(format!("{}: {e}", path.display())))?;
    let Some(bytes) = bytes.map(Zeroizing::new) else { return Ok(None) };
    let seed: [u8; 32] = unhex(&bytes).and_then(|s| s.try_into().ok()).ok_or_else(|| {
        LogFault::input(format!("{}: not a seed", path.join(keygen::SEED).display()))
    })?;
    Ok(Some(EpochKey::from_seed(0, Zeroizing::new(seed))?))
}

/// Overwrites the seed that the signer's state now holds.
fn erase_seed(path: &Path) -> Result<(), LogFault> {
    let failed = |e: std::io::Error| LogFault::environment(format!("{}: {e}", path.display()));
    let mut state = Files::open(path).map_err(failed)?;
    state
        .write_at(keygen::SEED, 0, &[b'0'; 64])
        .and_then(|()| state.sync(keygen::SEED))
        .and_then(|()| state.remove(keygen::SEED))
        .and_then(|()| state.sync_names())
        .map_err(failed)
}

/// Whether what is written there goes through a journal first: old blocks of that live on.
fn keeps_data_in_journal(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let Ok(device) = std::fs::metadata(path).map(|m| m.dev()) else { return false };
    let device = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    is_journaled(&mounts, &device)
}

/// The same by the list of mounts (proc(5)): device in the third field, its options in the last.
fn is_journaled(mounts: &str, device: &str) -> bool {
    mounts.lines().any(|line| {
        let is_here = line.split(' ').nth(2) == Some(device);
        let options = line.rsplit(' ').next().unwrap_or_default();
        is_here && options.split(',').any(|o| o == "data=journal")
    })
}

fn check_file_system(files: &Files, path: &Path, is_allowed: bool) -> Result<(), LogFault> {
    let Some(kind) = files.file_system() else { return Ok(()) };
    let found = FILE_SYSTEMS.iter().find(|(k, _, _)| *k == kind & 0xffff_ffff);
    let (name, is_network) = match found {
        Some((_, name, is_network)) => (*name, *is_network),
        None if keeps_data_in_journal(path) => ("ext4 with data=journal", false),
        None => return Ok(()),
    };
    if is_network && !is_allowed {
        return Err(LogFault::environment(format!(
            "{}: {name}: locks of a network file system may not keep a second writer out: use a local disk, or --allow-network-fs",
            path.display()
        )));
    }
    eprintln!(
        "gabion: {}: {name}: what is overwritten lives on in old blocks, so erasing an epoch's key is not real here: put --state on ext4 or xfs",
        path.display()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_in_the_journal_is_seen_in_the_list_of_mounts() {
        let mounts = "25 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw,errors=remount-ro\n\
                      31 25 254:17 / /var rw,relatime - ext4 /dev/vdb1 rw,data=journal\n\
                      32 25 254:18 / /srv rw - ext4 /dev/vdb2 rw,data=ordered\n";
        let found: Vec<bool> =
            ["254:1", "254:17", "254:18"].map(|d| is_journaled(mounts, d)).to_vec();
        assert_eq!(found, [false, true, false]);
    }
}
