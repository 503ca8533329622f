//! One test: its folder, its description, and the command line that runs it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::subject::Subject;
use super::version::Version;
use super::yaml::Node;

/// A test as found on disk.
pub struct Case {
    /// Path of the folder below the tests' root; the test's name.
    pub name: String,
    /// The folder.
    pub folder: PathBuf,
    /// The whole `test.yaml`.
    pub description: Node,
}

impl Case {
    /// Reads the test in `folder`.
    ///
    /// # Errors
    /// `test.yaml` is unreadable, not YAML or not a map.
    pub fn read(name: &str, folder: &Path) -> Result<Self> {
        let text = fs::read_to_string(folder.join("test.yaml")).context("test.yaml")?;
        let description = match Node::parse(&text).context("test.yaml")? {
            Node::Null => Node::Map(Vec::new()),
            map @ Node::Map(_) => map,
            _ => bail!("test.yaml: not a map"),
        };
        Ok(Self { name: name.to_owned(), folder: folder.to_owned(), description })
    }

    /// A whole number of the description, or `default`.
    ///
    /// # Errors
    /// The key is there but not a whole number.
    pub fn number(&self, key: &str, default: i64) -> Result<i64> {
        match self.description.get(key) {
            None => Ok(default),
            Some(Node::Int(value)) => Ok(*value),
            Some(other) => bail!("{key}: {} is not a whole number", other.python_repr()),
        }
    }

    /// The environment of a test's programs in addition to the runner's.
    #[must_use]
    pub fn env(&self, subject: &Subject, output: &Path) -> Vec<(String, String)> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let mut env = vec![
            ("SRCDIR".to_owned(), text(subject.srcdir())),
            ("TZ".to_owned(), "UTC".to_owned()),
            ("TEST_DIR".to_owned(), text(&self.folder)),
            ("OUTPUT_DIR".to_owned(), text(output)),
        ];
        for (name, value) in self.description.get("env").map_or(&[][..], Node::entries) {
            env.push((name.python_str(), value.python_str()));
        }
        env
    }

    /// The shell line that replaces the command line, if the test has one.
    #[must_use]
    pub fn command(&self, env: &[(String, String)]) -> Option<String> {
        self.description.get("command").map(|line| substitute(&line.python_str(), env))
    }

    /// The arguments after the program's name.
    ///
    /// # Errors
    /// No or several captures or rule files where one is needed.
    pub fn arguments(
        &self,
        subject: &Subject,
        output: &Path,
        env: &[(String, String)],
    ) -> Result<Vec<String>> {
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let mut args = Vec::new();
        for entry in self.description.get("args").map_or(&[][..], Node::items) {
            let entry = substitute(&entry.python_str(), env);
            args.extend(entry.split_whitespace().map(str::to_owned));
        }
        let etc = subject.srcdir().join("etc");
        for (key, file) in [
            ("classification-file", "classification.config"),
            ("reference-config-file", "reference.config"),
        ] {
            args.extend(["--set".to_owned(), format!("{key}={}", text(etc.join(file)))]);
        }
        args.push("--init-errors-fatal".to_owned());
        args.extend(["-l".to_owned(), text(output.to_owned())]);
        if self.name.rsplit('/').next().is_some_and(|own| own.contains("ips")) {
            args.push("--simulate-ips".to_owned());
        }
        let own = self.folder.join("suricata.yaml");
        let config = if own.exists() { own } else { subject.srcdir().join("suricata.yaml") };
        args.extend(["-c".to_owned(), text(config)]);
        if let Some(capture) = self.capture()? {
            args.extend(["-r".to_owned(), text(capture)]);
        }
        args.extend(self.rules(subject.version)?);
        Ok(args)
    }

    fn capture(&self) -> Result<Option<PathBuf>> {
        match self.description.get("pcap") {
            Some(Node::Str(name)) => return Ok(Some(self.folder.join(name))),
            Some(Node::Bool(false)) => return Ok(None),
            _ => {}
        }
        let required = self.description.get("requires").and_then(|requires| requires.get("pcap"));
        let mut found = files_ending(&self.folder, &[".pcap", ".pcapng"])?;
        match found.len() {
            0 if required == Some(&Node::Bool(false)) => Ok(None),
            0 => bail!("no capture"),
            1 => Ok(found.pop()),
            _ => bail!("more than one capture"),
        }
    }

    /// The options that name the rules.
    fn rules(&self, version: Version) -> Result<Vec<String>> {
        if let Some(Node::Str(name)) = self.description.get("rules") {
            return Ok(rules_option(&self.folder.join(name)));
        }
        let mut found = files_ending(&self.folder, &[".rules"])?;
        found.retain(|path| least_version(path).is_none_or(|least| version >= least));
        match found.as_slice() {
            [] => Ok(vec!["--disable-detection".to_owned()]),
            [one] => Ok(rules_option(one)),
            [firewall, detection]
                if is_firewall(firewall) && file_name(detection).ends_with("td.rules") =>
            {
                Ok([rules_option(firewall), rules_option(detection)].concat())
            }
            _ => bail!("more than one rule file"),
        }
    }
}

fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or("")
}

fn is_firewall(path: &Path) -> bool {
    file_name(path).ends_with("firewall.rules")
}

fn rules_option(path: &Path) -> Vec<String> {
    let option = if is_firewall(path) { "--firewall-rules-exclusive" } else { "-S" };
    vec![option.to_owned(), path.to_string_lossy().into_owned()]
}

/// The version that a rule file named `minX.rules` requires.
fn least_version(path: &Path) -> Option<Version> {
    let number = file_name(path).strip_prefix("min")?.strip_suffix(".rules")?;
    number.starts_with(|c: char| c.is_ascii_digit()).then(|| Version::find(number))?
}

/// The files of `folder` with one of these endings, by name.
fn files_ending(folder: &Path, endings: &[&str]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if endings.iter().any(|ending| file_name(&path).ends_with(ending)) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Replaces `$NAME` and `${NAME}` in `text` by their values; `$$` is `$`, an unknown name stays.
#[must_use]
pub fn substitute(text: &str, env: &[(String, String)]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (before, dollar) = rest.split_at(at);
        out.push_str(before);
        let after = dollar.get(1..).unwrap_or("");
        if let Some(after) = after.strip_prefix('$') {
            out.push('$');
            rest = after;
            continue;
        }
        let (name, end) = match after.strip_prefix('{') {
            Some(braced) => {
                let len = identifier_len(braced);
                let closed = braced.get(len..).is_some_and(|tail| tail.starts_with('}'));
                (braced.get(..len).filter(|_| closed), len + 2)
            }
            None => {
                let len = identifier_len(after);
                (after.get(..len), len)
            }
        };
        // The last value wins: a test's own environment comes after the runner's.
        let value = name.and_then(|name| env.iter().rev().find(|(known, _)| known == name));
        match value {
            Some((_, value)) => {
                out.push_str(value);
                rest = after.get(end..).unwrap_or("");
            }
            None => {
                out.push('$');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

fn identifier_len(text: &str) -> usize {
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return 0;
    }
    text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len())
}

/// Every test below `root`: its name and folder, by name.
///
/// # Errors
/// A folder can't be read.
pub fn find_all(root: &Path) -> Result<Vec<(String, PathBuf)>> {
    fn walk(folder: &Path, name: &str, found: &mut Vec<(String, PathBuf)>) -> Result<()> {
        if !name.is_empty() && folder.join("test.yaml").exists() {
            found.push((name.to_owned(), folder.to_owned()));
        }
        let entries =
            fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                let own = entry.file_name().to_string_lossy().into_owned();
                let below = if name.is_empty() { own } else { format!("{name}/{own}") };
                walk(&entry.path(), &below, found)?;
            }
        }
        Ok(())
    }
    let mut found = Vec::new();
    walk(root, "", &mut found)?;
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values: Python 3.11 `string.Template.safe_substitute`.
    #[test]
    fn substitution_is_templates() {
        let env = [("A".to_owned(), "1".to_owned()), ("A_B".to_owned(), "2".to_owned())];
        let table = [
            ("${A}x$A", "1x1"),
            ("$A_B/$A-B", "2/1-B"),
            ("$$A $${A}", "$A ${A}"),
            ("${C} $C", "${C} $C"),
            ("${A $", "${A $"),
            ("$1 é$A", "$1 é1"),
        ];
        for (text, expected) in table {
            assert_eq!(substitute(text, &env), expected, "{text}");
        }
    }

    #[test]
    fn rule_files_choose_their_option() {
        let folder = tempfile::tempdir().unwrap();
        let case = Case {
            name: "x".to_owned(),
            folder: folder.path().to_owned(),
            description: Node::Map(Vec::new()),
        };
        let version = Version([8, 0, 7]);
        let options = || case.rules(version).map(|args| args.join(" "));
        let at = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        assert_eq!(options().unwrap(), "--disable-detection");
        fs::write(at("min9.rules"), "").unwrap();
        assert_eq!(options().unwrap(), "--disable-detection");
        fs::write(at("min8.rules"), "").unwrap();
        assert_eq!(options().unwrap(), format!("-S {}", at("min8.rules")));
        fs::remove_file(at("min8.rules")).unwrap();
        fs::write(at("firewall.rules"), "").unwrap();
        assert_eq!(
            options().unwrap(),
            format!("--firewall-rules-exclusive {}", at("firewall.rules"))
        );
        fs::write(at("td.rules"), "").unwrap();
        assert_eq!(
            options().unwrap(),
            format!("--firewall-rules-exclusive {} -S {}", at("firewall.rules"), at("td.rules"))
        );
        fs::write(at("other.rules"), "").unwrap();
        assert!(options().is_err());
    }
}
