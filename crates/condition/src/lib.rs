//! Falco's rule language: from rule files to compiled conditions and output formats.
//!
//! * Input: the text of rule files and, at run time, the fields of one event after the other through
//!   [`Fields`](gabion_record::fields::Fields).
//! * Output: the rules that match, and the text of their alerts. The crate knows neither events nor threads; it knows the
//!   names and types of fields.
//! * Main types: [`rules::Loader`] reads files and reports in Falco's codes and words; [`rules::RuleSet`] is what comes out,
//!   and [`rules::RuleMatcher`] tries it on events; [`compile::Filter`] is one condition alone; [`format::Format`] is the
//!   template of an alert.
//!
//! ```
//! use gabion_condition::rules::{Loader, Matching, RuleMatcher, Settings};
//! use gabion_record::fields::{Argument, FieldId, Fields, Missing, Scratch, Value, ids};
//!
//! /// The opening of a file by a shell.
//! struct Open;
//!
//! impl Fields for Open {
//!     fn field<'a>(&'a self, id: FieldId, _: Argument<'_>, _: &'a mut Scratch) -> Result<Value<'a>, Missing> {
//!         match id {
//!             ids::FD_NAME => Ok(Value::Text(b"/etc/shadow")),
//!             ids::PROC_NAME => Ok(Value::Text(b"bash")),
//!             _ => Err(Missing::NotApplicable),
//!         }
//!     }
//!     fn event_type(&self) -> u16 {
//!         307 // the exit of openat
//!     }
//!     fn event_number(&self) -> u64 {
//!         1
//!     }
//!     fn event_time(&self) -> u64 {
//!         0
//!     }
//! }
//!
//! let file = "\
//! - list: shells
//!   items: [bash, sh]
//! - rule: shell reads passwords
//!   desc: a shell opens the file of passwords
//!   condition: evt.type in (open, openat) and fd.name = /etc/shadow and proc.name in (shells)
//!   output: opened %fd.name (shell %proc.name, user %user.name)
//!   priority: WARNING
//! ";
//! let mut loader = Loader::new(Settings::default());
//! assert!(loader.load("my_rules.yaml", file).is_successful());
//! let rules = loader.into_rules();
//! let (mut matcher, mut matched) = (RuleMatcher::new(&rules), Vec::new());
//! matcher.matches(&rules, &Open, Matching::First, &mut matched);
//! assert_eq!(matched, [0]);
//!
//! let mut message = Vec::new();
//! rules.rules()[0].output.write(&Open, &mut Scratch::new(), &mut message);
//! assert_eq!(message, b"opened /etc/shadow (shell bash, user <NA>)");
//! ```
//!
//! A value that is absent satisfies no comparison, not even `!=`. All limits are in [`limits`].
#![forbid(unsafe_code)]

pub mod compile;
pub mod format;
pub mod lang;
pub mod limits;
mod migrate;
pub mod rules;

pub use migrate::{Migrated, migrate_rules};

/// What a JSON writer wrote, without the line end: the outputs put it.
fn without_line_end(json: gabion_record::json::Json) -> String {
    let mut line = json.into_line();
    line.truncate(line.trim_end_matches('\n').len());
    line
}
