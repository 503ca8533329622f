//! What some rules of a set have, by their number: a bit for each rule of the set, and the values of those that have one.
//! Of a large set few rules look at one protocol, and each protocol and direction has such a table.

/// Sixty-four rules.
#[derive(Clone, Copy, Debug, Default)]
struct Rules {
    /// Those with a value.
    bits: u64,
    /// Values of the rules before.
    before: u32,
}

/// Values by rule.
#[derive(Debug)]
pub(super) struct ByRule<T> {
    rules: Box<[Rules]>,
    values: Box<[T]>,
}

impl<T> Default for ByRule<T> {
    fn default() -> ByRule<T> {
        ByRule { rules: Box::default(), values: Box::default() }
    }
}

impl<T> ByRule<T> {
    /// Of rules in ascending order, each once; others are left out.
    pub(super) fn new(sorted: Vec<(u32, T)>) -> ByRule<T> {
        let last = sorted.last().map_or(0, |(rule, _)| *rule as usize + 1);
        let mut rules = vec![Rules::default(); last.div_ceil(64)];
        let mut values = Vec::with_capacity(sorted.len());
        let mut next = 0;
        for (rule, value) in sorted {
            if let Some(word) = rules.get_mut(rule as usize / 64)
                && rule >= next
            {
                word.bits |= 1 << (rule % 64);
                values.push(value);
                next = rule.saturating_add(1);
            }
        }
        let mut before = 0;
        for word in &mut rules {
            word.before = before;
            before += word.bits.count_ones();
        }
        ByRule { rules: rules.into(), values: values.into() }
    }

    /// That of a rule, if it has one.
    #[inline]
    pub(super) fn get(&self, rule: u32) -> Option<&T> {
        let word = self.rules.get(rule as usize / 64)?;
        let bit = 1 << (rule % 64);
        if word.bits & bit == 0 {
            return None;
        }
        self.values.get((word.before + (word.bits & (bit - 1)).count_ones()) as usize)
    }

    /// Bytes held.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.rules) + size_of_val(&*self.values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_has_its_own_value_or_none() {
        let has = |rule: u32| rule.is_multiple_of(3) || (60..70).contains(&rule) || rule > 990;
        let all: Vec<(u32, u32)> = (0..1_000).filter(|n| has(*n)).map(|n| (n, n * 7)).collect();
        let table = ByRule::new(all.clone());
        for rule in 0..1_100 {
            let wanted = (has(rule) && rule < 1_000).then_some(rule * 7);
            assert_eq!(table.get(rule).copied(), wanted, "{rule}");
        }
        assert_eq!(table.memory_bytes(), all.len() * 4 + 1_000usize.div_ceil(64) * 16);
        assert_eq!(ByRule::<u8>::default().get(0), None);
        assert_eq!(ByRule::new(vec![(5, 'a'), (5, 'b'), (4, 'c'), (6, 'd')]).get(6), Some(&'d'));
    }
}
