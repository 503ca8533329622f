//! Rule files: reading, joining, checking and compiling them, with reports in Falco's codes and words.

mod build;
mod describe;
mod described;
mod exceptions;
mod explain;
mod items;
mod read;
mod reading;
mod report;
mod rule_item;
mod set;
mod settings;
mod text;
mod version;
mod yaml;

pub use describe::{describe_all, describe_rule, list_text};
pub use described::Described;
pub use explain::explain_rule;
pub use items::Priority;
pub use report::{Code, ItemType, LoadResult, Location, Message, results_json};
pub use set::{Match, Matching, Rule, RuleMatcher, RuleSet, Selection};
pub use settings::{AppendOutput, Settings};
pub use version::Version;
pub use yaml::Mark;

use items::Items;
use report::{Context, Warnings};
use std::sync::Arc;

/// Reads rule files one after the other; later files see, extend and replace what earlier ones define.
#[derive(Debug, Default)]
pub struct Loader {
    settings: Settings,
    items: Items,
    rules: RuleSet,
}

impl Loader {
    /// A loader without rules.
    pub fn new(settings: Settings) -> Loader {
        Loader { settings, ..Loader::default() }
    }

    /// Reads one file and compiles all rules so far. `name` is the file's name in messages.
    ///
    /// After an error the rules are those of before, but the items of the file that were read before the error remain.
    pub fn load(&mut self, name: &str, text: &str) -> LoadResult {
        let file: Arc<str> = name.into();
        let mut warnings = Warnings::default();
        let context = Context::file(&file);
        let mut result = LoadResult { name: name.to_string(), ..LoadResult::default() };
        let read = read::read_file(text, &context, &self.settings, &mut self.items, &mut warnings);
        result.schema_warnings = std::mem::take(&mut warnings.schema);
        let built =
            read.and_then(|()| build::build(&self.items, &self.settings, text, &mut warnings));
        match built {
            Ok(rules) => self.rules = rules,
            Err(error) => result.errors.push(*error),
        }
        result.warnings = warnings.messages;
        result
    }

    /// The rules that are compiled.
    pub fn rules(&self) -> &RuleSet {
        &self.rules
    }

    /// Takes the compiled rules.
    pub fn into_rules(self) -> RuleSet {
        self.rules
    }
}
