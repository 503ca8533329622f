//! A reader deals batches to two workers by key; one of them is killed in the middle. The owner
//! hears of it, gives the shard up and counts it, the other worker finishes, and every stage
//! balances.

use std::time::Duration;

use gabion_record::ledger::{Ledger, ShedReason, Tally};
use gabion_runtime::channel::{Capacity, Load, Receiver, channel};
use gabion_runtime::metrics::{LedgerSlot, Metrics};
use gabion_runtime::supervisor::{EventKind, Pulse, Supervisor};

#[derive(Debug)]
struct Batch(Vec<u64>);

impl Load for Batch {
    fn items(&self) -> u64 {
        self.0.len() as u64
    }
    fn bytes(&self) -> u64 {
        self.0.len() as u64 * 100
    }
}

/// Counts what it gets; panics at the key 666.
fn work(pulse: &Pulse, input: &Receiver<Batch>, slot: &LedgerSlot) -> u64 {
    let mut ledger = Ledger::new();
    while let Some(batch) = pulse.await_input(|| input.recv()) {
        for key in &batch.0 {
            assert_ne!(*key, 666, "a key that kills");
        }
        ledger.receive(batch.items(), batch.bytes());
        ledger.pass(batch.items(), batch.bytes());
        slot.publish_last(&ledger);
    }
    ledger.passed().items
}

#[test]
fn a_killed_worker_is_noticed_and_counted_and_the_rest_continues() {
    const BATCHES: u64 = 400;
    let supervisor = Supervisor::start().unwrap();
    let metrics = Metrics::new();
    let (mut senders, mut workers, mut edges) = (Vec::new(), Vec::new(), Vec::new());
    for n in 0..2_u16 {
        let (tx, rx, edge) = channel("reader>worker", Capacity { items: 64, bytes: 6400 });
        metrics.edge(Some(n), &edge);
        let slot = metrics.ledger("worker", Some(n));
        let name = format!("worker.{n}");
        let input = Some(std::sync::Arc::clone(&edge));
        let worker = supervisor.spawn(&name, input, move |p| work(p, &rx, &slot)).unwrap();
        senders.push(tx);
        workers.push(worker);
        edges.push(edge);
    }
    let mut refused = 0;
    for n in 0..BATCHES {
        for (shard, tx) in senders.iter().enumerate() {
            let key = if shard == 1 && n == BATCHES / 2 { 666 } else { n };
            refused += u64::from(tx.send(Batch(vec![key; 8])).is_err());
        }
    }
    drop(senders);
    let results: Vec<Option<u64>> = workers.into_iter().map(|w| w.join()).collect();
    assert_eq!(results, [Some(BATCHES * 8), None]);

    let mut kinds = Vec::new();
    while let Some(event) = supervisor.next_event(Duration::ZERO) {
        if event.kind == EventKind::Panicked {
            assert_eq!(event.name, "worker.1");
            assert!(event.message.contains("a key that kills"), "{}", event.message);
        }
        kinds.push(event.kind);
    }
    assert!(kinds.contains(&EventKind::Panicked) && kinds.contains(&EventKind::Finished));

    // What the dead worker had not taken is shed at its edge; what it had taken and not entered,
    // the batch that killed it, is written off.
    let written_off = metrics.write_off("worker", Some(1), &edges[1]);
    assert_eq!(written_off, Tally::new(8, 800));
    assert_eq!(metrics.write_off("worker", Some(0), &edges[0]), Tally::default());
    metrics.stage_ledgers().balance().unwrap();
    let lost = edges[1].ledger();
    let shed = lost.shed_for(ShedReason::WorkerLost);
    assert!(refused > 0 && shed.items >= refused * 8);
    assert_eq!(lost.passed().items, BATCHES / 2 * 8 + 8);
    assert_eq!(lost.received().items, BATCHES * 8);
    assert!(edges[0].ledger().is_complete());
    for stages in metrics.stage_ledgers().by_stage().windows(2) {
        // Slots first: what the workers received is what their edges passed.
        assert_eq!(stages[0].ledger.received(), stages[1].ledger.passed());
    }
    assert!(metrics.exposition().contains("reason=\"worker_lost\""));
}
