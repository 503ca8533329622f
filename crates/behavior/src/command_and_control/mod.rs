//! Scores how much a pair's flows are like those of a program that calls its controller.
//!
//! Flows become letters of Slips' alphabet ([`letters`]), a string of them becomes numbers
//! ([`features`]), and boosted trees make a score of those ([`Model`]), with what each group of numbers
//! added to it. The trees are trained by `scripts/train_c2.py`, whose page says what they are worth.

pub(crate) mod features;
pub(crate) mod letters;

use features::{COUNT, GROUP_OF, GROUPS};

/// The trees, as the script wrote them.
const TRAINED: &str = include_str!("model.txt");

/// One node; a leaf has no feature.
#[derive(Clone, Copy, Debug)]
struct Node {
    value: f64,
    feature: u16,
    /// The node for values above the threshold; the one for others stands next.
    above: u16,
    threshold: f64,
}

const LEAF: u16 = u16::MAX;

/// Trees that score strings.
#[derive(Clone, Debug)]
pub struct Model {
    trees: Vec<Vec<Node>>,
    /// The trees are the sums of this many members; the mean counts.
    members: f64,
    /// Scores from which on evidence is high, and medium.
    pub levels: [f64; 2],
}

/// A score and where it comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// 0 to 1.
    pub score: f64,
    /// What each group of features added, in log-odds; see [`GROUPS`].
    pub parts: [f64; GROUPS.len()],
}

/// Members that the script trains.
const MEMBERS: f64 = 3.0;

impl Default for Model {
    /// The trained one.
    fn default() -> Model {
        Model::parse(TRAINED)
    }
}

impl Model {
    /// Reads what the script wrote; lines of other kinds are passed over.
    pub fn parse(text: &str) -> Model {
        let mut model = Model { trees: Vec::new(), members: MEMBERS, levels: [1.0; 2] };
        let mut levels = model.levels.iter_mut();
        for line in text.lines() {
            if let Some(number) = line.strip_prefix("level\t") {
                if let (Some(level), Ok(n)) = (levels.next(), number.parse()) {
                    *level = n;
                }
            } else if let Some(nodes) = line.strip_prefix("tree\t") {
                model.trees.extend(tree(nodes));
            }
        }
        model
    }

    /// Scores a string of letters; `None` when there are none in it.
    pub fn score(&self, text: &[u8]) -> Option<Score> {
        let tokens = letters::tokens(text);
        let values = features::from_tokens(&tokens)?;
        let mut parts = [0.0; GROUPS.len()];
        for tree in &self.trees {
            walk(tree, &values, &mut parts);
        }
        parts.iter_mut().for_each(|p| *p /= self.members);
        let sum: f64 = parts.iter().sum();
        Some(Score { score: 1.0 / (1.0 + (-sum).exp()), parts })
    }
}

/// Goes down a tree; what a step changes is its feature's doing.
fn walk(tree: &[Node], values: &[f64; COUNT], parts: &mut [f64; GROUPS.len()]) {
    let mut at = 0;
    let mut before = 0.0;
    let mut by = None;
    while let Some(node) = tree.get(at) {
        if let Some(part) = by.and_then(|group: usize| parts.get_mut(group)) {
            *part += node.value - before;
        } else if let Some(part) = parts.last_mut() {
            // What a tree says before it asks anything belongs to no feature; letters are all.
            *part += node.value;
        }
        before = node.value;
        if node.feature == LEAF {
            return;
        }
        let value = values.get(usize::from(node.feature)).copied().unwrap_or(0.0);
        by = GROUP_OF.get(usize::from(node.feature)).copied();
        at = if value <= node.threshold { at + 1 } else { usize::from(node.above) };
    }
}

/// Nodes in preorder: `feature:threshold:value`, leaves `=value`.
fn tree(text: &str) -> Option<Vec<Node>> {
    let mut nodes: Vec<Node> = Vec::new();
    // Inner nodes whose branch above is yet to come.
    let mut open: Vec<usize> = Vec::new();
    for (at, word) in text.split(' ').enumerate() {
        if at > 0 && nodes.last()?.feature == LEAF {
            let parent = nodes.get_mut(open.pop()?)?;
            parent.above = u16::try_from(at).ok()?;
        }
        let node = match word.strip_prefix('=') {
            Some(value) => {
                Node { value: value.parse().ok()?, feature: LEAF, above: 0, threshold: 0.0 }
            }
            None => {
                let mut parts = word.split(':');
                let feature: u16 = parts.next()?.parse().ok()?;
                let threshold = parts.next()?.parse().ok()?;
                open.push(at);
                Node { value: parts.next()?.parse().ok()?, feature, above: 0, threshold }
            }
        };
        if usize::from(node.feature) >= COUNT && node.feature != LEAF {
            return None;
        }
        nodes.push(node);
    }
    open.is_empty().then_some(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The script's scores of some strings, which are stored with the trees.
    #[test]
    fn the_script_and_this_score_alike() {
        let model = Model::default();
        assert!(model.trees.len() > 100);
        let mut count = 0;
        for line in TRAINED.lines().filter_map(|l| l.strip_prefix("check\t")) {
            let (score, text) = line.split_once('\t').unwrap();
            let wanted: f64 = score.parse().unwrap();
            let found = model.score(text.as_bytes()).unwrap();
            let sum: f64 = found.parts.iter().sum();
            assert!((sum - wanted).abs() < 0.01, "{text}: {sum} is not {wanted}");
            count += 1;
        }
        assert_eq!(count, 40);
        let named: Vec<&str> =
            TRAINED.lines().filter_map(|l| l.strip_prefix("feature\t")).collect();
        assert_eq!(named.len(), COUNT);
        for (name, group) in named.iter().zip(GROUP_OF) {
            assert!(name.starts_with(GROUPS[group]), "{name}");
        }
    }

    #[test]
    fn odd_strings_and_files_are_no_trouble() {
        let model = Model::default();
        assert_eq!(model.score(b""), None);
        assert_eq!(model.score(b"000,,.."), None);
        assert!(model.score(&[0xff; 600]).is_none() && model.score(&[b'a'; 9999]).is_some());
        for text in ["=x", "1:2", "1:2:3 =1", "=1 =2", "99:1:1 =1 =1"] {
            assert!(tree(text).is_none(), "{text}");
        }
        assert_eq!(tree("1:2:3 =1 =2").unwrap().len(), 3);
    }
}
