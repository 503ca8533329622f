//! Whether a test or a check applies to the program under test and this machine.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};
use regex::Regex;

use super::process::{Ending, shell};
use super::subject::Subject;
use super::version::Version;
use super::yaml::Node;

/// Time limit of a `script` or `lambda` condition.
const CONDITION_LIMIT: Duration = Duration::from_secs(30);

/// The first condition of `requires` that is not met, as a reason to skip.
///
/// # Errors
/// An unknown or invalid condition, with which the test would be judged wrongly.
pub fn unmet(requires: &Node, subject: &Subject, folder: &Path) -> Result<Option<String>> {
    for (key, value) in requires.entries() {
        let key = key.python_str();
        if let Some(reason) = unmet_condition(&key, value, subject, folder)? {
            return Ok(Some(reason));
        }
    }
    Ok(None)
}

fn unmet_condition(
    key: &str,
    value: &Node,
    subject: &Subject,
    folder: &Path,
) -> Result<Option<String>> {
    let have = subject.version;
    let wanted = || {
        let text = value.python_str();
        Version::find(&text).ok_or_else(|| anyhow::anyhow!("requires {key}: {text}: no version"))
    };
    let unless = |met: bool, reason: String| Ok((!met).then_some(reason));
    let texts = || value.items().iter().map(Node::python_str);
    match key {
        "min-version" => {
            unless(have >= wanted()?, format!("requires at least version {}", wanted()?))
        }
        "lt-version" => unless(have < wanted()?, format!("for versions below {}", wanted()?)),
        "gt-version" => unless(have > wanted()?, format!("for versions above {}", wanted()?)),
        "version" => {
            let text = value.python_str();
            unless(have.begins_with(&text), format!("for version {text}"))
        }
        "features" => Ok(texts()
            .find(|name| !subject.has_feature(name))
            .map(|name| format!("requires feature {name}"))),
        "files" => Ok(texts()
            .find(|name| !folder.join(name).exists())
            .map(|name| format!("requires file {name}"))),
        "env" => Ok(texts()
            .find(|name| std::env::var_os(name).is_none())
            .map(|name| format!("requires environment {name}"))),
        "script" => {
            for script in texts() {
                let (ending, _) = shell(&script, subject.srcdir(), &[], CONDITION_LIMIT, false)?;
                if ending != Ending::Exit(0) {
                    return Ok(Some("requires script returned false".to_owned()));
                }
            }
            Ok(None)
        }
        "lambda" => {
            unless(lambda(&value.python_str())?, "requires lambda returned false".to_owned())
        }
        "os" => unless(
            value.python_str().eq_ignore_ascii_case(std::env::consts::OS),
            format!("requires system {}", value.python_str()),
        ),
        "arch" => unless(
            value.python_str() == std::env::consts::ARCH,
            format!("requires machine {}", value.python_str()),
        ),
        // Means that a test needs no capture; used where the command line is built.
        "pcap" => Ok(None),
        other => bail!("requires {other}: unknown condition"),
    }
}

/// Evaluates a Python expression, or calls it if it is a function.
const EVALUATE: &str = "import sys, os, platform\nv = eval(sys.argv[1])\n\
                        sys.exit(0 if (v() if callable(v) else v) else 9)";

fn lambda(expression: &str) -> Result<bool> {
    let output = Command::new("python3").arg("-c").arg(EVALUATE).arg(expression).output()?;
    match output.status.code() {
        Some(0) => Ok(true),
        Some(9) => Ok(false),
        _ => bail!(
            "requires lambda: {}",
            String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or("failed")
        ),
    }
}

/// The reason why the test's own `skip` applies, if it does.
///
/// # Errors
/// An unknown entry.
pub fn skipped(description: &Node, subject: &Subject) -> Result<Option<String>> {
    let entries = match description.get("skip") {
        None | Some(Node::Bool(false) | Node::Null) => return Ok(None),
        Some(Node::Bool(true)) => return Ok(Some("skipped by default".to_owned())),
        Some(list) => list.items(),
    };
    for entry in entries {
        let reason = if let Some(feature) = entry.get("feature") {
            let name = feature.python_str();
            subject.has_feature(&name).then(|| format!("not for feature {name}"))
        } else if let Some(uid) = entry.get("uid") {
            let own = i64::from(rustix::process::getuid().as_raw());
            (*uid == Node::Int(own)).then(|| format!("not for uid {own}"))
        } else if let Some(config) = entry.get("config") {
            config_matches(config, subject)?
        } else {
            bail!("skip: {}: unknown entry", entry.python_repr());
        };
        if let Some(reason) = reason {
            return Ok(Some(entry.get("msg").map_or(reason, Node::python_str)));
        }
    }
    Ok(None)
}

/// A configuration key that begins with one of the patterns and has its value.
fn config_matches(config: &Node, subject: &Subject) -> Result<Option<String>> {
    for (pattern, value) in config.entries() {
        let pattern = Regex::new(&format!("^(?:{})", pattern.python_str()))?;
        let value = value.python_str();
        let hit =
            subject.config().iter().find(|(key, have)| pattern.is_match(key) && *have == value);
        if let Some((key, _)) = hit {
            return Ok(Some(format!("not for {key} = {value}")));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_expressions_are_evaluated() {
        if Command::new("python3").arg("-V").output().is_err() {
            return;
        }
        assert!(lambda("sys.platform != 'win32'").unwrap());
        assert!(!lambda("lambda: 1 > 2").unwrap());
        assert!(lambda("no such thing").is_err());
    }
}
