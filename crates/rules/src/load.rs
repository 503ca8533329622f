//! Loading: rule files in, a rule set and diagnostics out.

use crate::compile::Outcome;
use crate::compiler::Compiler;
use crate::diagnostic::{Diagnostic, Refusal, Severity};
use crate::keywords;
use crate::lexer::{self, RuleText};
use crate::limits::DIAGNOSTICS_MAX;
use crate::options::LoadOptions;
use crate::order;
use crate::ruleset::{Ruleset, SkippedRule};
use crate::signature::Signature;
use crate::vars::RuleVars;
use gabion_record::applayer::Catalog;
use std::collections::HashMap;

/// A rule file.
#[derive(Clone, Copy, Debug)]
pub struct RuleSource<'s> {
    /// Name, as diagnostics show it.
    pub name: &'s str,
    /// Its text.
    pub text: &'s str,
    /// It holds firewall rules.
    pub is_firewall: bool,
}

impl Ruleset {
    /// Reads rule files. Faults of single rules are reported and counted; the rest is loaded.
    pub fn load(
        sources: &[RuleSource<'_>],
        catalog: &Catalog,
        vars: &RuleVars,
        options: &LoadOptions<'_>,
    ) -> (Ruleset, Vec<Diagnostic>) {
        let mut loader = Loader {
            compiler: Compiler::new(catalog, vars, options, keywords::index(catalog)),
            diagnostics: Vec::new(),
            signatures: Vec::new(),
            by_id: HashMap::new(),
        };
        for def in &options.datasets {
            let at = u32::try_from(loader.compiler.set.datasets.len()).unwrap_or(u32::MAX);
            if options.open_dataset.is_none_or(|open| open(at, def).is_ok()) {
                loader.compiler.set.datasets.push(def.clone());
            }
        }
        loader.compiler.set.texts.reserve(sources.iter().map(|s| s.text.len()).sum());
        for source in sources {
            loader.file(source);
        }
        loader.finish()
    }
}

/// A rule that was loaded: which of the signatures are its own.
#[derive(Clone, Copy)]
struct Known {
    rev: u32,
    first: usize,
    count: usize,
}

struct Loader<'c> {
    compiler: Compiler<'c>,
    diagnostics: Vec<Diagnostic>,
    signatures: Vec<Option<Signature>>,
    by_id: HashMap<(u32, u32), Known>,
}

