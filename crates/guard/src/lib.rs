//! Decides what the guard does about a packet flood, and names the cause of softirq and RCU starvation.
//!
//! The input is samples of counters with their time; the output is set points, actions with their reasons, and one line
//! of diagnosis. The crate has no clock, no I/O and no unsafe code: the same samples give the same answers.
