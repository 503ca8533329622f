//! Running as another user and group: names are found in the system's files, rights do not come back.

use rustix::process::{Gid, Uid, getegid, geteuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, set_capabilities, set_keep_capabilities, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a process can't run as that user or group.
#[derive(Debug)]
pub enum RunAsError {
    /// There is no such user.
    NoUser(String),
    /// There is no such group.
    NoGroup(String),
    /// A list of users or groups can't be read.
    NoList(PathBuf, io::Error),
    /// The system refuses.
    Refused(io::Error),
    /// The process has threads already, which would keep their rights.
    HasThreads,
}

impl fmt::Display for RunAsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunAsError::NoUser(name) => {
                let said = "unable to get the user ID, check if user exist!!";
                write!(f, "{said}: \"{name}\" is not in {USERS}: name one that is")
            }
            RunAsError::NoGroup(name) => {
                let said = "unable to get the group ID, check if group exist!!";
                write!(f, "{said}: \"{name}\" is not in {GROUPS}: name one that is")
            }
            RunAsError::NoList(path, e) => write!(f, "{}: {e}", path.display()),
            RunAsError::Refused(e) => write!(
                f,
                "cannot run as another user: {e}: only root can, leave --user, --group and run-as out"
            ),
            RunAsError::HasThreads => {
                f.write_str("cannot run as another user: threads run already")
            }
        }
    }
}

impl std::error::Error for RunAsError {}

/// The files in which users and groups are found: sensors have their users on the machine.
const USERS: &str = "/etc/passwd";
const GROUPS: &str = "/etc/group";

/// What a run over interfaces keeps, as Suricata 8.0.7 does (`CapEff` of its process is 0x803000).
const OF_INTERFACES: CapabilitySet =
    CapabilitySet::NET_RAW.union(CapabilitySet::NET_ADMIN).union(CapabilitySet::SYS_NICE);

/// A user and a group to run as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunAs {
    user: Option<u32>,
    group: Option<u32>,
}

impl RunAs {
    /// Finds them, by name or number. Without a group it is the user's.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn find(user: Option<&str>, group: Option<&str>) -> Result<RunAs, RunAsError> {
        let mut found = RunAs::default();
        if let Some(name) = user {
            let fields = find_entry(Path::new(USERS), name)?;
            let (user, own) = fields.ok_or_else(|| RunAsError::NoUser(name.to_owned()))?;
            found = RunAs { user: Some(user), group: own };
        }
        if let Some(name) = group {
            let fields = find_entry(Path::new(GROUPS), name)?;
            let (group, _) = fields.ok_or_else(|| RunAsError::NoGroup(name.to_owned()))?;
            found.group = Some(group);
        }
        Ok(found)
    }

    /// Makes this process run as them, without a way back. Of root's capabilities only those are left that
    /// interfaces need, and only if they are to be read. Must be called before threads are started: rights belong to
    /// each thread.
    ///
    /// # Errors
    /// When the system refuses: only root can.
    pub fn begin(self, reads_interfaces: bool) -> Result<(), RunAsError> {
        if self.is_now() {
            return Ok(());
        }
        if std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() > 1) {
            return Err(RunAsError::HasThreads);
        }
        self.change(reads_interfaces).map_err(|e| RunAsError::Refused(e.into()))
    }

    fn change(self, reads_interfaces: bool) -> rustix::io::Result<()> {
        set_keep_capabilities(true)?;
        // Groups of root would stay otherwise.
        set_thread_groups(&[])?;
        if let Some(group) = self.group.map(Gid::from_raw) {
            set_thread_res_gid(group, group, group)?;
        }
        if let Some(user) = self.user.map(Uid::from_raw) {
            set_thread_res_uid(user, user, user)?;
        }
        set_keep_capabilities(false)?;
        if geteuid().is_root() {
            return Ok(());
        }
        let kept = if reads_interfaces { OF_INTERFACES } else { CapabilitySet::empty() };
        let sets = rustix::thread::capabilities(None)?;
        let kept = kept.intersection(sets.permitted);
        let inheritable = CapabilitySet::empty();
        set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable })
    }

    fn is_now(self) -> bool {
        self.user.is_none_or(|user| geteuid().as_raw() == user)
            && self.group.is_none_or(|group| getegid().as_raw() == group)
    }
}

/// The number of the line whose name (the first field) or number (the third) that is, and the number after it.
fn find_entry(file: &Path, name: &str) -> Result<Option<(u32, Option<u32>)>, RunAsError> {
    let text = std::fs::read_to_string(file);
    let text = text.map_err(|e| RunAsError::NoList(file.to_owned(), e))?;
    Ok(entry(&text, name))
}

fn entry(text: &str, name: &str) -> Option<(u32, Option<u32>)> {
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (own_name, number) = (fields.next()?, fields.nth(1)?);
        let is_it = !name.is_empty() && (own_name == name || number == name);
        let number = number.parse().ok().filter(|_| is_it)?;
        Some((number, fields.next().and_then(|next| next.parse().ok())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_number() {
        let text = "root:x:0:0:root:/root:/bin/sh\n\nx\nnobody:x:65534:65533::/:/bin/false\n";
        assert_eq!(entry(text, "nobody"), Some((65534, Some(65533))));
        assert_eq!(entry(text, "65534"), Some((65534, Some(65533))));
        assert_eq!(entry("nogroup:x:65534:\n", "nogroup"), Some((65534, None)));
        for none in ["", "nosuch", "x", "1"] {
            assert_eq!(entry(text, none), None, "{none}");
        }
    }

    // The words are those of Suricata 8.0.7.
    #[test]
    fn what_is_not_there_is_refused() {
        let said = RunAs::find(Some("no such user"), None).unwrap_err().to_string();
        assert!(said.starts_with("unable to get the user ID, check if user exist!!"), "{said}");
        let said = RunAs::find(None, Some("")).unwrap_err().to_string();
        assert!(said.starts_with("unable to get the group ID, check if group exist!!"), "{said}");
        assert!(RunAs::find(Some("root"), None).unwrap() != RunAs::default());
        assert!(RunAs::find(None, None).unwrap().begin(false).is_ok());
    }
}
