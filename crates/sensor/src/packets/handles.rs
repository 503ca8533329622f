//! What others have of a run while it lasts: the metrics look into it, and commands also ask for something.

use super::board::Board;
use super::reload::{Reloads, RunningEngine};
use super::run::Run;
use super::tasks::Tasks;
use gabion_record::budget::BudgetPool;
use std::sync::Arc;

/// What others have of a run; clones are of the same run.
#[derive(Clone, Debug)]
pub struct RunHandles {
    /// The engine.
    pub running: Arc<RunningEngine>,
    /// The way to workers.
    pub tasks: Arc<Tasks>,
    /// What the run shows of itself.
    pub board: Arc<Board>,
    /// Loads of rules; none where the run has no rules.
    pub reloads: Option<Arc<Reloads>>,
    /// The memory that the run may use.
    pub budget: BudgetPool,
}

impl RunHandles {
    /// Of a run with this engine and this many workers, which begins later.
    pub fn new(
        running: &Arc<RunningEngine>,
        workers: usize,
        reloads: Option<Arc<Reloads>>,
        budget: &BudgetPool,
    ) -> RunHandles {
        RunHandles {
            running: Arc::clone(running),
            tasks: Arc::new(Tasks::new(workers)),
            board: Arc::default(),
            reloads,
            budget: budget.clone(),
        }
    }
}

impl Run<'_> {
    /// The run takes tasks, shows itself and loads rules where these handles are used.
    pub fn attach(&mut self, handles: &RunHandles) {
        self.tasks = Some(Arc::clone(&handles.tasks));
        self.board = Some(Arc::clone(&handles.board));
        self.reloads.clone_from(&handles.reloads);
    }
}
