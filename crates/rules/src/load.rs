//! Loading: rule files in, a rule set and diagnostics out.

use crate::compile::Outcome;
use crate::compiler::Compiler;
use crate::diagnostic::{Diagnostic, Refusal, Severity};
use crate::keywords;
use crate::lexer::{self, RuleText};
use crate::limits::DIAGNOSTICS_MAX;
use crate::names::NameMap;
use crate::options::LoadOptions;
use crate::order;
use crate::ruleset::{Ruleset, SkippedRule};
use crate::signature::{BufferInspection, Signature};
use crate::vars::RuleVars;
use gabion_record::applayer::Catalog;
use std::collections::HashSet;
use std::sync::Arc;

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

/// A rule file in parts, of which each is freed once its rules are compiled.
#[derive(Clone, Debug)]
pub struct RuleParts {
    /// Name, as diagnostics show it.
    pub name: String,
    /// Its text, cut where [`RuleText::end_of_whole_rules`] allows it.
    pub parts: Vec<String>,
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
        let mut loader = Loader::new(catalog, vars, options);
        for source in sources {
            loader.begin_file(source.name, source.is_firewall, lexer::count_lines(source.text));
            loader.rules(source.text, 1);
        }
        loader.finish()
    }

    /// [`Ruleset::load`] of files in parts. What was read of a file is freed as the rules are compiled, so that a large
    /// file is not held in addition to its rules.
    pub fn load_parts(
        files: impl IntoIterator<Item = RuleParts>,
        catalog: &Catalog,
        vars: &RuleVars,
        options: &LoadOptions<'_>,
    ) -> (Ruleset, Vec<Diagnostic>) {
        let mut loader = Loader::new(catalog, vars, options);
        for file in files {
            let lines = file.parts.iter().map(|part| lexer::count_lines(part)).sum();
            loader.begin_file(&file.name, file.is_firewall, lines);
            let mut line = 1u32;
            for part in file.parts {
                loader.rules(&part, line);
                let ends = memchr::memchr_iter(b'\n', part.as_bytes()).count();
                line = line.saturating_add(u32::try_from(ends).unwrap_or(u32::MAX));
            }
        }
        loader.finish()
    }
}

/// A rule that was loaded: which of the signatures are its own.
#[derive(Clone, Copy)]
struct Known {
    rev: u32,
    first: u32,
    count: u32,
}

struct Loader<'c> {
    compiler: Compiler<'c>,
    diagnostics: Vec<Diagnostic>,
    signatures: Vec<Signature>,
    /// Places of those that later revisions replace.
    replaced: HashSet<u32>,
    by_id: NameMap<(u32, u32), Known>,
    /// The file at hand.
    file: u16,
    /// Conditions of the rules that were loaded before, by their ids.
    before: NameMap<(u32, u32), &'c Arc<[BufferInspection]>>,
}

