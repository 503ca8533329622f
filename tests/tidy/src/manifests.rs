//! Rules about manifests: versions are only in the root's table, each with its reason; every crate
//! uses the lints of the workspace and forbids unsafe code, except those that the table in
//! `ARCHITECTURE.md` names.

use crate::Fault;
use crate::arrows::Table;
use crate::sources::is_unsafe;
use crate::tree::File;

/// Every dependency in the root's table is our own or has a reason.
#[must_use]
pub fn reasons(root: &File) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut inside = false;
    for (at, line) in root.text.lines().enumerate() {
        if line.starts_with('[') {
            inside = line == "[workspace.dependencies]";
            continue;
        }
        let is_ours = line.contains("path = \"crates/");
        let has_reason = line.split_once('#').is_some_and(|(_, why)| why.trim().len() > 3);
        if inside && line.contains('=') && !line.starts_with('#') && !is_ours && !has_reason {
            faults.push(Fault::new(&root.path, at + 1, "a dependency without its reason (# …)"));
        }
    }
    faults
}

/// A member's manifest inherits versions, lints and edition from the workspace.
#[must_use]
pub fn member(file: &File) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut inside = false;
    for (at, line) in file.text.lines().enumerate() {
        if line.starts_with('[') {
            inside = line.contains("dependencies");
        } else if inside && line.contains('=') && !line.contains("workspace = true") {
            faults.push(Fault::new(&file.path, at + 1, "a version outside the root's table"));
        }
    }
    if !file.text.contains("[lints]\nworkspace = true") {
        faults.push(Fault::new(&file.path, 0, "the lints of the workspace are not used"));
    }
    faults
}

/// Dependencies of our crates that the lock file of another workspace lacks: it is as old as that. `lock` is its path and
/// text. Dependencies that a feature adds may be missing there.
#[must_use]
pub fn stale_lock(lock: &File, members: &[File]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for package in lock.text.split("[[package]]").filter(|p| p.contains("name = \"gabion")) {
        let quoted: Vec<&str> = package.split('"').skip(1).step_by(2).collect();
        let Some(name) = quoted.first() else { continue };
        let is_its = |m: &&File| m.text.contains(&format!("\nname = \"{name}\"\n"));
        let Some(manifest) = members.iter().filter(|m| !m.path.starts_with("fuzz/")).find(is_its)
        else {
            continue;
        };
        for dependency in dependencies(&manifest.text) {
            let is_there = quoted.iter().any(|q| q.split(' ').next() == Some(dependency));
            if !is_there {
                let what =
                    format!("{name} depends on {dependency}, which is not here: update the file");
                faults.push(Fault::new(&lock.path, 0, what));
            }
        }
    }
    faults
}

/// The names below `[dependencies]` of a manifest, without optional ones.
fn dependencies(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().skip_while(|line| *line != "[dependencies]").skip(1);
    let lines = lines.take_while(|line| !line.starts_with('['));
    lines.filter(|line| !line.contains("optional")).filter_map(|line| {
        let (name, _) = line.split_once('=')?;
        Some(name.trim()).filter(|name| !name.starts_with('#'))
    })
}

/// Unsafe code is only in the files that the table names, and all other crates forbid it.
#[must_use]
pub fn unsafe_code(files: &[File], table: &Table) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".rs")) {
        let (name, below) = place(&file.path);
        let allowed = table.get(name).map(|row| &row.unsafe_files);
        let is_allowed = allowed.is_some_and(|files| files.contains(below));
        for (at, line) in file.text.lines().enumerate() {
            if is_unsafe(line) && !is_allowed {
                let what = "unsafe code in a file that the table of crates does not name for it";
                faults.push(Fault::new(&file.path, at + 1, what));
            }
        }
        let forbids = file.text.contains("#![forbid(unsafe_code)]");
        let may = allowed.is_some_and(|files| !files.is_empty());
        if is_root(&file.path) && !forbids && !may {
            faults.push(Fault::new(&file.path, 0, "the crate does not forbid unsafe code"));
        }
    }
    for (name, row) in table {
        for below in &row.unsafe_files {
            let path = format!("crates/{name}/src/{below}");
            let found = files.iter().find(|file| file.path == path);
            if !found.is_some_and(|file| file.text.lines().any(is_unsafe)) {
                faults.push(Fault::new(&path, 0, "named for unsafe code but has none"));
            }
        }
    }
    faults
}

/// Crate and path below its `src`.
fn place(path: &str) -> (&str, &str) {
    let below = path.strip_prefix("crates/").unwrap_or(path);
    let (name, rest) = below.split_once('/').unwrap_or((below, ""));
    (name, rest.strip_prefix("src/").unwrap_or(rest))
}

/// Whether the file is the root of a library or program of a member.
fn is_root(path: &str) -> bool {
    path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrows::read_table;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    fn whats(faults: &[Fault]) -> Vec<String> {
        faults.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_dependency_needs_its_reason() {
        let text = "[workspace.dependencies]\ngabion-x = { path = \"crates/x\" }\n\
            a = \"1\" # it is needed\nb = \"1\"\n[profile.dev]\ndebug = false\n";
        let found = whats(&reasons(&file("Cargo.toml", text)));
        assert_eq!(found, ["Cargo.toml:4: a dependency without its reason (# …)"]);
    }

    #[test]
    fn a_member_takes_versions_and_lints_from_the_root() {
        let text = "[package]\nname = \"x\"\n[dependencies]\na = \"1\"\nb = { workspace = true }\n";
        let found = whats(&member(&file("crates/x/Cargo.toml", text)));
        assert_eq!(
            found,
            [
                "crates/x/Cargo.toml:4: a version outside the root's table",
                "crates/x/Cargo.toml: the lints of the workspace are not used"
            ]
        );
    }

    #[test]
    fn a_lock_file_without_a_dependency_is_stale() {
        let lock = "version = 4\n[[package]]\nname = \"gabion-x\"\nversion = \"0.1.0\"\ndependencies = [\n \"a 1.0\",\n]\n";
        let member = "[package]\nname = \"gabion-x\"\n[dependencies]\na = { workspace = true }\n\
                      b = { workspace = true }\nc = { workspace = true, optional = true }\n[dev-dependencies]\nd = 1\n";
        let found =
            stale_lock(&file("fuzz/Cargo.lock", lock), &[file("crates/x/Cargo.toml", member)]);
        let what = "fuzz/Cargo.lock: gabion-x depends on b, which is not here: update the file";
        assert_eq!(whats(&found), [what]);
    }

    #[test]
    fn unsafe_code_is_only_in_files_of_the_table() {
        let table = read_table(
            "| crate | holds | uses | unsafe |\n|---|---|---|---|\n| `a` | x | – | `m.rs`, `n.rs` |\n",
        );
        let code = format!("{} {{ f() }};\n", concat!("un", "safe"));
        let code = code.as_str();
        let found = whats(&unsafe_code(
            &[
                file("crates/a/src/m.rs", code),
                file("crates/a/src/n.rs", ""),
                file("crates/a/src/o.rs", code),
                file("crates/a/src/lib.rs", ""),
                file("crates/b/src/lib.rs", ""),
                file("tests/t/src/lib.rs", "#![forbid(unsafe_code)]\n"),
            ],
            &table,
        ));
        assert_eq!(
            found,
            [
                "crates/a/src/o.rs:1: unsafe code in a file that the table of crates does not name for it",
                "crates/b/src/lib.rs: the crate does not forbid unsafe code",
                "crates/a/src/n.rs: named for unsafe code but has none"
            ]
        );
    }
}
