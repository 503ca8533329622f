//! The threads that write what the guard finds: a disk that is slow or stops must not hold the controller up, whose
//! heartbeat keeps the throttle in force.

use crate::error::Error;
use gabion_record::ledger::{Ledger, ShedReason};
use gabion_runtime::channel::{Capacity, Edge, Load, Receiver, Refused, Sender, channel};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// A thread that writes what it is sent, with a stage of the ledger.
pub(super) struct Writer<T: Load> {
    stage: &'static str,
    to: Option<Sender<T>>,
    edge: Arc<Edge>,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl<T: Load + Send + 'static> Writer<T> {
    /// Starts a thread. Its work ends when all senders are gone, or with the error that stops it.
    pub(super) fn start(
        stage: &'static str,
        capacity: Capacity,
        work: impl FnOnce(&Receiver<T>) -> Result<(), Error> + Send + 'static,
    ) -> Result<Writer<T>, Error> {
        let (to, receiver, edge) = channel(stage, capacity);
        let thread = std::thread::Builder::new()
            .name(stage.to_owned())
            .spawn(move || work(&receiver))
            .map_err(|source| Error::Thread { name: stage, source })?;
        Ok(Writer { stage, to: Some(to), edge, thread: Some(thread) })
    }

    /// Whether a message of this load finds room now.
    pub(super) fn has_room(&self, items: u64, bytes: u64) -> bool {
        let is_there = |to: &Sender<T>| to.await_room(items, bytes, u64::MAX, Duration::ZERO);
        self.to.as_ref().is_some_and(is_there)
    }

    /// Sends a message, and does not wait. False where there is no room for it: it is shed and counted.
    ///
    /// # Errors
    /// The thread has ended, and why.
    pub(super) fn send(&mut self, message: T) -> Result<bool, Error> {
        match self.to.as_ref().map(|to| to.try_send(message)) {
            Some(Ok(())) => Ok(true),
            Some(Err(Refused { reason: ShedReason::RingFull, .. })) => Ok(false),
            Some(Err(_)) | None => Err(self.failure()),
        }
    }

    /// Sends a message, and waits for room: at the end, when nothing depends on the time any more.
    ///
    /// # Errors
    /// The thread has ended, and why.
    pub(super) fn send_waiting(&mut self, message: T) -> Result<(), Error> {
        match self.to.as_ref().map(|to| to.send(message)) {
            Some(Ok(())) => Ok(()),
            Some(Err(_)) | None => Err(self.failure()),
        }
    }

    /// The stage for metrics.
    pub(super) fn edge(&self) -> &Arc<Edge> {
        &self.edge
    }

    /// Waits until all is written. The stage's name and ledger.
    ///
    /// # Errors
    /// What could not be written.
    pub(super) fn finish(mut self) -> Result<(&'static str, Ledger), Error> {
        self.to = None;
        self.join()?;
        Ok((self.stage, self.edge.ledger()))
    }

    /// Why the thread has ended before its time.
    fn failure(&mut self) -> Error {
        self.to = None;
        self.join().err().unwrap_or(Error::Gone { who: self.stage })
    }

    fn join(&mut self) -> Result<(), Error> {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(done)) => done,
            Some(Err(_)) => Err(Error::Gone { who: self.stage }),
            None => Ok(()),
        }
    }
}

impl<T: Load> Drop for Writer<T> {
    fn drop(&mut self) {
        self.to = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    struct One(u64);

    impl Load for One {
        fn items(&self) -> u64 {
            1
        }
        fn bytes(&self) -> u64 {
            self.0
        }
    }

    const TWO: Capacity = Capacity { items: 2, bytes: 1000 };

    #[test]
    fn a_thread_that_writes_nothing_holds_nobody_up_and_what_is_lost_is_counted() {
        let (open, opened) = sync_channel::<()>(0);
        let work = move |from: &Receiver<One>| {
            let _ = opened.recv();
            while from.recv().is_some() {}
            Ok(())
        };
        let mut writer = Writer::start("test", TWO, work).unwrap();
        let sent: Vec<bool> = (0..5).map(|_| writer.send(One(10)).unwrap()).collect();
        assert_eq!(sent, [true, true, false, false, false]);
        assert!(!writer.has_room(1, 10));
        open.send(()).unwrap();
        let (stage, ledger) = writer.finish().unwrap();
        assert_eq!((stage, ledger.received().items, ledger.passed().items), ("test", 5, 2));
        assert_eq!(ledger.shed_for(ShedReason::RingFull).items, 3);
        assert!(ledger.balance().is_ok());
    }

    #[test]
    fn a_thread_that_fails_says_why_at_the_next_message() {
        let work = |from: &Receiver<One>| {
            let _ = from.recv();
            Err(Error::Gone { who: "the disk" })
        };
        let mut writer = Writer::start("test", TWO, work).unwrap();
        let failed = (0..1_000_000).find_map(|_| writer.send(One(1)).err());
        assert!(matches!(failed, Some(Error::Gone { who: "the disk" })), "{failed:?}");
        assert!(matches!(writer.send(One(1)), Err(Error::Gone { who: "test" })));
    }
}
