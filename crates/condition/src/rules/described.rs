//! What is kept of lists, macros and rules for descriptions of them.

use super::items::RuleItem;
use super::version::Version;
use crate::compile::TypeSet;
use crate::lang::{self, Expr};
use crate::limits::EXPANDED_TEXT_BYTES_MAX;
use std::sync::Arc;

/// What is kept of all items for descriptions.
#[derive(Debug, Default)]
pub struct Described {
    pub(super) engine_version: Option<Version>,
    pub(super) plugins: Vec<Vec<(String, String)>>,
    pub(super) lists: Vec<DescribedList>,
    pub(super) macros: Vec<DescribedMacro>,
    pub(super) rules: Vec<DescribedRule>,
}

#[derive(Debug)]
pub(super) struct DescribedList {
    pub(super) name: String,
    pub(super) items: Vec<String>,
    pub(super) compiled: Vec<String>,
    pub(super) lists: Vec<String>,
    pub(super) is_used: bool,
}

#[derive(Debug)]
pub(super) struct DescribedMacro {
    pub(super) name: String,
    pub(super) condition: String,
    pub(super) expr: Arc<Expr>,
    pub(super) lists: Vec<String>,
    pub(super) macros: Vec<String>,
    pub(super) is_used: bool,
}

#[derive(Debug)]
pub(super) struct DescribedRule {
    pub(super) item: RuleItem,
    pub(super) expr: Arc<Expr>,
    pub(super) lists: Vec<String>,
    pub(super) macros: Vec<String>,
    pub(super) types: TypeSet,
}

impl DescribedRule {
    /// The compiled condition as text.
    pub(super) fn compiled(&self) -> String {
        lang::text_of(&self.expr, EXPANDED_TEXT_BYTES_MAX)
            .unwrap_or_else(|| self.item.condition.clone())
    }
}

impl Described {
    /// The compiled text of a rule's condition.
    pub fn compiled_condition(&self, rule: &str) -> Option<String> {
        self.rules.iter().find(|r| r.item.name == rule).map(DescribedRule::compiled)
    }

    /// The names of the events that a rule is for.
    pub fn event_names(&self, rule: &str) -> Option<Vec<&'static str>> {
        self.rules.iter().find(|r| r.item.name == rule).map(|rule| rule.types.names())
    }
}
