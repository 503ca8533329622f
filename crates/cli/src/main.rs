//! # gabion: the program
//!
//! Wires the rooms together: command lines and configurations in, captures through the engine,
//! findings to outputs. Called as `suricata` or `falco` it answers to that program's command line.
#![forbid(unsafe_code)]

/// Standard error, where a message that can't be written is lost: the macro of the standard library panics
/// then, and the exit code with it. All modules below use this one.
macro_rules! eprintln {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($text)*);
    }};
}

mod arguments;
mod behavior;
mod command_line;
mod commands;
mod configuration;
mod existing;
mod exit;
mod falco;
mod guard;
#[allow(dead_code, reason = "tests alone read the whole table")]
mod limits;
mod listen;
mod log;
mod moments;
mod progress;
mod secrets;
mod send;
mod standard_error;
mod standard_output;
mod suricata;
mod terminal;
mod values;

pub(crate) use gabion_runtime::{files::direct_opener, operator_file};

#[cfg(not(any(feature = "heap-profile", feature = "system-allocator")))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[cfg(feature = "heap-profile")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// What opens the inputs of a run: this process, with its own rights.
fn input_opener() -> std::sync::Arc<gabion_sensor::packets::InputOpener> {
    std::sync::Arc::new(gabion_sensor::packets::InputOpener::new(direct_opener()))
}

fn main() {
    let args: Vec<std::ffi::OsString> = std::env::args_os().collect();
    let name = args.first().map(std::path::Path::new).and_then(|p| p.file_name());
    // Each door with its own exit code for results that could not be written.
    let is = |door: &str| name.is_some_and(|n| n == door);
    let named = |door: &str| args.get(1).is_some_and(|a| a == door);
    let (code, failed) = if is("suricata") {
        (suricata::run(&args[1..]), 1)
    } else if is("falco") {
        (falco::run(&args[1..]), 1)
    } else if named("suricata") {
        (suricata::run(&args[2..]), 1)
    } else if named("falco") {
        (falco::run(&args[2..]), 1)
    } else {
        (commands::run(&args).into(), exit::Exit::Environment.code())
    };
    let code = u8::try_from(code).unwrap_or(1);
    std::process::exit(standard_output::finish(code, failed).into());
}
