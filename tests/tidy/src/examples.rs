//! Examples are short: what a stranger reads first has at most 60 lines. Tools that measure are listed with the reason.

use crate::Fault;
use crate::tree::File;

/// Most lines of an example.
pub const LINES_MAX: usize = 60;

/// Longer programs in folders of examples, with the reason.
const TOOLS: &[(&str, &str)] = &[
    (
        "crates/behavior/examples/intel_speed.rs",
        "measures lists of indicators against files of the corpus",
    ),
    ("crates/capture/examples/read_speed.rs", "measures the ways of reading a capture"),
    ("crates/probe/examples/cost.rs", "measures what probes cost a system call, as root"),
];

/// Examples that are too long, and exceptions that nothing needs.
#[must_use]
pub fn too_long(files: &[File]) -> Vec<Fault> {
    let mut faults = check(files, TOOLS);
    for (path, _) in TOOLS {
        let lines =
            files.iter().find(|file| file.path == *path).map(|file| file.text.lines().count());
        if lines.is_none_or(|lines| lines <= LINES_MAX) {
            faults.push(Fault::new(
                path,
                0,
                "no longer needs its exception in tests/tidy/src/examples.rs",
            ));
        }
    }
    faults
}

fn check(files: &[File], tools: &[(&str, &str)]) -> Vec<Fault> {
    files
        .iter()
        .filter(|file| file.path.starts_with("crates/") && file.path.contains("/examples/"))
        .filter(|file| {
            file.path.ends_with(".rs") && !tools.iter().any(|(path, _)| *path == file.path)
        })
        .map(|file| (file, file.text.lines().count()))
        .filter(|(_, lines)| *lines > LINES_MAX)
        .map(|(file, lines)| {
            Fault::new(&file.path, 0, format!("an example of {lines} lines, more than {LINES_MAX}"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_example_is_found_unless_it_is_a_tool() {
        let file = |path: &str, lines| File { path: path.to_owned(), text: "x\n".repeat(lines) };
        let files = [
            file("crates/x/examples/a.rs", 60),
            file("crates/x/examples/b.rs", 61),
            file("crates/x/examples/c.rs", 61),
            file("crates/x/src/d.rs", 61),
        ];
        let found = check(&files, &[("crates/x/examples/c.rs", "measures")]);
        assert_eq!(
            found.iter().map(|f| f.path.as_str()).collect::<Vec<_>>(),
            ["crates/x/examples/b.rs"]
        );
        // None of the tools is there.
        assert_eq!(too_long(&files).len(), 2 + TOOLS.len());
    }
}
