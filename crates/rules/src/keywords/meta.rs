//! What a rule says of itself: id, revision, message, class, references, metadata, requirements.

use crate::compiler::Compiler;
use crate::diagnostic::{Checked, Refusal};
use crate::draft::Draft;
use crate::keyword::{Setup, Value};
use crate::lexer::{self, Piece};
use crate::post::Target;
use crate::ruleset::Classification;
use std::borrow::Cow;

/// Keywords of this file.
pub(super) const KEYWORDS: &[(&str, Setup)] = &[
    ("sid", sid),
    ("rev", rev),
    ("gid", gid),
    ("msg", msg),
    ("classtype", classtype),
    ("priority", priority),
    ("reference", reference),
    ("metadata", metadata),
    ("target", target),
    ("noalert", noalert),
    ("alert", alert),
    ("requires", |_, _, _| Ok(())),
];

/// The decimal number at the beginning: Suricata 8.0.7 passes over what follows it.
fn leading_decimal(text: &str) -> Option<u32> {
    let unsigned = text.strip_prefix('+').unwrap_or(text);
    let end = unsigned.find(|c: char| !c.is_ascii_digit()).unwrap_or(unsigned.len());
    unsigned.get(..end)?.parse().ok()
}

fn sid(_: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    let refuse = |said: &str| Err(Refusal::new("detect-sid", said));
    let Some(n) = leading_decimal(v.text) else {
        return refuse("invalid input as arg to sid keyword");
    };
    if n == 0 {
        return refuse("sid value 0 is invalid");
    }
    if d.sid.is_some() {
        return refuse("duplicated 'sid' keyword detected");
    }
    d.sid = Some(n);
    Ok(())
}

fn rev(_: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    let refuse = |said: &str| Err(Refusal::new("detect-rev", said));
    let Some(n) = leading_decimal(v.text) else {
        return refuse("invalid input as arg to rev keyword");
    };
    if n == 0 {
        return refuse("rev value 0 is invalid");
    }
    if d.rev.is_some() {
        return refuse("duplicated 'rev' keyword detected");
    }
    d.rev = Some(n);
    Ok(())
}

fn gid(_: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    let Some(n) = leading_decimal(v.text) else {
        return Err(Refusal::new("detect-gid", "invalid input as arg to gid keyword"));
    };
    d.gid = n;
    Ok(())
}

fn msg<'t>(_: &mut Compiler<'_>, d: &mut Draft<'t>, v: Value<'t>) -> Checked<()> {
    if d.msg.is_some() {
        return Err(Refusal::new("detect-msg", "duplicated 'msg' keyword detected"));
    }
    let unescaped = v.text.contains('\\').then(|| unescape(v.text));
    d.msg = Some((v.piece(), unescaped));
    Ok(())
}

/// Each backslash that escapes a character is dropped.
fn unescape(text: &str) -> Cow<'_, str> {
    let mut out = String::with_capacity(text.len());
    let mut escaped = false;
    for c in text.chars() {
        if c == '\\' && !escaped {
            escaped = true;
            continue;
        }
        escaped = false;
        out.push(c);
    }
    Cow::Owned(out)
}

fn classtype(c: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    let first_ok = v.text.starts_with(|c: char| c.is_ascii_alphabetic());
    // The characters of Suricata 8.0.7's expression, in which `A-z` stands for letters.
    let counts = |b: u8| b.is_ascii_alphanumeric() || b"-_[\\]^`".contains(&b);
    if !first_ok || !v.text.bytes().all(counts) {
        let said = format!("invalid value for classtype keyword: \"{}\"", v.text);
        return Err(Refusal::new("detect-classtype", said));
    }
    let found = c.set.classes.iter().position(|k| k.name.eq_ignore_ascii_case(v.text));
    let at = match found {
        Some(at) => at,
        None if c.options.is_strict("classtype") => {
            let said = format!("unknown classtype '{}'", v.text);
            return Err(Refusal::new("detect-classtype", said));
        }
        None => {
            if c.note_unknown_class(v.text) {
                let sid = d.sid.unwrap_or(0);
                c.warn(Refusal::new(
                    "detect-classtype",
                    format!(
                        "signature sid:{sid} uses unknown classtype: \"{}\", using default \
                         priority 3. This message won't be shown again for this classtype",
                        v.text
                    ),
                ));
            }
            c.set.classes.push(Classification {
                name: v.text.to_string(),
                text: String::new(),
                priority: 3,
            });
            c.set.classes.len() - 1
        }
    };
    let priority = c.set.classes.get(at).map_or(3, |k| k.priority);
    if d.class.is_some() {
        c.warn(Refusal::new(
            "detect-classtype",
            "duplicated 'classtype' keyword detected. Using instance with highest priority",
        ));
    }
    if d.class_priority.is_none_or(|p| priority < p) {
        d.class = u16::try_from(at).ok();
        d.class_priority = Some(priority);
    }
    Ok(())
}

