//! Reads a YAML configuration as Suricata does into the common [`Tree`].
//!
//! Kept from Suricata (8.0): the file must start with `%YAML 1.1` and `---`; `include` names a file
//! or a list of files, at the top or inside a mapping; a value tagged `!include` is replaced by the
//! file's content; a mapping key that comes again is merged, scalars of the later one winning;
//! scalars stay text, and who reads one decides whether it is a truth value or a number.

use crate::error::{Error, Result};
use crate::limits::{
    CONFIGURATION_BYTES_MAX, CONFIGURATION_FILES_MAX, INCLUDE_DEPTH_MAX, NODE_DEPTH_MAX,
    TWICE_NAMED_MAX,
};
use gabion_record::Tree;
use gabion_runtime::operator_file;
use saphyr_parser::{Event, Parser, ScalarStyle};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// What a configuration has read so far, all its includes together.
#[derive(Default)]
struct Taken {
    files: u32,
    bytes: u64,
    /// Keys that stand in a mapping more than once.
    twice: Vec<String>,
}

/// Sets the versions of protocols' records in all EVE outputs that Suricata's environment chooses
/// (`SURICATA_EVE_DNS_VERSION`); `variable` returns the value of a variable.
pub fn set_eve_versions(config: &mut Tree, variable: &dyn Fn(&str) -> Option<String>) {
    for protocol in gabion_proto::registry() {
        if let Some(version) = protocol.eve_version_variable.and_then(variable) {
            set_eve_version(config, protocol.eve_type, &version);
        }
    }
}

fn set_eve_version(config: &mut Tree, eve_type: &str, version: &str) {
    let Some((_, outputs)) = config.children.iter_mut().find(|(n, _)| n == "outputs") else {
        return;
    };
    let eve = outputs.children.iter_mut().filter_map(|(_, item)| item.children.first_mut());
    for (_, node) in eve.filter(|(n, _)| n == "eve-log") {
        let Some((_, types)) = node.children.iter_mut().find(|(n, _)| n == "types") else {
            continue;
        };
        for (_, item) in &mut types.children {
            if item.value.as_deref() == Some(eve_type) {
                item.value = None;
                item.children.push((eve_type.to_owned(), Tree::default()));
            }
            if let Some((_, options)) = item.children.iter_mut().find(|(n, _)| n == eve_type) {
                options.set("version", version);
            }
        }
    }
}

/// Reads a configuration file with all it includes; `report` takes a line for each key that is given more
/// than once.
///
/// # Errors
/// When a file can't be read, is no YAML, or is beyond a limit.
pub fn read_yaml_file(path: &Path, report: &mut dyn FnMut(&str)) -> Result<Tree> {
    let mut tree = Tree::default();
    let mut taken = Taken::default();
    read_into(&mut tree, path, &mut taken, 0, true)?;
    taken.twice.iter().for_each(|line| report(line));
    Ok(tree)
}

/// Reads a configuration from a text that stands in the program. What it includes is relative to
/// the working folder. `shown` is its name in messages.
///
/// # Errors
/// When it is no YAML, or beyond a limit.
pub fn read_yaml_text(shown: &str, text: &str) -> Result<Tree> {
    let mut tree = Tree::default();
    parse_into(&mut tree, text, PathBuf::new(), shown.to_string(), &mut Taken::default(), 0)?;
    Ok(tree)
}

/// Reads a further file over a tree (`--include`).
///
/// # Errors
/// When a file can't be read, is no YAML, or is beyond a limit.
pub fn include_yaml_file(tree: &mut Tree, path: &Path) -> Result<()> {
    read_into(tree, path, &mut Taken::default(), 0, true)
}

