//! Runs of Falco's rules over system calls: from a capture file or the kernel through the state of threads and the rules
//! to the outputs that `falco.yaml` names.

mod alerts;
mod capture;
mod captures;
mod context;
mod cost;
mod destinations;
mod drops;
mod event_file;
mod findings;
mod host_measures;
mod http;
mod listing;
mod metrics;
mod migrate;
mod plan;
mod rule_run;
mod rules;
mod run;
mod watch;
mod web;
mod why;

pub use alerts::AlertCounts;
pub use captures::{CaptureRun, CapturesDone};
pub use cost::{SyscallRuleCost, cost_of_rules};
pub use findings::{RuleFindings, SyscallFinding};
pub use listing::{
    ListFormat, event_list, field_list, help_text, ignored_calls, page_size_text, support_json,
    version_json, version_text,
};
pub use migrate::migrate_rule_file;
pub use plan::FalcoPlan;
pub use rules::{LoadedFalcoRules, NO_RULES, load_falco_rules, rule_paths, validate_rule_files};
pub use run::{DroppedCalls, FalcoDone, FalcoEnd, FalcoFault, FalcoRun};
pub use why::{WhyFault, explain_event};
