//! The regular expressions of a rule set, compiled: shared between workers.

use foldhash::fast::FixedState;
use gabion_matcher::regex::{CompileError, Flags, Limits, Regex};
use gabion_rules::Ruleset;
use gabion_rules::compiled::Text;
use gabion_rules::compiled::buffer::{BufferCondition, Pcre, PcreOptions, Transform};
use hashbrown::HashMap;
use std::sync::Arc;

/// All regular expressions of a rule set, each distinct one compiled once.
#[derive(Debug, Default)]
pub struct Expressions {
    compiled: Vec<Arc<Regex>>,
    by_text: HashMap<Text, u32, FixedState>,
    transforms: HashMap<(Box<str>, PcreOptions), u32, FixedState>,
}

fn flags(o: PcreOptions, jit: bool) -> Flags {
    Flags {
        jit,
        caseless: o.caseless,
        multiline: o.multiline,
        dotall: o.dot_all,
        extended: o.extended,
        anchored: o.anchored,
        dollar_endonly: o.dollar_end_only,
        ungreedy: o.ungreedy,
    }
}

impl Expressions {
    /// Compiles all expressions of the set. One that does not compile is named in the second part
    /// with the index of its signature. Without `jit` they are interpreted.
    pub fn compile(
        set: &Ruleset,
        limits: Limits,
        jit: bool,
    ) -> (Expressions, Vec<(usize, CompileError)>) {
        Expressions::default().compile_next(set, limits, jit)
    }

    /// Compiles those of a set that follows another in a run, which these are of: the same expressions are shared.
    pub fn compile_next(
        &self,
        set: &Ruleset,
        limits: Limits,
        jit: bool,
    ) -> (Expressions, Vec<(usize, CompileError)>) {
        let known = self.compiled.iter().filter(|r| r.limits() == limits);
        let known: HashMap<(&[u8], Flags), &Arc<Regex>, FixedState> =
            known.map(|r| ((r.pattern(), r.flags()), r)).collect();
        let compile = |text: &str, options: PcreOptions| {
            let flags = flags(options, jit);
            match known.get(&(text.as_bytes(), flags)) {
                Some(known) => Ok(Arc::clone(known)),
                None => Regex::new(text.as_bytes(), flags, limits).map(Arc::new),
            }
        };
        let mut e = Expressions::default();
        let mut failed = Vec::new();
        let mut written: Vec<(Text, PcreOptions, usize)> = Vec::new();
        for (i, s) in set.signatures.iter().enumerate() {
            let lists = s.buffers.iter().map(|b| &b.conditions).chain([&s.base64_data]);
            for condition in lists.flat_map(|l| l.iter()) {
                let BufferCondition::Pcre(p) = condition else { continue };
                written.push((p.pattern, p.options, i));
            }
        }
        // In the order of the texts, so that each block of them is unpacked once.
        written.sort_unstable_by_key(|(text, _, i)| (*text, *i));
        e.by_text.reserve(written.len());
        let mut texts = set.texts.reader();
        let mut seen: HashMap<(Box<str>, PcreOptions), u32, FixedState> = HashMap::default();
        for (pattern, options, i) in written {
            let key = (Box::from(texts.get(pattern)), options);
            if let Some(at) = seen.get(&key) {
                e.by_text.insert(pattern, *at);
                continue;
            }
            match compile(&key.0, options) {
                Ok(r) => {
                    let at = e.compiled.len() as u32;
                    e.compiled.push(r);
                    seen.insert(key, at);
                    e.by_text.insert(pattern, at);
                }
                Err(error) => failed.push((i, error)),
            }
        }
        failed.sort_by_key(|(i, _)| *i);
        for t in set.chains.iter().flat_map(|c| c.iter()) {
            if let Transform::PcreXform { pattern, options } = t
                && let Ok(r) = compile(pattern, *options)
            {
                e.transforms.insert((pattern.clone(), *options), e.compiled.len() as u32);
                e.compiled.push(r);
            }
        }
        e.compiled.shrink_to_fit();
        (e, failed)
    }

    /// Whether each of the one has the same code as the other's.
    #[cfg(test)]
    pub(super) fn share_all(one: &Expressions, other: &Expressions) -> bool {
        let mut pairs = one.compiled.iter().zip(&other.compiled);
        !one.is_empty() && one.len() == other.len() && pairs.all(|(a, b)| Arc::ptr_eq(a, b))
    }

    /// The number of distinct expressions.
    pub fn len(&self) -> usize {
        self.compiled.len()
    }

    /// Whether the set has no expressions.
    pub fn is_empty(&self) -> bool {
        self.compiled.is_empty()
    }

    /// Bytes held.
    pub fn memory_bytes(&self) -> usize {
        let texts = self.by_text.capacity() * size_of::<(Text, u32)>();
        self.compiled.iter().map(|r| r.memory_bytes()).sum::<usize>() + texts
    }

    /// Searches that ended at a limit.
    pub fn limit_hits(&self) -> u64 {
        self.compiled.iter().map(|r| r.limit_hits()).sum()
    }

    /// The expression of a rule's condition.
    pub(super) fn written(&self, p: &Pcre) -> Option<&Regex> {
        let at = self.by_text.get(&p.pattern)?;
        self.compiled.get(*at as usize).map(|r| &**r)
    }

    /// The expression of a transform.
    pub(crate) fn transform(&self, pattern: &str, options: PcreOptions) -> Option<&Regex> {
        let at = self.transforms.get(&(Box::from(pattern), options))?;
        self.compiled.get(*at as usize).map(|r| &**r)
    }
}
