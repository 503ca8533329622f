//! File name patterns: `*`, `?`, `[…]` and `\`, where `*` also crosses slashes.

/// A pattern that is matched as a whole.
#[derive(Clone, Debug)]
pub(super) struct Glob {
    parts: Vec<Part>,
    any_case: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Byte(u8),
    Any,
    Star,
    Class { negated: bool, ranges: Vec<(u8, u8)> },
}

impl Glob {
    pub(super) fn new(pattern: &[u8], any_case: bool) -> Glob {
        let fold = |b: u8| if any_case { b.to_ascii_lowercase() } else { b };
        let mut parts = Vec::new();
        let mut at = 0;
        while let Some(&b) = pattern.get(at) {
            at += 1;
            match b {
                // Stars in a row are one star, which bounds the work of matching.
                b'*' if parts.last() == Some(&Part::Star) => {}
                b'*' => parts.push(Part::Star),
                b'?' => parts.push(Part::Any),
                b'\\' => {
                    parts.push(Part::Byte(fold(pattern.get(at).copied().unwrap_or(b'\\'))));
                    at += 1;
                }
                b'[' => match class(pattern.get(at..).unwrap_or_default()) {
                    Some((class, len)) => {
                        parts.push(class);
                        at += len;
                    }
                    None => parts.push(Part::Byte(b'[')),
                },
                other => parts.push(Part::Byte(fold(other))),
            }
        }
        Glob { parts, any_case }
    }

    /// Whether the pattern matches the whole text. The work is at most the product of both lengths.
    pub(super) fn matches(&self, text: &[u8]) -> bool {
        let (mut part, mut at) = (0, 0);
        let mut star: Option<(usize, usize)> = None;
        while at < text.len() {
            let matched = match self.parts.get(part) {
                Some(Part::Star) => {
                    star = Some((part, at));
                    part += 1;
                    continue;
                }
                Some(single) => text.get(at).is_some_and(|&b| self.matches_byte(single, b)),
                None => false,
            };
            if matched {
                part += 1;
                at += 1;
            } else if let Some((star_part, star_at)) = star {
                star = Some((star_part, star_at + 1));
                part = star_part + 1;
                at = star_at + 1;
            } else {
                return false;
            }
        }
        self.parts.get(part..).unwrap_or_default().iter().all(|part| *part == Part::Star)
    }

    fn matches_byte(&self, part: &Part, byte: u8) -> bool {
        let folded = if self.any_case { byte.to_ascii_lowercase() } else { byte };
        match part {
            Part::Byte(b) => *b == folded,
            Part::Any => true,
            Part::Star => false,
            Part::Class { negated, ranges } => {
                let within = |b: u8| ranges.iter().any(|(low, high)| (*low..=*high).contains(&b));
                let is_in = within(byte)
                    || (self.any_case
                        && (within(byte.to_ascii_lowercase())
                            || within(byte.to_ascii_uppercase())));
                is_in != *negated
            }
        }
    }
}

/// The class after a `[`, and the number of bytes up to its end.
fn class(text: &[u8]) -> Option<(Part, usize)> {
    let mut at = 0;
    let negated = matches!(text.first(), Some(b'!' | b'^'));
    if negated {
        at += 1;
    }
    let mut ranges = Vec::new();
    loop {
        let low = *text.get(at)?;
        if low == b']' && !ranges.is_empty() {
            return Some((Part::Class { negated, ranges }, at + 1));
        }
        at += 1;
        let is_range = text.get(at) == Some(&b'-') && text.get(at + 1).is_some_and(|b| *b != b']');
        if is_range {
            ranges.push((low, *text.get(at + 1)?));
            at += 2;
        } else {
            ranges.push((low, low));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        Glob::new(pattern.as_bytes(), false).matches(text.as_bytes())
    }

    #[test]
    fn stars_cross_slashes() {
        assert!(matches("/srv/*/.ssh/*", "/srv/a/b/.ssh/id_rsa"));
        assert!(matches("*s?", "bash") && !matches("*s?", "bashxx"));
        assert!(matches("a[b-d!]*", "a!x") && matches("a[!b]", "ac") && !matches("a[!b]", "ab"));
        assert!(matches("a[", "a[") && matches("\\*", "*") && !matches("\\*", "x"));
        assert!(Glob::new(b"S*", true).matches(b"sshd"));
        assert!(matches("", "") && !matches("", "x") && matches("***", ""));
    }
}
