//! What a line of `modify.conf` does to a rule.

use super::fault::LineFault;
use super::line::RuleLine;
use super::pattern::{Which, expression_of};
use gabion_matcher::regex::{Found, Regex, RegexScratch};

/// A piece of what takes the place of what an expression found.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// What a group took.
    Group(u32),
}

enum What {
    Replace(Box<Regex>, Vec<Piece>),
    /// ` key value` as further metadata.
    Metadata(String),
}

/// A change of rules.
pub(super) struct Change {
    pub(super) which: Which,
    what: What,
}

impl Change {
    /// From a line.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn parse(line: &str) -> Result<Change, LineFault> {
        if line.starts_with("metadata-add") {
            let words = words(line)?;
            let [_, which, key, value] = &words[..] else {
                return Err(LineFault::Words { count: words.len() });
            };
            let what = What::Metadata(format!("; metadata: {key} {value};)"));
            return Ok(Change { which: Which::parse(which)?, what });
        }
        let words = words(&line.replace("\\$", "$"))?;
        let (which, from, to) = match &words[..] {
            [which, from, to] => (which, from, to),
            [first, which, from, _, to, ..] if first == "modifysid" => (which, from, to),
            _ => return Err(LineFault::Words { count: words.len() }),
        };
        let which = Which::parse(which)?;
        let expression = expression_of(from, false)?;
        let pieces = pieces(to, &expression)?;
        Ok(Change { which, what: What::Replace(Box::new(expression), pieces) })
    }

    /// The rule's text with the change.
    pub(super) fn text(&self, rule: &RuleLine, scratch: &mut RegexScratch) -> String {
        let text = rule.text();
        match &self.what {
            What::Metadata(more) => {
                let end = text.strip_suffix(')').map(str::trim_end);
                match end.and_then(|t| t.strip_suffix(';')) {
                    Some(body) => format!("{body}{more}"),
                    None => text,
                }
            }
            What::Replace(expression, pieces) => replace(&text, expression, pieces, scratch),
        }
    }
}

fn replace(text: &str, expression: &Regex, pieces: &[Piece], scratch: &mut RegexScratch) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while let Found::Match { start, end } = expression.find_at(text.as_bytes(), at, scratch) {
        // Places between the bytes of one letter are none.
        let (Some(before), Some(_)) = (text.get(at..start), text.get(start..end)) else { break };
        out.push_str(before);
        for piece in pieces {
            match piece {
                Piece::Text(t) => out.push_str(t),
                Piece::Group(n) => {
                    let taken = scratch.group(*n).and_then(|(from, to)| text.get(from..to));
                    out.push_str(taken.unwrap_or_default());
                }
            }
        }
        at = end;
        if start == end {
            // Nothing was found here: the next letter stays.
            let Some(letter) = text.get(at..).and_then(|rest| rest.chars().next()) else { break };
            out.push(letter);
            at += letter.len_utf8();
        }
    }
    out.push_str(text.get(at..).unwrap_or_default());
    out
}

/// A replacement: `\1`, `\g<1>`, `\g<name>` and `${1}` are groups, `\\` is a backslash, `\n` a line's end.
fn pieces(text: &str, expression: &Regex) -> Result<Vec<Piece>, LineFault> {
    let mut found = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    let group = |number: u32| {
        if number > expression.group_count() {
            let count = expression.group_count();
            return Err(LineFault::Group { text: text.to_owned(), number, count });
        }
        Ok(Piece::Group(number))
    };
    while let Some(at) = rest.find(['\\', '$']) {
        let (before, behind) = rest.split_at(at);
        plain.push_str(before);
        let digits = |t: &str| t.chars().take_while(char::is_ascii_digit).take(2).count();
        if let Some(inner) = behind.strip_prefix("${") {
            let len = inner.chars().take_while(char::is_ascii_digit).count();
            match (inner.get(..len).and_then(|n| n.parse().ok()), inner.get(len..)) {
                (Some(number), Some(after)) if after.starts_with('}') => {
                    found.push(Piece::Text(std::mem::take(&mut plain)));
                    found.push(group(number)?);
                    rest = after.get(1..).unwrap_or_default();
                }
                _ => {
                    plain.push('$');
                    rest = behind.get(1..).unwrap_or_default();
                }
            }
            continue;
        }
        let Some(escape) = behind.strip_prefix('\\') else {
            plain.push('$');
            rest = behind.get(1..).unwrap_or_default();
            continue;
        };
        if let Some((name, after)) = escape.strip_prefix("g<").and_then(|t| t.split_once('>')) {
            let named = expression.group_names().iter().find(|(n, _)| n == name).map(|(_, n)| *n);
            let number = name.parse().ok().or(named);
            let number = number.ok_or_else(|| LineFault::GroupName {
                text: text.to_owned(),
                name: name.to_owned(),
            })?;
            found.push(Piece::Text(std::mem::take(&mut plain)));
            found.push(group(number)?);
            rest = after;
            continue;
        }
        let len = digits(escape);
        if len > 0 && !escape.starts_with('0') {
            let number = escape.get(..len).and_then(|n| n.parse().ok()).unwrap_or(0);
            found.push(Piece::Text(std::mem::take(&mut plain)));
            found.push(group(number)?);
            rest = escape.get(len..).unwrap_or_default();
            continue;
        }
        match escape.chars().next() {
            Some('n') => plain.push('\n'),
            Some('t') => plain.push('\t'),
            Some('r') => plain.push('\r'),
            Some('\\') | None => plain.push('\\'),
            Some(c) if c.is_ascii_alphanumeric() => {
                return Err(LineFault::Escape { text: text.to_owned(), escape: c });
            }
            Some(c) => {
                plain.push('\\');
                plain.push(c);
            }
        }
        let len = escape.chars().next().map_or(0, char::len_utf8);
        rest = escape.get(len..).unwrap_or_default();
    }
    plain.push_str(rest);
    found.push(Piece::Text(plain));
    Ok(found)
}

