//! What rule files define, joined over all files: lists, macros and rules in their order.

use super::report::Context;
use std::collections::{HashMap, HashSet};

/// How urgent an alert is; the first is the most urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// The system is unusable.
    Emergency,
    /// Something must be done now.
    Alert,
    /// Critical.
    Critical,
    /// Error.
    Error,
    /// Warning.
    Warning,
    /// Normal, but significant.
    Notice,
    /// Information.
    Informational,
    /// Of use to those who look for faults.
    Debug,
}

impl Priority {
    /// All priorities.
    pub const ALL: [Priority; 8] = [
        Priority::Emergency,
        Priority::Alert,
        Priority::Critical,
        Priority::Error,
        Priority::Warning,
        Priority::Notice,
        Priority::Informational,
        Priority::Debug,
    ];

    /// The name in alerts.
    pub const fn name(self) -> &'static str {
        match self {
            Priority::Emergency => "Emergency",
            Priority::Alert => "Alert",
            Priority::Critical => "Critical",
            Priority::Error => "Error",
            Priority::Warning => "Warning",
            Priority::Notice => "Notice",
            Priority::Informational => "Informational",
            Priority::Debug => "Debug",
        }
    }

    /// The name in statistics and descriptions.
    pub const fn short_name(self) -> &'static str {
        match self {
            Priority::Informational => "Info",
            other => other.name(),
        }
    }

    /// The priority of a name in any case; `info` is `Informational`.
    pub fn parse(text: &str) -> Option<Priority> {
        if text.eq_ignore_ascii_case("info") {
            return Some(Priority::Informational);
        }
        Priority::ALL.into_iter().find(|priority| priority.name().eq_ignore_ascii_case(text))
    }
}

/// The place of an item among all items of its kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Order {
    /// When the name was first defined: later items see it.
    pub(super) first: usize,
    /// When the item was last changed: it sees all names that were first defined before.
    pub(super) last: usize,
}

impl Order {
    /// Sees all names: conditions of rules may use macros, and all conditions lists, that are defined after them.
    pub(super) const LAST: Order = Order { first: usize::MAX, last: usize::MAX };

    /// Whether an item sees the name of another.
    pub(super) fn sees(self, other: Order) -> bool {
        other.first < self.last
    }
}

#[derive(Clone, Debug)]
pub(super) struct List {
    pub(super) name: String,
    pub(super) context: Context,
    pub(super) items: Vec<String>,
    pub(super) order: Order,
}

#[derive(Clone, Debug)]
pub(super) struct Macro {
    pub(super) name: String,
    pub(super) context: Context,
    pub(super) condition: String,
    pub(super) order: Order,
}

/// A value of an exception: one text or several.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Entry {
    Text(String),
    List(Vec<Entry>),
}

#[derive(Clone, Debug)]
pub(super) struct Exception {
    pub(super) name: String,
    pub(super) context: Context,
    pub(super) fields: Option<Entry>,
    pub(super) comparisons: Option<Entry>,
    pub(super) values: Vec<Entry>,
}

#[derive(Clone, Debug)]
pub(super) struct RuleItem {
    pub(super) name: String,
    pub(super) context: Context,
    pub(super) condition: String,
    pub(super) condition_context: Context,
    pub(super) description: String,
    pub(super) output: String,
    pub(super) output_context: Context,
    pub(super) priority: Priority,
    pub(super) source: String,
    pub(super) tags: Vec<String>,
    pub(super) exceptions: Vec<Exception>,
    pub(super) is_enabled: bool,
    pub(super) warns_of_types: bool,
    pub(super) skips_unknown: bool,
    pub(super) capture: bool,
    pub(super) capture_duration_ms: u64,
    pub(super) order: Order,
}

/// Items of one kind, in the order of their first definition.
#[derive(Debug)]
pub(super) struct Named<T> {
    all: Vec<T>,
    by_name: HashMap<String, usize>,
}

impl<T> Default for Named<T> {
    fn default() -> Named<T> {
        Named { all: Vec::new(), by_name: HashMap::new() }
    }
}

impl<T> Named<T> {
    pub(super) fn get(&self, name: &str) -> Option<&T> {
        self.by_name.get(name).and_then(|at| self.all.get(*at))
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut T> {
        self.by_name.get(name).and_then(|at| self.all.get_mut(*at))
    }

    pub(super) fn position(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    pub(super) fn put(&mut self, name: &str, item: T) {
        match self.by_name.get(name) {
            Some(at) => {
                if let Some(old) = self.all.get_mut(*at) {
                    *old = item;
                }
            }
            None => {
                self.by_name.insert(name.to_string(), self.all.len());
                self.all.push(item);
            }
        }
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, T> {
        self.all.iter()
    }
}

/// Everything that the files so far define.
#[derive(Debug, Default)]
pub(super) struct Items {
    pub(super) lists: Named<List>,
    pub(super) macros: Named<Macro>,
    pub(super) rules: Named<RuleItem>,
    /// Rules that were ignored because their source is not known: what is appended to them is ignored too.
    pub(super) ignored_rules: HashSet<String>,
    pub(super) engine_version: Option<super::Version>,
    /// What `required_plugin_versions` asked for: name and version, with the alternatives.
    pub(super) plugins: Vec<Vec<(String, String)>>,
    count: usize,
}

impl Items {
    /// The order of an item that is defined now.
    pub(super) fn next_order(&mut self, first: Option<Order>) -> Order {
        self.count += 1;
        Order { first: first.map_or(self.count, |order| order.first), last: self.count }
    }
}
