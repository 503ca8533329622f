//! Which threads Suricata's configuration asks for: run modes, processor sets, packets under way.
//!
//! Suricata reads captures with as many threads as there are processors unless configured otherwise, and
//! then answers differently from run to run. Here the answer is the same with any number, but a
//! single worker is the one that costs least in all; so there is one unless a run mode is named. A
//! run mode of several threads takes their number from the configuration as Suricata does: `threads`
//! of the set of worker processors, else the processors of that set, else `detect-thread-ratio`
//! times the processors there are.

use crate::error::{Error, Result};
use crate::limits::PROCESSORS_MAX;
use gabion_record::Tree;
use gabion_runtime::processors;

/// How many threads inspect, and where.
#[derive(Clone, Debug, Default)]
pub struct WorkerPlan {
    /// Workers; 0 and 1 are one.
    pub workers: usize,
    /// Frames under way to one worker, unless it is the usual.
    pub pending: Option<u64>,
    /// Processors that the workers are bound to, one list after the other in turn.
    pub processors: Vec<Vec<usize>>,
}

impl WorkerPlan {
    /// This many workers, wherever the system lets them run.
    pub fn for_workers(workers: usize) -> WorkerPlan {
        WorkerPlan { workers, ..WorkerPlan::default() }
    }

    /// The processors of a worker.
    pub fn processors(&self, worker: usize) -> &[usize] {
        let at = worker.checked_rem(self.processors.len());
        at.and_then(|at| self.processors.get(at)).map_or(&[], Vec::as_slice)
    }
}

/// The threads of a run: as this run mode asks for, or the configuration's.
///
/// # Errors
/// When there is no such run mode.
pub fn plan_workers(runmode: Option<&str>, config: &Tree) -> Result<WorkerPlan> {
    let several = match runmode.or_else(|| config.text("runmode")) {
        None | Some("auto" | "single") => false,
        Some("autofp" | "workers" | "worker") => true,
        Some(other) => {
            return Err(Error::RunMode { name: other.to_owned() });
        }
    };
    let pending = config.number("max-pending-packets");
    let mut plan = WorkerPlan { pending, ..WorkerPlan::for_workers(1) };
    if !several {
        return Ok(plan);
    }
    let set = worker_set(config);
    let named = set.and_then(|s| processors_of(s.get("cpu")?));
    let threads = set.and_then(|s| s.number("threads")).filter(|n| *n > 0);
    plan.workers = match (threads.and_then(|n| usize::try_from(n).ok()), &named) {
        (Some(n), _) => n,
        (None, Some(list)) => list.len(),
        (None, None) => by_ratio(config),
    };
    if let Some(set) = set {
        let all = || (0..processors::available()).collect();
        plan.processors = match (set.text("mode"), named) {
            (Some("exclusive"), list) => {
                list.unwrap_or_else(all).into_iter().map(|n| vec![n]).collect()
            }
            (_, Some(list)) => vec![list],
            (_, None) => Vec::new(),
        };
    }
    Ok(plan)
}

/// The set of worker processors, when threads are to be bound at all. Under `threading.cpu-affinity`
/// stands a list until version 7, a mapping since.
fn worker_set(config: &Tree) -> Option<&Tree> {
    if config.flag("threading.set-cpu-affinity") != Some(true) {
        return None;
    }
    let sets = config.get("threading.cpu-affinity")?;
    ["worker-cpu-set", "detect-cpu-set"]
        .into_iter()
        .find_map(|name| sets.get(name).or_else(|| sets.item(name)))
}

/// Numbers and ranges of processors; `None` for all of them.
fn processors_of(node: &Tree) -> Option<Vec<usize>> {
    let items = node.children.iter().filter_map(|(_, item)| item.value.as_deref());
    let mut list = Vec::new();
    for text in node.value.as_deref().into_iter().chain(items) {
        if text == "all" {
            return None;
        }
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (Ok(first), Ok(last)) = (first.trim().parse(), last.trim().parse::<usize>()) else {
            continue;
        };
        list.extend(first..=last.min(PROCESSORS_MAX));
    }
    (!list.is_empty()).then_some(list)
}

fn by_ratio(config: &Tree) -> usize {
    let ratio = config.text("threading.detect-thread-ratio").and_then(|t| t.parse().ok());
    let ratio: f64 = ratio.filter(|r: &f64| r.is_finite() && *r > 0.0).unwrap_or(1.0);
    ((processors::available() as f64 * ratio) as usize).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::read_yaml_text;

    fn config(text: &str) -> Tree {
        read_yaml_text("test", &format!("%YAML 1.1\n---\n{text}")).unwrap()
    }

    fn planned(runmode: Option<&str>, text: &str) -> WorkerPlan {
        plan_workers(runmode, &config(text)).unwrap()
    }

    /// Numbers as Suricata's documentation of run modes and of `threading` gives them.
    #[test]
    fn run_modes_and_sets_say_how_many_workers() {
        let set = "threading: {set-cpu-affinity: yes, cpu-affinity: {worker-cpu-set: \
                   {cpu: [\"1-3\", 5], mode: exclusive}}}";
        let old = "threading: {set-cpu-affinity: yes, cpu-affinity: [{worker-cpu-set: \
                   {cpu: [all], threads: 7}}]}";
        let off = "threading: {set-cpu-affinity: no, cpu-affinity: {worker-cpu-set: {cpu: [1]}}}";
        let all = processors::available();
        for (runmode, text, workers) in [
            (None, "a: b", 1),
            (None, "runmode: single", 1),
            (Some("single"), "runmode: autofp", 1),
            (Some("autofp"), "a: b", all),
            (Some("autofp"), "threading: {detect-thread-ratio: 2}", all * 2),
            (Some("autofp"), "threading: {detect-thread-ratio: 0.0001}", 1),
            (None, "runmode: workers", all),
            (Some("autofp"), set, 4),
            (Some("autofp"), old, 7),
            (Some("autofp"), off, all),
            (None, set, 1),
        ] {
            assert_eq!(planned(runmode, text).workers, workers, "{runmode:?} {text}");
        }
        let bound = planned(Some("workers"), set);
        assert_eq!(bound.processors(1), [2]);
        assert_eq!(bound.processors(4), [1]);
        assert!(planned(Some("workers"), old).processors(0).is_empty());
        assert_eq!(planned(None, "max-pending-packets: 2000").pending, Some(2000));
        assert!(plan_workers(Some("fast"), &config("a: b")).is_err());
    }
}
