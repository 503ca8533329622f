//! Waiting for many descriptors at once, level-triggered, and a waker for the thread that waits.

use crate::limits::EVENTS_PER_CALL;
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// What a descriptor is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    /// Something to read, or the end.
    pub read: bool,
    /// Room to write.
    pub write: bool,
}

impl Interest {
    /// Only to read.
    pub const READ: Interest = Interest { read: true, write: false };

    fn flags(self) -> epoll::EventFlags {
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, self.read);
        flags.set(epoll::EventFlags::OUT, self.write);
        flags
    }
}

/// A descriptor that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// What it was added under.
    pub key: u64,
    /// Something to read, the end, or a fault that reading reports.
    pub read: bool,
    /// Room to write.
    pub write: bool,
}

/// A set of descriptors to wait for.
#[derive(Debug)]
pub struct Poll {
    epoll: OwnedFd,
}

impl Poll {
    /// An empty set.
    ///
    /// # Errors
    /// What the system says.
    pub fn new() -> io::Result<Poll> {
        Ok(Poll { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// Adds a descriptor under a key.
    ///
    /// # Errors
    /// What the system says.
    pub fn add(&self, descriptor: impl AsFd, key: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, descriptor, epoll::EventData::new_u64(key), interest.flags())?)
    }

    /// Changes what a descriptor is waited for.
    ///
    /// # Errors
    /// What the system says.
    pub fn change(&self, descriptor: impl AsFd, key: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(
            &self.epoll,
            descriptor,
            epoll::EventData::new_u64(key),
            interest.flags(),
        )?)
    }

    /// Takes a descriptor out.
    ///
    /// # Errors
    /// What the system says.
    pub fn remove(&self, descriptor: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, descriptor)?)
    }

    /// Waits until one is ready or the time is over, and hands out those that are.
    ///
    /// # Errors
    /// What the system says; an interruption by a signal is none.
    pub fn wait(&self, longest: Duration, ready: &mut Vec<Ready>) -> io::Result<()> {
        ready.clear();
        let mut events = [const { MaybeUninit::<epoll::Event>::uninit() }; EVENTS_PER_CALL];
        let longest = Timespec {
            tv_sec: longest.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: longest.subsec_nanos().into(),
        };
        let filled = match epoll::wait(&self.epoll, &mut events, Some(&longest)) {
            Ok((filled, _)) => filled,
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(e) => return Err(e.into()),
        };
        for event in filled {
            let flags = event.flags;
            let fault = flags.intersects(epoll::EventFlags::ERR | epoll::EventFlags::HUP);
            ready.push(Ready {
                key: event.data.u64(),
                read: fault || flags.contains(epoll::EventFlags::IN),
                write: flags.contains(epoll::EventFlags::OUT),
            });
        }
        Ok(())
    }
}

/// Wakes the thread that waits in a [`Poll`] that it was added to; clones wake the same one.
#[derive(Clone, Debug)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    /// A waker.
    ///
    /// # Errors
    /// What the system says.
    pub fn new() -> io::Result<Waker> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Waker(Arc::new(eventfd(0, flags)?)))
    }

    /// Wakes. The counter being full means that it will wake anyhow.
    pub fn wake(&self) {
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }

    /// Takes the wake-up.
    pub fn clear_wake(&self) {
        let mut count = [0u8; 8];
        let _ = rustix::io::read(&*self.0, &mut count);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waker_wakes_once() {
        let poll = Poll::new().expect("a set");
        let waker = Waker::new().expect("a waker");
        poll.add(&waker, 7, Interest::READ).expect("added");
        let mut ready = Vec::new();
        poll.wait(Duration::ZERO, &mut ready).expect("waited");
        assert!(ready.is_empty());
        waker.wake();
        waker.wake();
        poll.wait(Duration::from_secs(5), &mut ready).expect("waited");
        assert_eq!(ready, [Ready { key: 7, read: true, write: false }]);
        waker.clear_wake();
        poll.wait(Duration::ZERO, &mut ready).expect("waited");
        assert!(ready.is_empty());
    }
}
