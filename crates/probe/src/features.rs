//! What this machine has of the things that live sources need, each found out by use.
//!
//! `gabion probe check` prints the list. A feature that is absent has the reason and what to do in one line.

use crate::attach::Tracefs;
use crate::object::{self, Object};
use crate::refusal::Error;
use crate::syscalls::{Interest, Session, Settings};
use crate::throttle::Throttle;

/// A feature, and why it is absent.
pub struct Feature {
    /// Its name, as in `gabion probe check`.
    pub name: &'static str,
    /// What it is for.
    pub purpose: &'static str,
    /// The engines that can't work without it.
    pub needed_by: &'static [&'static str],
    /// Whether it works, with a remark, or the refusal.
    pub result: Result<String, Error>,
}

impl Feature {
    /// Whether it works.
    #[must_use]
    pub fn is_here(&self) -> bool {
        self.result.is_ok()
    }
}

/// A row of the table: name, purpose, engines that need it, and how it is tried.
type Row = (&'static str, &'static str, &'static [&'static str], fn() -> Result<String, Error>);

const ROWS: &[Row] = &[
    ("programs", "BPF programs in this binary", &["syscalls", "guard"], programs),
    ("btf", "the kernel's type information", &["syscalls", "guard"], btf),
    ("tracefs", "numbers of the tracepoints of system calls", &[], tracefs),
    ("sys_exit", "system calls at their exit", &["syscalls"], sys_exit),
    ("sys_enter", "names of opens and connects at their entry", &[], sys_enter),
    ("xdp", "the throttle of packet work", &[], xdp),
    ("softirq", "softirq time in buckets of 4 ms", &["guard"], softirq),
];

impl Feature {
    fn from_row((name, purpose, needed_by, try_it): &Row) -> Self {
        Self { name, purpose, needed_by, result: try_it() }
    }
}

/// Tries every feature.
#[must_use]
pub fn all() -> Vec<Feature> {
    ROWS.iter().map(Feature::from_row).collect()
}

/// Tries one feature; none if there is none of this name.
#[must_use]
pub fn one(name: &str) -> Option<Feature> {
    ROWS.iter().find(|row| row.0 == name).map(Feature::from_row)
}

fn programs() -> Result<String, Error> {
    if object::is_built() { Ok(String::new()) } else { Err(Error::NotBuilt) }
}

fn btf() -> Result<String, Error> {
    object::kernel_btf().map(|_| String::new())
}

fn tracefs() -> Result<String, Error> {
    let tracefs = Tracefs::open()?;
    tracefs.enter_id("openat")?;
    let remark = if tracefs.is_private() { "not mounted, reached by a private mount" } else { "" };
    Ok(remark.to_owned())
}

fn sys_exit() -> Result<String, Error> {
    let session = Session::start(&Settings::small(Interest::none()))?;
    Ok(if session.is_left_out() { "" } else { "this process is not left out" }.to_owned())
}

fn sys_enter() -> Result<String, Error> {
    let mut interest = Interest::none();
    for call in ["open", "creat", "openat", "openat2", "connect"] {
        interest.add(call);
    }
    let mut session = Session::start(&Settings::small(interest))?;
    match session.take_absent().into_iter().next() {
        Some(error) => Err(error),
        None => Ok(String::new()),
    }
}

fn xdp() -> Result<String, Error> {
    let throttle = Throttle::load(None, &[])?;
    throttle.test_run(&[0; 64], 1)?;
    Ok(String::new())
}

fn softirq() -> Result<String, Error> {
    let mut object = Object::open("softirq", |loader| {
        loader.map_max_entries("buckets", 1);
    })?;
    object.attach_tracepoint("softirq_exit", "softirq_exit")?;
    object.attach_tracepoint("softirq_entry", "softirq_entry")?;
    Ok(String::new())
}
