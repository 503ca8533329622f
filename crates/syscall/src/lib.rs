//! Keeps the state of threads and file descriptors from system call exit events, and gives rules their fields.
//!
//! The input is events and process lists of `gabion_scap`; the output is, for each event, the values of Falco's fields
//! through `gabion_record`'s `Fields`. All tables have a budget; what they drop is counted with its reason.