impl<'c> Loader<'c> {
    fn new(catalog: &'c Catalog, vars: &'c RuleVars, options: &'c LoadOptions<'c>) -> Loader<'c> {
        let mut compiler = Compiler::new(catalog, vars, options, keywords::index(catalog));
        for def in &options.datasets {
            let at = u32::try_from(compiler.set.datasets.len()).unwrap_or(u32::MAX);
            if options.open_dataset.is_none_or(|open| open(at, def).is_ok()) {
                compiler.set.datasets.push(def.clone());
            }
        }
        let mut before = NameMap::default();
        if let Some(set) = options.before {
            before.reserve(set.signatures.len());
            for signature in &set.signatures {
                compiler.add_shared(signature);
                let id = (signature.gid, signature.sid);
                before.insert(id, &signature.buffers);
            }
        }
        Loader {
            compiler,
            diagnostics: Vec::new(),
            signatures: Vec::new(),
            replaced: HashSet::new(),
            by_id: NameMap::default(),
            file: 0,
            before,
        }
    }

    /// Begins a file that has about this many rules.
    fn begin_file(&mut self, name: &str, is_firewall: bool, rules: usize) {
        let set = &mut self.compiler.set;
        set.counts.files += 1;
        self.file = u16::try_from(set.files.len()).unwrap_or(u16::MAX);
        set.files.push(name.to_string());
        let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
        self.compiler.folder = folder.to_string();
        self.compiler.firewall_rules = is_firewall;
        // Neither is moved as it grows: that would hold it twice.
        self.signatures.reserve(rules);
        self.by_id.reserve(rules);
    }

    /// Reads rules of the file at hand, from this line on.
    fn rules(&mut self, text: &str, first_line: u32) {
        for rule in lexer::rules_from(text, first_line) {
            self.rule(&rule);
        }
    }

    fn rule(&mut self, rule: &RuleText<'_>) {
        let file = self.file;
        if rule.is_indented {
            let warning = Refusal::silent("a line that begins with white space is not read");
            self.report(rule, warning, Severity::Warning, None);
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
            self.report(rule, warning, severity, sid);
        }
        match outcome {
            Outcome::Loaded(signatures) => self.add(rule, signatures),
            Outcome::Skipped(unmet) => {
                let set = &mut self.compiler.set;
                set.counts.skipped += 1;
                if set.skipped.len() < DIAGNOSTICS_MAX {
                    let text = rule.text.to_string();
                    set.skipped.push(SkippedRule { file, line: rule.line, text, unmet });
                }
            }
            Outcome::LeftOut(refusal) => {
                let severity = if refusal.is_note { Severity::Warning } else { Severity::Error };
                self.report(rule, refusal, severity, sid);
            }
            Outcome::Refused(refusal) => {
                self.compiler.set.counts.failed += 1;
                self.report(rule, refusal, Severity::Error, sid);
            }
        }
    }

    /// Adds a rule's signatures, unless its id is taken by the same or a later revision.
    fn add(&mut self, rule: &RuleText<'_>, mut new: Vec<Signature>) {
        let Some(head) = new.first() else { return };
        let (key, rev, sid) = ((head.gid, head.sid), head.rev, head.sid);
        let is_inert = head.inert.is_some();
        if let Some(known) = self.by_id.get(&key).copied() {
            if rev <= known.rev {
                self.compiler.set.counts.failed += 1;
                let said = format!("Duplicate signature \"{}\"", rule.text);
                let refusal = Refusal::new("detect-parse", said)
                    .because(format!("gid {} sid {sid} was loaded before", key.0));
                self.report(rule, refusal, Severity::Error, Some(sid));
                return;
            }
            for at in known.first..known.first.saturating_add(known.count) {
                let own = self.signatures.get(at as usize);
                if own.is_some_and(|s| s.inert.is_some() && !s.header.swapped) {
                    self.compiler.set.counts.inert -= 1;
                }
                self.replaced.insert(at);
            }
            self.compiler.set.counts.loaded -= 1;
            let said =
                format!("signature with newer revision, so the older signature {sid} is replaced");
            let warning = Refusal::new("detect-parse", said);
            self.report(rule, warning, Severity::Warning, Some(sid));
        }
        let counts = &mut self.compiler.set.counts;
        counts.loaded += 1;
        counts.inert += u32::from(is_inert);
        let number = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        let (first, count) = (number(self.signatures.len()), number(new.len()));
        let known = Known { rev, first, count };
        self.by_id.insert(key, known);
        if let Some(before) = self.before.get(&key) {
            for signature in &mut new {
                if signature.buffers == **before {
                    signature.buffers = Arc::clone(before);
                }
            }
        }
        self.signatures.extend(new);
    }

    fn report(
        &mut self,
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
            file: self.compiler.set.files.last().cloned().unwrap_or_default(),
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
        let mut signatures = self.signatures;
        if !self.replaced.is_empty() {
            let mut places = 0u32..;
            signatures.retain(|_| places.next().is_none_or(|at| !self.replaced.contains(&at)));
        }
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

fn sid_of(outcome: &Outcome) -> Option<u32> {
    match outcome {
        Outcome::Loaded(signatures) => signatures.first().map(|s| s.sid),
        Outcome::Skipped(_) | Outcome::LeftOut(_) | Outcome::Refused(_) => None,
    }
}
