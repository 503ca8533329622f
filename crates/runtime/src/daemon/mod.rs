//! What a process does that runs in the background: it writes its number into a file, and runs as another user.

pub mod pid_file;
pub mod run_as;
