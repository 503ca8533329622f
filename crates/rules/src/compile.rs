//! The way of one rule from text to signatures.

use crate::compiler::Compiler;
use crate::diagnostic::{Checked, Refusal};
use crate::draft::Draft;
use crate::known::known_keyword;
use crate::lexer::{self, Piece};
use crate::limits::{BUFFERS_PER_RULE_MAX, RULE_BYTES_MAX};
use crate::signature::Signature;
use crate::{finish, keywords, rule_header};

/// The outcome of one rule.
pub(crate) enum Outcome {
    /// Signatures: one, or two for `<>`.
    Loaded(Vec<Signature>),
    /// `requires` is not met: what of it.
    Skipped(String),
    /// Left out without being counted as failed (an event the protocol does not have).
    LeftOut(Refusal),
    /// Refused.
    Refused(Refusal),
}

impl Compiler<'_> {
    /// Compiles one rule; what it says is added to the set's texts only when it loads.
    pub(crate) fn compile(&mut self, rule: &str, file: u16, line: u32) -> Outcome {
        self.warnings.clear();
        self.set.texts.pack_full();
        let before = self.set.texts.len();
        let outcome = self.compile_kept(rule, file, line);
        if !matches!(outcome, Outcome::Loaded(_)) {
            self.set.texts.truncate(before);
        }
        outcome
    }

    fn compile_kept(&mut self, rule: &str, file: u16, line: u32) -> Outcome {
        if rule.len() > RULE_BYTES_MAX {
            return Outcome::Refused(Refusal::silent("the rule is too long"));
        }
        let Some(raw) = self.set.texts.push(rule) else {
            return Outcome::Refused(Refusal::silent("all rules together are too long"));
        };
        self.base = raw.start;
        let parts = lexer::split(rule);
        // what the rule requires is examined before anything else of it
        match keywords::unmet_requirement(self, parts.options) {
            Ok(None) => {}
            Ok(Some(unmet)) => return Outcome::Skipped(unmet),
            Err(e) => return Outcome::Refused(e),
        }
        let mut draft = match rule_header::parse_header(self, rule, &parts) {
            Ok(draft) => draft,
            Err(e) => return Outcome::Refused(e),
        };
        if let Err(e) = self.read_options(&mut draft, parts.options) {
            if e.is_left_out {
                return Outcome::LeftOut(e);
            }
            return Outcome::Refused(e);
        }
        match finish::finish(self, draft, finish::Place { raw, file, line }) {
            Ok(signatures) => Outcome::Loaded(signatures),
            Err(e) => Outcome::Refused(e),
        }
    }

    fn read_options<'t>(&mut self, draft: &mut Draft<'t>, all: Piece<'t>) -> Checked<()> {
        for option in lexer::options(all) {
            let option = option.map_err(|lost| {
                Refusal::new("detect-parse", "no terminating \";\" found")
                    .at(lost.at, lost.text.len())
                    .because("every option ends with `;`, the last one too")
            })?;
            let end = option
                .value
                .map_or(option.keyword.at + option.keyword.text.len(), |v| v.at + v.text.len());
            let start = option.keyword.at;
            keywords::apply(self, draft, option).map_err(|mut e| {
                e.span.get_or_insert((start, end.saturating_sub(start)));
                if e.reason.is_none() {
                    e.reason = described(option.keyword.text);
                }
                e
            })?;
            if draft.buffers.len() > BUFFERS_PER_RULE_MAX {
                return Err(Refusal::silent("too many buffers in one rule"));
            }
        }
        Ok(())
    }
}

/// What a keyword does and where that is described, where the fault itself says no more.
fn described(name: &str) -> Option<String> {
    let known = known_keyword(&name.to_ascii_lowercase())?;
    match (known.description, known.page.trim_end_matches(';')) {
        ("", _) => None,
        (what, "") => Some(format!("`{}`: {what}", known.name)),
        (what, page) => {
            Some(format!("`{}`: {what}: see https://docs.suricata.io/en/latest{page}", known.name))
        }
    }
}
