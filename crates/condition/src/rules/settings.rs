//! What a loader needs to know besides the files: versions, sources, the least priority, additions to outputs.

use super::items::Priority;
use super::version::Version;

/// What a loader needs to know besides the files.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The engine version that rule files may require at most.
    pub engine_version: Version,
    /// Sources of events that rules may be for.
    pub sources: Vec<String>,
    /// Plugins that rule files may require: name and version.
    pub plugins: Vec<(String, Version)>,
    /// Rules that are less urgent are not loaded.
    pub priority: Priority,
    /// What is added to the outputs of rules.
    pub append_output: Vec<AppendOutput>,
}

impl Default for Settings {
    /// Falco's engine 0.63.0 with the plugin `container` 0.7.1, whose fields are built in.
    fn default() -> Settings {
        Settings {
            engine_version: Version::new(0, 63, 0),
            sources: vec!["syscall".to_string()],
            plugins: vec![("container".to_string(), Version::new(0, 7, 1))],
            priority: Priority::Debug,
            append_output: Vec::new(),
        }
    }
}

/// An addition to the output of rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AppendOutput {
    /// Only this rule.
    pub rule: Option<String>,
    /// Only rules of this source.
    pub source: Option<String>,
    /// Only rules that have all of these tags.
    pub tags: Vec<String>,
    /// Text after the output, with fields.
    pub extra_output: String,
    /// Further fields of the JSON: name and template; a template without percent sign is the name of a field.
    pub extra_fields: Vec<(String, String)>,
}

impl AppendOutput {
    pub(super) fn is_for(&self, rule: &str, source: &str, tags: &[String]) -> bool {
        self.rule.as_deref().is_none_or(|name| name == rule)
            && self.source.as_deref().is_none_or(|name| name == source)
            && self.tags.iter().all(|tag| tags.contains(tag))
    }
}
