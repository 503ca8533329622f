//! `gabion rules check`, `list` and `why`: what is wrong with rules, what was made of each, and how one is inspected.

use super::with_falco_rules::{self, is_falco_rules};
use super::with_rules;
use crate::command_line::{CheckOptions, ListOptions, WhyOptions};
use crate::exit::{Exit, Fault, about};
use crate::{input_opener, standard_output, terminal, values};
use gabion_reports::{CheckStyle, LoadDetail, RuleCheck, RuleList};
use gabion_rules::analysis::{Flowbits, Report};
use gabion_rules::{Signature, analysis, format_rule_id};
use gabion_sensor::falco::{WhyFault, explain_event};
use std::fmt::Write as _;
use std::io::IsTerminal;

/// Runs `rules check`.
pub(crate) fn check(o: &CheckOptions) -> Result<Exit, Fault> {
    if o.files.iter().all(|path| is_falco_rules(path)) {
        let loaded = gabion_sensor::falco::validate_rule_files(&o.files)
            .map_err(|(path, error)| Fault::input(about(path.display(), &error)))?;
        standard_output::text(loaded.report(o.json, !o.quiet));
        return Ok(if loaded.is_successful() { Exit::Done } else { Exit::No });
    }
    let (rules, _) = with_rules::load(&o.rules, &o.files)?;
    let check = RuleCheck::from_rules(rules);
    let style = CheckStyle {
        has_color: std::io::stdout().is_terminal(),
        is_quiet: o.quiet,
        is_verbose: o.verbose,
        width: terminal::width(),
    };
    standard_output::text(if o.json { check.json() } else { check.text(style) });
    Ok(if check.is_good() { Exit::Done } else { Exit::No })
}

/// Runs `rules list`.
pub(crate) fn list(o: &ListOptions) -> Result<Exit, Fault> {
    let (rules, _) = with_rules::load(&o.rules, &o.files)?;
    with_rules::report(&rules, LoadDetail::Counts);
    let list = RuleList::from_rules(&rules.set, o.costly, o.inert);
    standard_output::text(if o.json { list.json() } else { list.text(terminal::width()) });
    Ok(Exit::Done)
}

/// Runs `rules why`.
pub(crate) fn why(o: &WhyOptions) -> Result<Exit, Fault> {
    if o.files.iter().all(|path| is_falco_rules(path)) {
        return why_of_event(o);
    }
    if o.capture.is_some() {
        return Err(Fault::usage(
            "rules why: --event is for rules of Falco: name a rule file in YAML, or leave it out",
        ));
    }
    let wanted = values::rule_id(&o.rule)
        .map_err(|e| Fault::usage(format!("rules why: {}: {e}", o.rule)))?;
    let (compiled, catalog) = with_rules::load(&o.rules, &o.files)?;
    let set = &compiled.set;
    let rules: Vec<&Signature> =
        set.signatures.iter().filter(|s| (s.gid, s.sid) == wanted).collect();
    if rules.is_empty() {
        // A rule may be refused before its id is read.
        let named = format!("sid:{};", wanted.1);
        let names = |rule: &str| rule.replace(' ', "").contains(&named);
        let refused =
            compiled.diagnostics.iter().filter(|d| d.sid == Some(wanted.1) || names(&d.rule));
        let mut text: String = refused.map(|d| format!("{}\n\n", d.render(false))).collect();
        let _ = writeln!(text, "{}: no such rule was loaded", format_rule_id(wanted.0, wanted.1));
        if o.json {
            eprintln!("{}", text.trim_end());
        } else {
            standard_output::text(&text);
        }
        return Ok(Exit::No);
    }
    let flowbits = Flowbits::from_ruleset(set);
    let report = Report { set, catalog: &catalog, flowbits: &flowbits };
    let mut text = String::new();
    for s in &rules {
        if o.json {
            text.push_str(&String::from_utf8_lossy(&analysis::rule_json(&report, s)));
            text.push('\n');
        } else {
            text.push_str(&analysis::explain_rule(&report, s));
        }
    }
    for d in compiled.diagnostics.iter().filter(|d| !o.json && d.sid == Some(wanted.1)) {
        let _ = writeln!(text, "\n{}", d.render(false));
    }
    standard_output::text(&text);
    Ok(Exit::Done)
}

/// Explains a rule of Falco for an event of a capture.
fn why_of_event(o: &WhyOptions) -> Result<Exit, Fault> {
    let (Some(capture), Some(number)) = (&o.capture, o.event) else {
        return Err(Fault::usage(
            "rules why: a rule of Falco is explained for an event: name a capture and the event with --event NUMBER",
        ));
    };
    if o.json {
        return Err(Fault::usage("--json: has no effect on rules of Falco: leave it out"));
    }
    let loaded = with_falco_rules::load(&o.files, false)?;
    match explain_event(&loaded.rules, &o.rule, (&input_opener(), capture), number as u64) {
        Ok(text) => {
            standard_output::text(text);
            Ok(Exit::Done)
        }
        Err(fault @ WhyFault::NoRule(_)) => {
            standard_output::line(fault);
            Ok(Exit::No)
        }
        Err(WhyFault::Unreadable(error)) => Err((*error).into()),
        Err(fault) => Err(Fault::input(&fault)),
    }
}
