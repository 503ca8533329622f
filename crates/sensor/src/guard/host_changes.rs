//! What `enforce` changes on the host in addition to its throttle, and only when `--also` names it.
//!
//! Each of these settings helps in some floods and harms in others (`docs/guard.md`), so none is a rung that the
//! controller takes by itself.

use super::refusal::GuardRefusal;
use super::undo_folder::{ChangeError, LeftState, Made, UndoFolder, mask_of};
use gabion_guard::undo::UndoRecord;
use std::path::{Path, PathBuf};

/// Packets of one poll with `dev-weight`; the kernel's own value is 64.
const SMALL_WEIGHT: &str = "16";

/// The line about packet work in threads: 40 to 90 % were measured.
const LOSES: &str = "packet work in threads: in a flood allow-listed flows lose packets in the queue before the throttle, \
                     which the guard can't hold";

/// A change of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardAlso {
    /// `net.core.dev_weight`: fewer packets in one poll, of all interfaces.
    DevWeight,
    /// `rps_cpus` of the interface's queues: packet work goes to CPUs that the budget is not about.
    Rps,
    /// `threaded` of the interface: packet work in threads, which share the CPU fairly and lose packets of protected
    /// flows.
    Threaded,
}

impl GuardAlso {
    /// All of them with their names on the command line.
    pub const ALL: [(&'static str, GuardAlso); 3] = [
        ("dev-weight", GuardAlso::DevWeight),
        ("rps", GuardAlso::Rps),
        ("threaded", GuardAlso::Threaded),
    ];
}

/// The changes that were made.
#[derive(Debug)]
pub(super) struct HostChanges {
    folder: UndoFolder,
    made: Vec<Made>,
}

impl HostChanges {
    /// Undoes what guards left that were killed; one line for each record.
    pub(super) fn begin(
        folder: &Path,
        say: &mut dyn FnMut(&str),
    ) -> Result<HostChanges, ChangeError> {
        let changes =
            HostChanges { folder: UndoFolder::new(folder, Path::new("/")), made: Vec::new() };
        changes.undo_left(false, say)?;
        Ok(changes)
    }

    /// Undoes what could not be undone before: `threaded` of an interface that has its NAPI by XDP alone.
    pub(super) fn after_attaching(&self, say: &mut dyn FnMut(&str)) -> Result<(), ChangeError> {
        self.undo_left(true, say)
    }

    fn undo_left(&self, is_attached: bool, say: &mut dyn FnMut(&str)) -> Result<(), ChangeError> {
        let mut first: Option<ChangeError> = None;
        for (left, outcome) in self.folder.undo_left()? {
            let file = left.file.display();
            let Some(record) = left.record else {
                if left.state == LeftState::Unreadable {
                    say(&format!("{file}: is not an undo record: look at it, and remove it"));
                }
                continue;
            };
            let UndoRecord { what, old, new, .. } = &record;
            match (left.state, outcome) {
                (_, Err(_)) if !is_attached && record.is_before_detaching() => {}
                (_, Err(e)) => {
                    first.get_or_insert(e);
                }
                (LeftState::ToUndo, Ok(())) => {
                    say(&format!(
                        "{what}: {old} is written again, as a guard that was killed had left {new}"
                    ));
                }
                (LeftState::OtherNamespace, _) => say(&format!(
                    "{what}: a guard that was killed left {new} in another network namespace: start the guard there once"
                )),
                _ => {}
            }
        }
        first.map_or(Ok(()), Err)
    }

    /// Whether all that was asked for may be written, before anything is done.
    pub(super) fn check(&self, wanted: &[(PathBuf, String)]) -> Result<(), ChangeError> {
        wanted.iter().try_for_each(|(path, _)| self.folder.try_write(path))
    }

    /// Makes changes; a line for each. Those before one that fails stay and are undone by [`HostChanges::end`].
    pub(super) fn make(
        &mut self,
        wanted: &[(PathBuf, String)],
        say: &mut dyn FnMut(&str),
    ) -> Result<(), ChangeError> {
        for (path, value) in wanted {
            match self.folder.change(path, value)? {
                Some(made) => {
                    let UndoRecord { what, old, new, .. } = &made.record;
                    say(&format!("{what}: {new} in the place of {old}, until the guard ends"));
                    if made.record.is_before_detaching() {
                        say(LOSES);
                    }
                    self.made.push(made);
                }
                None => say(&format!("{}: {value} is there already", path.display())),
            }
        }
        Ok(())
    }

