//! Lists are put into conditions as text, as in Falco: the name of a list, as a whole word, stands for its items.

/// An item as conditions need it: in quotes if it has a blank and no quotes of its own.
pub(super) fn quote_item(item: &str) -> String {
    let is_quoted = item.starts_with('"') || item.starts_with('\'');
    if item.is_empty() || (item.contains(' ') && !is_quoted) {
        return format!("\"{}\"", item.replace('\\', "\\\\").replace('"', "\\\""));
    }
    item.to_string()
}

/// Replaces the names of lists by their items. `items_of` returns the items of a list of this name, if there is one.
pub(super) fn insert_lists<'l>(
    condition: &str,
    mut items_of: impl FnMut(&str) -> Option<&'l [String]>,
) -> String {
    let mut out = String::with_capacity(condition.len());
    let mut rest = condition;
    // An empty list takes one of its neighbouring commas with it.
    let mut drops_comma = false;
    while let Some(first) = rest.chars().next() {
        if first == '"' || first == '\'' {
            let len = quoted_len(rest);
            out.push_str(rest.get(..len).unwrap_or_default());
            rest = rest.get(len..).unwrap_or_default();
            drops_comma = false;
        } else if is_delimiter(first) {
            if first == ',' && drops_comma {
                drops_comma = false;
            } else {
                out.push(first);
                drops_comma &= first.is_whitespace();
            }
            rest = rest.get(first.len_utf8()..).unwrap_or_default();
        } else {
            let len = rest.find(is_boundary).unwrap_or(rest.len());
            let word = rest.get(..len).unwrap_or_default();
            rest = rest.get(len..).unwrap_or_default();
            drops_comma = false;
            match items_of(word) {
                None => out.push_str(word),
                Some([]) => {
                    let kept = out.trim_end().len();
                    match out.get(..kept).and_then(|kept| kept.strip_suffix(',')) {
                        Some(before) => out.truncate(before.len()),
                        None => drops_comma = true,
                    }
                }
                Some(items) => out.push_str(&items.join(", ")),
            }
        }
    }
    out
}

fn is_delimiter(c: char) -> bool {
    c.is_whitespace() || matches!(c, '(' | ')' | ',' | '=')
}

fn is_boundary(c: char) -> bool {
    is_delimiter(c) || matches!(c, '"' | '\'')
}

/// The bytes of a quoted text, quotes included; all of the rest if it does not end.
fn quoted_len(text: &str) -> usize {
    let mut chars = text.char_indices();
    let Some((_, quote)) = chars.next() else { return 0 };
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => {
                chars.next();
            }
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(condition: &str) -> String {
        let shells = ["sh".to_string(), "bash".to_string()];
        insert_lists(condition, |name| match name {
            "shells" => Some(&shells),
            "none" => Some(&[]),
            _ => None,
        })
    }

    #[test]
    fn names_of_lists_are_whole_words() {
        assert_eq!(insert("proc.name in (shells, zsh)"), "proc.name in (sh, bash, zsh)");
        assert_eq!(insert("proc.name in (my_shells)"), "proc.name in (my_shells)");
        assert_eq!(insert("proc.name in (\"shells\")"), "proc.name in (\"shells\")");
        assert_eq!(insert("a in (none, x)"), "a in ( x)");
        assert_eq!(insert("a in (x, none)"), "a in (x)");
        assert_eq!(insert("a in (x, none, y)"), "a in (x, y)");
        assert_eq!(insert("a in (none)"), "a in ()");
        assert_eq!(insert("a=shells and b"), "a=sh, bash and b");
        assert_eq!(quote_item("a b"), "\"a b\"");
        assert_eq!(quote_item("\"a b\""), "\"a b\"");
    }
}
