//! Prints a comparison: sums, tables by folder and by signature, and the wrong pairs.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use super::pairs::{Comparison, Standing, Sums};

/// One line of sums.
#[must_use]
pub fn line(suite: &str, comparison: &Comparison) -> String {
    let sums = Sums::of(&comparison.pairs);
    let mut text = format!(
        "{suite}: {} of {} pairs right ({:.1} %), {} missing, {} with another count, {} extra ({:.1} %)",
        sums.right,
        sums.expected(),
        sums.right_percent(),
        sums.missing,
        sums.different,
        sums.extra,
        sums.extra_percent()
    );
    if comparison.unjudged > 0 {
        let _ = write!(text, ", {} in files without an expected result", comparison.unjudged);
    }
    text
}

/// The table by first folder of the file.
#[must_use]
pub fn by_folder(comparison: &Comparison) -> String {
    let mut groups: BTreeMap<&str, Sums> = BTreeMap::new();
    for (file, _, standing) in &comparison.pairs {
        let folder = file.split_once('/').map_or("", |(folder, _)| folder);
        groups.entry(folder).or_default().add(*standing);
    }
    table("folder", groups.into_iter().map(|(folder, sums)| (folder.to_owned(), sums)).collect())
}

/// Kinds of Suricata's event rules by the thousands of their ids.
const KINDS: [(u64, &str); 14] = [
    (2_200_000, "decoder events"),
    (2_210_000, "stream events"),
    (2_220_000, "SMTP events"),
    (2_221_000, "HTTP events"),
    (2_224_000, "IKE events"),
    (2_225_000, "SMB events"),
    (2_226_000, "Kerberos events"),
    (2_228_000, "SSH events"),
    (2_229_000, "MQTT events"),
    (2_230_000, "TLS events"),
    (2_231_000, "QUIC events"),
    (2_232_000, "FTP events"),
    (2_240_000, "DNS events"),
    (2_260_000, "protocol detection events"),
];

/// The table by kind of event, empty if no pair belongs to an event rule.
#[must_use]
pub fn by_kind(comparison: &Comparison) -> String {
    let kind_of = |sid: u64| KINDS.iter().position(|(first, _)| sid / 1000 == first / 1000);
    let mut groups: BTreeMap<usize, Sums> = BTreeMap::new();
    let mut others = Sums::default();
    for (_, sid, standing) in &comparison.pairs {
        match kind_of(*sid) {
            Some(at) => groups.entry(at).or_default().add(*standing),
            None => others.add(*standing),
        }
    }
    if groups.is_empty() {
        return String::new();
    }
    let named = groups.into_iter().map(|(at, sums)| (KINDS[at].1, sums));
    let rows = named.chain([("others", others)]).map(|(kind, sums)| {
        let name = format!("{kind}: {} of {} pairs right", sums.right, sums.expected());
        (name, sums)
    });
    table("kind", rows.collect())
}

/// The table by signature, those with most wrong pairs first; at most `rows_max` rows.
#[must_use]
pub fn by_signature(
    comparison: &Comparison,
    names: &HashMap<u64, String>,
    rows_max: usize,
) -> String {
    let mut groups: BTreeMap<u64, Sums> = BTreeMap::new();
    for (_, sid, standing) in &comparison.pairs {
        groups.entry(*sid).or_default().add(*standing);
    }
    let wrong = |sums: &Sums| sums.missing + sums.extra + sums.different;
    let mut groups: Vec<_> = groups.into_iter().filter(|(_, sums)| wrong(sums) > 0).collect();
    groups.sort_by_key(|(sid, sums)| (std::cmp::Reverse(wrong(sums)), *sid));
    let left_out = groups.len().saturating_sub(rows_max);
    groups.truncate(rows_max);
    let rows = groups.into_iter().map(|(sid, sums)| {
        let name = names.get(&sid).map_or("", String::as_str);
        (format!("{sid} {name}").chars().take(60).collect(), sums)
    });
    let mut text = table("signatures with wrong pairs", rows.collect());
    if left_out > 0 {
        let _ = writeln!(text, "and {left_out} more");
    }
    text
}

fn table(head: &str, rows: Vec<(String, Sums)>) -> String {
    let mut text =
        format!("{head:<60} {:>6} {:>7} {:>7} {:>6}\n", "right", "missing", "differ", "extra");
    for (name, sums) in rows {
        let _ = writeln!(
            text,
            "{name:<60} {:>6} {:>7} {:>7} {:>6}",
            sums.right, sums.missing, sums.different, sums.extra
        );
    }
    text
}

/// Every wrong pair: file, signature id, standing, expected and found count, name.
#[must_use]
pub fn wrong_pairs(comparison: &Comparison, names: &HashMap<u64, String>) -> String {
    let mut text = "# file\tsid\tstanding\texpected\tfound\tname\n".to_owned();
    for (file, sid, standing) in &comparison.pairs {
        let (word, expected, found) = match *standing {
            Standing::Right(_) => continue,
            Standing::Missing(expected) => ("missing", expected, 0),
            Standing::Extra(found) => ("extra", 0, found),
            Standing::Different { expected, found } => ("different", expected, found),
        };
        let name = names.get(sid).map_or("", String::as_str);
        let _ = writeln!(text, "{file}\t{sid}\t{word}\t{expected}\t{found}\t{name}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_name_what_is_wrong() {
        let pair = |file: &str, sid, standing| (file.to_owned(), sid, standing);
        let comparison = Comparison {
            pairs: vec![
                pair("zeek/a.pcap", 1, Standing::Right(1)),
                pair("zeek/b.pcap", 2, Standing::Missing(4)),
                pair("ndpi/c.pcap", 2, Standing::Different { expected: 1, found: 2 }),
                pair("ndpi/c.pcap", 3, Standing::Extra(1)),
            ],
            unjudged: 5,
        };
        let names = HashMap::from([(2, "ipv4.too_small".to_owned())]);
        assert_eq!(
            line("events", &comparison),
            "events: 1 of 3 pairs right (33.3 %), 1 missing, 1 with another count, 1 extra (33.3 %), \
             5 in files without an expected result"
        );
        let folders = by_folder(&comparison);
        assert!(folders.lines().nth(1).unwrap().starts_with("ndpi "), "{folders}");
        assert_eq!(by_kind(&comparison), "");
        let events = Comparison {
            pairs: vec![
                pair("a.pcap", 2_210_050, Standing::Right(1)),
                pair("a.pcap", 2_221_010, Standing::Missing(1)),
            ],
            unjudged: 0,
        };
        let kinds = by_kind(&events);
        assert!(kinds.contains("stream events: 1 of 1 pairs right"), "{kinds}");
        assert!(kinds.contains("HTTP events: 0 of 1 pairs right"), "{kinds}");
        let signatures = by_signature(&comparison, &names, 1);
        assert!(signatures.contains("2 ipv4.too_small") && signatures.ends_with("and 1 more\n"));
        let pairs = wrong_pairs(&comparison, &names);
        assert!(pairs.contains("zeek/b.pcap\t2\tmissing\t4\t0\tipv4.too_small\n"), "{pairs}");
        assert_eq!(pairs.lines().count(), 4);
    }
}
