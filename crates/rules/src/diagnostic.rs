//! What is wrong with a rule, in two wordings: in Suricata's words, which its users' scripts look for,
//! and in ours, with the place marked in the rule.

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use std::fmt;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// The rule loads, though perhaps not as meant.
    Warning,
    /// The rule is refused.
    Error,
}

/// One finding about a rule, or about a line of one of the other files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file as named by the caller.
    pub file: String,
    /// Line of the rule's start, from 1; 0 when it concerns no line.
    pub line: u32,
    /// Column in the rule (lines joined), bytes from 1.
    pub column: u32,
    /// Bytes marked; 0 when no place is known.
    pub len: u32,
    /// How bad it is.
    pub severity: Severity,
    /// The part of Suricata that says it (`detect-parse`).
    pub subsystem: &'static str,
    /// Suricata's words, where known.
    pub message: String,
    /// What we have to add: the reason, or what to do.
    pub reason: Option<String>,
    /// The rule.
    pub rule: String,
    /// Id of the rule, when it was read before the fault.
    pub sid: Option<u32>,
}

impl Diagnostic {
    /// The part that reads variables.
    pub const VARIABLES: &'static str = "rule-vars";
    /// The part that reads the threshold file.
    pub const THRESHOLDS: &'static str = "threshold-config";
    /// The part that reads the file of classes.
    pub const CLASSES: &'static str = "classification-config";
    /// The part that reads the file of references.
    pub const REFERENCES: &'static str = "reference-config";
    /// The part that knows events of protocols.
    pub(crate) const APP_EVENTS: &'static str = "app-layer-events";

    /// Whether it is about the threshold file.
    pub fn is_about_thresholds(&self) -> bool {
        self.subsystem == Diagnostic::THRESHOLDS
    }

    /// Whether it refuses a rule for a variable, as it may refuse others.
    pub fn refuses_variable(&self) -> bool {
        self.subsystem == Diagnostic::VARIABLES && self.severity == Severity::Error
    }

    /// Whether it is about a rule of a rule file. A rule on an event that a protocol does not have is left out without
    /// a word about the rule.
    pub fn concerns_rule(&self) -> bool {
        let others = [
            Diagnostic::THRESHOLDS,
            Diagnostic::CLASSES,
            Diagnostic::REFERENCES,
            Diagnostic::APP_EVENTS,
        ];
        !self.rule.is_empty() && !others.contains(&self.subsystem)
    }

    /// The finding with the rule and a caret under the place, in the look of `rustc`.
    pub fn render(&self, color: bool) -> String {
        let renderer = if color { Renderer::styled() } else { Renderer::plain() };
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
            Severity::Note => Level::NOTE,
        };
        let message = if self.message.is_empty() { "rule refused" } else { &self.message };
        let title = level.primary_title(message.to_string());
        if self.rule.is_empty() {
            return renderer.render(&[title.element(Level::NOTE.message(self.place()))]);
        }
        let (text, start, end) = self.excerpt();
        let mark = AnnotationKind::Primary.span(start..end);
        let mark = match &self.reason {
            Some(reason) => mark.label(reason.as_str()),
            None => mark,
        };
        let snippet = Snippet::source(text)
            .line_start(self.line.max(1) as usize)
            .path(self.file.as_str())
            .annotation(mark);
        renderer.render(&[title.element(snippet)])
    }

    /// `file:line:column`.
    pub fn place(&self) -> String {
        if self.line == 0 {
            return self.file.clone();
        }
        format!("{}:{}:{}", self.file, self.line, self.column.max(1))
    }

    /// The rule cut to what fits around the place, with the place's range in it.
    fn excerpt(&self) -> (String, usize, usize) {
        const AROUND: usize = 70;
        let rule = &self.rule;
        let at = (self.column.max(1) as usize - 1).min(rule.len());
        let end = (at + self.len as usize).min(rule.len());
        let mut from = at.saturating_sub(AROUND);
        let mut to = end.saturating_add(AROUND).min(rule.len());
        while !rule.is_char_boundary(from) {
            from -= 1;
        }
        while !rule.is_char_boundary(to) {
            to += 1;
        }
        let mut text = String::new();
        if from > 0 {
            text.push('…');
        }
        let shift = text.len();
        text.push_str(rule.get(from..to).unwrap_or(""));
        if to < rule.len() {
            text.push('…');
        }
        let start = at - from + shift;
        (text, start, (end - from + shift).max(start))
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place(), self.message)?;
        match &self.reason {
            Some(reason) => write!(f, ": {reason}"),
            None => Ok(()),
        }
    }
}

/// Why a keyword is refused, before it is known which rule of which file it concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The part of Suricata that says it.
    pub(crate) subsystem: &'static str,
    /// Suricata's words; empty when it says nothing of its own.
    pub(crate) message: String,
    /// Ours.
    pub(crate) reason: Option<String>,
    /// Start and length of the place in the rule, when nearer than the option.
    pub(crate) span: Option<(usize, usize)>,
    /// The rule is left out, but Suricata does not count it as failed.
    pub(crate) is_left_out: bool,
    /// It is no fault, only reported.
    pub(crate) is_note: bool,
}

impl Refusal {
    /// In Suricata's words.
    pub(crate) fn new(subsystem: &'static str, message: impl Into<String>) -> Refusal {
        Refusal {
            subsystem,
            message: message.into(),
            reason: None,
            span: None,
            is_left_out: false,
            is_note: false,
        }
    }

    /// Suricata only says that the rule failed; the reason is ours.
    pub(crate) fn silent(reason: impl Into<String>) -> Refusal {
        Refusal {
            subsystem: "detect",
            message: String::new(),
            reason: Some(reason.into()),
            span: None,
            is_left_out: false,
            is_note: false,
        }
    }

    /// Only reported, no fault.
    pub(crate) fn into_note(mut self) -> Refusal {
        self.is_note = true;
        self
    }

    /// Adds our reason.
    pub(crate) fn because(mut self, reason: impl Into<String>) -> Refusal {
        self.reason = Some(reason.into());
        self
    }

    /// The rule is left out without being counted as failed.
    pub(crate) fn left_out(mut self) -> Refusal {
        self.is_left_out = true;
        self
    }

    /// Marks a place.
    pub(crate) fn at(mut self, start: usize, len: usize) -> Refusal {
        self.span = Some((start, len));
        self
    }
}

/// Outcome of reading a part of a rule.
pub(crate) type Checked<T> = Result<T, Refusal>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_stands_under_the_place() {
        let d = Diagnostic {
            file: "a.rules".into(),
            line: 7,
            column: 11,
            len: 4,
            severity: Severity::Error,
            subsystem: "detect-parse",
            message: "unknown rule keyword 'nope'.".into(),
            reason: Some("no such keyword".into()),
            rule: "alert tcp nope:1;".into(),
            sid: None,
        };
        let text = d.render(false);
        assert!(text.contains("a.rules:7:11"), "{text}");
        assert!(text.contains("^^^^ no such keyword"), "{text}");
    }
}
