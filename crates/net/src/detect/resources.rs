//! What inspection needs in addition to the rules: compiled expressions, datasets, scripts. The compiled
//! parts are shared between workers, the scratch is each worker's own.

use super::content::MatchNotes;
use crate::datasets::Datasets;
use crate::limits::reached;
use crate::ordered::Turn;
use crate::script::Scripts;
use foldhash::fast::FixedState;
use gabion_matcher::regex::{CompileError, Flags, Found, Limits, Regex, RegexScratch};
use gabion_record::applayer::Catalog;
use gabion_rules::Ruleset;
use gabion_rules::compiled::Text;
use gabion_rules::compiled::buffer::{
    BufferCondition, DatarepTest, DatasetTest, Pcre, PcreOptions, Transform,
};
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

    pub(crate) fn transform(&self, pattern: &str, options: PcreOptions) -> Option<&Regex> {
        let at = self.transforms.get(&(Box::from(pattern), options))?;
        self.compiled.get(*at as usize).map(|r| &**r)
    }
}

/// What one worker's inspections share.
pub(crate) struct Resources<'x> {
    pub(crate) expressions: &'x Expressions,
    pub(crate) regex: &'x mut RegexScratch,
    pub(crate) datasets: &'x Datasets,
    /// The worker's turn, in a group.
    pub(crate) turn: Option<&'x Turn>,
    pub(crate) scripts: &'x mut Scripts,
    pub(crate) catalog: &'x Catalog,
}

impl Resources<'_> {
    /// First match of an expression, start and end.
    pub(crate) fn find(&mut self, _set: &Ruleset, p: &Pcre, hay: &[u8]) -> Option<(usize, usize)> {
        let at = self.expressions.by_text.get(&p.pattern)?;
        let r = self.expressions.compiled.get(*at as usize)?;
        match r.find(hay, self.regex) {
            Found::Match { start, end } => Some((start, end)),
            Found::LimitHit => {
                reached::PCRE_STEPS_MAX.count();
                None
            }
            Found::NoMatch => None,
        }
    }

    /// Span of a capture group of the last match.
    pub(crate) fn group(&self, number: u32) -> Option<(usize, usize)> {
        self.regex.group(number)
    }

    pub(crate) fn dataset(&mut self, d: DatasetTest, value: &[u8], notes: &mut MatchNotes) -> bool {
        self.await_turn(d.dataset);
        self.datasets.test(d, value, &mut notes.context_json)
    }

    pub(crate) fn datarep(&mut self, d: DatarepTest, value: &[u8]) -> bool {
        self.await_turn(d.dataset);
        self.datasets.reputation(d, value)
    }

    /// A set that rules write is used in packet order.
    fn await_turn(&self, dataset: u32) {
        if let Some(turn) = self.turn
            && self.datasets.is_written(dataset)
        {
            turn.wait();
        }
    }
}
