//! Loads of rules during a run: the configuration and all rule files are read again, as at the start.

use super::reload::{LoadError, LoadOutcome, LoadedEngine, Reloads, RunningEngine};
use super::run::Run;
use gabion_net::Engine;
use gabion_record::Tree;
use gabion_record::eve::Wants;
use gabion_rules::CarriedNames;
use gabion_runtime::allocator;
use gabion_runtime::clock::{self, epoch_ns};
use gabion_settings::{
    EngineLog, EngineMode, Messages, RuleRequest, build_engine, check_rule_variables, load_rules,
};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::Duration;

/// Suricata's messages about a load of rules.
const STARTING: &str = "rule reload starting";
const COMPLETE: &str = "rule reload complete";

/// How long a rule file must not have changed when it is read: its writer may not be done. It is more than the time of a
/// file differs from the clock, which the kernel writes by its ticks.
const SETTLED: Duration = Duration::from_millis(100);
/// How long that is waited for, and rules are loaded again whose files were written meanwhile.
const SETTLES_WITHIN: Duration = Duration::from_millis(1_500);
/// How long it waits between two looks at files that change.
const LOOK: Duration = Duration::from_millis(20);

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
        let mut known = detector.set.files.clone();
        let since = clock::now();
        let before_set = Some(&detector.set);
        let loaded = loop {
            while let Some(file) = written_since(epoch_ns(), &known) {
                if since.elapsed() > SETTLES_WITHIN {
                    return Err(LoadError::Written(file.to_owned()));
                }
                std::thread::sleep(LOOK);
            }
            let began = epoch_ns();
            let loaded =
                load_rules(&config, &request, &catalog, &scripts, before_set, &mut messages);
            let files = loaded.as_ref().map_or(&known, |loaded| &loaded.set.files);
            if written_since(began, files).is_none() {
                break loaded.ok_or(LoadError::Rules)?;
            }
            known = files.clone();
        };
        let (counts, failed) = (loaded.counts, loaded.failed);
        // What reading took is not to stay in addition to what the engine takes.
        allocator::return_free_memory();
        let rules = Some((loaded.set, loaded.datasets));
        let engine =
            build_engine(&config, (rules, Some(before)), catalog, self.wants, self.mode, scripts)?;
        Ok(LoadedEngine { engine, counts, failed })
    }
}

/// A file that was changed shortly before a moment or after it: what is read of it may be half of it. A time to come says
/// nothing.
fn written_since(began_ns: u64, files: &[String]) -> Option<&str> {
    let now = epoch_ns();
    let from = began_ns.saturating_sub(SETTLED.as_nanos() as u64);
    let is_new = |name: &&String| {
        let Ok(found) = std::fs::metadata(name.as_str()) else { return false };
        let seconds = u64::try_from(found.mtime()).unwrap_or(0);
        let at = seconds * 1_000_000_000 + u64::try_from(found.mtime_nsec()).unwrap_or(0);
        found.is_file() && (from..=now).contains(&at)
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
            log.error(
                "detect",
                &format!("rule reload failed: {why}: the previous rules stay in use"),
            );
        }
    }
}
