//! What needs neither root nor BPF, through the crate's public surface: processes below a root, sums of verdicts, and the
//! kernel's answers in words. Programs are loaded by `tests/kernel`.

use gabion_probe::host::{Before, look_up, read_host};
use gabion_probe::object::compiled;
use gabion_probe::refusal::{Kind, loading};
use gabion_probe::throttle::{Verdict, Verdicts};
use std::io;
use std::path::Path;

/// The own process is found in the host's `/proc`, with its descriptors, and nothing is below an empty root.
#[test]
fn the_own_process_is_looked_up() {
    let pid = i64::from(std::process::id());
    let _held = std::fs::File::open("/proc/self/status").unwrap();
    let found = look_up(Path::new("/"), pid).unwrap();
    assert_eq!(found.threads.len(), 1);
    assert!(found.fds.len() > 2, "{:?}", found.fds);
    let empty = Path::new(env!("CARGO_TARGET_TMPDIR"));
    assert_eq!(look_up(empty, pid), None);
    let mut seen = 0;
    let counts =
        read_host(empty, &mut |before| seen += u64::from(matches!(before, Before::Thread(_))));
    assert_eq!((counts.threads, seen), (0, 0));
}

/// Each verdict counts on one side of the ledger, and CPUs are added up.
#[test]
fn verdicts_balance() {
    let mut all = Verdicts::default();
    for (at, verdict) in (1u64..).zip(Verdict::ALL) {
        let mut of_cpu = Verdicts::default();
        of_cpu.packets[verdict as usize] = at;
        all.add(&of_cpu);
        assert_eq!(all.count_of_verdict(verdict), at);
        let (received, passed, shed) = of_cpu.received_passed_shed();
        let expected = if verdict.is_shed() { (at, 0, at) } else { (at, at, 0) };
        assert_eq!((received, passed, shed), expected, "{}", verdict.name());
    }
    let (received, passed, shed) = all.received_passed_shed();
    assert_eq!((received, shed), ((1..=13).sum(), 10 + 11 + 12 + 13));
    assert_eq!(received, passed + shed);
}

/// An answer names the thing and keeps the kernel's number; an object that nobody wrote is named.
#[test]
fn refusals_name_their_thing() {
    let error = loading("pace", Kind::Map, &io::Error::from_raw_os_error(12), "");
    assert_eq!(error.errno(), Some(12));
    assert!(error.to_string().starts_with("pace: "), "{error}");
    let unknown = compiled("no such object").unwrap_err();
    assert_eq!(unknown.errno(), None);
    assert!(!unknown.to_string().contains('\n'), "{unknown}");
}
