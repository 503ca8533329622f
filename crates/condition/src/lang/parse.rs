//! The parser of conditions. It reads from left to right, never looks back further than one word, and its errors name
//! the place in Falco's words.
//!
//! ```text
//! or    = and { "or" and }
//! and   = not { "and" not }
//! not   = { "not" } check
//! check = "(" or ")" | operand operator right | operand "exists" | macro
//! ```

use super::ast::{Argument, Expr, FieldRef, Op, Operand, Position, Quantifier, Right, Transformer};
use crate::limits::{CONDITION_BYTES_MAX, NESTING_MAX};
use std::cell::Cell;
use std::fmt;

/// A fault in the text of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Where it is.
    pub position: Position,
    /// What was expected or found there.
    pub message: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Position { index, line, column } = self.position;
        write!(f, "filter error at index {index}, line {line}, column {column}: {}", self.message)
    }
}

impl std::error::Error for ParseError {}

/// Parses a condition.
///
/// # Errors
/// The first place that is not of the language.
pub fn parse(text: &str) -> Result<Expr, ParseError> {
    let mut parser = Parser::new(text);
    if text.len() > CONDITION_BYTES_MAX {
        return Err(
            parser.error(format!("the condition has more than {CONDITION_BYTES_MAX} bytes"))
        );
    }
    let expr = parser.or()?;
    parser.blank();
    if parser.at < parser.bytes.len() {
        let message = format!("unexpected token after '{}', expecting 'or', 'and'", parser.last);
        return Err(parser.error(message));
    }
    Ok(expr)
}

/// Parses a field or a transformer alone, as outputs and exceptions name them; also returns the number of bytes that
/// it took.
///
/// # Errors
/// The first place that is not of the language.
pub fn parse_field(text: &str) -> Result<(Operand, usize), ParseError> {
    let mut parser = Parser::new(text);
    match parser.operand(false)? {
        Some(operand) => Ok((operand, parser.at)),
        None => Err(parser.error("expected a field".to_string())),
    }
}

/// The text that a quoted string stands for, if `text` is one, quotes included.
pub fn parse_quoted(text: &str) -> Option<String> {
    let mut parser = Parser::new(text);
    let value = parser.quoted().ok()??;
    (parser.at == text.len()).then_some(value)
}

/// Whether `text` may name a macro or a list.
pub fn is_identifier(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic())
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

struct Parser<'t> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
    depth: usize,
    /// The last word that was understood, for messages.
    last: String,
    /// A place whose line is known, the number of that line and where it begins: positions are asked for in rising order,
    /// and none counts the lines before it again.
    known: Cell<(usize, u32, usize)>,
}

type Parsed<T> = Result<T, ParseError>;

const CHECK_EXPECTED: &str = "expected a '(' token, a field check, or an identifier";

impl<'t> Parser<'t> {
    fn new(text: &'t str) -> Parser<'t> {
        let bytes = text.as_bytes();
        Parser { text, bytes, at: 0, depth: 0, last: String::new(), known: Cell::new((0, 1, 0)) }
    }

    fn position(&self) -> Position {
        self.position_of(self.at)
    }

    fn position_of(&self, at: usize) -> Position {
        let (mut known, mut line, mut start) = self.known.get();
        if at < known {
            (known, line, start) = (0, 1, 0);
        }
        for (i, _) in
            self.bytes.iter().enumerate().take(at).skip(known).filter(|(_, b)| **b == b'\n')
        {
            line = line.saturating_add(1);
            start = i + 1;
        }
        self.known.set((at, line, start));
        Position {
            index: u32::try_from(at).unwrap_or(u32::MAX),
            line,
            column: u32::try_from(at - start + 1).unwrap_or(u32::MAX),
        }
    }

    fn error(&self, message: String) -> ParseError {
        ParseError { position: self.position(), message }
    }

    fn rest(&self) -> &'t [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    fn next_byte(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Skips blanks; true if there was one.
    fn blank(&mut self) -> bool {
        let start = self.at;
        while self.next_byte().is_some_and(is_blank) {
            self.at += 1;
        }
        self.at > start
    }

    /// Takes `word` if it comes next.
    fn take_word(&mut self, word: &str) -> bool {
        let comes = self.rest().starts_with(word.as_bytes());
        if comes {
            self.at += word.len();
            self.last.clear();
            self.last.push_str(word);
        }
        comes
    }

    /// Takes the bytes as long as `belongs` says so.
    fn take_while(&mut self, belongs: impl Fn(u8) -> bool) -> &'t str {
        let start = self.at;
        while self.next_byte().is_some_and(&belongs) {
            self.at += 1;
        }
        self.text.get(start..self.at).unwrap_or_default()
    }

