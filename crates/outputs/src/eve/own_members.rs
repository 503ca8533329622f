//! The members of EVE records that Suricata does not have: one table, of which `docs/outputs.md` is
//! made and which the runner of Suricata's schema allows. A member of ours without its row fails a
//! test.

/// A member of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnMember {
    /// Its path, dotted, lists as `[]`.
    pub path: &'static str,
    /// Why it is there.
    pub reason: &'static str,
}

/// All of them.
pub fn own_members() -> impl Iterator<Item = OwnMember> {
    let rows = include_str!("own_members.tsv").lines().filter(|line| !line.starts_with('#'));
    rows.filter_map(|row| row.split_once('\t')).map(|(path, reason)| OwnMember { path, reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_whole_and_in_order() {
        let all: Vec<OwnMember> = own_members().collect();
        let rows = include_str!("own_members.tsv").lines().filter(|line| !line.starts_with('#'));
        assert_eq!(all.len(), rows.count());
        assert!(all.is_sorted_by(|a, b| a.path < b.path), "rows stand in the order of their paths");
        assert!(all.iter().all(|m| !m.path.is_empty() && !m.reason.is_empty()));
    }
}
