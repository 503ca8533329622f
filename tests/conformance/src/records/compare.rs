//! Compares records as multisets. What is left on both sides is joined into pairs of one flow and type where
//! possible, so that the members in which they differ can be named.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use serde_json::Value;

use super::eve::Record;

/// Records of the other side among which the most similar one is looked for.
const CANDIDATES_MAX: usize = 24;

/// Differing members that are named of a pair.
const MEMBERS_MAX: usize = 4;

/// Counts of a type of record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Suricata's records.
    pub wanted: usize,
    /// Those that are the same.
    pub same: usize,
    /// Records that Suricata lacks.
    pub extra: usize,
}

impl Counts {
    /// Suricata's records that are missing, or different.
    #[must_use]
    pub fn missing(self) -> usize {
        self.wanted - self.same
    }

    /// Adds those of another input.
    pub fn add(&mut self, other: Counts) {
        self.wanted += other.wanted;
        self.same += other.same;
        self.extra += other.extra;
    }
}

/// A kind of difference: type of record, and the members that differ, or that the whole record is missing or extra.
pub type Cluster = (String, String);

/// Differences of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// Records.
    pub count: usize,
    /// Inputs in which they are.
    pub inputs: BTreeSet<String>,
    /// One of them: Suricata's record and ours, one of them empty if the other has no partner.
    pub example: (String, String),
}

/// The result of a comparison.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// By type of record.
    pub by_kind: BTreeMap<String, Counts>,
    /// Differences by kind.
    pub clusters: BTreeMap<Cluster, Differences>,
}

impl Comparison {
    /// All types together.
    #[must_use]
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        self.by_kind.values().for_each(|counts| total.add(*counts));
        total
    }

    /// Adds the records of an input: Suricata's and ours.
    pub fn add_input(&mut self, input: &str, wanted: Vec<Record>, ours: Vec<Record>) {
        let mut left: HashMap<String, usize> = HashMap::new();
        for record in &ours {
            *left.entry(record.text.clone()).or_default() += 1;
        }
        let mut missing = Vec::new();
        for record in wanted {
            let counts = self.by_kind.entry(record.kind.clone()).or_default();
            counts.wanted += 1;
            match left.get_mut(&record.text).filter(|count| **count > 0) {
                Some(count) => {
                    *count -= 1;
                    counts.same += 1;
                }
                None => missing.push(record),
            }
        }
        let mut extra = Vec::new();
        // The last ones of several equal records are the extra ones.
        for record in ours.into_iter().rev() {
            if let Some(count) = left.get_mut(&record.text).filter(|count| **count > 0) {
                *count -= 1;
                self.by_kind.entry(record.kind.clone()).or_default().extra += 1;
                extra.push(record);
            }
        }
        extra.reverse();
        self.add_differences(input, &missing, &extra);
    }

    fn add_differences(&mut self, input: &str, missing: &[Record], extra: &[Record]) {
        let mut open: HashMap<Group, VecDeque<(String, Value)>> = HashMap::new();
        for record in extra {
            let value = record.value();
            let group = Group::of_record(&record.kind, &value);
            open.entry(group).or_default().push_back((record.text.clone(), value));
        }
        for record in missing {
            let value = record.value();
            let group = Group::of_record(&record.kind, &value);
            let partner = open.get_mut(&group).and_then(|others| take_nearest(&value, others));
            let (members, ours) = partner.unwrap_or(("missing".to_owned(), String::new()));
            self.add_difference(input, (record.kind.clone(), members), (&record.text, &ours));
        }
        for (group, others) in open {
            for (text, _) in others {
                self.add_difference(input, (group.kind.clone(), "extra".to_owned()), ("", &text));
            }
        }
    }

    fn add_difference(&mut self, input: &str, cluster: Cluster, example: (&str, &str)) {
        let differences = self.clusters.entry(cluster).or_default();
        differences.count += 1;
        if !differences.inputs.contains(input) {
            differences.inputs.insert(input.to_owned());
        }
        if differences.example == Default::default() {
            differences.example = (example.0.to_owned(), example.1.to_owned());
        }
    }
}

/// Records that may be two of the same: type, protocol and both ends in either order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Group {
    kind: String,
    ends: [String; 2],
}

