//! Loads the sensor's BPF programs and reads what they record.
//!
//! The input is the kernel's events; the output is records of system calls and counters of softirqs. The programs are
//! compiled from `bpf/` when the crate is built and clang is present; without clang the crate is built without them and
//! says so when something live is asked for.
