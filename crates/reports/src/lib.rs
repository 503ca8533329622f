//! # Reports
//!
//! What people and programs read about a run, about rules and about the machine: each report is made of values that
//! engines and runs left, or of the files in a run's folder, and comes out as text or as one JSON object. Nothing is
//! printed here, and no option of a command line is known.
//!
//! ```
//! use gabion_reports::RuleCheck;
//! use gabion_settings::{NamedRuleFiles, built_in_configuration, script_setup};
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("my.rules");
//! # std::fs::write(&path, "alert tcp any any -> any any (msg:\"no id\"; content:\"x\";)\n")?;
//! let config = built_in_configuration();
//! let scripts = script_setup(&config, gabion_net::script::Voice::new(|_, _, _| ()));
//! let files = NamedRuleFiles { paths: vec![path], ..NamedRuleFiles::default() };
//! let rules = files.compile(&config, &gabion_proto::registry::catalog(), &scripts)?;
//! let check = RuleCheck::from_rules(rules);
//! assert!(!check.is_good());
//! assert!(check.json().contains("\"refused\":1"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! * Runs: [`PacketReport`] and [`FlowReport`], with [`flow_faults()`]; [`packet_page`] and [`add_flows_to_page`] fill the
//!   page about a run.
//! * Findings that a run left in its folder: [`FindingList`], [`HostReport`], [`MutePreview`].
//! * Rules: [`RuleCheck`], [`RuleList`], [`rule_load_lines`], [`rule_cost_table`].
//! * Captures of system calls: [`ScapReport`]; rules over them: [`SyscallReport`].
//! * Memory and losses of a sensor: [`HealthReport`].
#![forbid(unsafe_code)]

mod doctor;
mod error;
mod finding_list;
mod findings;
mod flow_faults;
mod flow_run;
mod host;
pub mod limits;
mod members;
mod muted;
mod packet_run;
mod page;
mod ranked;
mod rule_check;
mod rule_costs;
mod rule_list;
mod rule_load;
mod run_tables;
mod scap_files;
mod syscall_run;

pub use doctor::HealthReport;
pub use error::Error;
pub use finding_list::{FindingFilter, FindingList, FindingOrder};
pub use flow_faults::{FlowDefect, FlowFault, FlowInputFault, FlowRequest, flow_faults};
pub use flow_run::FlowReport;
pub use host::HostReport;
pub use muted::MutePreview;
pub use packet_run::{PacketReport, wrong_checksums_line};
pub use page::{add_flows_to_page, packet_page};
pub use rule_check::{CheckStyle, RuleCheck};
pub use rule_costs::{
    COSTLY_RULES_SHOWN, rule_cost_table, write_rule_costs, write_rule_costs_json,
};
pub use rule_list::RuleList;
pub use rule_load::{LoadDetail, rule_load_lines};
pub use run_tables::RUN_FILE;
pub use scap_files::ScapReport;
pub use syscall_run::{SyscallReport, syscall_cost_json, syscall_cost_table, syscall_severity};
