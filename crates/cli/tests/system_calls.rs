//! The page that lists what is recorded of each system call is written from the event table and the recipes.

mod program;

use gabion_probe::syscalls::Interest;
use gabion_scap::table::{calls, event_type};
use gabion_scap::{is_checked, is_read_at_exit, types};
use std::fmt::Write as _;

/// The part of the page that lists all calls.
fn page() -> String {
    let (simple, native) = (Interest::simple(), Interest::native());
    let mut out = String::from(
        "\n## Calls with a type of their own\n\n| call | event | by default | code | its names | values |\n|---|---:|---|---|---|---|\n",
    );
    let mut generic: Vec<&str> = Vec::new();
    let mut own: Vec<_> = calls().iter().filter(|call| call.x86_64.is_some()).collect();
    own.sort_unstable_by_key(|call| call.name);
    for call in own {
        let exit = call.exit.filter(|exit| *exit != types::GENERIC_X);
        let Some(kind) = exit.and_then(event_type) else {
            generic.push(call.name);
            continue;
        };
        let reason = match (call.is_state, simple.has(call.name)) {
            (true, _) => "state",
            (false, true) => "yes",
            (false, false) => "",
        };
        let code = if native.has(call.name) { "own" } else { "recipe" };
        let names = match kind.number {
            number if is_checked(number) => "checked",
            number if is_read_at_exit(number) => "at the exit",
            _ => "",
        };
        let values: Vec<&str> = kind.parameters.iter().map(|parameter| parameter.name).collect();
        let values = values.join(" ");
        let _ = writeln!(
            out,
            "| `{}` | {} | {reason} | {code} | {names} | {values} |",
            call.name, kind.number
        );
    }
    let _ = write!(out, "\n## Other calls\n\n{}\n", generic.join(", "));
    out
}

#[test]
fn the_page_lists_every_call() {
    let page = page();
    program::compare_page("docs/system-calls.md", &page);
    assert!(page.matches("| checked |").count() >= 5 && page.contains("getppid"), "{page}");
}
