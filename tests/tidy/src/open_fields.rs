//! Open fields: a struct whose fields other files may write, and whose methods stand in other files, too, is one
//! object spread over files. Structs with more than eight such fields are in `counts.tsv`; their counts may only fall.

use crate::counts::{is_source, work};
use crate::tree::File;
use std::collections::{BTreeMap, BTreeSet};

/// Most open fields of a struct with methods in other files.
pub const FIELDS_MAX: usize = 8;

/// A struct with methods in other files than its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    /// The crate's folder and the struct's name: `net::Run`.
    pub name: String,
    /// The file that declares it.
    pub path: String,
    /// Its fields that are `pub(crate)`, `pub(super)` or `pub(in …)`.
    pub fields: usize,
}

/// The structs of all crates that have open fields and methods in other files.
#[must_use]
pub fn spread(files: &[File]) -> Vec<Spread> {
    // By crate and name: the files that declare such a type, with the number of open fields.
    let mut declared: BTreeMap<(&str, &str), Vec<(&str, usize)>> = BTreeMap::new();
    let mut methods: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for file in files.iter().filter(|file| is_source(&file.path)) {
        let Some(room) = file.path.split('/').nth(1) else { continue };
        for (name, fields) in types(work(&file.text)) {
            declared.entry((room, name)).or_default().push((&file.path, fields));
        }
        for name in work(&file.text).lines().filter_map(own_methods) {
            methods.entry((room, name)).or_default().insert(&file.path);
        }
    }
    let mut found = Vec::new();
    for ((room, name), places) in &declared {
        let users = methods.get(&(*room, *name)).into_iter().flatten();
        // Several types may have one name: methods belong to the nearest one.
        let owners: BTreeSet<&str> =
            users.filter_map(|user| nearest(user, places).filter(|owner| owner != user)).collect();
        for (path, fields) in places.iter().filter(|(path, n)| *n > 0 && owners.contains(path)) {
            found.push(Spread {
                name: format!("{room}::{name}"),
                path: (*path).to_owned(),
                fields: *fields,
            });
        }
    }
    found
}

/// The counts of structs that have more open fields than they may.
#[must_use]
pub fn counts(files: &[File]) -> BTreeMap<String, usize> {
    let crowded = spread(files).into_iter().filter(|spread| spread.fields > FIELDS_MAX);
    let mut counts = BTreeMap::new();
    for spread in crowded {
        let most = counts.entry(format!("open fields of {}", spread.name)).or_default();
        *most = spread.fields.max(*most);
    }
    counts
}

/// The declaration whose path has the longest common beginning with the file's.
fn nearest<'a>(user: &str, places: &[(&'a str, usize)]) -> Option<&'a str> {
    let common = |path: &str| user.bytes().zip(path.bytes()).take_while(|(a, b)| a == b).count();
    places.iter().map(|(path, _)| *path).max_by_key(|path| (*path == user, common(path)))
}

/// Structs and enums that a text declares at its outermost level, with the number of their open fields.
fn types(text: &str) -> Vec<(&str, usize)> {
    let mut found: Vec<(&str, usize)> = Vec::new();
    let mut is_inside = false;
    for line in text.lines() {
        if is_inside {
            is_inside = line != "}";
            let open = ["    pub(crate) ", "    pub(super) ", "    pub(in "];
            let is_field = open.iter().any(|start| line.starts_with(start));
            if let (true, Some((_, fields))) = (is_field, found.last_mut()) {
                *fields += 1;
            }
        } else if let Some(name) = declared_type(line) {
            found.push((name, 0));
            is_inside = line.ends_with('{');
        }
    }
    found
}

/// The name of the type that a line at the outermost level declares.
fn declared_type(line: &str) -> Option<&str> {
    let item = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.strip_prefix(' ')?,
        None => line,
    };
    first_name(item.strip_prefix("struct ").or(item.strip_prefix("enum "))?)
}

/// The type to which a line begins to add methods of its own, not those of a trait.
fn own_methods(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("impl").filter(|rest| !rest.contains(" for "))?;
    let Some(generics) = rest.strip_prefix('<') else { return first_name(rest.trim_start()) };
    let mut depth = 1usize;
    let end = generics.char_indices().find_map(|(at, c)| {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(at)
    })?;
    first_name(generics.get(end + 1..)?.trim_start())
}

fn first_name(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    text.get(..end).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_struct_is_spread_when_other_files_have_its_methods_and_may_write_its_fields() {
        let fields: String = (0..9).map(|n| format!("    pub(crate) f{n}: u8,\n")).collect();
        let file = |path: &str, text: String| File { path: path.to_owned(), text };
        let files = [
            file(
                "crates/x/src/a/mod.rs",
                format!("pub(crate) struct Core<T> {{\n{fields}    g: T,\n}}\n"),
            ),
            file("crates/x/src/a/more.rs", "impl<T: Into<u8>> Core<T> {\n}\n".to_owned()),
            // Another type of the same name, and its methods.
            file(
                "crates/x/src/b/core.rs",
                format!("struct Core {{\n{fields}}}\nimpl Core {{\n}}\n"),
            ),
            // Only traits in other files, and open fields without methods elsewhere.
            file(
                "crates/x/src/c.rs",
                format!("pub struct Plain {{\n{fields}}}\nimpl Plain {{\n}}\n"),
            ),
            file("crates/x/src/d.rs", "impl Clone for Plain {\n}\n".to_owned()),
        ];
        let found = spread(&files);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].path.as_str(), found[0].fields), ("crates/x/src/a/mod.rs", 9));
        assert_eq!(counts(&files), BTreeMap::from([("open fields of x::Core".to_owned(), 9)]));
    }
}