    /// Undoes what has to be undone before XDP is detached: `threaded` can't be written afterwards, and the value would
    /// act again at the next start.
    pub(super) fn before_detaching(
        &mut self,
        say: &mut dyn FnMut(&str),
    ) -> Result<(), ChangeError> {
        let (first, rest) = self.made.drain(..).partition(|made| made.record.is_before_detaching());
        self.made = rest;
        self.undo(first, say)
    }

    /// Undoes the rest, the newest change first.
    pub(super) fn end(&mut self, say: &mut dyn FnMut(&str)) -> Result<(), ChangeError> {
        let all = std::mem::take(&mut self.made);
        self.undo(all, say)
    }

    /// Undoes changes. One that fails does not keep the others; its record stays.
    fn undo(&self, all: Vec<Made>, say: &mut dyn FnMut(&str)) -> Result<(), ChangeError> {
        let mut first = Ok(());
        for made in all.into_iter().rev() {
            match self.folder.undo(made) {
                Ok(record) => say(&format!("{}: {} again", record.what, record.old)),
                Err(e) if first.is_ok() => first = Err(e),
                Err(e) => say(&e.to_string()),
            }
        }
        first
    }
}

/// The files and values of what was asked for: those that are written once XDP is attached come last.
pub(super) fn wanted(
    also: &[GuardAlso],
    interface: &str,
    victims: &[u16],
    online: &[u16],
) -> Result<Vec<(PathBuf, String)>, GuardRefusal> {
    let folder = Path::new("/sys/class/net").join(interface);
    let mut all = Vec::new();
    for (_, one) in GuardAlso::ALL.into_iter().filter(|(_, one)| also.contains(one)) {
        match one {
            GuardAlso::DevWeight => {
                let path = PathBuf::from("/proc/sys/net/core/dev_weight");
                if !path.exists() {
                    return Err(GuardRefusal::NoDevWeight);
                }
                all.push((path, SMALL_WEIGHT.to_owned()));
            }
            GuardAlso::Rps => {
                let others: Vec<u16> =
                    online.iter().copied().filter(|cpu| !victims.contains(cpu)).collect();
                if victims.is_empty() || others.is_empty() {
                    return Err(GuardRefusal::NoCpuForPackets);
                }
                let mut queues: Vec<PathBuf> = std::fs::read_dir(folder.join("queues"))
                    .into_iter()
                    .flatten()
                    .filter_map(|entry| Some(entry.ok()?.path().join("rps_cpus")))
                    .filter(|path| path.exists())
                    .collect();
                queues.sort();
                if queues.is_empty() {
                    return Err(GuardRefusal::NoQueue);
                }
                all.extend(queues.into_iter().map(|path| (path, mask_of(&others))));
            }
            GuardAlso::Threaded => all.push((folder.join("threaded"), "1".to_owned())),
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rps_needs_cpus_to_keep_free_and_others_to_go_to() {
        let rps = [GuardAlso::Rps];
        let refused = Err(GuardRefusal::NoCpuForPackets);
        assert_eq!(wanted(&rps, "lo", &[], &[0, 1]), refused);
        assert_eq!(wanted(&rps, "lo", &[0, 1], &[0, 1]), refused);
        let all = wanted(&rps, "lo", &[1], &[0, 1, 2]).unwrap();
        assert_eq!(
            all,
            [(PathBuf::from("/sys/class/net/lo/queues/rx-0/rps_cpus"), "5".to_owned())]
        );
    }

    #[test]
    fn threaded_is_changed_last_and_undone_first() {
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str| folder.path().join(name);
        for name in ["dev_weight", "threaded"] {
            std::fs::write(of(name), "0").unwrap();
        }
        let both = wanted(&[GuardAlso::Threaded], "lo", &[], &[]).unwrap();
        assert!(both.last().unwrap().0.ends_with("threaded"));
        let mut lines = Vec::new();
        let mut changes = HostChanges::begin(&of("undo"), &mut |_| {}).unwrap();
        let wanted = [(of("dev_weight"), "1".to_owned()), (of("threaded"), "1".to_owned())];
        changes.check(&wanted).unwrap();
        changes.make(&wanted, &mut |line| lines.push(line.to_owned())).unwrap();
        let made = lines.iter().filter(|line| line.contains("in the place of")).count();
        assert_eq!((made, lines.last().map(String::as_str)), (2, Some(LOSES)));
        let read = |name: &str| std::fs::read_to_string(of(name)).unwrap();
        changes.before_detaching(&mut |_| {}).unwrap();
        assert_eq!((read("threaded").as_str(), read("dev_weight").as_str()), ("0", "1"));
        changes.end(&mut |_| {}).unwrap();
        assert_eq!(read("dev_weight"), "0");
    }
}
