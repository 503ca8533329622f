//! What loading a rule file reports: codes, messages, places and snippets, as text and as JSON in Falco's form.

use super::yaml::{Mark, Node};
use crate::lang::Position;
use crate::limits::SNIPPET_CHARS_MAX;
use gabion_record::json::Json;
use std::fmt::Write;
use std::sync::Arc;

/// Declares codes with their descriptions.
macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $code:literal, $text:literal, $error:literal;)+) => {
        /// The code of an error or warning of a rule file.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code { $($(#[$doc])* $variant,)+ }

        impl Code {
            /// All codes.
            pub const ALL: &'static [Code] = &[$(Code::$variant,)+];

            /// The code as Falco prints it.
            pub const fn name(self) -> &'static str {
                match self { $(Code::$variant => $code,)+ }
            }

            /// What it stands for.
            pub const fn description(self) -> &'static str {
                match self { $(Code::$variant => $text,)+ }
            }

            /// Whether the file can't be used.
            pub const fn is_error(self) -> bool {
                match self { $(Code::$variant => $error,)+ }
            }
        }
    };
}

codes! {
    /// The file can't be read.
    FileRead = "LOAD_ERR_FILE_READ", "File read error", true;
    /// It is no YAML.
    YamlParse = "LOAD_ERR_YAML_PARSE", "YAML parse error", true;
    /// The YAML is not of the form of rule files.
    YamlValidate = "LOAD_ERR_YAML_VALIDATE", "Error validating internal structure of YAML file", true;
    /// A condition is wrong.
    CompileCondition = "LOAD_ERR_COMPILE_CONDITION", "Error compiling condition", true;
    /// An output is wrong.
    CompileOutput = "LOAD_ERR_COMPILE_OUTPUT", "Error compiling output", true;
    /// A rule, macro, list or exception is wrong.
    Validate = "LOAD_ERR_VALIDATE", "Error validating rule/macro/list/exception objects", true;
    /// An extension is wrong.
    Extension = "LOAD_ERR_EXTENSION", "Error in extension item", true;
    /// The rule is for a source that does not exist here.
    UnknownSource = "LOAD_UNKNOWN_SOURCE", "Unknown event source", false;
    /// The rule compares a field with `<NA>`.
    UnsafeNaCheck = "LOAD_UNSAFE_NA_CHECK", "Unsafe <NA> comparison in condition", false;
    /// The rule is tried on most events.
    NoEvtType = "LOAD_NO_EVTTYPE", "Condition has no event-type restriction", false;
    /// The rule was skipped because of a field or event that is not known.
    UnknownFilter = "LOAD_UNKNOWN_FILTER", "Unknown field or event-type in condition or output", false;
    /// No rule or macro uses the macro.
    UnusedMacro = "LOAD_UNUSED_MACRO", "Unused macro", false;
    /// No rule, macro or list uses the list.
    UnusedList = "LOAD_UNUSED_LIST", "Unused list", false;
    /// The item is neither a rule nor anything else that is known.
    UnknownItem = "LOAD_UNKNOWN_ITEM", "Unknown rules file item", false;
    /// The item will not be supported for long.
    DeprecatedItem = "LOAD_DEPRECATED_ITEM", "Used deprecated item", false;
    /// An extension has a warning.
    WarningExtension = "LOAD_WARNING_EXTENSION", "Warning in extension item", false;
    /// An exception without values was appended.
    AppendNoValues = "LOAD_APPEND_NO_VALUES", "Overriding/appending with no values", false;
    /// Two exceptions of a rule have the same name.
    ExceptionNameNotUnique = "LOAD_EXCEPTION_NAME_NOT_UNIQUE", "Multiple exceptions defined with the same name", false;
    /// The name of a macro can't be used in conditions.
    InvalidMacroName = "LOAD_INVALID_MACRO_NAME", "Invalid macro name", false;
    /// The name of a list can't be used in conditions.
    InvalidListName = "LOAD_INVALID_LIST_NAME", "Invalid list name", false;
    /// The condition has a warning.
    CompileConditionWarning = "LOAD_COMPILE_CONDITION", "Warning in rule condition", false;
    /// The item has a key that means nothing.
    UnknownKey = "LOAD_UNKNOWN_KEY", "Unknown key in item definition", false;
}

/// The kind of a place in a rule file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemType(pub &'static str);

