//! Rules about documents: the targets of their links exist.

use crate::Fault;
use crate::tree::File;
use std::path::Path;

/// Links to missing files of the repository. Links to other sites and to anchors in the same page
/// are not checked.
#[must_use]
pub fn dead_links(file: &File, exists: &dyn Fn(&Path) -> bool) -> Vec<Fault> {
    let folder = Path::new(&file.path).parent().unwrap_or(Path::new(""));
    let mut faults = Vec::new();
    for (at, line) in file.text.lines().enumerate() {
        for target in targets(line) {
            let path = target.split('#').next().unwrap_or_default();
            if path.is_empty() || path.contains("://") || path.starts_with("mailto:") {
                continue;
            }
            if !exists(&folder.join(path)) {
                faults.push(Fault::new(
                    &file.path,
                    at + 1,
                    format!("a link to {path}, which is missing"),
                ));
            }
        }
    }
    faults
}

/// The targets in `](…)`.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_dead_links() {
        let text =
            "see [a](a.md), [b](sub/b.md#part), [c](https://x.example/c)\n[d](#d) [e](../e.md)\n";
        let file = File { path: "docs/x.md".to_owned(), text: text.to_owned() };
        let there = |path: &Path| path == Path::new("docs/a.md");
        let found: Vec<String> =
            dead_links(&file, &there).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "docs/x.md:1: a link to sub/b.md, which is missing",
                "docs/x.md:2: a link to ../e.md, which is missing"
            ]
        );
    }
}
