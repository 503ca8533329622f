//! # Configuration to engine
//!
//! Suricata's YAML and rule files come in; a compiled engine, its rule set and the settings of a run go
//! out. No command line is read here: each front door fills the plain structs of this crate.
//!
//! ```
//! use gabion_settings::{Demands, EngineMode, RuleFile, build_engine, compile_rules, script_setup};
//!
//! let config = gabion_settings::built_in_configuration();
//! let catalog = gabion_proto::registry::catalog();
//! let scripts = script_setup(&config, gabion_net::script::Voice::new(|_, _, _| ()));
//! let rules = RuleFile {
//!     name: "my.rules".to_owned(),
//!     parts: vec!["alert dns any any -> any any (msg:\"a query\"; dns.query; content:\"x\"; sid:1;)".to_owned()],
//!     is_firewall: false,
//! };
//! let compiled = compile_rules(&config, vec![rules], &catalog, Demands::default(), &scripts);
//! assert_eq!(compiled.set.counts.loaded, 1);
//! let rules = Some((compiled.set, compiled.datasets));
//! let wants = gabion_record::eve::Wants::default();
//! let engine = build_engine(&config, (rules, None), catalog, wants, EngineMode::default(), scripts)?;
//! assert!(engine.detector.is_some());
//! # Ok::<(), gabion_settings::Error>(())
//! ```
//!
//! * Configurations: [`load_configuration`], [`built_in_configuration`], [`yaml::read_yaml_file`] and its like
//!   give a [`Tree`](gabion_record::Tree); [`check_configuration`], [`check_outputs`] and
//!   [`unknown_keys_line`] find what is wrong with one.
//! * Rules: [`load_rules`] reads all that a configuration names, [`compile_rules`] files that were read.
//! * [`EngineLog`] is where Suricata's configuration has messages go.
//! * [`build_engine`] makes the engine, [`plan_workers`] says how many threads run it.
//!
//! What is worth reporting on the way goes to [`Messages`]; why something can't be used is an [`Error`].
#![forbid(unsafe_code)]

mod af_packet;
mod assemble;
mod checks;
mod classes;
mod configuration;
mod countries;
mod engine_log;
mod error;
mod eve_options;
pub mod falco;
pub mod limits;
mod messages;
mod named_rules;
mod privileges;
mod reputation;
mod rule_file;
mod rule_reports;
mod rule_settings;
mod rules;
mod scripts;
mod selection;
mod threads;
mod unknown_keys;
mod values;
pub mod yaml;

pub use af_packet::InterfaceSettings;
pub use assemble::{Checksums, EngineMode, SimulatedFaults, build_engine};
pub use checks::{check_configuration, check_outputs, check_rule_variables, check_settings};
pub use configuration::{built_in_configuration, load_configuration};
pub use countries::load_countries;
pub use engine_log::{ConsoleLine, EngineLog};
pub use error::Error;
pub use eve_options::check_eve_options;
pub use messages::Messages;
pub use named_rules::{NamedRuleFiles, NamedRules};
pub use privileges::find_run_as;
pub use rule_file::{RuleFile, read_rule_file};
pub use rule_reports::{write_rule_analysis, write_rule_groups};
pub use rules::{
    CompiledRules, Demands, LoadedRules, RuleRequest, compile_rules, fold_faults, load_rules,
    report_never_matching,
};
pub use scripts::{load_output_scripts, script_setup};
pub use selection::SelectionFiles;
pub use threads::{WorkerPlan, plan_workers};
pub use unknown_keys::unknown_keys_line;
