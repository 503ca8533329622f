//! Host names: looked up whole and by what follows each dot.

use crate::fold;
use crate::limits::{NAME_BYTES_MAX, NAME_LABELS_MAX};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

/// Which names an entry stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NameKind {
    /// The name itself only.
    Exact,
    /// The name itself and every name below it: `evil.com` stands for `evil.com` and
    /// `a.evil.com`, not for `notevil.com`. A leading dot in the entry (`.evil.com`, the
    /// `dotprefix` form) means the same and is taken off.
    Suffix,
}

/// One entry of a [`NameSet`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameEntry {
    /// The name.
    pub name: Vec<u8>,
    /// Which names it stands for.
    pub kind: NameKind,
    /// Whether letters match in either case.
    pub nocase: bool,
    /// Reported on a match.
    pub id: u32,
}

#[derive(Clone, Debug)]
struct Member {
    name: Box<[u8]>,
    kind: NameKind,
    nocase: bool,
    id: u32,
}

/// A set of names. A lookup costs one hash for each label, whatever the number of entries.
#[derive(Clone, Debug, Default)]
pub struct NameSet {
    by_folded: HashMap<Box<[u8]>, Vec<Member>, RandomState>,
    entries: usize,
}

impl NameSet {
    /// Builds the set; empty names are left out.
    pub fn new(entries: impl IntoIterator<Item = NameEntry>) -> Self {
        let mut set = NameSet::default();
        for entry in entries {
            let name = match entry.kind {
                NameKind::Suffix => entry.name.strip_prefix(b".").unwrap_or(&entry.name),
                NameKind::Exact => &entry.name,
            };
            if name.is_empty() || name.len() > NAME_BYTES_MAX {
                continue;
            }
            set.entries += 1;
            set.by_folded.entry(fold::lower(name).into()).or_default().push(Member {
                name: name.into(),
                kind: entry.kind,
                nocase: entry.nocase,
                id: entry.id,
            });
        }
        set
    }

    /// Calls `on_hit` with the id of each entry that stands for `name`. A trailing dot is part of
    /// the name and not taken off.
    pub fn lookup(&self, name: &[u8], on_hit: &mut impl FnMut(u32)) {
        if name.is_empty() || self.by_folded.is_empty() {
            return;
        }
        let cut = name.len().saturating_sub(NAME_BYTES_MAX);
        let folded = fold::lower(&name[cut..]);
        let mut labels = 0;
        for start in (0..folded.len()).rev() {
            let whole = start == 0 && cut == 0;
            let after_dot = start > 0 && folded[start - 1] == b'.';
            if !whole && !after_dot {
                continue;
            }
            labels += 1;
            if labels > NAME_LABELS_MAX && !whole {
                continue;
            }
            for member in self.by_folded.get(&folded[start..]).into_iter().flatten() {
                let kind = whole || member.kind == NameKind::Suffix;
                if kind && (member.nocase || name[cut + start..] == *member.name) {
                    on_hit(member.id);
                }
            }
        }
    }

    /// Entries it was built from.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// Whether it was built from nothing.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }
}
