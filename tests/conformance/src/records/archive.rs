//! Unpacks an archive of recorded outputs: a tar file (POSIX.1-1988 with GNU's long names) compressed with zstd.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};

const BLOCK: usize = 512;

/// The longest name that is read: longer than any that a system allows.
const NAME_BYTES_MAX: u64 = 4096;

/// Unpacks the files of an archive below a folder.
///
/// # Errors
/// The archive can't be read, is no archive, or a file can't be written.
pub fn unpack_archive(archive: &Path, folder: &Path) -> Result<()> {
    let file = File::open(archive).with_context(|| format!("cannot open {}", archive.display()))?;
    let input = zstd::Decoder::new(BufReader::new(file))?;
    unpack_tar(input, folder).with_context(|| format!("cannot unpack {}", archive.display()))
}

fn unpack_tar(mut input: impl Read, folder: &Path) -> Result<()> {
    let mut long_name: Option<Vec<u8>> = None;
    loop {
        let mut header = [0; BLOCK];
        match input.read_exact(&mut header) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(e) => return Err(e.into()),
        }
        if header.iter().all(|b| *b == 0) {
            continue;
        }
        let size = octal(&header[124..136]).context("a size that is no number")?;
        let name = long_name.take().unwrap_or_else(|| header_name(&header));
        let padded = size.div_ceil(BLOCK as u64).saturating_mul(BLOCK as u64);
        let mut content = input.by_ref().take(padded);
        match header[156] {
            b'L' if size <= NAME_BYTES_MAX => {
                let mut text = Vec::new();
                content.by_ref().take(size).read_to_end(&mut text)?;
                text.retain(|b| *b != 0);
                long_name = Some(text);
            }
            b'0' | 0 => {
                let to = folder.join(inner_path(&name)?);
                if let Some(parent) = to.parent() {
                    fs::create_dir_all(parent)?;
                }
                io::copy(&mut content.by_ref().take(size), &mut File::create(&to)?)?;
            }
            _ => {}
        }
        io::copy(&mut content, &mut io::sink())?;
    }
}

fn header_name(header: &[u8; BLOCK]) -> Vec<u8> {
    let text = |field: &[u8]| field.split(|b| *b == 0).next().unwrap_or_default().to_vec();
    let (name, prefix) = (text(&header[..100]), text(&header[345..500]));
    // GNU's own header has other things where POSIX has the prefix.
    if prefix.is_empty() || &header[257..263] != b"ustar\0" {
        return name;
    }
    [prefix, name].join(&b'/')
}

/// A path that stays within the folder.
fn inner_path(name: &[u8]) -> Result<PathBuf> {
    let text = String::from_utf8_lossy(name);
    let path: PathBuf =
        Path::new(&*text).components().filter(|c| !matches!(c, Component::CurDir)).collect();
    if path.components().any(|c| !matches!(c, Component::Normal(_))) {
        bail!("a path that leaves its folder: {text}");
    }
    Ok(path)
}

fn octal(field: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(field).ok()?;
    u64::from_str_radix(text.trim_matches(['\0', ' ']), 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, kind: u8, content: &[u8]) -> Vec<u8> {
        let mut block = vec![0; BLOCK];
        block[..name.len()].copy_from_slice(name.as_bytes());
        let size = format!("{:011o}", content.len());
        block[124..135].copy_from_slice(size.as_bytes());
        block[156] = kind;
        block.extend_from_slice(content);
        block.resize(block.len().div_ceil(BLOCK) * BLOCK, 0);
        block
    }

    #[test]
    fn files_are_unpacked_and_stay_in_their_folder() {
        let folder = tempfile::tempdir().unwrap();
        let long = "x/".repeat(80) + "eve.json";
        let mut tar = member("./a/", b'5', b"");
        tar.extend(member("./a/eve.json", b'0', b"{}\n"));
        tar.extend(member("long", b'L', long.as_bytes()));
        tar.extend(member("cut", b'0', &[7; 600]));
        tar.extend(vec![0; 2 * BLOCK]);
        unpack_tar(&tar[..], folder.path()).unwrap();
        assert_eq!(fs::read(folder.path().join("a/eve.json")).unwrap(), b"{}\n");
        assert_eq!(fs::read(folder.path().join(long)).unwrap(), [7; 600]);
        for bad in ["../a", "/etc/a"] {
            assert!(unpack_tar(&member(bad, b'0', b"x")[..], folder.path()).is_err());
        }
    }
}
