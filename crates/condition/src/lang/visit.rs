//! Walks over the comparisons and fields of a condition.

use super::ast::{Argument, Expr, FieldRef, Operand, Right};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Calls `visit` for every field of a condition.
pub(crate) fn visit_fields(expr: &Expr, visit: &mut dyn FnMut(&FieldRef)) {
    visit_checks(expr, &mut |expr| match expr {
        Expr::Exists(operand, _) => visit_operand(operand, visit),
        Expr::Compare { left, right, .. } => {
            visit_operand(left, visit);
            if let Right::Operand(operand) = right {
                visit_operand(operand, visit);
            }
        }
        Expr::And(_) | Expr::Or(_) | Expr::Not(_) | Expr::Macro(..) | Expr::Expanded(..) => {}
    });
}

/// Calls `visit` for every comparison of a condition; those of a macro that comes several times once.
pub(crate) fn visit_checks(expr: &Expr, visit: &mut dyn FnMut(&Expr)) {
    fn walk(expr: &Expr, seen: &mut BTreeSet<usize>, visit: &mut dyn FnMut(&Expr)) {
        match expr {
            Expr::And(parts) | Expr::Or(parts) => {
                parts.iter().for_each(|part| walk(part, seen, visit))
            }
            Expr::Not(inner) => walk(inner, seen, visit),
            Expr::Expanded(_, inner) => {
                if seen.insert(Arc::as_ptr(inner) as usize) {
                    walk(inner, seen, visit);
                }
            }
            Expr::Exists(..) | Expr::Compare { .. } => visit(expr),
            Expr::Macro(..) => {}
        }
    }
    walk(expr, &mut BTreeSet::new(), visit);
}

fn visit_operand(operand: &Operand, visit: &mut dyn FnMut(&FieldRef)) {
    match operand {
        Operand::Field(field, _) => visit(field),
        Operand::Apply(_, arguments, _) => {
            arguments.iter().for_each(|argument| visit_argument(argument, visit));
        }
    }
}

fn visit_argument(argument: &Argument, visit: &mut dyn FnMut(&FieldRef)) {
    match argument {
        Argument::Operand(operand) => visit_operand(operand, visit),
        Argument::Text(_) => {}
        Argument::List(inner) => inner.iter().for_each(|argument| visit_argument(argument, visit)),
    }
}
