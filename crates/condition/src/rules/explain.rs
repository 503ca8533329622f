//! Why a rule matches an event or does not: each part of its condition with its answer, each comparison with the value of
//! its field.

use super::set::RuleSet;
use crate::compile::{Applied, Builder, Evaluator, Texts, collect_texts};
use crate::lang::{self, Expr, Operand};
use crate::limits::{EXPLAINED_LINES_MAX, EXPLAINED_VALUE_CHARS_MAX};
use gabion_record::fields::{Fields, Scratch};
use std::fmt::Write;

/// The parts of a rule's condition as lines, from the whole to the comparisons. None if there is no such rule.
pub fn explain_rule(rules: &RuleSet, name: &str, fields: &dyn Fields) -> Option<String> {
    let rule = rules.described().rules.iter().find(|rule| rule.item.name == name)?;
    let mut out = String::new();
    let mut lines = 0;
    let types = rules.rules().iter().find(|rule| rule.name == name).map(|rule| rule.types);
    if types.is_some_and(|types| !types.contains(fields.event_type())) {
        out.push_str("the rule is not tried on events of this type\n");
    }
    write_part(&rule.expr, fields, 0, &mut lines, &mut out);
    Some(out)
}

fn write_part(expr: &Expr, fields: &dyn Fields, depth: usize, lines: &mut usize, out: &mut String) {
    *lines += 1;
    if *lines > EXPLAINED_LINES_MAX {
        if *lines == EXPLAINED_LINES_MAX + 1 {
            out.push_str("…\n");
        }
        return;
    }
    let answer = if holds(expr, fields) { "true " } else { "false" };
    let indent = "  ".repeat(depth);
    let (text, parts): (String, &[Expr]) = match expr {
        Expr::And(parts) => ("and".to_string(), parts),
        Expr::Or(parts) => ("or".to_string(), parts),
        Expr::Not(inner) => ("not".to_string(), std::slice::from_ref(inner.as_ref())),
        Expr::Expanded(name, inner) => {
            (format!("macro {name}"), std::slice::from_ref(inner.as_ref()))
        }
        Expr::Macro(name, _) => (name.clone(), &[]),
        Expr::Exists(operand, _) | Expr::Compare { left: operand, .. } => {
            let text = shortened(&lang::text_of(expr, usize::MAX).unwrap_or_default());
            (format!("{text}    [{}]", shortened(&value_of(operand, fields))), &[])
        }
    };
    let _ = writeln!(out, "{answer} {indent}{text}");
    parts.iter().for_each(|part| write_part(part, fields, depth + 1, lines, out));
}

fn holds(expr: &Expr, fields: &dyn Fields) -> bool {
    let mut builder = Builder::new();
    let Ok(node) = builder.add(expr) else { return false };
    let program = builder.finish();
    let mut evaluator = Evaluator::new(&program);
    evaluator.begin_event();
    evaluator.holds(&program, node, fields)
}

/// The value of what is compared, or why it is absent.
fn value_of(operand: &Operand, fields: &dyn Fields) -> String {
    let Ok(applied) = Applied::new(operand) else { return String::new() };
    let mut texts = Texts::default();
    match collect_texts(&applied, fields, &mut Scratch::new(), &mut texts) {
        Ok(()) => {
            let texts: Vec<_> = texts
                .iter()
                .map(|text| String::from_utf8_lossy(text).escape_debug().to_string())
                .collect();
            texts.join(", ")
        }
        Err(missing) => format!("absent: {}", missing.name()),
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(EXPLAINED_VALUE_CHARS_MAX) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_string(),
    }
}
