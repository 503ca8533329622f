//! Loads the sensor's BPF programs and reads what they record.
//!
//! The input is the kernel's events; the output is records of system calls, counters of softirqs and verdicts of the
//! throttle. The programs are compiled from `bpf/` when the crate is built and clang is present; without clang the crate
//! is built without them and says so when something live is asked for.
//!
//! [`object`] loads programs singly, [`attach`] attaches them by links, which end with the process, [`mapped`] reads
//! arrays without system calls, and [`refusal`] turns the kernel's answers into plain words. On these are
//! based [`syscalls`], [`softirq`], [`throttle`] and [`mod@heads`] for the guard, and [`features`], which tries each thing by use.

pub mod attach;
pub mod bpf_call;
pub mod capability;
pub mod features;
pub mod heads;
pub mod host;
mod host_addresses;
pub mod interface;
pub mod limits;
pub mod mapped;
pub mod namespace;
pub mod netlink;
pub mod object;
pub mod priority;
pub mod refusal;
mod ring;
pub mod softirq;
pub mod syscalls;
pub mod throttle;

pub use refusal::Error;

/// Takes arbitrary bytes for records of several rings; each call in them goes to `sink`. For fuzzers and tests.
#[doc(hidden)]
pub fn fuzz_records(data: &[u8], sink: &mut dyn FnMut(&syscalls::Call<'_>)) -> u64 {
    syscalls::fuzz_records(data, sink)
}

/// A record of each type, as inputs of [`fuzz_records`].
#[doc(hidden)]
pub fn fuzz_seeds() -> Vec<Vec<u8>> {
    syscalls::fuzz_seeds()
}
