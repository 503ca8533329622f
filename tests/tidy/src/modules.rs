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
