//! What is in a scap file, in short: the time, threads and calls.

use super::ScapAccount;
use super::calls::Calls;
use crate::Error;
use crate::packets::InputOpener;
use gabion_record::budget::BudgetReport;
use gabion_record::logs::TimeNs;
use gabion_runtime::StopFlag;
use gabion_scap::Event;
use gabion_scap::table::event_types;
use gabion_syscall::{Options, State};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// What is in a file.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The file.
    pub path: PathBuf,
    /// What was read, merged and shed.
    pub account: ScapAccount,
    /// Times of the first and last event.
    pub span: Option<(TimeNs, TimeNs)>,
    /// Threads that are known at the end.
    pub threads: u64,
    /// The memory of threads and descriptors.
    pub memory: BudgetReport,
    /// Names of calls with the number of their events, the most frequent ones first.
    pub calls: Vec<(&'static str, u64)>,
}

/// Reads a file to its end. `opener` may hold the beginning of a pipe that was looked into.
///
/// # Errors
/// The input cannot be read as scap.
pub fn summarize(path: &Path, opener: &InputOpener, stop: &StopFlag) -> Result<Summary, Error> {
    summarize_with(path, opener, stop, &mut |_, _| {})
}

/// The same; `then` is called with each event and the state after it.
pub(crate) fn summarize_with(
    path: &Path,
    opener: &InputOpener,
    stop: &StopFlag,
    then: &mut dyn FnMut(&State, &Event<'_>),
) -> Result<Summary, Error> {
    let mut source = Calls::open(path, opener, Options::default(), stop)?;
    let mut by_type = vec![0_u64; event_types().len()];
    let mut span: Option<(u64, u64)> = None;
    source.for_each(|state, event| {
        if let Some(count) = by_type.get_mut(usize::from(event.kind().number)) {
            *count += 1;
        }
        // Events that the recording program made itself may have no time.
        if event.ts_ns > 0 {
            let (first, last) = span.unwrap_or((event.ts_ns, event.ts_ns));
            span = Some((first.min(event.ts_ns), last.max(event.ts_ns)));
        }
        then(state, event);
        ControlFlow::Continue(())
    })?;
    let mut calls: Vec<(&str, u64)> = Vec::new();
    for (kind, count) in event_types().iter().zip(by_type).filter(|(_, count)| *count > 0) {
        match calls.iter_mut().find(|(name, _)| *name == kind.name) {
            Some((_, sum)) => *sum += count,
            None => calls.push((kind.name, count)),
        }
    }
    calls.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
    let moment = |ns: u64| TimeNs(i64::try_from(ns).unwrap_or(i64::MAX));
    Ok(Summary {
        path: path.to_owned(),
        account: source.account().into_file(),
        span: span.map(|(first, last)| (moment(first), moment(last))),
        threads: source.state().threads().iter().count() as u64,
        memory: source.memory(),
        calls,
    })
}