fn read_into(
    tree: &mut Tree,
    path: &Path,
    taken: &mut Taken,
    depth: usize,
    is_top: bool,
) -> Result<()> {
    if depth > INCLUDE_DEPTH_MAX {
        return Err(Error::IncludesTooDeep { path: path.to_owned() });
    }
    taken.files += 1;
    if taken.files > CONFIGURATION_FILES_MAX {
        return Err(Error::TooManyFiles { path: path.to_owned(), most: CONFIGURATION_FILES_MAX });
    }
    let left = CONFIGURATION_BYTES_MAX.saturating_sub(taken.bytes);
    let bytes = operator_file::bytes(path, left).map_err(|source| Error::Unreadable {
        path: path.to_owned(),
        source,
        included_bytes: taken.bytes,
    })?;
    taken.bytes += bytes.len() as u64;
    let text = String::from_utf8_lossy(&bytes);
    if is_top && !text.trim_start().starts_with("%YAML") && !text.contains("%YAML 1.1") {
        return Err(Error::NoHeader { path: path.to_owned() });
    }
    let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
    parse_into(tree, &text, folder, path.display().to_string(), taken, depth)
}

fn parse_into(
    tree: &mut Tree,
    text: &str,
    folder: PathBuf,
    shown: String,
    taken: &mut Taken,
    depth: usize,
) -> Result<()> {
    let mut reader = Reader { events: Parser::new_from_str(text), folder, shown, taken, depth };
    loop {
        match reader.next()? {
            (Event::StreamEnd, _) => return Ok(()),
            (Event::MappingStart(..), _) => reader.mapping(tree, 0)?,
            (Event::SequenceStart(..), _) => reader.sequence(tree, 0)?,
            _ => {}
        }
    }
}

struct Reader<'t, 'c> {
    events: Parser<'t, saphyr_parser::StrInput<'t>>,
    folder: PathBuf,
    shown: String,
    taken: &'c mut Taken,
    depth: usize,
}

