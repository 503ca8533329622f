//! Signals as flags.
//!
//! SIGINT and SIGTERM ask to stop: the first sets the [`StopFlag`], work is finished and flushed;
//! the second ends the process at once with 130. SIGHUP asks to reopen outputs, SIGUSR2 to reload
//! rules (as with the peer). A system call under way is restarted: whoever waits for input without
//! end looks at the flag between inputs.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR2, SIGXFSZ};
use signal_hook::flag;

/// The exit code of a run that was ended by a second request to stop.
pub const EXIT_FORCED: i32 = 130;

/// Whether to stop; clones are the same flag.
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// A flag that is not set.
    pub fn new() -> StopFlag {
        StopFlag::default()
    }

    /// Whether somebody asked to stop.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.0.load(Relaxed)
    }

    /// Asks to stop, as a signal would.
    pub fn set(&self) {
        self.0.store(true, SeqCst);
    }
}

/// The process's signals.
#[derive(Clone, Debug)]
pub struct Signals {
    stop: StopFlag,
    stop_signal: Arc<AtomicUsize>,
    reopen: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
}

impl Signals {
    /// Takes over the signals. Once a process.
    ///
    /// # Errors
    /// What the system says.
    pub fn install() -> io::Result<Signals> {
        let signals = Signals {
            stop: StopFlag::new(),
            stop_signal: Arc::new(AtomicUsize::new(0)),
            reopen: Arc::new(AtomicBool::new(false)),
            reload: Arc::new(AtomicBool::new(false)),
        };
        for signal in [SIGINT, SIGTERM] {
            // In this order: the second signal finds the flag set by the first.
            flag::register_conditional_shutdown(signal, EXIT_FORCED, Arc::clone(&signals.stop.0))?;
            let number = usize::try_from(signal).unwrap_or(0);
            flag::register_usize(signal, Arc::clone(&signals.stop_signal), number)?;
            flag::register(signal, Arc::clone(&signals.stop.0))?;
        }
        flag::register(SIGHUP, Arc::clone(&signals.reopen))?;
        flag::register(SIGUSR2, Arc::clone(&signals.reload))?;
        // A file that has reached the size allowed for files (`ulimit -f`) is a write that fails, which
        // its owner says and counts; without this it would end the process.
        flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
        Ok(signals)
    }

    /// The flag that workers look at.
    pub fn stop(&self) -> &StopFlag {
        &self.stop
    }

    /// Which signal asked to stop.
    pub fn stop_signal(&self) -> Option<i32> {
        i32::try_from(self.stop_signal.load(SeqCst)).ok().filter(|n| *n != 0)
    }

    /// Whether it was SIGTERM: somebody who manages services asked, and the end is as it should be.
    pub fn is_terminated(&self) -> bool {
        self.stop_signal() == Some(SIGTERM)
    }

    /// Whether outputs are to be reopened (SIGHUP); asking takes the request.
    pub fn take_reopen(&self) -> bool {
        self.reopen.swap(false, SeqCst)
    }

    /// Whether rules are to be reloaded (SIGUSR2); asking takes the request.
    pub fn take_reload(&self) -> bool {
        self.reload.swap(false, SeqCst)
    }
}
