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
#![forbid(unsafe_code)]

mod action;
pub mod address;
pub mod analysis;
pub mod classification;
mod compile;
mod compiler;
pub mod content;
pub mod diagnostic;
mod draft;
pub mod events;
pub mod fast_pattern;
pub mod file;
mod finish;
pub mod integer;
mod keyword;
mod keywords;
pub mod known;
pub mod lexer;
pub mod limits;
mod list;
mod load;
pub mod names;
pub mod options;
pub mod order;
pub mod packet;
pub mod port;
pub mod post;
mod ranges;
mod rule_header;
mod rule_id;
mod rule_type;
pub mod ruleset;
pub mod selection;
pub mod signature;
pub mod text;
pub mod threshold_file;
pub mod transform;
mod validate;
mod var_faults;
pub mod vars;

pub use action::Action;
pub use address::{AddressId, AddressSet};
pub use diagnostic::{Diagnostic, Severity};
pub use load::RuleSource;
pub use options::{HostError, LoadOptions};
pub use port::{PortId, PortSet};
pub use rule_header::{FirewallActionError, firewall_action};
pub use rule_id::{format_rule_id, parse_rule_id};
pub use ruleset::{Counts, Ruleset, ScriptFacts};
pub use signature::{RuleType, Signature, SignatureFlags};
pub use text::Text;
pub use var_faults::VarFault;
pub use vars::RuleVars;