    fn identifier(&mut self) -> Option<&'t str> {
        self.next_byte().filter(u8::is_ascii_alphabetic)?;
        Some(self.take_while(is_name_byte))
    }

    fn or(&mut self) -> Parsed<Expr> {
        self.depth += 1;
        if self.depth > NESTING_MAX {
            return Err(self.error(format!("exceeded max depth of {NESTING_MAX}")));
        }
        let expr = self.group("or", Parser::and, Expr::Or)?;
        self.depth -= 1;
        Ok(expr)
    }

    fn and(&mut self) -> Parsed<Expr> {
        self.group("and", Parser::not, Expr::And)
    }

    /// Reads one part, and more as long as `word` comes between them.
    fn group(
        &mut self,
        word: &str,
        part: fn(&mut Self) -> Parsed<Expr>,
        join: fn(Vec<Expr>) -> Expr,
    ) -> Parsed<Expr> {
        self.blank();
        let first = part(self)?;
        let mut parts = vec![first];
        self.blank();
        while self.take_word(word) {
            if !self.blank() && self.next_byte() != Some(b'(') {
                return Err(self.error(format!("expected blank or '(' after '{word}'")));
            }
            parts.push(part(self)?);
            self.blank();
        }
        match parts.len() {
            1 => Ok(parts.swap_remove(0)),
            _ => Ok(join(parts)),
        }
    }

    fn not(&mut self) -> Parsed<Expr> {
        let mut is_negated = false;
        loop {
            self.blank();
            let comes = self.rest().starts_with(b"not")
                && self.rest().get(3).is_some_and(|&b| is_blank(b) || b == b'(');
            if !comes {
                break;
            }
            self.take_word("not");
            is_negated = !is_negated;
        }
        let check = self.check()?;
        Ok(if is_negated { Expr::Not(Box::new(check)) } else { check })
    }

    fn check(&mut self) -> Parsed<Expr> {
        self.blank();
        if self.take_word("(") {
            let inner = self.or()?;
            self.blank();
            if !self.take_word(")") {
                return Err(self.error("expected a ')' token".to_string()));
            }
            return Ok(inner);
        }
        let position = self.position();
        if let Some(left) = self.operand(false)? {
            return self.comparison(left, position);
        }
        match self.identifier() {
            Some(name) => {
                self.last = name.to_string();
                Ok(Expr::Macro(name.to_string(), position))
            }
            None => Err(self.error(CHECK_EXPECTED.to_string())),
        }
    }

    /// A field or a transformer, if one comes next; on the right side transformers only.
    fn operand(&mut self, is_right: bool) -> Parsed<Option<Operand>> {
        let (start, position) = (self.at, self.position());
        let Some(word) = self.identifier() else { return Ok(None) };
        let name_end = self.at;
        self.blank();
        if let Some(transformer) =
            Transformer::by_word(word).filter(|_| self.next_byte() == Some(b'('))
        {
            if transformer == Transformer::Val && !is_right {
                self.at = start;
                return Ok(None);
            }
            self.take_word("(");
            let arguments = self.arguments()?;
            self.last = ")".to_string();
            return Ok(Some(Operand::Apply(transformer, arguments, position)));
        }
        self.at = name_end;
        if is_right || self.next_byte() != Some(b'.') {
            self.at = start;
            return Ok(None);
        }
        Ok(self.field(start)?.map(|field| Operand::Field(field, position)))
    }

    /// A field whose first word was read; none if it isn't one.
    fn field(&mut self, start: usize) -> Parsed<Option<FieldRef>> {
        while self.next_byte() == Some(b'.') {
            if !self.bytes.get(self.at + 1).is_some_and(|&b| is_name_byte(b)) {
                break;
            }
            self.at += 1;
            self.take_while(is_name_byte);
        }
        let name = self.text.get(start..self.at).unwrap_or_default().to_string();
        if !name.contains('.') {
            self.at = start;
            return Ok(None);
        }
        let (mut argument, mut is_quoted) = (None, false);
        if self.next_byte() == Some(b'[') {
            self.at += 1;
            match self.quoted()? {
                Some(text) => (argument, is_quoted) = (Some(text), true),
                None => {
                    let bare = self.take_while(|b| !matches!(b, b'[' | b']' | b'"' | b'\''));
                    argument = Some(bare.to_string());
                }
            }
            if argument.as_deref() == Some("") {
                return Err(self.error(
                    "expected a valid field argument: a quoted string or a bare string".to_string(),
                ));
            }
            if self.next_byte() != Some(b']') {
                return Err(self.error("expected a ']' token".to_string()));
            }
            self.at += 1;
        }
        self.last = self.text.get(start..self.at).unwrap_or_default().to_string();
        Ok(Some(FieldRef { name, argument, is_quoted }))
    }

    /// The arguments of a transformer after its parenthesis.
    fn arguments(&mut self) -> Parsed<Vec<Argument>> {
        self.depth += 1;
        if self.depth > NESTING_MAX {
            return Err(self.error(format!("exceeded max depth of {NESTING_MAX}")));
        }
        let mut arguments = Vec::new();
        loop {
            self.blank();
            if self.take_word(")") {
                break;
            }
            if !arguments.is_empty() {
                if !self.take_word(",") {
                    return Err(self.error("expected a ')' token".to_string()));
                }
                self.blank();
            }
            let argument = if self.take_word("(") {
                Argument::List(self.arguments()?)
            } else if let Some(text) = self.quoted()? {
                Argument::Text(text)
            } else if let Some(operand) = self.operand(false)? {
                Argument::Operand(operand)
            } else {
                let bare = self.take_while(is_bare_byte);
                if bare.is_empty() {
                    let message = "expected a field, a valid transformer, or a value";
                    return Err(self.error(message.to_string()));
                }
                Argument::Text(bare.to_string())
            };
            arguments.push(argument);
        }
        self.depth -= 1;
        Ok(arguments)
    }

    fn comparison(&mut self, left: Operand, position: Position) -> Parsed<Expr> {
        self.blank();
        if self.take_word("exists") {
            return Ok(Expr::Exists(left, position));
        }
        let Some(op) = self.operator() else { return Err(self.error(operators_expected())) };
        self.blank();
        let quantifier = if op.takes_text() { self.quantifier() } else { None };
        self.blank();
        let right_position = self.position();
        let is_list = op.takes_list() || quantifier.is_some();
        let right = if is_list { self.list_or_word()? } else { self.value(op)? };
        Ok(Expr::Compare { left, op, quantifier, right, position, right_position })
    }

    /// The operator that comes next. Words need a blank after them, so that `in` is not found in `intersects`.
    fn operator(&mut self) -> Option<Op> {
        for &op in Op::ALL {
            let word = op.word();
            if !self.rest().starts_with(word.as_bytes()) {
                continue;
            }
            let after = self.rest().get(word.len()).copied();
            let is_word = word.as_bytes().first().is_some_and(u8::is_ascii_alphabetic);
            let ends = after.is_some_and(|b| is_blank(b) || (b == b'(' && op.takes_list()));
            if !is_word || ends {
                self.take_word(word);
                return Some(op);
            }
        }
        None
    }

    fn quantifier(&mut self) -> Option<Quantifier> {
        for &quantifier in Quantifier::ALL {
            let word = quantifier.word();
            let start = self.at;
            if self.rest().starts_with(word.as_bytes()) {
                self.at += word.len();
                self.blank();
                if self.next_byte() == Some(b'(') {
                    return Some(quantifier);
                }
                self.at = start;
            }
        }
        None
    }

    fn value(&mut self, op: Op) -> Parsed<Right> {
        if let Some(operand) = self.operand(true)? {
            return Ok(Right::Operand(operand));
        }
        let value = if op.takes_number() { self.number() } else { self.string()? };
        match value {
            Some(text) => {
                self.last.clone_from(&text);
                Ok(Right::Text(text))
            }
            None => {
                let what = if op.takes_number() { "number" } else { "string" };
                let words: Vec<String> =
                    Transformer::ALL.iter().map(|t| format!("'{}'", t.word())).collect();
                let words = words.join(", ");
                let message =
                    format!("expected a {what} value or a field with a valid transformer: {words}");
                Err(self.error(message))
            }
        }
    }

    fn list_or_word(&mut self) -> Parsed<Right> {
        if let Some(operand) = self.operand(true)? {
            return Ok(Right::Operand(operand));
        }
        if !self.take_word("(") {
            return match self.string()? {
                Some(text) => {
                    self.last.clone_from(&text);
                    Ok(Right::List(vec![text]))
                }
                None => Err(self.error("expected a list or an identifier".to_string())),
            };
        }
        let mut values = Vec::new();
        self.blank();
        if let Some(first) = self.string()? {
            values.push(first);
            self.blank();
            while self.take_word(",") {
                self.blank();
                match self.string()? {
                    Some(value) => values.push(value),
                    None => return Err(self.error("expected a value".to_string())),
                }
                self.blank();
            }
        }
        if !self.take_word(")") {
            return Err(self.error("expected a ')' token".to_string()));
        }
        Ok(Right::List(values))
    }

    /// A number, as it is written.
    fn number(&mut self) -> Option<String> {
        let start = self.at;
        if self.rest().starts_with(b"0x") || self.rest().starts_with(b"0X") {
            self.at += 2;
            if !self.take_while(|b| b.is_ascii_hexdigit()).is_empty() {
                return self.text.get(start..self.at).map(str::to_string);
            }
            self.at = start;
        }
        if matches!(self.next_byte(), Some(b'+' | b'-')) {
            self.at += 1;
        }
        if self.take_while(|b| b.is_ascii_digit()).is_empty() {
            self.at = start;
            return None;
        }
        if self.next_byte() == Some(b'.') {
            self.at += 1;
            self.take_while(|b| b.is_ascii_digit());
        }
        self.text.get(start..self.at).map(str::to_string)
    }

    /// A value in quotes or without them.
    fn string(&mut self) -> Parsed<Option<String>> {
        if let Some(text) = self.quoted()? {
            return Ok(Some(text));
        }
        let bare = self.take_while(is_bare_byte);
        Ok((!bare.is_empty()).then(|| bare.to_string()))
    }

    /// A value in quotes, with its escapes resolved.
    fn quoted(&mut self) -> Parsed<Option<String>> {
        let Some(quote) = self.next_byte().filter(|b| matches!(b, b'"' | b'\'')) else {
            return Ok(None);
        };
        let start = self.at;
        let mut at = self.at + 1;
        let mut value = Vec::new();
        let mut unknown = None;
        loop {
            match self.bytes.get(at).copied() {
                None => {
                    // Falco finds no string here at all, and says what it expected instead.
                    self.at = start;
                    return Ok(None);
                }
                Some(b) if b == quote => break,
                Some(b'\\') => {
                    let escaped = self.bytes.get(at + 1).copied();
                    let (byte, len) = match escaped {
                        Some(b'x') => (self.hex_escape(at + 2), 4),
                        Some(b) => (simple_escape(b), 2),
                        None => (None, 1),
                    };
                    match byte {
                        Some(byte) => {
                            value.push(byte);
                            at += len;
                        }
                        None => {
                            unknown.get_or_insert(at);
                            at += 2;
                        }
                    }
                }
                Some(b) => {
                    value.push(b);
                    at += 1;
                }
            }
        }
        self.at = at + 1;
        if let Some(at) = unknown {
            let escaped = self.text.get(at..).and_then(|rest| rest.chars().nth(1)).unwrap_or(' ');
            return Err(self.error(format!("unsupported string escape sequence: \\{escaped}")));
        }
        Ok(Some(String::from_utf8(value).unwrap_or_else(|e| {
            // Bytes above 127 come from `\x` escapes; they keep their number as a character.
            e.into_bytes().iter().map(|&b| b as char).collect()
        })))
    }

    fn hex_escape(&self, at: usize) -> Option<u8> {
        let digits = self.text.get(at..at.checked_add(2)?)?;
        u8::from_str_radix(digits, 16).ok()
    }
}

