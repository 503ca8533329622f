//! Rules about documents: what they point to is there.

use crate::Fault;
use crate::tree::File;
use std::path::Path;

/// Links to files of the repository that are not there. Links to pages elsewhere and to places in
/// the same page are not looked at.
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
                    format!("a link to {path}, which is not there"),
                ));
            }
        }
    }
    faults
}

/// What stands in `](…)`.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_links_to_nothing() {
        let text =
            "see [a](a.md), [b](sub/b.md#part), [c](https://x.example/c)\n[d](#d) [e](../e.md)\n";
        let file = File { path: "docs/x.md".to_owned(), text: text.to_owned() };
        let there = |path: &Path| path == Path::new("docs/a.md");
        let told: Vec<String> = dead_links(&file, &there).iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "docs/x.md:1: a link to sub/b.md, which is not there",
                "docs/x.md:2: a link to ../e.md, which is not there"
            ]
        );
    }
}
