//! Warnings of a verification that no attack brings: a log that changes while it is read, and more findings than a
//! report has lines.

mod support;

use gabion_seal::limits::REPORT_LINES_MAX;
use gabion_seal::storage::{Memory, Storage};
use gabion_seal::verify::{Options, verify};
use std::io::Result;
use std::sync::atomic::{AtomicBool, Ordering};
use support::Log;

/// A log of which a segment is pruned, or written on, when somebody has begun to read it.
struct Changing {
    log: Memory,
    segment: String,
    /// Bytes that it has when it is looked at again; `None` when it is gone.
    after: Option<u64>,
    was_looked_at: AtomicBool,
}

impl Storage for Changing {
    fn len(&self, name: &str) -> Result<Option<u64>> {
        if name == self.segment && self.was_looked_at.load(Ordering::Relaxed) {
            return Ok(self.after);
        }
        self.log.len(name)
    }
    fn read_at(&self, name: &str, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        if name == self.segment && offset > 0 {
            self.was_looked_at.store(true, Ordering::Relaxed);
            if self.after.is_none() {
                return Err(std::io::ErrorKind::NotFound.into());
            }
        }
        self.log.read_at(name, offset, buffer)
    }
    fn list(&self) -> Result<Vec<String>> {
        // Each look at the whole starts again.
        self.was_looked_at.store(false, Ordering::Relaxed);
        self.log.list()
    }
    fn is_locked(&self) -> Result<bool> {
        self.log.is_locked()
    }
    fn lock(&mut self) -> Result<bool> {
        self.log.lock()
    }
    fn write_new(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        self.log.write_new(name, bytes)
    }
    fn append(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        self.log.append(name, bytes)
    }
    fn write_at(&mut self, name: &str, offset: u64, bytes: &[u8]) -> Result<()> {
        self.log.write_at(name, offset, bytes)
    }
    fn truncate(&mut self, name: &str, len: u64) -> Result<()> {
        self.log.truncate(name, len)
    }
    fn sync(&mut self, name: &str) -> Result<()> {
        self.log.sync(name)
    }
    fn rename(&mut self, from: &str, to: &str, replace: bool) -> Result<()> {
        self.log.rename(from, to, replace)
    }
    fn remove(&mut self, name: &str) -> Result<()> {
        self.log.remove(name)
    }
    fn sync_names(&mut self) -> Result<()> {
        self.log.sync_names()
    }
}

/// A segment that goes away, or grows, at every look is named with the reason, and is no tampering.
#[test]
fn a_log_that_changes_while_it_is_read_is_reported() {
    let log = Log::filled();
    let names = log.segments();
    for (segment, is_gone) in [(&names[0], true), (names.last().unwrap(), false)] {
        let copy = log.copy();
        let len = copy.get(segment).len() as u64;
        if !is_gone {
            // Half of a chunk that is being written.
            copy.change(segment, |b| b.truncate(b.len() - 40));
        }
        let after = (!is_gone).then_some(len);
        let changing = Changing {
            log: copy.log.clone(),
            segment: segment.clone(),
            after,
            was_looked_at: AtomicBool::new(false),
        };
        let report = verify(&changing, &Options { jobs: 1, ..Options::default() }, &mut |_, _| {});
        let report = report.unwrap();
        let said = format!("{segment} changed while it was read: ");
        assert!(report.warnings.iter().any(|w| w.starts_with(&said)), "{:?}", report.warnings);
    }
}

/// What has no line in the report is counted in its last one.
#[test]
fn warnings_beyond_those_listed_are_counted() {
    let log = Log::filled();
    for n in 0..REPORT_LINES_MAX + 7 {
        log.put(&format!("seg-{n}.gsl"), b"GABSEAL1");
    }
    let report = log.verify();
    assert_eq!(report.warnings.len(), REPORT_LINES_MAX + 1);
    assert_eq!(report.warnings.last().map(String::as_str), Some("and 7 warnings more"));
}
