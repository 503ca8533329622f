//! Merkle trees of RFC 6962: the tree over chunks, and the one over the records of a chunk.
//!
//! `Range` holds the roots of the full subtrees of a tree that grows (at most 64 hashes), from which the
//! root of every size it passes can be had. Proofs are made from leaf hashes that the caller has.

use crate::limits::PROOF_HASHES_MAX;
use aws_lc_rs::digest::{Context, SHA256, digest};

/// A SHA-256 value.
pub type Hash = [u8; 32];

/// SHA-256.
#[must_use]
pub fn sha256(bytes: &[u8]) -> Hash {
    out(digest(&SHA256, bytes))
}

/// SHA-256 of the parts, one after the other.
#[must_use]
pub fn sha256_parts(parts: &[&[u8]]) -> Hash {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(part);
    }
    out(context.finish())
}

fn out(digest: aws_lc_rs::digest::Digest) -> Hash {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest.as_ref());
    hash
}

/// Root of the empty tree: SHA-256 of nothing.
#[must_use]
pub fn empty_root() -> Hash {
    sha256(b"")
}

/// Hash of a leaf with this data.
#[must_use]
pub fn leaf_hash(data: &[u8]) -> Hash {
    sha256_parts(&[&[0], data])
}

/// Hash of the node over these two.
#[must_use]
pub fn node_hash(left: &Hash, right: &Hash) -> Hash {
    let mut data = [1u8; 65];
    data[1..33].copy_from_slice(left);
    data[33..].copy_from_slice(right);
    sha256(&data)
}

/// Root over leaf hashes; the vector is used up as room to work in.
#[must_use]
pub fn root_of(leaves: &mut Vec<Hash>) -> Hash {
    if leaves.is_empty() {
        return empty_root();
    }
    // Level by level: a node without partner goes up as it is, which is the RFC's split at the largest
    // power of two.
    while leaves.len() > 1 {
        let count = leaves.len();
        let mut to = 0;
        let mut from = 0;
        while from < count {
            leaves[to] = match leaves.get(from + 1) {
                Some(right) => node_hash(&leaves[from], right),
                None => leaves[from],
            };
            to += 1;
            from += 2;
        }
        leaves.truncate(to);
    }
    leaves[0]
}

/// Roots of the full subtrees of a growing tree, largest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Range {
    size: u64,
    nodes: Vec<Hash>,
}

impl Range {
    /// The tree without leaves.
    #[must_use]
    pub fn new() -> Range {
        Range::default()
    }

    /// From its parts; `None` when the number of nodes does not fit the size.
    #[must_use]
    pub fn from_parts(size: u64, nodes: Vec<Hash>) -> Option<Range> {
        (nodes.len() as u32 == size.count_ones()).then_some(Range { size, nodes })
    }

    /// Leaves.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The subtree roots.
    #[must_use]
    pub fn nodes(&self) -> &[Hash] {
        &self.nodes
    }

    /// Adds a leaf.
    pub fn push(&mut self, leaf: Hash) {
        let mut node = leaf;
        for _ in 0..self.size.trailing_ones() {
            if let Some(left) = self.nodes.pop() {
                node = node_hash(&left, &node);
            }
        }
        self.nodes.push(node);
        self.size = self.size.saturating_add(1);
    }

    /// Root of all leaves so far.
    #[must_use]
    pub fn root(&self) -> Hash {
        let mut nodes = self.nodes.iter().rev();
        let Some(&last) = nodes.next() else { return empty_root() };
        nodes.fold(last, |right, left| node_hash(left, &right))
    }
}

/// Root over the leaves, without using them up.
#[must_use]
pub fn root(leaves: &[Hash]) -> Hash {
    let mut range = Range::new();
    leaves.iter().for_each(|leaf| range.push(*leaf));
    range.root()
}

/// Largest power of two below `n` (`n` at least 2).
const fn split(n: usize) -> usize {
    1 << (usize::BITS - 1 - (n - 1).leading_zeros())
}

/// Path from leaf `index` to the root over `leaves`, sibling of the leaf first.
#[must_use]
pub fn inclusion_proof(leaves: &[Hash], index: usize) -> Option<Vec<Hash>> {
    if index >= leaves.len() {
        return None;
    }
    let mut path = Vec::new();
    let (mut part, mut at) = (leaves, index);
    while part.len() > 1 {
        let (left, right) = part.split_at(split(part.len()));
        if at < left.len() {
            path.push(root(right));
            part = left;
        } else {
            path.push(root(left));
            at -= left.len();
            part = right;
        }
    }
    path.reverse();
    Some(path)
}

/// Proof that the tree over the first `old` leaves is a beginning of the one over all.
#[must_use]
pub fn consistency_proof(leaves: &[Hash], old: usize) -> Option<Vec<Hash>> {
    if old > leaves.len() {
        return None;
    }
    if old == 0 || old == leaves.len() {
        return Some(Vec::new());
    }
    let mut path = Vec::new();
    let (mut part, mut old, mut is_whole) = (leaves, old, true);
    while old < part.len() {
        let (left, right) = part.split_at(split(part.len()));
        if old <= left.len() {
            path.push(root(right));
            part = left;
        } else {
            path.push(root(left));
            old -= left.len();
            part = right;
            is_whole = false;
        }
    }
    if !is_whole {
        path.push(root(part));
    }
    path.reverse();
    Some(path)
}

