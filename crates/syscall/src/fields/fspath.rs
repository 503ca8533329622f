//! Paths that a call works on: `fs.path.*`.

use gabion_record::fields::{FieldId, Missing, Scratch, Value, ids};
use gabion_scap::types;

use super::{Field, View, text};
use crate::path;
use crate::state::AT_FDCWD;

/// Which paths a call has, as places of parameters.
#[derive(Clone, Copy)]
enum Paths {
    /// The path of the descriptor or of the opened file.
    Fd,
    /// One path.
    One(usize),
    /// One path below the directory of a descriptor.
    At(usize, usize),
    /// Source and target.
    Two(usize, usize),
    /// Source and target below the directories of descriptors: directory and path of each.
    TwoAt((usize, usize), (usize, usize)),
    /// A link below the directory of a descriptor, and the text it refers to.
    Link(Option<usize>, usize, usize),
}

fn paths_of(kind: u16) -> Option<Paths> {
    Some(match kind {
        types::OPEN_X
        | types::OPENAT_2_X
        | types::OPENAT2_X
        | types::CREAT_X
        | types::OPEN_BY_HANDLE_AT_X
        | types::FCHMOD_X
        | types::FCHOWN_X => Paths::Fd,
        types::MKDIR_2_X
        | types::RMDIR_2_X
        | types::UNLINK_2_X
        | types::CHMOD_X
        | types::CHOWN_X
        | types::LCHOWN_X
        | types::UMOUNT_1_X
        | types::UMOUNT2_X
        | types::MKNOD_X => Paths::One(1),
        types::QUOTACTL_X => Paths::One(2),
        types::MKDIRAT_X
        | types::UNLINKAT_2_X
        | types::FCHMODAT_X
        | types::FCHOWNAT_X
        | types::MKNODAT_X => Paths::At(1, 2),
        types::RENAME_X | types::LINK_2_X => Paths::Two(1, 2),
        types::MOUNT_X => Paths::Two(1, 2),
        types::RENAMEAT_X | types::RENAMEAT2_X | types::LINKAT_2_X => Paths::TwoAt((1, 2), (3, 4)),
        types::SYMLINK_X => Paths::Link(None, 2, 1),
        types::SYMLINKAT_X => Paths::Link(Some(2), 3, 1),
        _ => return None,
    })
}

impl View<'_> {
    /// A parameter that is text.
    fn path_param(&self, place: usize) -> Result<&[u8], Missing> {
        self.event.param(place).and_then(|param| param.as_text()).ok_or(Missing::NeverSeen)
    }

    /// Writes the full path of a parameter below the directory of a descriptor.
    fn full_path<'a>(
        &'a self,
        directory: Option<usize>,
        place: usize,
        scratch: &'a mut Scratch,
    ) -> Field<'a> {
        let name = self.path_param(place)?;
        if name.is_empty() {
            return Ok(Value::Text(b""));
        }
        let dirfd = directory.map_or(Some(AT_FDCWD), |place| self.event.param(place)?.as_i64());
        if !self.is_path_sure(name, dirfd.unwrap_or(-1)) {
            return Err(Missing::Shed);
        }
        let folder = self.state.directory_of(dirfd.unwrap_or(-1));
        text(scratch, |to| path::append_joined(folder, name, to))
    }

    /// Fields of paths.
    pub(super) fn path_field<'a>(&'a self, field: FieldId, scratch: &'a mut Scratch) -> Field<'a> {
        let kind = self.event.kind().number;
        let paths = paths_of(kind).ok_or(Missing::NotApplicable)?;
        let is_open =
            matches!(kind, types::OPEN_X | types::OPENAT_2_X | types::OPENAT2_X | types::CREAT_X);
        // A call that failed did not work on the path, except that an open's path is known.
        if !is_open && self.result().is_some_and(|result| result < 0) {
            return Err(Missing::NotApplicable);
        }
        let fd = || {
            self.check_fd_loss()?;
            self.state.event_fd().ok_or(Missing::NeverSeen)
        };
        match (field, paths) {
            (ids::FS_PATH_NAME | ids::FS_PATH_NAMERAW, Paths::Fd) if self.is_by_opened() => {
                Ok(Value::Text(self.event.live.opened))
            }
            (ids::FS_PATH_NAME, Paths::Fd) => Ok(Value::Text(fd()?.name.bytes())),
            (ids::FS_PATH_NAMERAW, Paths::Fd) => Ok(Value::Text(fd()?.raw_name.bytes())),
            (ids::FS_PATH_NAME, Paths::One(place)) => self.full_path(None, place, scratch),
            (ids::FS_PATH_NAME, Paths::At(dir, place)) => self.full_path(Some(dir), place, scratch),
            (ids::FS_PATH_NAMERAW, Paths::One(place) | Paths::At(_, place)) => {
                Ok(Value::Text(self.path_param(place)?))
            }
            (ids::FS_PATH_SOURCE, Paths::Two(place, _)) => self.full_path(None, place, scratch),
            (ids::FS_PATH_TARGET, Paths::Two(_, place)) => self.full_path(None, place, scratch),
            (ids::FS_PATH_SOURCE, Paths::TwoAt((dir, place), _)) => {
                self.full_path(Some(dir), place, scratch)
            }
            (ids::FS_PATH_TARGET, Paths::TwoAt(_, (dir, place))) => {
                self.full_path(Some(dir), place, scratch)
            }
            (ids::FS_PATH_SOURCE, Paths::Link(dir, place, _)) => {
                self.full_path(dir, place, scratch)
            }
            (ids::FS_PATH_TARGET, Paths::Link(_, _, place)) => {
                let name = self.path_param(place)?;
                if !self.is_path_sure(name, AT_FDCWD) {
                    return Err(Missing::Shed);
                }
                let folder = path::Folder::Path(self.state.cwd());
                text(scratch, |to| path::append_joined(folder, name, to))
            }
            (
                ids::FS_PATH_SOURCERAW,
                Paths::Two(place, _) | Paths::TwoAt((_, place), _) | Paths::Link(_, place, _),
            )
            | (
                ids::FS_PATH_TARGETRAW,
                Paths::Two(_, place) | Paths::TwoAt(_, (_, place)) | Paths::Link(_, _, place),
            ) => Ok(Value::Text(self.path_param(place)?)),
            _ => Err(Missing::NotApplicable),
        }
    }
}