/// Words of a line as a shell has them: in quotes, or apart.
///
/// # Errors
/// A quote without its end.
fn words(line: &str) -> Result<Vec<String>, LineFault> {
    let mut found = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = line.chars().peekable();
    while let Some(c) = letters.next() {
        match c {
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match letters.next() {
                        Some('\'') => break,
                        Some(c) => word.push(c),
                        None => return Err(LineFault::OpenQuote),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match letters.next() {
                        Some('"') => break,
                        Some('\\') => match letters.next() {
                            Some(c @ ('"' | '\\')) => word.push(c),
                            Some(c) => word.extend(['\\', c]),
                            None => return Err(LineFault::OpenQuote),
                        },
                        Some(c) => word.push(c),
                        None => return Err(LineFault::OpenQuote),
                    }
                }
            }
            '\\' => match letters.next() {
                Some(c) => word.get_or_insert_default().push(c),
                None => return Err(LineFault::LastBackslash),
            },
            c if c.is_whitespace() => found.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    found.extend(word);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(line: &str, rule: &str) -> String {
        let change = Change::parse(line).unwrap_or_else(|e| panic!("{line}: {e}"));
        change.text(&RuleLine::parse(rule).unwrap(), &mut RegexScratch::new())
    }

    const RULE: &str = "alert tcp any any -> any 80 (msg:\"two two\"; sid:5; rev:1;)";

    #[test]
    fn replacements_are_pythons() {
        for (line, wanted) in [
            (
                "5 \"two\" \"three\"",
                "alert tcp any any -> any 80 (msg:\"three three\"; sid:5; rev:1;)",
            ),
            ("5 '^alert' 'drop'", "drop tcp any any -> any 80 (msg:\"two two\"; sid:5; rev:1;)"),
            (
                "modifysid 5 \"^(\\S+) tcp\" | \"${1} udp\"",
                "alert udp any any -> any 80 (msg:\"two two\"; sid:5; rev:1;)",
            ),
            ("5 '(\\w+) (\\w+)\";' '\\2 \\g<1>\";'", RULE),
            (
                "metadata-add 5 key value",
                "alert tcp any any -> any 80 (msg:\"two two\"; sid:5; rev:1; metadata: key value;)",
            ),
        ] {
            assert_eq!(changed(line, RULE), wanted, "{line}");
        }
        assert_eq!(
            changed("5 'x*' '-'", "alert ip any any -> any any (sid:5;)").matches('-').count(),
            38
        );
    }

    #[test]
    fn a_line_that_is_none_says_what_may_stand_there() {
        for (line, word) in [
            ("5 \"a\"", "2 words"),
            ("5 \"a \"b\"", "quote"),
            ("5 \"(\" \"b\"", "can't be read"),
            ("5 \"a\" \"\\1\"", "names group 1"),
            ("5 'a' '\\q'", "means nothing"),
            ("nonsense \"a\" \"b\"", "names no rules"),
            ("metadata-add 5 key", "3 words"),
        ] {
            let said = Change::parse(line).err().map(|e| e.to_string()).unwrap_or_default();
            assert!(said.contains(word), "{line}: {said}");
        }
    }
}
