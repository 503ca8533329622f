//! # rules: the Suricata rule language
//!
//! **In**: rule files, the tables of the protocols ([`gabion_record::applayer::Catalog`]), address
//! and port variables, class and reference files, the threshold file. **Out**: a [`Ruleset`] of
//! compiled [`Signature`]s, and diagnostics that point at the very column. **Holds**: nothing
//! beyond the load.
//!
//! The crate reads and judges rules; it runs none of them. It knows no protocol: what a protocol
//! offers comes as tables, and keywords of protocols that this sensor does not have are known by a
//! listing, so that rules which use them load and are shown as inert instead of being refused.
//!
//! ```
//! use gabion_record::applayer::Catalog;
//! use gabion_rules::{LoadOptions, RuleSource, RuleVars, Ruleset};
//!
//! let text = "alert tcp any any -> any 80 (msg:\"a path\"; content:\"/etc/passwd\"; sid:1;)\n";
//! let sources = [RuleSource { name: "local.rules", text, is_firewall: false }];
//! let (set, faults) =
//!     Ruleset::load(&sources, &Catalog::default(), &RuleVars::default(), &LoadOptions::default());
//! assert_eq!((set.counts.loaded, faults.len()), (1, 0));
//! ```
//!
//! The root opens what loads and judges rules. [`compiled`] has the parts of a signature for the engine that runs it,
//! [`analysis`] the reports on rules. `examples/check_rules.rs` reads files.
#![forbid(unsafe_code)]

mod action;
mod address;
pub mod analysis;
mod classification;
mod compile;
pub mod compiled;
mod compiler;
mod content;
mod diagnostic;
mod draft;
mod events;
mod fast_pattern;
mod file;
mod finish;
mod integer;
mod keyword;
mod keywords;
mod known;
mod lexer;
pub mod limits;
mod list;
mod load;
mod memory;
mod names;
mod options;
mod order;
mod packet;
mod port;
mod post;
mod ranges;
mod rule_header;
mod rule_id;
mod rule_type;
mod ruleset;
mod selection;
mod signature;
mod text;
mod threshold_file;
mod transform;
mod validate;
mod var_faults;
mod vars;

pub use action::Action;
pub use classification::{parse as parse_classification, read_references};
pub use diagnostic::{Diagnostic, Severity};
pub use known::{
    KnownKeyword, all_keywords, describe as describe_keyword, list_csv as keyword_list_csv,
};
pub use lexer::{RuleText, rules as rule_texts};
pub use load::{RuleParts, RuleSource};
pub use options::{
    CarriedNames, DatasetOpener, FileReader, HostError, LoadOptions, ScriptInspector,
};
pub use rule_header::{FirewallActionError, firewall_action};
pub use rule_id::{format_rule_id, parse_rule_id};
pub use ruleset::{Classification, Counts, Ruleset, SkippedRule};
pub use selection::{Kind as SelectionKind, Selected, Selection};
pub use signature::{RuleType, Signature, SignatureFlags};
pub use threshold_file::{Entry as ThresholdEntry, EntryKind, parse as parse_thresholds};
pub use var_faults::VarFault;
pub use vars::RuleVars;
