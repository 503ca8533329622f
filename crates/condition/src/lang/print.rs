//! The text of a compiled condition, as Falco's `-L` and `-l` show it: macros replaced by what they stand for, one pair
//! of parentheses around each group, and quotes only where a value needs them.

use super::ast::{Argument, Expr, FieldRef, Operand, Right};

/// The text of a condition, up to `bytes_max` bytes; none if it is longer, as macros of macros can make it.
pub fn text_of(expr: &Expr, bytes_max: usize) -> Option<String> {
    let mut out = String::new();
    write_expr(expr, bytes_max, &mut out).then_some(out)
}

/// A value with quotes if it needs them.
pub fn quoted(value: &str) -> String {
    let mut out = String::new();
    write_value(value, &mut out);
    out
}

fn write_expr(expr: &Expr, bytes_max: usize, out: &mut String) -> bool {
    match expr {
        Expr::And(parts) => write_group(parts, " and ", bytes_max, out),
        Expr::Or(parts) => write_group(parts, " or ", bytes_max, out),
        Expr::Not(inner) => {
            out.push_str("not ");
            write_expr(inner, bytes_max, out)
        }
        Expr::Exists(operand, _) => {
            write_operand(operand, out);
            out.push_str(" exists");
            true
        }
        Expr::Compare { left, op, quantifier, right, .. } => {
            write_operand(left, out);
            out.push(' ');
            out.push_str(op.word());
            out.push(' ');
            if let Some(quantifier) = quantifier {
                out.push_str(quantifier.word());
                out.push(' ');
            }
            match right {
                Right::Text(value) => write_value(value, out),
                Right::List(values) => {
                    out.push('(');
                    for (i, value) in values.iter().enumerate() {
                        if i > 0 {
                            out.push_str(", ");
                        }
                        write_value(value, out);
                    }
                    out.push(')');
                }
                Right::Operand(operand) => write_operand(operand, out),
            }
            out.len() <= bytes_max
        }
        Expr::Macro(name, _) => {
            out.push_str(name);
            true
        }
        Expr::Expanded(_, inner) => write_expr(inner, bytes_max, out),
    }
}

fn write_group(parts: &[Expr], word: &str, bytes_max: usize, out: &mut String) -> bool {
    out.push('(');
    for (i, part) in parts.iter().enumerate() {
        if i > 0 {
            out.push_str(word);
        }
        if !write_expr(part, bytes_max, out) {
            return false;
        }
    }
    out.push(')');
    out.len() <= bytes_max
}

/// Writes a field or a transformer as rules write it.
pub(crate) fn write_operand(operand: &Operand, out: &mut String) {
    match operand {
        Operand::Field(field, _) => write_field(field, out),
        Operand::Apply(transformer, arguments, _) => {
            out.push_str(transformer.word());
            out.push('(');
            write_arguments(arguments, out);
            out.push(')');
        }
    }
}

fn write_arguments(arguments: &[Argument], out: &mut String) {
    for (i, argument) in arguments.iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        match argument {
            Argument::Operand(operand) => write_operand(operand, out),
            Argument::Text(text) => {
                out.push('"');
                out.push_str(text);
                out.push('"');
            }
            Argument::List(inner) => {
                out.push('(');
                write_arguments(inner, out);
                out.push(')');
            }
        }
    }
}

/// Writes a field with its argument.
pub(crate) fn write_field(field: &FieldRef, out: &mut String) {
    out.push_str(&field.name);
    if let Some(argument) = &field.argument {
        out.push('[');
        if field.is_quoted {
            out.push('"');
            out.push_str(argument);
            out.push('"');
        } else {
            out.push_str(argument);
        }
        out.push(']');
    }
}

fn write_value(value: &str, out: &mut String) {
    let needs_quotes =
        value.bytes().any(|b| matches!(b, b' ' | b'\t' | b'\n' | b'\r' | b'"' | b'\'' | b'\\'));
    if !needs_quotes {
        out.push_str(value);
        return;
    }
    out.push('"');
    for c in value.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            other => out.push(other),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    #[test]
    fn groups_and_values_are_written_as_falco_does() {
        let text =
            "evt.type in (open,openat) and(proc.name=\"cat\" or not proc.args contains '-c x')";
        let expr = parse(text).unwrap();
        assert_eq!(
            text_of(&expr, 1 << 16).unwrap(),
            "(evt.type in (open, openat) and (proc.name = cat or not proc.args contains \"-c x\"))"
        );
        assert_eq!(text_of(&expr, 10), None);
    }
}