/// Names of places, as Falco prints them.
pub(super) mod item {
    use super::ItemType;
    pub(in crate::rules) const VALUE_FOR: ItemType = ItemType("value for");
    pub(in crate::rules) const EXCEPTIONS: ItemType = ItemType("exceptions");
    pub(in crate::rules) const EXCEPTION: ItemType = ItemType("exception");
    pub(in crate::rules) const EXCEPTION_VALUES: ItemType = ItemType("exception values");
    pub(in crate::rules) const RULES_CONTENT: ItemType = ItemType("rules content");
    pub(in crate::rules) const RULES_CONTENT_ITEM: ItemType = ItemType("rules content item");
    pub(in crate::rules) const ENGINE_VERSION: ItemType = ItemType("required_engine_version");
    pub(in crate::rules) const PLUGIN_VERSIONS: ItemType = ItemType("required plugin versions");
    pub(in crate::rules) const PLUGIN_ENTRY: ItemType = ItemType("required plugin versions entry");
    pub(in crate::rules) const LIST: ItemType = ItemType("list");
    pub(in crate::rules) const MACRO: ItemType = ItemType("macro");
    pub(in crate::rules) const RULE: ItemType = ItemType("rule");
    pub(in crate::rules) const RULE_CONDITION: ItemType = ItemType("rule condition");
    pub(in crate::rules) const CONDITION_EXPRESSION: ItemType = ItemType("condition expression");
    pub(in crate::rules) const RULE_OUTPUT: ItemType = ItemType("rule output");
    pub(in crate::rules) const RULE_PRIORITY: ItemType = ItemType("rule priority");
    pub(in crate::rules) const OVERRIDES: ItemType = ItemType("overrides");
}

/// One place of the chain that leads to an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// What is there.
    pub item_type: ItemType,
    /// Its name, or an empty text.
    pub item_name: String,
    /// The file, or for a part of a condition the condition's text.
    pub file: Arc<str>,
    /// Where.
    pub mark: Mark,
}

/// A chain of places from the file to the innermost item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Context {
    locations: Vec<Location>,
    /// The text of a condition in which the last place is.
    condition: Option<Arc<str>>,
}

impl Context {
    pub(super) fn file(name: &Arc<str>) -> Context {
        let location = Location {
            item_type: item::RULES_CONTENT,
            item_name: String::new(),
            file: name.clone(),
            mark: Mark::default(),
        };
        Context { locations: vec![location], condition: None }
    }

    pub(super) fn child(&self, item_type: ItemType, name: &str, node: &Node) -> Context {
        self.child_at(item_type, name, node.mark)
    }

    pub(super) fn child_at(&self, item_type: ItemType, name: &str, mark: Mark) -> Context {
        let file = self.locations.first().map(|l| l.file.clone()).unwrap_or_default();
        let mut locations = self.locations.clone();
        locations.push(Location { item_type, item_name: name.to_string(), file, mark });
        Context { locations, condition: None }
    }

    /// The place inside of a condition's text.
    pub(super) fn in_condition(&self, text: &str, position: Position) -> Context {
        let text: Arc<str> = text.into();
        let mark = Mark {
            line: (position.line as usize).saturating_sub(1),
            column: (position.column as usize).saturating_sub(1),
            offset: position.index as usize,
        };
        let mut locations = self.locations.clone();
        locations.push(Location {
            item_type: item::CONDITION_EXPRESSION,
            item_name: String::new(),
            file: text.clone(),
            mark,
        });
        Context { locations, condition: Some(text) }
    }

    pub(super) fn message(&self, code: Code, message: impl Into<String>, file: &str) -> Message {
        let text = self.condition.as_deref().unwrap_or(file);
        let mark = self.locations.last().map(|l| l.mark).unwrap_or_default();
        Message {
            code,
            message: message.into(),
            locations: self.locations.clone(),
            snippet: snippet(text, mark),
        }
    }
}

/// The line of the place, with at most 160 characters of it, and a caret under the place.
fn snippet(text: &str, mark: Mark) -> String {
    let line: Vec<char> = text.lines().nth(mark.line).unwrap_or_default().chars().collect();
    let column = mark.column.min(line.len());
    let half = SNIPPET_CHARS_MAX / 2;
    let start = if line.len() > SNIPPET_CHARS_MAX { column.saturating_sub(half) } else { 0 };
    let end = line.len().min(start + SNIPPET_CHARS_MAX);
    let mut out = String::new();
    let mut caret = column - start;
    if start > 0 {
        out.push_str("...");
        caret += 3;
    }
    out.extend(line.get(start..end).unwrap_or_default());
    if end < line.len() {
        out.push_str("...");
    }
    out.push('\n');
    out.extend(std::iter::repeat_n(' ', caret));
    out.push('^');
    out
}

