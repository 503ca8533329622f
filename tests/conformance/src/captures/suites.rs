//! The comparisons: their rules, captures, and the file with Suricata's result.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::pairs::{self, Counts};

/// A comparison: paths are absolute.
#[derive(Clone, Debug)]
pub struct Suite {
    /// Its name on the command line and in the floors file.
    pub name: String,
    /// A rule file, plain or zstd, or a folder with `*.rules`.
    pub rules: PathBuf,
    /// A capture, or a folder of captures.
    pub captures: PathBuf,
    /// Suricata's result.
    pub expected: PathBuf,
    /// Files without a result of Suricata: the first field of each line.
    pub unknown: Option<PathBuf>,
}

/// Name, rules, captures, Suricata's result, files without one. Paths are relative to the corpus,
/// those of the demonstration to the repository.
const KEPT: [(&str, &str, &str, &str, Option<&str>); 5] = [
    ("demo", "demo/gabion.rules", "demo/demo.pcap", "demo/expected-alerts.tsv", None),
    (
        "alerts",
        "rules/emerging-all.rules.zst",
        "captures",
        "captures/expected-alerts.tsv",
        Some("captures/not-read-by-peer.tsv"),
    ),
    (
        "events",
        "rules/peer-events",
        "captures",
        "captures/expected-events.tsv",
        Some("captures/not-read-by-peer.tsv"),
    ),
    (
        "tests-alerts",
        "rules/emerging-all.rules.zst",
        "suricata-verify/tests",
        "captures/expected-alerts-suricata-verify.tsv",
        None,
    ),
    (
        "bench",
        "rules/emerging-all.rules.zst",
        "bench/mixed.pcap.zst",
        "bench/expected-alerts.tsv",
        None,
    ),
];

/// The names of the suites.
#[must_use]
pub fn names() -> Vec<&'static str> {
    KEPT.iter().map(|kept| kept.0).collect()
}

/// The suite with this name in `corpus`.
///
/// # Errors
/// No suite has the name.
pub fn kept(name: &str, corpus: &Path) -> Result<Suite> {
    let Some((_, rules, captures, expected, unknown)) = KEPT.iter().find(|kept| kept.0 == name)
    else {
        bail!("no suite {name}: available are {}", names().join(", "));
    };
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = if name == "demo" { &repository } else { corpus };
    Ok(Suite {
        name: name.to_owned(),
        rules: root.join(rules),
        captures: root.join(captures),
        expected: root.join(expected),
        unknown: unknown.map(|path| root.join(path)),
    })
}

impl Suite {
    /// The text of all rules.
    ///
    /// # Errors
    /// A file can't be read.
    pub fn rules_text(&self) -> Result<String> {
        let mut paths = vec![self.rules.clone()];
        if self.rules.is_dir() {
            paths = files_below(&self.rules)?;
            paths.retain(|path| path.extension().is_some_and(|ending| ending == "rules"));
        }
        let mut text = String::new();
        for path in paths {
            let fault = || format!("cannot read {}", path.display());
            let bytes = fs::read(&path).with_context(fault)?;
            let bytes = match path.extension() {
                Some(ending) if ending == "zst" => {
                    zstd::decode_all(bytes.as_slice()).with_context(fault)?
                }
                _ => bytes,
            };
            text.push_str(&String::from_utf8(bytes).with_context(fault)?);
            text.push('\n');
        }
        Ok(text)
    }

    /// Whether there is a single capture, whose name is not part of the result.
    #[must_use]
    pub fn is_single(&self) -> bool {
        !self.captures.is_dir()
    }

    /// Suricata's result.
    ///
    /// # Errors
    /// The file can't be read or parsed.
    pub fn expected(&self) -> Result<Counts> {
        let fault = || format!("cannot read {}", self.expected.display());
        let counts = pairs::read(&fs::read_to_string(&self.expected).with_context(fault)?)?;
        Ok(if self.is_single() { pairs::without_files(&counts) } else { counts })
    }

    /// The files without a result of Suricata.
    ///
    /// # Errors
    /// The file that lists them can't be read.
    pub fn unknown(&self) -> Result<BTreeSet<String>> {
        let Some(path) = &self.unknown else { return Ok(BTreeSet::new()) };
        let text =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        Ok(lines.filter_map(|line| line.split('\t').next()).map(str::to_owned).collect())
    }

    /// The captures with their names relative to the suite's folder, by name.
    ///
    /// # Errors
    /// A folder can't be read.
    pub fn capture_files(&self) -> Result<Vec<(String, PathBuf)>> {
        if self.is_single() {
            return Ok(vec![(String::new(), self.captures.clone())]);
        }
        let mut found = Vec::new();
        for path in files_below(&self.captures)? {
            if is_capture(&path)
                && let Ok(name) = path.strip_prefix(&self.captures)
            {
                found.push((name.to_string_lossy().into_owned(), path));
            }
        }
        Ok(found)
    }
}

/// Whether a file's name is that of a capture.
#[must_use]
pub fn is_capture(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let name = name.strip_suffix(".zst").unwrap_or(&name);
    [".pcap", ".pcapng", ".cap"].iter().any(|ending| name.ends_with(ending))
}

fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries =
            fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_are_complete_if_the_corpus_is_present() {
        let corpus = crate::corpus();
        if !corpus.is_dir() {
            eprintln!("skipped: no corpus");
            return;
        }
        for name in names() {
            let suite = kept(name, &corpus).unwrap();
            let expected = suite.expected().unwrap();
            assert!(!expected.is_empty(), "{name}");
            let files: BTreeSet<_> =
                suite.capture_files().unwrap().into_iter().map(|(name, _)| name).collect();
            let lost: Vec<_> = expected.keys().filter(|(file, _)| !files.contains(file)).collect();
            assert!(lost.is_empty(), "{name}: {lost:?}");
        }
        assert!(kept("nonsense", &corpus).is_err());
    }
}
