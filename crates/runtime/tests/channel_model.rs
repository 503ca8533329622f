//! The channel against a simple reference: random operations, results and ledger compared after
//! each step. And the same under threads, where only what holds for every order can be checked.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use gabion_record::ledger::{Ledger, ShedReason};
use gabion_runtime::channel::{Capacity, Empty, Load, channel};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Batch {
    items: u64,
    bytes: u64,
    number: u64,
}

impl Load for Batch {
    fn items(&self) -> u64 {
        self.items
    }
    fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[derive(Clone, Debug)]
enum Op {
    TrySend {
        items: u64,
        bytes: u64,
    },
    /// Only done where the reference says that it does not wait.
    Send {
        items: u64,
        bytes: u64,
    },
    Receive,
    AddSender,
    DropSender,
    DropReceiver,
}

fn op() -> impl Strategy<Value = Op> {
    let load = (0..8_u64, 0..60_u64);
    prop_oneof![
        8 => load.clone().prop_map(|(items, bytes)| Op::TrySend { items, bytes }),
        4 => load.prop_map(|(items, bytes)| Op::Send { items, bytes }),
        8 => Just(Op::Receive),
        1 => Just(Op::AddSender),
        1 => Just(Op::DropSender),
        1 => Just(Op::DropReceiver),
    ]
}

/// The reference: a list and the sums over it.
#[derive(Default)]
struct Model {
    queue: VecDeque<Batch>,
    ledger: Ledger,
    is_closed: bool,
}

impl Model {
    fn has_room(&self, batch: Batch, capacity: Capacity) -> bool {
        let items: u64 = self.queue.iter().map(|b| b.items).sum();
        let bytes: u64 = self.queue.iter().map(|b| b.bytes).sum();
        self.queue.is_empty()
            || ((self.queue.len() as u64) < capacity.items
                && items + batch.items <= capacity.items
                && bytes + batch.bytes <= capacity.bytes)
    }

    fn send(&mut self, batch: Batch, capacity: Capacity) -> Result<(), ShedReason> {
        self.ledger.receive(batch.items, batch.bytes);
        let reason = if self.is_closed {
            ShedReason::Stopped
        } else if !self.has_room(batch, capacity) {
            ShedReason::RingFull
        } else {
            self.queue.push_back(batch);
            return Ok(());
        };
        self.ledger.shed(reason, batch.items, batch.bytes);
        Err(reason)
    }

    fn receive(&mut self) -> Option<Batch> {
        let batch = self.queue.pop_front()?;
        self.ledger.pass(batch.items, batch.bytes);
        Some(batch)
    }

    fn close(&mut self) {
        self.is_closed = true;
        for batch in self.queue.drain(..) {
            self.ledger.shed(ShedReason::Stopped, batch.items, batch.bytes);
        }
    }