fn priority(c: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    let Some(n) = v.text.parse::<u32>().ok().filter(|_| !v.text.starts_with('+')) else {
        let said = format!("Invalid Priority in Signature - {}", v.text);
        return Err(Refusal::new("detect-priority", said));
    };
    if d.priority.is_some() {
        c.warn(Refusal::new(
            "detect-priority",
            "duplicated priority. Using highest priority in the rule",
        ));
    }
    d.priority = Some(d.priority.map_or(n, |p| p.min(n)));
    Ok(())
}

fn reference<'t>(c: &mut Compiler<'_>, d: &mut Draft<'t>, v: Value<'t>) -> Checked<()> {
    let refuse = || {
        let said = format!(
            "Unable to parse \"reference\" keyword argument - \"{}\".   Invalid argument.",
            v.text
        );
        Err(Refusal::new("detect-reference", said))
    };
    let Some((system, text)) = v.text.split_once(',') else {
        return refuse();
    };
    let key = system.trim();
    let at = v.at + (v.text.len() - text.len());
    let text = lexer::trim(Piece { text, at });
    // A quote before the address is left out.
    let bare = text.text.trim_start_matches('"');
    let text = address_part(Piece { text: bare, at: text.at + text.text.len() - bare.len() });
    if key.is_empty() || !key.bytes().all(|b| b.is_ascii_alphanumeric()) || text.text.is_empty() {
        return refuse();
    }
    if !c.options.references.iter().any(|(name, _)| name.eq_ignore_ascii_case(key)) {
        let refusal = Refusal::new("detect-reference", format!("unknown reference key \"{key}\""));
        if c.options.is_strict("reference") {
            return Err(refusal);
        }
        c.warn(refusal);
    }
    let system = lexer::trim(Piece { text: system, at: v.at });
    d.references.push((system, text));
    Ok(())
}

/// What counts of a reference: a scheme of letters, if there is one with something after it, and letters, digits and
/// `-_./?=`. Suricata 8.0.7 leaves out all from the first other character on.
fn address_part(text: Piece<'_>) -> Piece<'_> {
    let counted = |text: &str| {
        let counts = |c: char| c.is_ascii_alphanumeric() || "-_./?=".contains(c);
        text.find(|c: char| !counts(c)).unwrap_or(text.len())
    };
    let scheme = text.text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.text.len());
    let behind = text.text.get(scheme..).and_then(|rest| rest.strip_prefix("://"));
    let end = match behind.map(counted) {
        Some(len) if scheme > 0 && len > 0 => scheme + 3 + len,
        _ => counted(text.text),
    };
    Piece { text: text.text.get(..end).unwrap_or_default(), at: text.at }
}

fn metadata<'t>(_: &mut Compiler<'_>, d: &mut Draft<'t>, v: Value<'t>) -> Checked<()> {
    d.metadata.push(v.piece());
    Ok(())
}

fn target(_: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    let target = match v.text {
        "src_ip" => Target::Source,
        "dest_ip" => Target::Destination,
        other => {
            let said = format!("pcre_exec parse error, ret -1, string {other}");
            return Err(
                Refusal::new("detect-target", said).because("`target` is `src_ip` or `dest_ip`")
            );
        }
    };
    if d.target.is_some_and(|t| t != target) {
        return Err(Refusal::new("detect-target", "Conflicting values of target keyword"));
    }
    d.target = Some(target);
    Ok(())
}

fn noalert(_: &mut Compiler<'_>, d: &mut Draft<'_>, _: Value<'_>) -> Checked<()> {
    d.noalert = true;
    d.alert_keyword = false;
    Ok(())
}

fn alert(_: &mut Compiler<'_>, d: &mut Draft<'_>, _: Value<'_>) -> Checked<()> {
    d.alert_keyword = true;
    d.noalert = false;
    Ok(())
}

/// Looks for `requires` among the options before anything else is read: what is not met of it, in Suricata's words.
pub(crate) fn unmet_requirement(c: &Compiler<'_>, options: Piece<'_>) -> Checked<Option<String>> {
    if !options.text.contains("requires") {
        return Ok(None);
    }
    const WHO: &str = "detect-parse";
    let mut unmet = None;
    let mut seen = false;
    for option in lexer::options(options).flatten() {
        if !option.keyword.text.eq_ignore_ascii_case("requires") {
            continue;
        }
        let value = option.value.map_or("", |v| v.text);
        if seen {
            return Err(Refusal::new("requires", "multiple requires keywords are not allowed"));
        }
        seen = true;
        if value.is_empty() {
            let said = "invalid formatting or malformed option to requires keyword: 'requires'";
            return Err(Refusal::new(WHO, said).at(option.keyword.at, option.keyword.text.len()));
        }
        let found = unmet_part(c, value)
            .map_err(|e| e.at(option.keyword.at, value.len() + option.keyword.text.len() + 1))?;
        unmet = found.map(|unmet| format!("{unmet}: {value}"));
    }
    Ok(unmet)
}

