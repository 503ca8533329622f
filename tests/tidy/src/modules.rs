//! Source files that no module lists: the compiler never sees them, so a file whose registry line was
//! forgotten would stay silent.

use crate::Fault;
use crate::tree::File;
use std::collections::BTreeMap;

/// Files below `src` whose name is a word in neither the file of their folder nor the crate's root.
#[must_use]
pub fn unlisted(files: &[File]) -> Vec<Fault> {
    let texts: BTreeMap<&str, &str> =
        files.iter().map(|file| (file.path.as_str(), file.text.as_str())).collect();
    let mut faults = Vec::new();
    for file in files.iter().filter(|file| is_module(&file.path)) {
        let Some((folder, name)) = place(&file.path) else { continue };
        let parents = [
            format!("{folder}/mod.rs"),
            format!("{folder}/lib.rs"),
            format!("{folder}/main.rs"),
            format!("{folder}.rs"),
        ];
        let mut listed = parents.iter().filter_map(|parent| texts.get(parent.as_str()));
        if !listed.any(|text| lists(text, name)) {
            let what =
                format!("no module lists {name}: add its line to the registry of its folder");
            faults.push(Fault::new(&file.path, 0, what));
        }
    }
    faults
}

/// Attributes `#[path = …]` that include a file of another crate: it would be compiled twice, and its crate could not
/// know who needs it.
#[must_use]
pub fn foreign(files: &[File]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".rs")) {
        for (at, line) in file.text.lines().enumerate() {
            let Some(rest) = line.trim_start().strip_prefix("#[path = \"") else { continue };
            let target = rest.split('"').next().unwrap_or_default();
            let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
            let reached = resolved(folder, target);
            if crate_of(&reached) != crate_of(&file.path) {
                let what = format!("{reached} belongs to another crate: depend on the crate");
                faults.push(Fault::new(&file.path, at + 1, what));
            }
        }
    }
    faults
}

/// The path of `target` as seen from a folder.
fn resolved(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').collect();
    for part in target.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The two folders that hold a crate: `crates/net`.
fn crate_of(path: &str) -> Vec<&str> {
    path.split('/').take(2).collect()
}

fn is_module(path: &str) -> bool {
    let roots = ["/src/lib.rs", "/src/main.rs", "/build.rs"];
    path.starts_with("crates/")
        && path.contains("/src/")
        && !path.contains("/src/bin/")
        && path.ends_with(".rs")
        && !roots.iter().any(|root| path.ends_with(root))
}

/// The folder that has to list the module, and the module's name.
fn place(path: &str) -> Option<(&str, &str)> {
    let stem = path.strip_suffix("/mod.rs").or(path.strip_suffix(".rs"))?;
    stem.rsplit_once('/')
}

/// Whether the name stands in code as a word.
fn lists(text: &str, name: &str) -> bool {
    let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    code.into_iter().any(|line| {
        line.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|word| word == name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_into_another_crate_is_found() {
        let text =
            "#[path = \"../examples/a.rs\"]\nmod a;\n#[path = \"../../y/src/b.rs\"]\nmod b;\n";
        let files = [File { path: "crates/x/tests/c.rs".to_owned(), text: text.to_owned() }];
        let found = foreign(&files);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].line == 3 && found[0].what.starts_with("crates/y/src/b.rs"));
    }

    #[test]
    fn a_file_that_nothing_lists_is_found() {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let files = [
            file("crates/x/src/lib.rs", "mod a;\nformats! { B(b::Layout), }\n// c is not here\n"),
            file("crates/x/src/a/mod.rs", "mod inner;\n"),
            file("crates/x/src/a/inner.rs", ""),
            file("crates/x/src/a/left.rs", ""),
            file("crates/x/src/b.rs", "#[cfg(test)]\nmod tests;\n"),
            file("crates/x/src/b/tests.rs", ""),
            file("crates/x/src/c.rs", ""),
        ];
        let found: Vec<String> = unlisted(&files).into_iter().map(|fault| fault.path).collect();
        assert_eq!(found, ["crates/x/src/a/left.rs", "crates/x/src/c.rs"]);
    }
}