    fn ledger(&self) -> Ledger {
        let mut ledger = self.ledger.clone();
        ledger.set_in_flight(
            self.queue.iter().map(|b| b.items).sum(),
            self.queue.iter().map(|b| b.bytes).sum(),
        );
        ledger
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_channel_does_what_the_reference_does(
        ops in prop::collection::vec(op(), 1..120),
        items in 1..20_u64,
        bytes in 1..200_u64,
    ) {
        let capacity = Capacity { items, bytes };
        let (tx, rx, edge) = channel::<Batch>("a>b", capacity);
        let (mut senders, mut receiver, mut model) = (vec![tx], Some(rx), Model::default());
        for (number, op) in ops.into_iter().enumerate() {
            let batch = |items, bytes| Batch { items, bytes, number: number as u64 };
            match op {
                Op::TrySend { items, bytes } => {
                    let Some(sender) = senders.last() else { continue };
                    let batch = batch(items, bytes);
                    let got = sender.try_send(batch).map_err(|refused| {
                        assert_eq!(refused.message, batch);
                        refused.reason
                    });
                    prop_assert_eq!(got, model.send(batch, capacity));
                }
                Op::Send { items, bytes } => {
                    let Some(sender) = senders.first() else { continue };
                    let batch = batch(items, bytes);
                    if !model.is_closed && !model.has_room(batch, capacity) {
                        continue;
                    }
                    let got = sender.send(batch).map_err(|refused| refused.reason);
                    prop_assert_eq!(got, model.send(batch, capacity));
                }
                Op::Receive => {
                    let Some(receiver) = &receiver else { continue };
                    let none = if senders.is_empty() { Empty::Ended } else { Empty::Yet };
                    prop_assert_eq!(receiver.try_recv(), model.receive().ok_or(none));
                }
                Op::AddSender => {
                    if let Some(sender) = senders.last() {
                        senders.push(sender.clone());
                    }
                }
                Op::DropSender => drop(senders.pop()),
                Op::DropReceiver => {
                    receiver = None;
                    model.close();
                }
            }
            prop_assert_eq!(edge.ledger(), model.ledger());
            prop_assert_eq!(edge.ledger().balance(), Ok(()));
            prop_assert_eq!(edge.queued(), model.queue.len() as u64);
        }
    }
}

/// Several senders, one that may not wait, a slow receiver: nothing is lost without being counted,
/// the ledger balances at every moment, and each sender's messages keep their order.
#[test]
fn under_threads_nothing_is_lost_uncounted() {
    const EACH: u64 = 3000;
    let (tx, rx, edge) = channel::<Batch>("a>b", Capacity { items: 16, bytes: 500 });
    let (waited_for, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        // Ours, so that a failing check frees the senders.
        let rx = rx;
        for sender in 0..3_u64 {
            let (tx, waited_for, refused) = (tx.clone(), &waited_for, &refused);
            scope.spawn(move || {
                for n in 0..EACH {
                    let batch = Batch { items: 1 + n % 5, bytes: n % 97, number: sender << 32 | n };
                    if sender == 0 {
                        refused.fetch_add(u64::from(tx.try_send(batch).is_err()), Relaxed);
                    } else {
                        tx.send(batch).unwrap();
                        waited_for.fetch_add(1, Relaxed);
                    }
                }
            });
        }
        drop(tx);
        let mut next = [0_u64; 3];
        let mut received = 0;
        while let Some(batch) = rx.recv() {
            let (sender, n) = ((batch.number >> 32) as usize, batch.number & 0xffff_ffff);
            assert!(n >= next[sender]);
            next[sender] = n + 1;
            received += 1;
            if received % 16 == 0 {
                let ledger = edge.ledger();
                ledger.balance().unwrap();
                assert!(ledger.in_flight().items <= 16 && ledger.in_flight().bytes <= 500);
            }
        }
        assert_eq!(received, 3 * EACH - refused.load(Relaxed));
        assert_eq!(waited_for.load(Relaxed), 2 * EACH);
    });
    let ledger = edge.ledger();
    ledger.balance().unwrap();
    assert_eq!(ledger.in_flight().items, 0);
    assert!(edge.peak().items <= 16);
}

/// The receiver goes away in the middle: senders that wait are freed, all is counted.
#[test]
fn a_receiver_that_goes_frees_all_senders() {
    for stop_after in [0, 1, 7, 100] {
        let (tx, rx, edge) = channel::<Batch>("a>b", Capacity { items: 4, bytes: 40 });
        std::thread::scope(|scope| {
            let rx = rx;
            for _ in 0..3 {
                let tx = tx.clone();
                scope.spawn(
                    move || {
                        while tx.send(Batch { items: 1, bytes: 10, number: 0 }).is_ok() {}
                    },
                );
            }
            for _ in 0..stop_after {
                rx.recv_timeout(Duration::from_secs(60)).unwrap();
            }
            drop(rx);
        });
        let ledger = edge.ledger();
        ledger.balance().unwrap();
        assert_eq!(ledger.passed().items, stop_after);
        assert!(ledger.shed_for(ShedReason::Stopped).items >= 3);
    }
}
