//! The list syntax that addresses and ports share: `[a,!b,[c,$D]]` with variables.
//!
//! A nested list that is not negated is as if its items were in the outer list; one that is
//! negated is worked out first and its result taken away. The union of the positive items (or
//! everything, when there are only negative ones) less the negative ones is the result.

use crate::diagnostic::{Checked, Diagnostic, Refusal};
use crate::limits::{LIST_DEPTH_MAX, LIST_ITEMS_MAX};

/// What an item means.
pub(crate) trait Items {
    /// Set of one side.
    type Set: Default;
    /// Adds the item of that text to the set.
    fn add(&self, text: &str, set: &mut Self::Set) -> Checked<()>;
    /// The text of a variable (name without `$`).
    fn variable(&self, name: &str) -> Option<&str>;
    /// Positive less negative items; `None` when nothing is left.
    fn resolve(&self, positive: Self::Set, negative: &Self::Set) -> Checked<Self::Set>;
    /// Adds all of a set to another.
    fn join(&self, from: Self::Set, to: &mut Self::Set);
}

/// Reads a list.
pub(crate) struct ListReader<'i, I: Items> {
    items: &'i I,
    count: usize,
    /// Some item was negated.
    pub(crate) negated: bool,
}

impl<'i, I: Items> ListReader<'i, I> {
    /// A reader for such items.
    pub(crate) fn new(items: &'i I) -> ListReader<'i, I> {
        ListReader { items, count: 0, negated: false }
    }

    /// Reads the text of a header's address or port part.
    pub(crate) fn read_list(&mut self, text: &str) -> Checked<I::Set> {
        let (mut positive, mut negative) = (I::Set::default(), I::Set::default());
        // a list may come without its brackets
        self.list(text.trim(), 0, &mut positive, &mut negative)?;
        self.items.resolve(positive, &negative)
    }

    /// One item, which may be a list or a variable.
    fn item(
        &mut self,
        text: &str,
        depth: usize,
        positive: &mut I::Set,
        negative: &mut I::Set,
    ) -> Checked<()> {
        self.count += 1;
        if depth > LIST_DEPTH_MAX || self.count > LIST_ITEMS_MAX {
            return Err(Refusal::silent("the list is nested too deep or too long"));
        }
        let (negate, bare) = match text.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        if !negate {
            return self.plain(bare, depth, positive, negative);
        }
        self.negated = true;
        if !bare.starts_with(['[', '$']) {
            // A second sign is passed over, as by Suricata 8.0.7.
            return self.items.add(bare.strip_prefix('!').unwrap_or(bare), negative);
        }
        // Nothing negated is nothing.
        if bare
            .strip_prefix('[')
            .and_then(|b| b.strip_suffix(']'))
            .is_some_and(|b| b.trim().is_empty())
        {
            return Ok(());
        }
        let (mut p, mut n) = (I::Set::default(), I::Set::default());
        self.plain(bare, depth, &mut p, &mut n)?;
        let inner = self.items.resolve(p, &n)?;
        self.items.join(inner, negative);
        Ok(())
    }

    fn plain(
        &mut self,
        text: &str,
        depth: usize,
        positive: &mut I::Set,
        negative: &mut I::Set,
    ) -> Checked<()> {
        if let Some(name) = text.strip_prefix('$') {
            let name = name.trim();
            let Some(value) = self.items.variable(name) else {
                let said = format!("Variable \"{name}\" is not defined in configuration file");
                return Err(Refusal::new(Diagnostic::VARIABLES, said));
            };
            return self.item(value.trim(), depth + 1, positive, negative);
        }
        let Some(inside) = text.strip_prefix('[') else {
            return self.items.add(text, positive);
        };
        let Some(inside) = inside.strip_suffix(']') else {
            return Err(Refusal::silent("the list's brackets are not balanced"));
        };
        self.list(inside, depth + 1, positive, negative)
    }

    /// Items between commas.
    fn list(
        &mut self,
        inside: &str,
        depth: usize,
        positive: &mut I::Set,
        negative: &mut I::Set,
    ) -> Checked<()> {
        let mut rest = inside;
        loop {
            let end = item_end(rest)
                .ok_or_else(|| Refusal::silent("the list's brackets are not balanced"))?;
            let (item, more) = rest.split_at(end);
            // an empty last item is ignored, as in `[80,]`
            if !(item.trim().is_empty() && more.is_empty()) {
                self.item(item.trim_start(), depth, positive, negative)?;
            }
            match more.strip_prefix(',') {
                Some(more) => rest = more,
                None => return Ok(()),
            }
        }
    }
}

/// Where the first item ends: at a comma outside brackets, or at the end of the text. `None` when
/// brackets don't match.
fn item_end(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (at, b) in text.bytes().enumerate() {
        match b {
            b'[' => depth += 1,
            b']' => depth = depth.checked_sub(1)?,
            b',' if depth == 0 => return Some(at),
            _ => {}
        }
    }
    (depth == 0).then_some(text.len())
}
