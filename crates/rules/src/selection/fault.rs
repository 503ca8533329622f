//! What is wrong with a line that selects or changes rules.

use gabion_matcher::regex::CompileError;

/// What is allowed where rules are selected.
const FORMS: &str = "say SID, GID:SID, a list of them with commas, re:EXPRESSION, group:FILE, filename:PATH, \
                     metadata:KEY VALUE or *";

/// What a line of changes is made of.
const CHANGE: &str = "say WHICH \"EXPRESSION\" \"REPLACEMENT\", modifysid WHICH \"EXPRESSION\" | \
                      \"REPLACEMENT\" or metadata-add WHICH KEY VALUE";

/// A fault of a line.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum LineFault {
    /// It selects no rules.
    #[error("names no rules: {FORMS}")]
    NoRules,
    /// It has more or fewer words than a change.
    #[error("is {count} words: {CHANGE}")]
    Words { count: usize },
    /// A quote is not closed.
    #[error("has a quote without its end")]
    OpenQuote,
    /// Nothing follows its last backslash.
    #[error("ends in a backslash")]
    LastBackslash,
    /// An expression that can't be compiled.
    #[error("the expression {text} can't be read: {fault}")]
    Expression { text: String, fault: CompileError },
    /// A replacement with a group that the expression does not have.
    #[error("the replacement {text} names group {number}; the expression has {count}")]
    Group { text: String, number: u32, count: u32 },
    /// The same by its name.
    #[error("the replacement {text} names a group that does not exist: {name}")]
    GroupName { text: String, name: String },
    /// An escape that stands for nothing.
    #[error("the replacement {text} has \\{escape}, which means nothing")]
    Escape { text: String, escape: char },
}
