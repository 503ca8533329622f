//! The checkpoint of `--follow`: all that a run is, in a file from which the next one continues.
//!
//! It holds where each log was read up to and what waits of it, the site, every shard of profiles, the sums
//! that alerts are made of, what the summary counts, and how long the outputs were. It is written next to the
//! one before it, flushed to the disk and then put in its place, so that there is always a whole one. Its
//! form: eight bytes that name it, a version, sections (a tag, a number, a length, bytes), and a SHA-256 over
//! all of it. The form changes with the program; a checkpoint of another version is refused with a message.

use crate::Error;
use aws_lc_rs::digest::{Context, SHA256, digest};
use gabion_runtime::output::{Replacement, read_earlier};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Its name in the run's folder.
pub(crate) const NAME: &str = "follow.checkpoint";
const MAGIC: [u8; 8] = *b"GBNFOLLO";
/// Of the form; the states of detectors carry their own.
const VERSION: u32 = 4;
const DIGEST: usize = 32;

/// What a section holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    /// Where logs were read up to.
    Source,
    /// A part of the engine.
    Engine(gabion_behavior::stages::Section),
    /// What was found, and how long the outputs are.
    Sink,
}

impl Tag {
    fn numbers(self) -> (u8, u64) {
        use gabion_behavior::stages::Section;
        match self {
            Tag::Source => (1, 0),
            Tag::Engine(Section::Front) => (2, 0),
            Tag::Engine(Section::Back) => (3, 0),
            Tag::Engine(Section::Shard(number)) => (4, number as u64),
            Tag::Sink => (5, 0),
        }
    }

    fn from_parts(tag: u8, number: u64) -> Option<Tag> {
        use gabion_behavior::stages::Section;
        Some(match tag {
            1 => Tag::Source,
            2 => Tag::Engine(Section::Front),
            3 => Tag::Engine(Section::Back),
            4 => Tag::Engine(Section::Shard(usize::try_from(number).ok()?)),
            5 => Tag::Sink,
            _ => return None,
        })
    }
}

/// The checkpoint of a folder.
pub(crate) fn path_in(folder: &Path) -> PathBuf {
    folder.join(NAME)
}

/// One that is being written.
pub(crate) struct Writing {
    file: BufWriter<File>,
    fresh: Replacement,
    digest: Context,
    folder: PathBuf,
    bytes: u64,
}

impl Writing {
    /// Begins one in a folder.
    pub(crate) fn begin(folder: &Path) -> io::Result<Writing> {
        let fresh = Replacement::begin(&path_in(folder))?;
        let mut writing = Writing {
            file: BufWriter::new(fresh.file().try_clone()?),
            fresh,
            digest: Context::new(&SHA256),
            folder: folder.to_owned(),
            bytes: 0,
        };
        writing.put(&MAGIC)?;
        writing.put(&VERSION.to_le_bytes())?;
        Ok(writing)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.digest.update(bytes);
        self.bytes += bytes.len() as u64;
        self.file.write_all(bytes)
    }

    /// Adds a section.
    pub(crate) fn section(&mut self, tag: Tag, bytes: &[u8]) -> io::Result<()> {
        let (tag, number) = tag.numbers();
        self.put(&[tag])?;
        self.put(&number.to_le_bytes())?;
        self.put(&(bytes.len() as u64).to_le_bytes())?;
        self.put(bytes)
    }

    /// Puts it in the place of the one before, on the disk; its bytes.
    pub(crate) fn finish(mut self) -> io::Result<u64> {
        let sum = self.digest.clone().finish();
        self.file.write_all(sum.as_ref())?;
        let file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        self.fresh.take_place()?;
        // The name too: else the one before may be there after the power fails.
        File::open(&self.folder)?.sync_all()?;
        Ok(self.bytes)
    }
}

/// One that was read.
pub struct Checkpoint(Vec<u8>);

impl Checkpoint {
    /// Reads the checkpoint of a folder, where there is one.
    ///
    /// # Errors
    /// Why a run can't continue from it.
    pub fn from_folder(folder: &Path) -> Result<Option<Checkpoint>, Error> {
        let path = path_in(folder);
        let bytes = match read_earlier(&path) {
            Ok(bytes) => bytes,
            Err(source) => return Err(Error::UnreadableCheckpoint { path, source }),
        };
        bytes.map(|bytes| Checkpoint::from_bytes(&path, bytes)).transpose()
    }

