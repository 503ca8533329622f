//! The program under test: its path, version and features, and the folder with the layout of
//! Suricata's source tree in which tests expect to find it (`SRCDIR`).

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use super::version::Version;

/// The program under test and its surroundings.
pub struct Subject {
    /// The version that `-V` prints.
    pub version: Version,
    features: BTreeSet<String>,
    srcdir: TempDir,
    config: OnceLock<Vec<(String, String)>>,
}

impl Subject {
    /// Creates the source folder for `binary` with the configuration files of `corpus`, and runs
    /// the binary to get its version and features. Every call of it gets `args` after its own
    /// arguments.
    ///
    /// # Errors
    /// The binary is missing, does not run or does not name its version; the folder can't be
    /// created.
    pub fn new(binary: &Path, corpus: &Path, args: &[String]) -> Result<Self> {
        let binary = fs::canonicalize(binary)
            .with_context(|| format!("cannot find the program {}", binary.display()))?;
        let srcdir = tempfile::Builder::new().prefix("suricata-verify-").tempdir()?;
        lay_out(srcdir.path(), &binary, corpus, args)?;
        let program = srcdir.path().join("src/suricata");
        let version_line = output_of(&program, "-V")?;
        let version = Version::find(&version_line).with_context(|| {
            format!("the program does not name its version: {}", version_line.trim())
        })?;
        let features = features(&output_of(&program, "--build-info")?);
        Ok(Self { version, features, srcdir, config: OnceLock::new() })
    }

    /// The folder with the layout of Suricata's source tree.
    #[must_use]
    pub fn srcdir(&self) -> &Path {
        self.srcdir.path()
    }

    /// The path under which the program is run, so that its name is `suricata`.
    #[must_use]
    pub fn program(&self) -> PathBuf {
        self.srcdir().join("src/suricata")
    }

    /// Whether the program was built with a feature, by its name in `--build-info`.
    #[must_use]
    pub fn has_feature(&self, name: &str) -> bool {
        self.features.contains(name)
    }

    /// Key and value of each line `--dump-config` prints.
    pub fn config(&self) -> &[(String, String)] {
        self.config.get_or_init(|| {
            let text = output_of(&self.program(), "--dump-config").unwrap_or_default();
            text.lines()
                .filter_map(|line| line.split_once(" = "))
                .map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()))
                .collect()
        })
    }
}

/// Entries of the corpus that are not part of the source tree; `etc` is built from both places.
const NOT_SOURCE: [&str; 5] = ["tests", "peer", "pcaps", "src", "etc"];

/// Links the corpus's files at the top of the tree and below `etc`, where Suricata has its
/// `*.config` and schema; files that are only in the corpus's own `etc` are linked there too.
fn lay_out(srcdir: &Path, binary: &Path, corpus: &Path, args: &[String]) -> Result<()> {
    fs::create_dir(srcdir.join("src"))?;
    let program = srcdir.join("src/suricata");
    if args.is_empty() {
        symlink(binary, program)?;
    } else {
        fs::create_dir(srcdir.join("src/program"))?;
        let named = srcdir.join("src/program/suricata");
        symlink(binary, &named)?;
        fs::write(&program, call_with(&named, args))?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    }
    let etc = srcdir.join("etc");
    fs::create_dir(&etc)?;
    for path in entries(corpus)? {
        let Some(name) = path.file_name() else { continue };
        if NOT_SOURCE.iter().any(|not| name == *not) {
            continue;
        }
        symlink(&path, srcdir.join(name))?;
        symlink(&path, etc.join(name))?;
    }
    if corpus.join("etc").is_dir() {
        for path in entries(&corpus.join("etc"))? {
            let Some(name) = path.file_name() else { continue };
            if !etc.join(name).exists() {
                symlink(&path, etc.join(name))?;
            }
        }
    }
    if !srcdir.join("suricata.yaml").exists() {
        bail!("{} holds no suricata.yaml", corpus.display());
    }
    Ok(())
}

/// A shell script that runs a program with further arguments after its own.
fn call_with(program: &Path, args: &[String]) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "'\\''"));
    let args: Vec<String> = args.iter().map(|a| quoted(a)).collect();
    format!("#!/bin/sh\nexec {} \"$@\" {}\n", quoted(&program.to_string_lossy()), args.join(" "))
}

/// The absolute paths of a folder's entries.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let fault = || format!("cannot read {}", folder.display());
    let folder = fs::canonicalize(folder).with_context(fault)?;
    let mut paths = Vec::new();
    for entry in fs::read_dir(&folder).with_context(fault)? {
        paths.push(entry?.path());
    }
    Ok(paths)
}

fn output_of(program: &Path, option: &str) -> Result<String> {
    let output = Command::new(program)
        .arg(option)
        .output()
        .with_context(|| format!("cannot run {} {option}", program.display()))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The words of the `Features:` line and the names of the `X support: yes` lines.
fn features(build_info: &str) -> BTreeSet<String> {
    let mut features = BTreeSet::new();
    for line in build_info.lines() {
        if let Some(words) = line.strip_prefix("Features:") {
            features.extend(words.split_whitespace().map(str::to_owned));
        } else if let Some((name, value)) = line.split_once(" support:")
            && value.trim().starts_with("yes")
        {
            features.insert(name.trim().to_owned());
        }
    }
    features
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_read_from_build_info() {
        let text = "This is Suricata version 8.0.7 RELEASE\nFeatures: NFQ HAVE_LUA LIBNET1.1 \n\
                    SIMD support: SSE_4_2 \n  GeoIP2 support:       yes\n  DPDK support:    no\n";
        let found = features(text);
        for name in ["NFQ", "HAVE_LUA", "LIBNET1.1", "GeoIP2"] {
            assert!(found.contains(name), "{name}");
        }
        assert!(!found.contains("DPDK") && !found.contains("SIMD"));
    }
}
