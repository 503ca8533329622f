//! Which segment wins where a new one overlaps an earlier one, by the stack of the receiving host.
//!
//! The rules are those of target-based reassembly (Shankar and Paxson 2003, Novak and Sturges 2007)
//! as Suricata applies them: pairwise between the new segment N and an earlier one O.

use crate::policy::OsPolicy;

/// Whether the bytes of the new segment replace those of the old one in their overlap. Segments
/// are (start, end) offsets, ends excluded, and overlap.
pub(crate) fn new_wins(policy: OsPolicy, old: (u64, u64), new: (u64, u64)) -> bool {
    use OsPolicy as P;
    match policy {
        P::First | P::Vista => return false,
        P::Last => return true,
        _ => {}
    }
    if new.0 == old.0 {
        return match new.1.cmp(&old.1) {
            std::cmp::Ordering::Less => false,
            std::cmp::Ordering::Equal => {
                matches!(policy, P::OldLinux | P::Solaris | P::OldSolaris | P::Hpux11)
            }
            std::cmp::Ordering::Greater => {
                matches!(policy, P::Linux | P::OldLinux | P::Solaris | P::OldSolaris | P::Hpux11)
            }
        };
    }
    let solaris_like = matches!(policy, P::Solaris | P::OldSolaris | P::Hpux11);
    if new.0 < old.0 {
        // A segment that starts before the old one wins, but on Solaris only if it also reaches its
        // end.
        return !solaris_like || new.1 >= old.1;
    }
    solaris_like && new.1 > old.1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of Suricata's behavior: rows are relations of N to O, columns are policies.
    #[test]
    fn the_table_of_policies() {
        use OsPolicy as P;
        const OLD: (u64, u64) = (10, 20);
        let relations = [
            ("same start, shorter", (10, 15)),
            ("same start, equal", (10, 20)),
            ("same start, longer", (10, 25)),
            ("before, ends inside", (5, 15)),
            ("before, ends at end", (5, 20)),
            ("before, ends behind", (5, 25)),
            ("after, ends inside", (12, 18)),
            ("after, ends at end", (12, 20)),
            ("after, ends behind", (12, 25)),
        ];
        // 1 = new wins, in the order of the relations.
        let want: [(P, [u8; 9]); 13] = [
            (P::First, [0, 0, 0, 0, 0, 0, 0, 0, 0]),
            (P::Vista, [0, 0, 0, 0, 0, 0, 0, 0, 0]),
            (P::Last, [1, 1, 1, 1, 1, 1, 1, 1, 1]),
            (P::Bsd, [0, 0, 0, 1, 1, 1, 0, 0, 0]),
            (P::Hpux10, [0, 0, 0, 1, 1, 1, 0, 0, 0]),
            (P::Irix, [0, 0, 0, 1, 1, 1, 0, 0, 0]),
            (P::Windows, [0, 0, 0, 1, 1, 1, 0, 0, 0]),
            (P::Windows2k3, [0, 0, 0, 1, 1, 1, 0, 0, 0]),
            (P::Macos, [0, 0, 0, 1, 1, 1, 0, 0, 0]),
            (P::Linux, [0, 0, 1, 1, 1, 1, 0, 0, 0]),
            (P::OldLinux, [0, 1, 1, 1, 1, 1, 0, 0, 0]),
            (P::Solaris, [0, 1, 1, 0, 1, 1, 0, 0, 1]),
            (P::Hpux11, [0, 1, 1, 0, 1, 1, 0, 0, 1]),
        ];
        for (policy, row) in want {
            for ((name, new), wins) in relations.iter().zip(row) {
                assert_eq!(new_wins(policy, OLD, *new), wins == 1, "{policy:?}: {name}");
            }
        }
    }
}