/// An error or a warning with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its code.
    pub code: Code,
    /// What is wrong.
    pub message: String,
    /// The chain of places, from the file inwards.
    pub locations: Vec<Location>,
    /// The line of the file and a caret under the place.
    pub snippet: String,
}

/// The result of loading one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadResult {
    /// The file.
    pub name: String,
    /// At most one: loading ends at the first.
    pub errors: Vec<Message>,
    /// All warnings.
    pub warnings: Vec<Message>,
    /// Differences from the form that Falco's JSON schema of rule files describes.
    pub schema_warnings: Vec<String>,
}

impl LoadResult {
    /// Whether the file can be used.
    pub fn is_successful(&self) -> bool {
        self.errors.is_empty()
    }

    /// Writes the result as a part of Falco's `falco_load_results`.
    fn write_json(&self, json: &mut Json) {
        json.open();
        write_messages("errors", &self.errors, json);
        json.field("name", &self.name);
        json.boolean("schema_valid", self.schema_warnings.is_empty());
        json.open_array_key("schema_warnings");
        self.schema_warnings.iter().for_each(|warning| json.item(warning));
        json.close_array();
        json.boolean("successful", self.is_successful());
        write_messages("warnings", &self.warnings, json);
        json.close();
    }

    /// The result as text: one line with counts, or with `is_verbose` each message with its places and snippet.
    pub fn text(&self, is_verbose: bool) -> String {
        let mut out = format!("{}: ", self.name);
        if self.is_successful() {
            out.push_str(if self.warnings.is_empty() { "Ok" } else { "Ok, with warnings" });
        } else {
            out.push_str("Invalid");
        }
        for (messages, what) in [(&self.errors, "errors"), (&self.warnings, "warnings")] {
            if messages.is_empty() {
                continue;
            }
            if is_verbose {
                let _ = write!(out, "\n{} {}:", messages.len(), capitalized(what));
                messages.iter().for_each(|message| write_verbose(message, &mut out));
            } else {
                let codes: Vec<String> = messages
                    .iter()
                    .map(|m| format!("{} ({})", m.code.name(), m.code.description()))
                    .collect();
                let _ = write!(out, "\n {} {what}: [{}]", messages.len(), codes.join(" "));
            }
        }
        out
    }
}

fn capitalized(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map(|c| c.to_ascii_uppercase().to_string() + chars.as_str()).unwrap_or_default()
}

fn write_verbose(message: &Message, out: &mut String) {
    for (i, location) in message.locations.iter().enumerate() {
        out.push_str(if i == 0 { "\nIn " } else { "\n    " });
        out.push_str(location.item_type.0);
        if !location.item_name.is_empty() {
            let _ = write!(out, " '{}'", location.item_name);
        }
        let file: String = location.file.chars().take(20).collect();
        let is_condition = location.item_type == item::CONDITION_EXPRESSION;
        let shown = if is_condition { format!("\"{file}...\"") } else { location.file.to_string() };
        let _ = write!(out, ": ({shown}:{}:{})", location.mark.line, location.mark.column);
    }
    let _ = write!(out, "\n------\n{}\n------\n", message.snippet);
    let (code, description) = (message.code.name(), message.code.description());
    let _ = write!(out, "{code} ({description}): {}", message.message);
}

fn write_messages(key: &str, messages: &[Message], json: &mut Json) {
    json.open_array_key(key);
    for message in messages {
        json.open();
        json.field("code", message.code.name());
        json.field("codedesc", message.code.description());
        json.open_key("context");
        json.open_array_key("locations");
        for location in &message.locations {
            json.open();
            json.field("item_name", &location.item_name);
            json.field("item_type", location.item_type.0);
            json.open_key("position");
            json.number("column", location.mark.column);
            json.number("line", location.mark.line);
            json.field("name", location.file.as_ref());
            json.number("offset", location.mark.offset);
            json.close();
            json.close();
        }
        json.close_array();
        json.field("snippet", &message.snippet);
        json.close();
        json.field("message", &message.message);
        json.close();
    }
    json.close_array();
}

/// The results of several files, as Falco's `-V` prints them with `json_output`.
pub fn results_json(results: &[LoadResult]) -> String {
    let mut json = Json::new();
    json.open();
    json.open_array_key("falco_load_results");
    results.iter().for_each(|result| result.write_json(&mut json));
    json.close_array();
    json.close();
    crate::without_line_end(json)
}

/// The warnings of loading one file.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    pub(super) messages: Vec<Message>,
    pub(super) schema: Vec<String>,
}

/// Reading ends with a message. It is boxed, since most functions return it and it is large.
pub(super) type Checked<T> = Result<T, Box<Message>>;