impl Group {
    fn of_record(kind: &str, value: &Value) -> Group {
        let end = |ip: &str, port: &str| format!("{} {}", value[ip], value[port]);
        let mut ends = [end("src_ip", "src_port"), end("dest_ip", "dest_port")];
        ends.sort();
        Group { kind: kind.to_owned(), ends }
    }
}

/// Takes the most similar record out and returns the members in which it differs, with its text.
fn take_nearest(
    wanted: &Value,
    others: &mut VecDeque<(String, Value)>,
) -> Option<(String, String)> {
    let mut best: Option<(usize, usize, BTreeSet<String>)> = None;
    for (at, (_, value)) in others.iter().enumerate().take(CANDIDATES_MAX) {
        let mut members = BTreeSet::new();
        let mut differing = 0;
        compare_values(wanted, value, "", &mut |member| {
            differing += 1;
            members.insert(member);
        });
        if best.as_ref().is_none_or(|(least, ..)| differing < *least) {
            best = Some((differing, at, members));
        }
    }
    let (_, at, members) = best?;
    let (text, _) = others.remove(at)?;
    let mut names: Vec<String> = members.iter().take(MEMBERS_MAX).cloned().collect();
    if members.len() > MEMBERS_MAX {
        names.push(format!("and {} more", members.len() - MEMBERS_MAX));
    }
    Some((names.join(", "), text))
}

/// Names the members that differ: `-name` if only Suricata has it, `+name` if only we do.
fn compare_values(wanted: &Value, ours: &Value, path: &str, found: &mut dyn FnMut(String)) {
    let inner = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match (wanted, ours) {
        (Value::Object(a), Value::Object(b)) => {
            for (key, value) in a {
                match b.get(key) {
                    Some(other) => compare_values(value, other, &inner(key), found),
                    None => found(format!("-{}", inner(key))),
                }
            }
            for key in b.keys().filter(|key| !a.contains_key(*key)) {
                found(format!("+{}", inner(key)));
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            let item = format!("{path}[]");
            a.iter().zip(b).for_each(|(a, b)| compare_values(a, b, &item, found));
            if a.len() > b.len() {
                found(format!("-{item}"));
            } else if a.len() < b.len() {
                found(format!("+{item}"));
            }
        }
        _ if wanted != ours => found(path.to_owned()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(lines: &[&str]) -> Vec<Record> {
        lines.iter().filter_map(|line| Record::from_line(line).unwrap()).collect()
    }

    #[test]
    fn records_are_counted_as_multisets() {
        let mut c = Comparison::default();
        let dns = |n: u32| format!(r#"{{"event_type":"dns","dns":{{"id":{n}}}}}"#);
        let (a, b, x) = (dns(1), dns(2), r#"{"event_type":"http","src_ip":"1"}"#);
        c.add_input("one", records(&[&a, &a, &b, x]), records(&[&a, &a, &a]));
        assert_eq!(c.by_kind["dns"], Counts { wanted: 3, same: 2, extra: 1 });
        assert_eq!(c.by_kind["http"], Counts { wanted: 1, same: 0, extra: 0 });
        assert_eq!((c.total().wanted, c.total().missing()), (4, 2));
        let names: Vec<_> = c.clusters.keys().map(|(k, m)| format!("{k}: {m}")).collect();
        assert_eq!(names, ["dns: dns.id", "http: missing"]);
    }

    #[test]
    fn differing_members_are_named() {
        let mut c = Comparison::default();
        let one =
            r#"{"event_type":"x","src_ip":"a","dest_ip":"b","o":{"l":[{"n":1},{"n":2}],"p":1}}"#;
        let far = r#"{"event_type":"x","src_ip":"b","dest_ip":"a","o":{"l":[],"q":1},"r":0}"#;
        let near = r#"{"event_type":"x","src_ip":"a","dest_ip":"b","o":{"l":[{"n":3}],"p":1}}"#;
        let other = r#"{"event_type":"x","src_ip":"c","dest_ip":"b"}"#;
        c.add_input("one", records(&[one]), records(&[far, near, other]));
        let names: Vec<_> = c.clusters.iter().map(|((_, m), d)| (m.as_str(), d.count)).collect();
        assert_eq!(names, [("-o.l[], o.l[].n", 1), ("extra", 2)]);
    }
}
