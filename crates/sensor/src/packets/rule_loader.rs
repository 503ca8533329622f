//! Loads of rules during a run: the configuration and all rule files are read again, as at the start.

use super::reload::{LoadError, LoadOutcome, LoadedEngine, Reloads, RunningEngine};
use super::run::Run;
use gabion_net::Engine;
use gabion_record::Tree;
use gabion_record::eve::Wants;
use gabion_rules::CarriedNames;
use gabion_runtime::clock::epoch_ns;
use gabion_settings::{
    EngineLog, EngineMode, Messages, RuleRequest, build_engine, check_rule_variables, load_rules,
};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

/// Suricata's messages about a load of rules.
const STARTING: &str = "rule reload starting";
const COMPLETE: &str = "rule reload complete";

/// How often rules are loaded whose files are written meanwhile.
const TRIES: u32 = 3;

/// Reads the configuration of a run.
pub type ReadConfiguration = dyn Fn() -> Result<Tree, gabion_settings::Error> + Send + Sync;

/// What the first load of a run's rules had, for the loads after it.
pub struct RuleLoader {
    /// Which rules are loaded. Files are found wherever the process goes.
    pub request: RuleRequest,
    /// Reads the configuration again.
    pub configuration: Box<ReadConfiguration>,
    /// What outputs want.
    pub wants: Wants,
    /// How the engine runs.
    pub mode: EngineMode,
    /// Where messages go.
    pub log: EngineLog,
}

impl RuleLoader {
    /// Loads for a run with this engine and this many workers.
    pub fn into_reloads(self, running: &Arc<RunningEngine>, workers: usize) -> Arc<Reloads> {
        let log = self.log.clone();
        let load = move |before: &Engine| self.load(before);
        let report = move |outcome: &LoadOutcome| report_outcome(&mut log.clone(), outcome);
        let workers = (workers, Run::needs_one_worker as fn(&Engine) -> _);
        Reloads::new(running, workers, Box::new(load), Box::new(report))
    }

    fn load(&self, before: &Engine) -> Result<LoadedEngine, LoadError> {
        let mut log = self.log.clone();
        log.notice("detect", STARTING);
        let detector = before.detector.as_ref().ok_or(LoadError::NoDetection)?;
        let carried = CarriedNames::of_rules(&detector.set).ok_or(LoadError::Names)?;
        let config = (self.configuration)()?;
        let mut say = |severity, module: &str, text: &str| log.report(severity, module, text);
        let mut messages = Messages::new(&mut say);
        if !check_rule_variables(&config, "the configuration", &mut messages) {
            return Err(LoadError::Variables);
        }
        let loaded_files = detector.set.files.clone();
        let request = RuleRequest { carried, loaded_files, ..self.request.clone() };
        let (catalog, scripts) = (before.catalog.clone(), before.scripts.clone());
        let mut tries = 0;
        let loaded = loop {
            let began = epoch_ns();
            let loaded = load_rules(&config, &request, &catalog, &scripts, &mut messages);
            let loaded = loaded.ok_or(LoadError::Rules)?;
            let Some(file) = written_since(began, &loaded.set.files) else { break loaded };
            tries += 1;
            if tries == TRIES {
                return Err(LoadError::Written(file.to_owned()));
            }
        };
        let (counts, failed) = (loaded.counts, loaded.failed);
        let rules = Some((loaded.set, loaded.datasets));
        let engine = build_engine(&config, rules, catalog, self.wants, self.mode, scripts)?;
        Ok(LoadedEngine { engine, counts, failed })
    }
}

/// A file that was changed after a moment: what was read of it may be half of it.
fn written_since(began_ns: u64, files: &[String]) -> Option<&str> {
    let is_new = |name: &&String| {
        let Ok(found) = std::fs::metadata(name.as_str()) else { return false };
        let seconds = u64::try_from(found.mtime()).unwrap_or(0);
        let at = seconds * 1_000_000_000 + u64::try_from(found.mtime_nsec()).unwrap_or(0);
        found.is_file() && at > began_ns
    };
    files.iter().find(is_new).map(String::as_str)
}

/// Writes into the engine's log what a load came to.
fn report_outcome(log: &mut EngineLog, outcome: &LoadOutcome) {
    match outcome {
        LoadOutcome::Done { took, .. } => {
            log.info("detect", &format!("rules loaded in {:.2} s", took.as_secs_f64()));
            log.notice("detect", COMPLETE);
        }
        LoadOutcome::Failed(why) => {
            log.error("detect", &format!("rule reload failed: {why}: the rules before stay"));
        }
    }
}
