//! What a name in a rule means, and the function that reads it.

use crate::compiler::Compiler;
use crate::diagnostic::Checked;
use crate::draft::Draft;
use crate::known::KnownKeyword;
use crate::lexer::Piece;
use gabion_record::applayer::{BufferId, ConditionDef, IntegerDef};
use std::collections::HashMap;

/// The value of an option, quotes and negation taken off.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Value<'t> {
    /// The text; empty when there is none.
    pub(crate) text: &'t str,
    /// Its position in the rule.
    pub(crate) at: usize,
    /// `!` was before the quotes.
    pub(crate) negated: bool,
    /// There is one.
    pub(crate) is_some: bool,
}

impl<'t> Value<'t> {
    /// As a piece of the rule.
    pub(crate) fn piece(self) -> Piece<'t> {
        Piece { text: self.text, at: self.at }
    }
}

/// Reads one keyword into the draft.
pub(crate) type Setup =
    for<'a, 'c, 't> fn(&'a mut Compiler<'c>, &'a mut Draft<'t>, Value<'t>) -> Checked<()>;

/// What a name in a rule means.
#[derive(Clone, Copy)]
pub(crate) enum Keyword {
    /// One of ours.
    Own(&'static KnownKeyword, Setup),
    /// A buffer of a protocol.
    Sticky(BufferId),
    /// A legacy modifier.
    Modifier(BufferId),
    /// An integer of a protocol.
    Integer(&'static IntegerDef),
    /// A condition of a protocol.
    Condition(&'static ConditionDef),
    /// Known to Suricata, not to this sensor.
    Inert(&'static KnownKeyword),
}

/// Each rule names dozens of keywords, so their hash is a quick one.
pub(crate) type Keywords = HashMap<&'static str, Keyword, foldhash::fast::RandomState>;
