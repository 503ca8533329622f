//! Questions to all workers of a run: each answers between two batches, and the last one's answer completes them.

use super::refusal::Refusal;
use super::{Answer, Reply};
use crate::packets::{Board, RunHandles, Tasks, WorkerStats, statistics};
use gabion_record::Tree;
use gabion_record::json::Json;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// What workers have answered so far; the answer is made of all when the last of them has.
struct Gathered<T> {
    left: usize,
    answers: Vec<T>,
}

/// Asks each worker; `finish` is called with all answers on the thread of the last.
fn ask_all<T: Send + 'static>(
    tasks: &Tasks,
    reply: &Reply,
    ask: impl Fn(&mut gabion_net::Worker) -> T + Clone + Send + 'static,
    finish: impl Fn(Vec<T>) -> Answer + Clone + Send + 'static,
) -> Answer {
    let gathered = Gathered { left: tasks.workers(), answers: Vec::new() };
    let gathered = Arc::new(Mutex::new(gathered));
    for n in 0..tasks.workers() {
        let (gathered, reply) = (Arc::clone(&gathered), reply.clone());
        let (ask, finish) = (ask.clone(), finish.clone());
        let is_posted = tasks.post(
            n,
            Box::new(move |worker| {
                let answer = ask(worker);
                let mut all = gathered.lock().unwrap_or_else(PoisonError::into_inner);
                all.answers.push(answer);
                all.left -= 1;
                if all.left == 0 {
                    reply.send(finish(std::mem::take(&mut all.answers)));
                }
            }),
        );
        if !is_posted {
            return Answer::Refused(Refusal::Busy);
        }
    }
    Answer::Later
}

/// All counters of a run, as its next record of statistics would have them.
pub(super) fn counters(handles: &RunHandles, started: Instant, reply: &Reply) -> Answer {
    let (running, board) = (Arc::clone(&handles.running), Arc::clone(&handles.board));
    ask_all(
        &handles.tasks,
        reply,
        |worker| WorkerStats::from_worker(worker),
        move |all| {
            let all: Vec<(usize, &WorkerStats)> = all.iter().enumerate().collect();
            let more = of_run(&board, started);
            let texts = statistics(&all, &running.now(), Some(running.facts()), &more, None);
            Answer::Done(texts.object(&Tree::default()))
        },
    )
}

/// What a run counts besides its workers: the seconds since the start, and over interfaces what the kernel counted at all
/// of them, by the names that records of statistics have for it.
fn of_run(board: &Board, started: Instant) -> Vec<(&'static str, u64)> {
    let mut more = vec![("uptime", started.elapsed().as_secs())];
    more.extend(board.kernel_counts().into_iter().flat_map(|kernel| kernel.counters()));
    more
}

/// Packets and bytes of a flow by direction, and its age in seconds.
type FlowTally = ([(u64, u64); 2], u64);

/// What was seen of a flow.
pub(super) fn flow(tasks: &Tasks, id: u64, reply: &Reply) -> Answer {
    let finish = |all: Vec<Option<FlowTally>>| match all.into_iter().flatten().next() {
        None => Answer::Refused(Refusal::NoFlow),
        Some(([to_server, to_client], age_s)) => {
            let mut j = Json::new();
            j.open();
            j.number("pkts_toclient", to_client.0);
            j.number("pkts_toserver", to_server.0);
            j.number("bytes_toclient", to_client.1);
            j.number("bytes_toserver", to_server.1);
            j.number("age", age_s);
            j.close();
            Answer::Done(j.take_bytes())
        }
    };
    ask_all(tasks, reply, move |worker| worker.flow_tally(id), finish)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packets::{BeforeSocket, KernelCounts};

    /// Records of statistics have the same counters: the function that names them is one.
    #[test]
    fn what_the_kernel_counted_is_shown_with_all_that_was_lost_before_the_sockets() {
        let (board, started) = (Board::default(), gabion_runtime::clock::now());
        assert_eq!(of_run(&board, started).len(), 1, "a run over files");
        let before = BeforeSocket { backlog: 3, dropped: 4, missed: 5 };
        let counts = KernelCounts { offered: 10, dropped: 2, before };
        board.note_ring("eth0", 0, counts);
        board.note_ring("eth0", 1, counts);
        let more = of_run(&board, started);
        assert_eq!(
            more[1..],
            [
                ("capture.kernel_packets", 20),
                ("capture.kernel_drops", 4),
                ("capture.backlog_drops", 3),
                ("capture.interface_drops", 4),
                ("capture.interface_missed", 5),
            ]
        );
    }
}
