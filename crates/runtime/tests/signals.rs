//! Signals against this very program, started once more as a child: requests to stop are counted,
//! the second ends it.
#![allow(clippy::disallowed_methods)] // waits for another process, by the clock

use std::process::Command;
use std::time::{Duration, Instant};

use gabion_runtime::Signals;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR2};
use signal_hook::low_level::raise;

const CHILD: &str = "GABION_TEST_SIGNALS_CHILD";

/// Runs in the child: every signal is raised in its own process.
#[test]
fn child() {
    let Ok(task) = std::env::var(CHILD) else { return };
    if task == "early" {
        // Nothing is begun yet, so there is nothing to finish.
        let _signals = Signals::preparing().unwrap();
        raise(SIGTERM).unwrap();
        std::thread::sleep(Duration::from_secs(60));
    }
    let signals = Signals::install().unwrap();
    assert!(!signals.stop().is_set() && !signals.take_reopen() && !signals.take_reload());
    raise(SIGHUP).unwrap();
    wait_for(|| signals.take_reopen());
    assert!(!signals.take_reopen());
    raise(SIGUSR2).unwrap();
    wait_for(|| signals.take_reload());
    assert!(!signals.stop().is_set());
    assert_eq!(signals.stop_signal(), None);
    let signal = if task == "int" { SIGINT } else { SIGTERM };
    raise(signal).unwrap();
    wait_for(|| signals.stop().is_set());
    assert_eq!(signals.stop_signal(), Some(signal));
    if task != "once" {
        raise(SIGTERM).unwrap();
        std::thread::sleep(Duration::from_secs(60));
    }
}

fn wait_for(mut is_true: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_true() {
        assert!(started.elapsed() < Duration::from_secs(60));
        std::thread::yield_now();
    }
}

fn run(task: &str) -> Option<i32> {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new(program);
    command.args(["child", "--exact", "--test-threads=1"]).env(CHILD, task);
    command.output().unwrap().status.code()
}

#[test]
fn the_first_request_is_a_flag_and_the_second_ends_at_once() {
    assert_eq!(run("once"), Some(0));
    assert_eq!(run("int"), Some(130));
    assert_eq!(run("term"), Some(130));
    // By the signal itself, as any program that has not taken it over.
    assert_eq!(run("early"), None);
}