impl<'t> Reader<'t, '_> {
    fn next(&mut self) -> Result<(Event<'t>, u32)> {
        match self.events.next() {
            Some(Ok((event, span))) => Ok((event, span.start.line() as u32)),
            Some(Err(e)) => Err(Error::Syntax {
                file: self.shown.clone(),
                line: e.marker().line(),
                column: e.marker().col() + 1,
                why: e.info().to_owned(),
            }),
            None => Ok((Event::StreamEnd, 0)),
        }
    }

    fn include(&mut self, tree: &mut Tree, name: &str) -> Result<()> {
        let path = self.folder.join(name);
        // A file that is included inside a section need not repeat the version line.
        read_into(tree, &path, self.taken, self.depth + 1, false)
    }

    fn mapping(&mut self, into: &mut Tree, depth: usize) -> Result<()> {
        if depth > NODE_DEPTH_MAX {
            return Err(Error::TooDeep { file: self.shown.clone() });
        }
        let mut own = HashSet::new();
        loop {
            let (event, line) = self.next()?;
            let key = match event {
                Event::MappingEnd | Event::StreamEnd => return Ok(()),
                Event::Scalar(key, ..) => key.into_owned(),
                Event::MappingStart(..) => {
                    self.mapping(&mut Tree::default(), depth + 1)?;
                    String::new()
                }
                Event::SequenceStart(..) => {
                    self.sequence(&mut Tree::default(), depth + 1)?;
                    String::new()
                }
                _ => continue,
            };
            if key == "include" {
                self.includes(into, depth)?;
                continue;
            }
            // What an included file has set may be set again; twice in one mapping is a slip.
            if !own.insert(key.clone()) && self.taken.twice.len() < TWICE_NAMED_MAX {
                let said = format!(
                    "{}:{line}: Configuration node '{key}' redefined: the values are joined, of two the later one \
                     counts: remove one of them",
                    self.shown
                );
                self.taken.twice.push(said);
            }
            let at = match into.children.iter().position(|(n, _)| *n == key) {
                Some(at) => at,
                None => {
                    into.children.push((key, Tree { line, ..Tree::default() }));
                    into.children.len() - 1
                }
            };
            let mut child = std::mem::take(&mut into.children[at].1);
            child.line = line;
            self.value(&mut child, depth + 1)?;
            into.children[at].1 = child;
        }
    }

    fn includes(&mut self, into: &mut Tree, depth: usize) -> Result<()> {
        let mut list = Tree::default();
        self.value(&mut list, depth + 1)?;
        if let Some(one) = &list.value {
            return self.include(into, one);
        }
        for (_, item) in &list.children {
            if let Some(name) = &item.value {
                self.include(into, name)?;
            }
        }
        Ok(())
    }

    fn sequence(&mut self, into: &mut Tree, depth: usize) -> Result<()> {
        if depth > NODE_DEPTH_MAX {
            return Err(Error::TooDeep { file: self.shown.clone() });
        }
        // A list that comes again replaces the earlier one.
        into.children.clear();
        into.is_sequence = true;
        let mut n = 0;
        loop {
            let (event, line) = self.next()?;
            if matches!(event, Event::SequenceEnd | Event::StreamEnd) {
                return Ok(());
            }
            let mut item = Tree { line, ..Tree::default() };
            self.value_of(event, &mut item, depth + 1)?;
            into.children.push((n.to_string(), item));
            n += 1;
        }
    }

    fn value(&mut self, into: &mut Tree, depth: usize) -> Result<()> {
        let (event, _) = self.next()?;
        self.value_of(event, into, depth)
    }

    fn value_of(&mut self, event: Event<'t>, into: &mut Tree, depth: usize) -> Result<()> {
        match event {
            Event::Scalar(text, style, _, tag) => {
                if tag.is_some_and(|t| t.suffix == "include") {
                    return self.include(into, &text);
                }
                let is_null = style == ScalarStyle::Plain && matches!(&*text, "" | "~" | "null");
                into.value = (!is_null).then(|| text.into_owned());
                Ok(())
            }
            Event::MappingStart(..) => self.mapping(into, depth),
            Event::SequenceStart(..) => self.sequence(into, depth),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Tree> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.yaml");
        std::fs::write(dir.path().join("more.yaml"), "%YAML 1.1\n---\nx: 1\n").unwrap();
        std::fs::write(&path, text).unwrap();
        read_yaml_file(&path, &mut |_| ())
    }

    #[test]
    fn mappings_lists_and_includes() {
        let t = read_text(
            "%YAML 1.1\n---\na:\n  b: yes\n  c: [1, 2]\noutputs:\n  - fast:\n      enabled: no\n\
             more: !include more.yaml\ninclude: more.yaml\n",
        )
        .unwrap();
        assert_eq!(t.flag("a.b"), Some(true));
        assert_eq!(t.number("a.c.1"), Some(2));
        assert_eq!(t.flag("outputs.0.fast.enabled"), Some(false));
        assert_eq!(t.number("x"), Some(1));
        assert_eq!(t.number("more.x"), Some(1));
    }

    /// Thirty files that include the next one twice are 2^30 includes.
    #[test]
    fn includes_are_bounded_in_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = |n: u32| dir.path().join(format!("{n}.yaml"));
        for n in 0..30 {
            let text = format!("%YAML 1.1\n---\ninclude: [{0}.yaml, {0}.yaml]\n", n + 1);
            std::fs::write(path(n), text).unwrap();
        }
        std::fs::write(path(30), "%YAML 1.1\n---\nx: 1\n").unwrap();
        let read_file = |path: &Path| read_yaml_file(path, &mut |_| ());
        let said = read_file(&path(0)).unwrap_err().to_string();
        assert!(said.contains("more than 1000 files"), "{said}");
        // As many as anybody has are read.
        assert_eq!(read_file(&path(23)).unwrap().number("x"), Some(1));
        assert!(read_file(Path::new("/dev/zero")).unwrap_err().to_string().contains("device"));
    }

    #[test]
    fn a_key_that_stands_twice_in_a_mapping_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.yaml");
        std::fs::write(dir.path().join("b.yaml"), "%YAML 1.1\n---\nx: 3\n").unwrap();
        let text =
            "%YAML 1.1\n---\ninclude: b.yaml\nx: 1\nlist:\n  - a: 1\n  - a: 2\ny:\n  x: 1\nx: 2\n";
        std::fs::write(&path, text).unwrap();
        let mut said = Vec::new();
        let tree = read_yaml_file(&path, &mut |s| said.push(s.to_owned())).unwrap();
        assert_eq!(tree.number("x"), Some(2));
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("a.yaml:10: Configuration node 'x' redefined"), "{said:?}");
    }

    #[test]
    fn a_file_without_its_first_line_is_refused() {
        assert!(read_text("a: 1\n").unwrap_err().to_string().contains("%YAML 1.1"));
    }
}