/// The root that a leaf and its path lead to (RFC 9162, 2.1.3.2); `None` when the path's length does
/// not fit.
#[must_use]
pub fn root_from_inclusion(index: u64, size: u64, leaf: &Hash, path: &[Hash]) -> Option<Hash> {
    if index >= size || path.len() > PROOF_HASHES_MAX {
        return None;
    }
    let (mut node, mut last, mut hash) = (index, size - 1, *leaf);
    for sibling in path {
        if last == 0 {
            return None;
        }
        if node & 1 == 1 || node == last {
            hash = node_hash(sibling, &hash);
            while node & 1 == 0 && node != 0 {
                node >>= 1;
                last >>= 1;
            }
        } else {
            hash = node_hash(&hash, sibling);
        }
        node >>= 1;
        last >>= 1;
    }
    (last == 0).then_some(hash)
}

/// Whether the path leads from the leaf to the root.
#[must_use]
pub fn verify_inclusion(index: u64, size: u64, leaf: &Hash, path: &[Hash], root: &Hash) -> bool {
    root_from_inclusion(index, size, leaf, path).as_ref() == Some(root)
}

/// Whether the path shows that the first tree is a beginning of the second (RFC 9162, 2.1.4.2).
#[must_use]
pub fn verify_consistency(
    (old, old_root): (u64, &Hash),
    (new, new_root): (u64, &Hash),
    path: &[Hash],
) -> bool {
    if old > new || path.len() > PROOF_HASHES_MAX {
        return false;
    }
    // Every tree begins with the empty one: there is nothing to prove, and a proof of it is refused.
    if old == 0 {
        return false;
    }
    if old == new {
        return path.is_empty() && old_root == new_root;
    }
    // When the old tree is one full subtree its root is not repeated in the path.
    let mut path = path.iter();
    let first = if old.is_power_of_two() {
        *old_root
    } else {
        let Some(node) = path.next() else { return false };
        *node
    };
    let (mut node, mut last) = (old - 1, new - 1);
    while node & 1 == 1 {
        node >>= 1;
        last >>= 1;
    }
    let (mut old_hash, mut new_hash) = (first, first);
    for sibling in path {
        if last == 0 {
            return false;
        }
        if node & 1 == 1 || node == last {
            old_hash = node_hash(sibling, &old_hash);
            new_hash = node_hash(sibling, &new_hash);
            while node & 1 == 0 && node != 0 {
                node >>= 1;
                last >>= 1;
            }
        } else {
            new_hash = node_hash(&new_hash, sibling);
        }
        node >>= 1;
        last >>= 1;
    }
    last == 0 && old_hash == *old_root && new_hash == *new_root
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves(n: usize) -> Vec<Hash> {
        (0..n).map(|i| leaf_hash(&i.to_be_bytes())).collect()
    }

    #[test]
    fn three_ways_to_a_root_agree() {
        for n in 0..70 {
            let all = leaves(n);
            assert_eq!(root_of(&mut all.clone()), root(&all), "{n}");
            let mut range = Range::new();
            for (i, leaf) in all.iter().enumerate() {
                range.push(*leaf);
                assert_eq!(range.root(), root(&all[..=i]));
            }
            let parts = Range::from_parts(range.size(), range.nodes().to_vec());
            assert_eq!(parts.as_ref(), Some(&range));
        }
        assert_eq!(Range::from_parts(3, leaves(1)), None);
    }

    #[test]
    fn proofs_of_every_size_hold_and_no_altered_one_does() {
        for n in 1..34 {
            let all = leaves(n);
            let top = root(&all);
            for i in 0..n {
                let path = inclusion_proof(&all, i).unwrap();
                assert!(verify_inclusion(i as u64, n as u64, &all[i], &path, &top));
                assert!(
                    n == 1
                        || !verify_inclusion(
                            (i as u64 + 1) % n as u64,
                            n as u64,
                            &all[i],
                            &path,
                            &top
                        )
                );
                let mut longer = path.clone();
                longer.push(top);
                assert!(!verify_inclusion(i as u64, n as u64, &all[i], &longer, &top));
                assert!(
                    path.is_empty()
                        || !verify_inclusion(i as u64, n as u64, &all[i], &path[1..], &top)
                );
            }
            for old in 1..=n {
                let path = consistency_proof(&all, old).unwrap();
                let old_root = root(&all[..old]);
                assert!(
                    verify_consistency((old as u64, &old_root), (n as u64, &top), &path),
                    "{old} {n}"
                );
                assert!(
                    old == n || !verify_consistency((old as u64, &top), (n as u64, &top), &path)
                );
            }
        }
    }
}