/// One `requires`: parts joined by `,` must all hold. Of several that do not, Suricata names an unknown one, then the
/// version, a feature and a keyword.
fn unmet_part(c: &Compiler<'_>, text: &str) -> Checked<Option<&'static str>> {
    let mut unmet: Option<(u8, &str)> = None;
    let mut has_version = false;
    for part in text.split(',').map(str::trim) {
        let (key, rest) = part.split_once(char::is_whitespace).unwrap_or((part, ""));
        let rest = rest.trim();
        let found = match key {
            "feature" => {
                let is_met = c.options.features.iter().any(|f| f.eq_ignore_ascii_case(rest));
                (!is_met).then_some((2, "Suricata missing a required feature"))
            }
            "keyword" => {
                let is_met = c.keyword(rest).is_some();
                (!is_met).then_some((3, "Suricata missing a required keyword"))
            }
            "version" => {
                if std::mem::replace(&mut has_version, true) {
                    let said = format!("Version may only be specified once: {text}");
                    return Err(Refusal::new("detect-requires", said));
                }
                let is_met = version_met(c.options.version, rest)?;
                let said = if rest.trim_start().starts_with('<') {
                    "Suricata version greater than required"
                } else {
                    "Suricata version less than required"
                };
                (!is_met).then_some((1, said))
            }
            // what a later version may add is not met here
            _ => Some((0, "Unknown requirements")),
        };
        unmet = match (unmet, found) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
    Ok(unmet.map(|(_, said)| said))
}

/// `>= 7.0.3 < 8 | >= 8.0.1`: alternatives by `|`, each a list of comparisons that all hold. What follows the first of them
/// and is none is passed over with all behind it, as in Suricata 8.0.7.
fn version_met(version: (u16, u16, u16), text: &str) -> Checked<bool> {
    let (first, mut rest) = comparison(version, text).ok_or_else(|| {
        let said = format!("Failed to parse requires version expression: {text}");
        Refusal::new("requires", said)
    })?;
    let (mut any, mut all) = (false, first);
    loop {
        let alternative = rest.trim_start().strip_prefix('|');
        let Some((holds, behind)) = comparison(version, alternative.unwrap_or(rest)) else { break };
        if alternative.is_some() {
            any |= all;
            all = true;
        }
        all &= holds;
        rest = behind;
    }
    Ok(any || all)
}

/// Whether the comparison at the beginning holds, and what follows it.
fn comparison(version: (u16, u16, u16), text: &str) -> Option<(bool, &str)> {
    let text = text.trim_start();
    let (op, number) = [">=", "<=", ">", "<"]
        .iter()
        .find_map(|op| text.strip_prefix(op).map(|number| (*op, number.trim_start())))?;
    let (wanted, rest) = parse_version(number)?;
    let holds = match op {
        ">=" => version >= wanted,
        "<=" => version <= wanted,
        ">" => version > wanted,
        _ => version < wanted,
    };
    Some((holds, rest))
}

/// A version of one to three numbers, and what follows it: behind less than three only white space may.
fn parse_version(text: &str) -> Option<((u16, u16, u16), &str)> {
    let mut numbers = [0_u16; 3];
    let mut rest = text;
    for (n, field) in numbers.iter_mut().enumerate() {
        if n > 0 {
            match rest.strip_prefix('.') {
                Some(after) => rest = after,
                None if rest.is_empty() || rest.starts_with(char::is_whitespace) => break,
                None => return None,
            }
        }
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (digits, behind) = rest.split_at_checked(end)?;
        *field = digits.parse::<u8>().ok()?.into();
        rest = behind;
    }
    let [major, minor, patch] = numbers;
    Some(((major, minor, patch), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare() {
        for (text, wanted) in [
            (">= 8", true),
            (">= 7.0.3 < 8", false),
            (">= 7.0.3 < 8 | >= 8.0.1", true),
            ("> 8.0.7", false),
            ("<9.0.0", true),
            // Suricata 8.0.7 reads the same ones so far.
            ("< 8 or >= 8", false),
            (">= 9 or >= 8", false),
            (">= 8 and < 8", true),
            ("< 7 || >= 8", false),
            ("< 7 | >= 8", true),
            ("< 7 | x", false),
            (">= 8 |", true),
            (">= 8.0.7.1", true),
            (">= 8.0.8-rc1", false),
            (">= 8 x < 7", true),
        ] {
            assert_eq!(version_met((8, 0, 7), text), Ok(wanted), "{text}");
        }
        for text in [
            "8", ">= x", ">=", "", "| >= 8", ">= 8.", ">= .8", ">= 8.x", ">= 8-1", ">= 8or",
            ">= 8|", ">= 99999",
        ] {
            assert!(version_met((8, 0, 7), text).is_err(), "{text}");
        }
    }

    #[test]
    fn escapes_are_dropped() {
        assert_eq!(unescape(r#"x\"y\;z\\w\:"#), r#"x"y;z\w:"#);
    }
}