fn simple_escape(escaped: u8) -> Option<u8> {
    Some(match escaped {
        b'\\' | b'"' | b'\'' | b'/' => escaped,
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        // Falco 0.63.0 reads `"\ "` as one backslash; a shipped rule has it.
        b' ' => b'\\',
        _ => return None,
    })
}

fn is_blank(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\n' | b'\r' | 8)
}

fn is_name_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}

fn is_bare_byte(b: u8) -> bool {
    !is_blank(b) && !matches!(b, b'(' | b')' | b',' | b'=' | b'"' | b'\'')
}

fn operators_expected() -> String {
    let words: Vec<String> = Op::ALL.iter().map(|op| format!("'{}'", op.word())).collect();
    format!("expected a valid check operator: one of 'exists', {}", words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> String {
        parse(text).expect_err("a fault").to_string()
    }

    /// Messages are those of Falco's engine 0.63.0 (`expected-filters.tsv` of the corpus).
    #[test]
    fn faults_are_named_where_they_are() {
        assert_eq!(
            message("evt.type=open and"),
            "filter error at index 17, line 1, column 18: expected blank or '(' after 'and'"
        );
        assert_eq!(
            message("evt.type=open proc.name=cat"),
            "filter error at index 14, line 1, column 15: unexpected token after 'open', expecting 'or', 'and'"
        );
        assert_eq!(
            message(r#"fd.name regex ".*\.so(\.[0-9]+)*""#),
            r"filter error at index 33, line 1, column 34: unsupported string escape sequence: \."
        );
    }

    #[test]
    fn groups_keep_their_shape() {
        let Expr::And(parts) = parse("a and (b or not c) and not not d").unwrap() else { panic!() };
        assert_eq!(parts.len(), 3);
        assert!(matches!(&parts[1], Expr::Or(inner) if matches!(inner[1], Expr::Not(_))));
        assert!(matches!(&parts[2], Expr::Macro(name, _) if name == "d"));
    }

    #[test]
    fn nesting_ends_at_its_limit() {
        let deep = |n: usize| format!("{}a{}", "(".repeat(n), ")".repeat(n));
        assert!(parse(&deep(NESTING_MAX - 1)).is_ok());
        assert!(message(&deep(NESTING_MAX)).contains("exceeded max depth"));
        let nots = format!("{}a", "not ".repeat(50_000));
        assert!(parse(&nots).is_ok());
    }
}
