//! Pairs of file and signature with their counts, read from tab-separated lines, and their
//! comparison.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};

/// Alerts by file and signature id.
pub type Counts = BTreeMap<(String, u64), u64>;

/// Reads lines of file, signature id and count; `#` begins a comment. Lines of two fields have an
/// empty file name. Counts of the same pair are added.
///
/// # Errors
/// A line that is neither a comment nor a count.
pub fn read(text: &str) -> Result<Counts> {
    let mut counts = Counts::new();
    for (at, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let fields: Vec<_> = line.split('\t').collect();
        let (file, sid, count) = match fields.as_slice() {
            [file, sid, count, ..] => (*file, *sid, *count),
            [sid, count] => ("", *sid, *count),
            _ => bail!("line {}: not file, signature id and count: {line}", at + 1),
        };
        let number = |text: &str| -> Result<u64> {
            text.trim()
                .parse()
                .with_context(|| format!("line {}: {text:?} is not a number", at + 1))
        };
        *counts.entry((file.to_owned(), number(sid)?)).or_default() += number(count)?;
    }
    Ok(counts)
}

/// The sums of the counts over all files.
#[must_use]
pub fn without_files(counts: &Counts) -> Counts {
    let mut merged = Counts::new();
    for ((_, sid), count) in counts {
        *merged.entry((String::new(), *sid)).or_default() += count;
    }
    merged
}

/// The result of one pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Both have this count.
    Right(u64),
    /// Expected with this count, not found.
    Missing(u64),
    /// Found with this count, not expected.
    Extra(u64),
    /// Both have the pair with different counts.
    Different {
        /// Suricata's count.
        expected: u64,
        /// The sensor's count.
        found: u64,
    },
}

/// Every pair that either side has, with its result.
#[derive(Debug, Default)]
pub struct Comparison {
    /// By file and signature id.
    pub pairs: Vec<(String, u64, Standing)>,
    /// Pairs found in files without an expected result; they are ignored.
    pub unjudged: usize,
}

/// Compares the found with the expected counts. Files in `unknown` are left out.
#[must_use]
pub fn compare(expected: &Counts, found: &Counts, unknown: &BTreeSet<String>) -> Comparison {
    let mut comparison = Comparison::default();
    let keys: BTreeSet<_> = expected.keys().chain(found.keys()).collect();
    for key in keys {
        let standing = match (expected.get(key), found.get(key)) {
            (Some(expected), Some(found)) if expected == found => Standing::Right(*found),
            (Some(&expected), Some(&found)) => Standing::Different { expected, found },
            (Some(expected), None) => Standing::Missing(*expected),
            (None, Some(_)) if unknown.contains(&key.0) => {
                comparison.unjudged += 1;
                continue;
            }
            (None, Some(found)) => Standing::Extra(*found),
            (None, None) => continue,
        };
        comparison.pairs.push((key.0.clone(), key.1, standing));
    }
    comparison
}

/// Numbers of pairs by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Pairs with the right count.
    pub right: usize,
    /// Pairs expected but not found.
    pub missing: usize,
    /// Pairs found but not expected.
    pub extra: usize,
    /// Pairs with another count.
    pub different: usize,
}

impl Sums {
    /// Adds one pair.
    pub fn add(&mut self, standing: Standing) {
        match standing {
            Standing::Right(_) => self.right += 1,
            Standing::Missing(_) => self.missing += 1,
            Standing::Extra(_) => self.extra += 1,
            Standing::Different { .. } => self.different += 1,
        }
    }

    /// The sums over `pairs`.
    #[must_use]
    pub fn of<'a>(pairs: impl IntoIterator<Item = &'a (String, u64, Standing)>) -> Self {
        let mut sums = Self::default();
        for (_, _, standing) in pairs {
            sums.add(*standing);
        }
        sums
    }

    /// Pairs that Suricata has.
    #[must_use]
    pub fn expected(self) -> usize {
        self.right + self.missing + self.different
    }

    /// Percent of Suricata's pairs that have the right count.
    #[must_use]
    pub fn right_percent(self) -> f64 {
        percent(self.right, self.expected(), 100.0)
    }

    /// Pairs not expected, in percent of Suricata's pairs.
    #[must_use]
    pub fn extra_percent(self) -> f64 {
        percent(self.extra, self.expected(), 0.0)
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of pairs are small")]
fn percent(part: usize, whole: usize, of_nothing: f64) -> f64 {
    if whole == 0 { of_nothing } else { 100.0 * part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_compared() {
        let expected =
            read("# file\tsid\tcount\na/x.pcap\t1\t2\na/x.pcap\t2\t1\nb.pcap\t1\t5\n").unwrap();
        let found =
            read("a/x.pcap\t1\t1\na/x.pcap\t1\t1\nb.pcap\t1\t4\nb.pcap\t9\t1\nq.pcap\t1\t1\n")
                .unwrap();
        let unknown = BTreeSet::from(["q.pcap".to_owned()]);
        let comparison = compare(&expected, &found, &unknown);
        assert_eq!(
            comparison.pairs,
            [
                ("a/x.pcap".to_owned(), 1, Standing::Right(2)),
                ("a/x.pcap".to_owned(), 2, Standing::Missing(1)),
                ("b.pcap".to_owned(), 1, Standing::Different { expected: 5, found: 4 }),
                ("b.pcap".to_owned(), 9, Standing::Extra(1)),
            ]
        );
        assert_eq!(comparison.unjudged, 1);
        let sums = Sums::of(&comparison.pairs);
        assert_eq!(sums, Sums { right: 1, missing: 1, extra: 1, different: 1 });
        assert!((sums.right_percent() - 100.0 / 3.0).abs() < 1e-9);
        assert!((sums.extra_percent() - 100.0 / 3.0).abs() < 1e-9);
        assert!((Sums::default().right_percent() - 100.0).abs() < 1e-9);
    }

    #[test]
    fn lines_without_a_file_and_broken_lines() {
        let counts = read("7\t3\n").unwrap();
        assert_eq!(counts.get(&(String::new(), 7)), Some(&3));
        let merged = without_files(&read("a\t7\t1\nb\t7\t2\n").unwrap());
        assert_eq!(merged, counts);
        assert!(read("nonsense\n").is_err());
        assert!(read("a\tb\t1\n").is_err());
    }
}