impl Loader<'_> {
    fn file(&mut self, source: &RuleSource<'_>) {
        let set = &mut self.compiler.set;
        set.counts.files += 1;
        let file = u16::try_from(set.files.len()).unwrap_or(u16::MAX);
        set.files.push(source.name.to_string());
        let folder = source.name.rsplit_once('/').map_or("", |(folder, _)| folder);
        self.compiler.folder = folder.to_string();
        self.compiler.firewall_rules = source.is_firewall;
        for rule in lexer::rules(source.text) {
            self.rule(source, file, &rule);
        }
    }

    fn rule(&mut self, source: &RuleSource<'_>, file: u16, rule: &RuleText<'_>) {
        if rule.is_indented {
            let warning = Refusal::silent("a line that begins with white space is not read");
            self.report(source, rule, warning, Severity::Warning, None);
            return;
        }
        let outcome = self.compiler.compile(&rule.text, file, rule.line);
        let sid = sid_of(&outcome);
        for mut warning in std::mem::take(&mut self.compiler.warnings) {
            // Reported when the class was read, which in most rules comes before the id.
            if let Some(sid) = sid {
                let named = format!("signature sid:{sid} uses");
                warning.message = warning.message.replacen("signature sid:0 uses", &named, 1);
            }
            let severity = if warning.is_note { Severity::Note } else { Severity::Warning };
            self.report(source, rule, warning, severity, sid);
        }
        match outcome {
            Outcome::Loaded(signatures) => self.add(source, rule, signatures),
            Outcome::Skipped(unmet) => {
                let set = &mut self.compiler.set;
                set.counts.skipped += 1;
                if set.skipped.len() < DIAGNOSTICS_MAX {
                    let text = rule.text.to_string();
                    set.skipped.push(SkippedRule { file, line: rule.line, text, unmet });
                }
            }
            Outcome::LeftOut(refusal) => self.report(source, rule, refusal, Severity::Error, sid),
            Outcome::Refused(refusal) => {
                self.compiler.set.counts.failed += 1;
                self.report(source, rule, refusal, Severity::Error, sid);
            }
        }
    }

    /// Adds a rule's signatures, unless its id is taken by the same or a later revision.
    fn add(&mut self, source: &RuleSource<'_>, rule: &RuleText<'_>, new: Vec<Signature>) {
        let Some(head) = new.first() else { return };
        let (key, rev, sid) = ((head.gid, head.sid), head.rev, head.sid);
        let is_inert = head.inert.is_some();
        if let Some(known) = self.by_id.get(&key).copied() {
            if rev <= known.rev {
                self.compiler.set.counts.failed += 1;
                let said = format!("Duplicate signature \"{}\"", rule.text);
                let refusal = Refusal::new("detect-parse", said)
                    .because(format!("gid {} sid {sid} was loaded before", key.0));
                self.report(source, rule, refusal, Severity::Error, Some(sid));
                return;
            }
            for slot in self.signatures.iter_mut().skip(known.first).take(known.count) {
                if slot.as_ref().is_some_and(|s| s.inert.is_some()) {
                    self.compiler.set.counts.inert -= u32::from(!slot_is_swapped(slot));
                }
                *slot = None;
            }
            self.compiler.set.counts.loaded -= 1;
            let said =
                format!("signature with newer revision, so the older signature {sid} is replaced");
            let warning = Refusal::new("detect-parse", said);
            self.report(source, rule, warning, Severity::Warning, Some(sid));
        }
        let counts = &mut self.compiler.set.counts;
        counts.loaded += 1;
        counts.inert += u32::from(is_inert);
        let known = Known { rev, first: self.signatures.len(), count: new.len() };
        self.by_id.insert(key, known);
        self.signatures.extend(new.into_iter().map(Some));
    }

    fn report(
        &mut self,
        source: &RuleSource<'_>,
        rule: &RuleText<'_>,
        refusal: Refusal,
        severity: Severity,
        sid: Option<u32>,
    ) {
        if self.diagnostics.len() >= DIAGNOSTICS_MAX {
            return;
        }
        let (start, len) = refusal.span.unwrap_or((0, 0));
        self.diagnostics.push(Diagnostic {
            file: source.name.to_string(),
            line: rule.line,
            column: u32::try_from(start + 1).unwrap_or(u32::MAX),
            len: u32::try_from(len).unwrap_or(0),
            severity,
            subsystem: refusal.subsystem,
            message: refusal.message,
            reason: refusal.reason,
            rule: rule.text.to_string(),
            sid,
        });
    }

    fn finish(self) -> (Ruleset, Vec<Diagnostic>) {
        let mut set = self.compiler.set;
        let mut signatures: Vec<Signature> = self.signatures.into_iter().flatten().collect();
        order::sort(&mut signatures, &self.compiler.options.action_order);
        for (index, signature) in (0u32..).zip(&mut signatures) {
            signature.index = index;
        }
        signatures.shrink_to_fit();
        set.signatures = signatures;
        set.texts.shrink();
        (set, self.diagnostics)
    }
}

fn slot_is_swapped(slot: &Option<Signature>) -> bool {
    slot.as_ref().is_some_and(|s| s.header.swapped)
}

fn sid_of(outcome: &Outcome) -> Option<u32> {
    match outcome {
        Outcome::Loaded(signatures) => signatures.first().map(|s| s.sid),
        Outcome::Skipped(_) | Outcome::LeftOut(_) | Outcome::Refused(_) => None,
    }
}
