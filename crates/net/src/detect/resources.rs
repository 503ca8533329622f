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

/// All regular expressions of a rule set, each distinct one compiled once.
#[derive(Debug, Default)]
pub struct Expressions {
    compiled: Vec<Regex>,
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
        let mut e = Expressions::default();
        let mut failed = Vec::new();
        let mut seen: HashMap<(&str, PcreOptions), u32, FixedState> = HashMap::default();
        for (i, s) in set.signatures.iter().enumerate() {
            let lists = s.buffers.iter().map(|b| &b.conditions).chain([&s.base64_data]);
            for condition in lists.flat_map(|l| l.iter()) {
                let BufferCondition::Pcre(p) = condition else { continue };
                let text = set.text(p.pattern);
                if let Some(at) = seen.get(&(text, p.options)) {
                    e.by_text.insert(p.pattern, *at);
                    continue;
                }
                match Regex::new(text.as_bytes(), flags(p.options, jit), limits) {
                    Ok(r) => {
                        let at = e.compiled.len() as u32;
                        e.compiled.push(r);
                        seen.insert((text, p.options), at);
                        e.by_text.insert(p.pattern, at);
                    }
                    Err(error) => failed.push((i, error)),
                }
            }
        }
        for t in set.chains.iter().flat_map(|c| c.iter()) {
            if let Transform::PcreXform { pattern, options } = t
                && let Ok(r) = Regex::new(pattern.as_bytes(), flags(*options, jit), limits)
            {
                e.transforms.insert((pattern.clone(), *options), e.compiled.len() as u32);
                e.compiled.push(r);
            }
        }
        (e, failed)
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
        self.compiled.iter().map(Regex::memory_bytes).sum()
    }

    /// Searches that ended at a limit.
    pub fn limit_hits(&self) -> u64 {
        self.compiled.iter().map(Regex::limit_hits).sum()
    }

    pub(crate) fn transform(&self, pattern: &str, options: PcreOptions) -> Option<&Regex> {
        let at = self.transforms.get(&(Box::from(pattern), options))?;
        self.compiled.get(*at as usize)
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
