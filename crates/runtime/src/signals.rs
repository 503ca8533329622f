//! Signals as flags.
//!
//! SIGINT and SIGTERM ask to stop: the first sets the [`StopFlag`], work is finished and flushed;
//! the second ends the process at once with 130. A run that ends for another reason sets the flag too: the first
//! signal that comes then is a first one, and takes no exit code from it. SIGHUP asks to reopen outputs, SIGUSR2 to reload
//! rules (as with Suricata). A system call under way is restarted: code that waits for input or for space
//! looks at the flag now and then.
//!
//! While a run is still being prepared there is nothing to finish: then a request to stop ends the
//! process at once, as it does any program, whatever it is waiting for or working on (a configuration
//! from a pipe that nobody writes, rules that take minutes to compile).

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

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

    /// The flag that the signals of this process set, once they are installed.
    pub fn of_process() -> StopFlag {
        static OF_PROCESS: OnceLock<StopFlag> = OnceLock::new();
        OF_PROCESS.get_or_init(StopFlag::new).clone()
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
    /// The run is still being prepared.
    preparing: Arc<AtomicBool>,
}

static INSTALLED: AtomicBool = AtomicBool::new(false);

/// Whether the process has taken over its signals.
pub(crate) fn are_installed() -> bool {
    INSTALLED.load(Relaxed)
}

impl Signals {
    /// Takes over the signals. Once a process.
    ///
    /// # Errors
    /// What the system says.
    pub fn install() -> io::Result<Signals> {
        let signals = Signals::preparing()?;
        signals.begin();
        Ok(signals)
    }

    /// Takes over the signals for a run that is still being prepared: until [`Signals::begin`] a request
    /// to stop ends the process at once.
    ///
    /// # Errors
    /// What the system says.
    pub fn preparing() -> io::Result<Signals> {
        let signals = Signals {
            stop: StopFlag::of_process(),
            stop_signal: Arc::new(AtomicUsize::new(0)),
            reopen: Arc::new(AtomicBool::new(false)),
            reload: Arc::new(AtomicBool::new(false)),
            preparing: Arc::new(AtomicBool::new(true)),
        };
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            flag::register_conditional_default(signal, Arc::clone(&signals.preparing))?;
            // In this order: the second signal finds the flag set by the first.
            flag::register_conditional_shutdown(signal, EXIT_FORCED, Arc::clone(&asked))?;
            flag::register(signal, Arc::clone(&asked))?;
            let number = usize::try_from(signal).unwrap_or(0);
            flag::register_usize(signal, Arc::clone(&signals.stop_signal), number)?;
            flag::register(signal, Arc::clone(&signals.stop.0))?;
        }
        flag::register(SIGHUP, Arc::clone(&signals.reopen))?;
        flag::register(SIGUSR2, Arc::clone(&signals.reload))?;
        // A file that has reached the size allowed for files (`ulimit -f`) is a write that fails, which
        // its owner says and counts; without this it would end the process.
        flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
        INSTALLED.store(true, SeqCst);
        Ok(signals)
    }

    /// All is prepared: from now on a request to stop lets the run finish what it has begun.
    pub fn begin(&self) {
        self.preparing.store(false, SeqCst);
    }

    /// The run continues its preparation, after something that it had to wait for.
    pub fn prepare_on(&self) {
        self.preparing.store(true, SeqCst);
    }

    /// The flag that workers look at.
    pub fn stop(&self) -> &StopFlag {
        &self.stop
    }

    /// Asks to stop, as SIGTERM does.
    pub fn ask_stop(&self) {
        self.stop_signal.store(usize::try_from(SIGTERM).unwrap_or(0), SeqCst);
        self.stop.set();
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

    /// Asks for outputs to be opened again, as SIGHUP does.
    pub fn ask_reopen(&self) {
        self.reopen.store(true, SeqCst);
    }

    /// Whether rules are to be reloaded (SIGUSR2); asking takes the request.
    pub fn take_reload(&self) -> bool {
        self.reload.swap(false, SeqCst)
    }
}
