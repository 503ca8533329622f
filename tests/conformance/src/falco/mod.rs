//! Falco's regression tests, as data: each is a command line with what its exit code, output and files must be.
//!
//! The program is called by the name `falco` and by its command line alone, so that Falco can be run instead of Gabion. No
//! test is a special case.

mod checks;
mod run;

pub use checks::check;
pub use run::{Finished, run};

use crate::verify::yaml::Node;
use anyhow::{Context, Result};
use std::path::Path;

/// One test.
#[derive(Clone, Debug)]
pub struct Test {
    /// Its name.
    pub name: String,
    /// Arguments; `@rules/` and `@tmp/` stand for folders.
    pub args: Vec<String>,
    /// The configuration file, in the folder of tests.
    pub config: Option<String>,
    /// The text of the configuration file.
    pub config_inline: Option<String>,
    /// The capture file that is read.
    pub capture: Option<String>,
    /// Variables of the environment.
    pub environment: Vec<(String, String)>,
    /// What is done while the program runs.
    pub action: Option<Action>,
    /// It needs a plugin that is loaded from a file.
    pub needs_plugin: bool,
    /// What must hold.
    pub expect: Vec<Node>,
}

/// What is done while the program runs.
#[derive(Clone, Debug, Default)]
pub struct Action {
    /// Seconds after its start.
    pub after_s: u64,
    /// Text for the end of the configuration file.
    pub append_to_config: Option<String>,
    /// An address that is fetched.
    pub http_get: Option<String>,
}

/// The text of a key.
fn text(node: &Node, key: &str) -> Option<String> {
    node.get(key).map(Node::python_str)
}

/// Reads all tests of a `tests.yaml`.
///
/// # Errors
/// The file cannot be read or is no list of tests.
pub fn tests(path: &Path) -> Result<Vec<Test>> {
    let yaml =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let list = Node::parse(&yaml).with_context(|| path.display().to_string())?;
    let tests = list.items().iter().map(|node| {
        let name = text(node, "name").context("a test has no name")?;
        let args = node.get("args").map_or(&[][..], Node::items);
        let environment = node.get("env").map_or(&[][..], Node::entries);
        let action = node.get("action").map(|action| Action {
            after_s: text(action, "after_s").and_then(|s| s.parse().ok()).unwrap_or(0),
            append_to_config: text(action, "append_to_config"),
            http_get: text(action, "http_get"),
        });
        Ok(Test {
            name,
            args: args.iter().map(Node::python_str).collect(),
            config: text(node, "config"),
            config_inline: text(node, "config_inline"),
            capture: text(node, "capture"),
            environment: environment
                .iter()
                .map(|(k, v)| (k.python_str(), v.python_str()))
                .collect(),
            action,
            needs_plugin: text(node, "needs").is_some_and(|needs| needs == "plugin"),
            expect: node.get("expect").map_or(&[][..], Node::items).to_vec(),
        })
    });
    tests.collect()
}
