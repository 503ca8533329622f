//! Rules that the command line names: loaded with the configuration, reported, and built into an engine.

use crate::command_line::{EngineOptions, RuleOptions};
use crate::exit::Fault;
use crate::{configuration, direct_opener, standard_error};
use gabion_net::script::ScriptSetup;
use gabion_record::Tree;
use gabion_record::applayer::Catalog;
use gabion_record::eve::Wants;
use gabion_reports::{LoadDetail, rule_load_lines};
use gabion_rules::Counts;
use gabion_sensor::packets::{Reloads, RuleLoader, RunningEngine};
use gabion_settings::{
    ConsoleLine, EngineLog, EngineMode, NamedRuleFiles, NamedRules, RuleRequest, build_engine,
    load_output_scripts,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Reads and compiles rule files, and reports which files next to them can't be read.
fn compile(files: &NamedRuleFiles, config: &Tree, catalog: &Catalog) -> Result<NamedRules, Fault> {
    let rules = files
        .compile(config, catalog, &standard_error::script_setup(config))
        .map_err(|e| Fault::input(&e))?;
    rules.unreadable.iter().for_each(|line| eprintln!("gabion: {line}"));
    Ok(rules)
}

/// Loads rule files with the configuration that the options name, for verbs that only look at rules.
pub(crate) fn load(o: &RuleOptions, files: &[PathBuf]) -> Result<(NamedRules, Catalog), Fault> {
    let config = configuration::load(o.config.as_deref(), &o.sets)?;
    let catalog = gabion_proto::registry::catalog();
    let files = NamedRuleFiles {
        paths: files.to_vec(),
        is_firewall: o.firewall,
        selection: o.selection.files(),
    };
    let rules = compile(&files, &config, &catalog)?;
    Ok((rules, catalog))
}

/// Prints what is reported of rules that were loaded.
pub(crate) fn report(rules: &NamedRules, how: LoadDetail) {
    rule_load_lines(rules, how).iter().for_each(|line| eprintln!("gabion: {line}"));
}

/// What an engine is built for.
pub(crate) struct EngineUse<'a> {
    /// What outputs ask for.
    pub(crate) wants: Wants,
    /// What of the rules is reported.
    pub(crate) detail: LoadDetail,
    /// Whether costs of rules are measured: of all packets or of some.
    pub(crate) profile: Option<bool>,
    /// The folder of outputs, for scripts that are outputs.
    pub(crate) log_dir: Option<&'a Path>,
}

/// Loads of rules for a run that lasts: the configuration and all files are read again, as at the start. None where the
/// options name no rules.
pub(crate) fn reloads(
    o: &EngineOptions,
    mut wants: Wants,
    (profile, is_quiet): (Option<bool>, bool),
    (running, workers): (&Arc<RunningEngine>, usize),
) -> Option<Arc<Reloads>> {
    let (only, also) = o.rules.split_first()?;
    let request = RuleRequest {
        only: Some(only.clone()),
        also: also.to_vec(),
        selection: o.selection.files(),
        ..RuleRequest::default()
    };
    let log = engine_log(is_quiet);
    let (file, sets) = (o.config.clone(), o.sets.clone());
    let configuration = Box::new(move || {
        gabion_settings::load_configuration(file.as_deref(), &sets, &mut |line| {
            eprintln!("gabion: {line}");
        })
    });
    wants.join(gabion_net::script::OutputScripts::records(&running.now().scripts.outputs));
    let mode = mode(o, profile);
    Some(RuleLoader { request, configuration, wants, mode, log }.into_reloads(running, workers))
}

/// Messages of what is done while a run lasts: loads of rules, commands. They go to standard error.
pub(crate) fn engine_log(is_quiet: bool) -> EngineLog {
    let mut level = Tree::default();
    level.set("logging.default-log-level", "notice");
    EngineLog::open(direct_opener(), &level, Path::new("."), 0, move |line| match line {
        ConsoleLine::Output(_) if is_quiet => {}
        ConsoleLine::Output(line) | ConsoleLine::Error(line) => eprintln!("gabion: {line}"),
    })
}

/// How the engine runs.
fn mode(o: &EngineOptions, profile: Option<bool>) -> EngineMode {
    EngineMode {
        inline: o.simulate_ips,
        checksums: o.checksums(),
        profile,
        ..EngineMode::default()
    }
}

/// An engine with the rules that the options name, if they name some.
pub(crate) fn engine(
    o: &EngineOptions,
    config: &Tree,
    for_use: EngineUse<'_>,
) -> Result<Arc<RunningEngine>, Fault> {
    let catalog = gabion_proto::registry::catalog();
    let mut counts = Counts::default();
    let mut rules = None;
    if !o.rules.is_empty() {
        let files = NamedRuleFiles {
            paths: o.rules.clone(),
            is_firewall: false,
            selection: o.selection.files(),
        };
        let loaded = compile(&files, config, &catalog)?;
        report(&loaded, for_use.detail);
        loaded.refuse_none_left().map_err(|e| Fault::input(&e))?;
        counts = loaded.set.counts;
        rules = Some((loaded.set, loaded.datasets));
    }
    let mode = mode(o, for_use.profile);
    let scripts: ScriptSetup = standard_error::script_setup(config);
    let scripts = match for_use.log_dir {
        Some(folder) => load_output_scripts(scripts, config, folder),
        None => scripts,
    };
    let mut wants = for_use.wants;
    wants.join(gabion_net::script::OutputScripts::records(&scripts.outputs));
    let engine = build_engine(config, (rules, None), catalog, wants, mode, scripts)
        .map_err(|e| Fault::input(format!("configuration: {e}: fix it")))?;
    Ok(RunningEngine::new(engine, counts))
}
