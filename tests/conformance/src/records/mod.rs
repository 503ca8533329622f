//! EVE records of a program compared with Suricata's, whole record by whole record: which are the same, which
//! Suricata lacks, which are missing, and in which members the others differ.
//!
//! [`eve`] reads records and drops what differs between two runs of Suricata itself, [`compare`] compares them as
//! multisets and finds the members in which two records differ, [`outputs`] gets both sides' files (by running a
//! program, or from the recorded outputs of Suricata, which [`archive`] unpacks), [`report`] prints.

pub mod archive;
pub mod compare;
pub mod eve;
pub mod outputs;
pub mod report;