    fn from_bytes(path: &Path, mut bytes: Vec<u8>) -> Result<Checkpoint, Error> {
        let damaged = || Error::DamagedCheckpoint { path: path.to_owned() };
        let head = MAGIC.len() + 4;
        let body =
            bytes.len().checked_sub(DIGEST).filter(|len| *len >= head).ok_or_else(damaged)?;
        let (all, sum) = bytes.split_at(body);
        if !all.starts_with(&MAGIC) || digest(&SHA256, all).as_ref() != sum {
            return Err(damaged());
        }
        let version = all.get(8..head).and_then(|bytes| bytes.try_into().ok());
        let version = version.map(u32::from_le_bytes).ok_or_else(damaged)?;
        if version != VERSION {
            return Err(Error::OtherCheckpoint { path: path.to_owned(), version, reads: VERSION });
        }
        bytes.truncate(body);
        bytes.drain(..head);
        Ok(Checkpoint(bytes))
    }

    /// Its sections, in their order.
    pub(crate) fn sections(&self) -> impl Iterator<Item = (Tag, &[u8])> {
        let mut rest = self.0.as_slice();
        std::iter::from_fn(move || {
            let (tag, behind) = rest.split_first()?;
            let (number, behind) = behind.split_first_chunk::<8>()?;
            let (len, behind) = behind.split_first_chunk::<8>()?;
            let len = usize::try_from(u64::from_le_bytes(*len)).ok()?;
            let (bytes, behind) = behind.split_at_checked(len)?;
            rest = behind;
            Some((Tag::from_parts(*tag, u64::from_le_bytes(*number))?, bytes))
        })
    }

    /// The section of that tag, of which there is one.
    pub(crate) fn section(&self, tag: Tag) -> Option<&[u8]> {
        self.sections().find(|s| s.0 == tag).map(|s| s.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_behavior::stages::Section;

    #[test]
    fn a_checkpoint_is_read_back_and_a_damaged_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Checkpoint::from_folder(folder.path()).unwrap().is_none());
        for round in 0..2u8 {
            let mut writing = Writing::begin(folder.path()).unwrap();
            writing.section(Tag::Source, b"").unwrap();
            writing.section(Tag::Engine(Section::Shard(255)), &[round; 1000]).unwrap();
            writing.finish().unwrap();
        }
        // One that was not finished is not looked at.
        Writing::begin(folder.path()).unwrap().section(Tag::Sink, b"half").unwrap();
        let read = Checkpoint::from_folder(folder.path()).unwrap().unwrap();
        assert_eq!(read.section(Tag::Engine(Section::Shard(255))), Some(&[1; 1000][..]));
        assert_eq!((read.sections().count(), read.section(Tag::Sink)), (2, None));
        let bytes = std::fs::read(path_in(folder.path())).unwrap();
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert!(Checkpoint::from_bytes(Path::new("x"), other).is_err(), "{at}");
            assert!(Checkpoint::from_bytes(Path::new("x"), bytes[..at].to_vec()).is_err(), "{at}");
        }
    }

    /// One of another form is not damaged: the message names the version that wrote it, and what can be done.
    #[test]
    fn a_checkpoint_of_another_version_is_refused_as_such() {
        let folder = tempfile::tempdir().unwrap();
        Writing::begin(folder.path()).unwrap().finish().unwrap();
        let written = std::fs::read(path_in(folder.path())).unwrap();
        for (version, which) in
            [(VERSION - 1, "an older version"), (VERSION + 1, "a newer version")]
        {
            let mut bytes = written[..written.len() - DIGEST].to_vec();
            bytes[8..12].copy_from_slice(&version.to_le_bytes());
            let sum = digest(&SHA256, &bytes);
            bytes.extend_from_slice(sum.as_ref());
            let said =
                Checkpoint::from_bytes(Path::new("x"), bytes.clone()).err().unwrap().to_string();
            for part in [which, &format!("form {version}"), "with that version", "--overwrite"] {
                assert!(said.contains(part), "{said}");
            }
            bytes[9] ^= 1;
            let said = Checkpoint::from_bytes(Path::new("x"), bytes).err().unwrap().to_string();
            assert!(said.starts_with("x: it is damaged"), "{said}");
        }
    }
}
