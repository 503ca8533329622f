//! What inspection needs in addition to the rules: compiled expressions, datasets, scripts. The compiled
//! parts are shared between workers, the scratch is each worker's own.

use super::content::MatchNotes;
use super::expressions::Expressions;
use crate::datasets::Datasets;
use crate::limits::reached;
use crate::ordered::Turn;
use crate::script::Scripts;
use gabion_matcher::regex::{Found, RegexScratch};
use gabion_record::applayer::Catalog;
use gabion_rules::Ruleset;
use gabion_rules::compiled::buffer::{DatarepTest, DatasetTest, Pcre};

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
        match self.expressions.written(p)?.find(hay, self.regex) {
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
