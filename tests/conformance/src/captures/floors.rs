//! Floors, which results must not fall below: for each suite the fewest right pairs and the most
//! extra ones.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::pairs::Sums;

/// A suite's floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floor {
    /// Right pairs, at least.
    pub right_min: usize,
    /// Extra pairs, at most.
    pub extra_max: usize,
}

impl Floor {
    /// Whether `sums` are not below the floor.
    #[must_use]
    pub fn holds(self, sums: Sums) -> bool {
        sums.right >= self.right_min && sums.extra <= self.extra_max
    }
}

/// The floors of a file, by suite.
pub type Floors = BTreeMap<String, Floor>;

/// Reads lines of suite, right pairs and extra pairs; an absent file has none.
///
/// # Errors
/// The file can't be read or a line is not a floor.
pub fn read(path: &Path) -> Result<Floors> {
    let mut floors = Floors::new();
    if !path.exists() {
        return Ok(floors);
    }
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let fields: Vec<_> = line.split('\t').collect();
        let [suite, right_min, extra_max] = fields.as_slice() else {
            bail!("{}: not suite, right and extra pairs: {line}", path.display());
        };
        let floor = Floor { right_min: right_min.parse()?, extra_max: extra_max.parse()? };
        floors.insert((*suite).to_owned(), floor);
    }
    Ok(floors)
}

/// Raises the floor of a suite to the new result if that is better, and writes the file.
///
/// # Errors
/// The file can't be written.
pub fn raise(path: &Path, floors: &mut Floors, suite: &str, sums: Sums) -> Result<()> {
    let reached = Floor { right_min: sums.right, extra_max: sums.extra };
    let floor = floors.entry(suite.to_owned()).or_insert(reached);
    floor.right_min = floor.right_min.max(reached.right_min);
    floor.extra_max = floor.extra_max.min(reached.extra_max);
    let mut text = "# suite\tright pairs, at least\textra pairs, at most\n".to_owned();
    for (suite, floor) in floors.iter() {
        text.push_str(&format!("{suite}\t{}\t{}\n", floor.right_min, floor.extra_max));
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floors_only_rise() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("floors.tsv");
        let mut floors = read(&path).unwrap();
        let sums = |right, extra| Sums { right, extra, ..Sums::default() };
        raise(&path, &mut floors, "alerts", sums(10, 3)).unwrap();
        raise(&path, &mut floors, "alerts", sums(8, 1)).unwrap();
        raise(&path, &mut floors, "events", sums(2, 0)).unwrap();
        let floors = read(&path).unwrap();
        assert_eq!(floors["alerts"], Floor { right_min: 10, extra_max: 1 });
        assert!(floors["alerts"].holds(sums(10, 1)));
        assert!(!floors["alerts"].holds(sums(9, 1)));
        assert!(!floors["alerts"].holds(sums(10, 2)));
        assert_eq!(floors.len(), 2);
    }
}
