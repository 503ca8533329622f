//! Reading of options: one function a keyword, found by one table.
//!
//! [`apply`] prepares the value as Suricata does (presence, quotes, negation), then hands it to the
//! keyword's own function. Keywords of protocols come from the catalog; those of protocols that the
//! catalog does not have make the rule inert.

mod app;
mod bytes;
mod content;
mod dataset;
mod files;
mod flow;
mod header;
mod ip_protocols;
mod lua;
mod meta;
mod payload;
mod pcre;
mod state;
mod sticky;
mod threshold;
mod transforms;

use crate::compiler::Compiler;
use crate::diagnostic::{Checked, Refusal};
use crate::draft::Draft;
use crate::keyword::{Keyword, Keywords, Setup, Value};
use crate::known::{KeywordKind, KnownKeyword, Quotes, ValueUse, known_keyword, known_keywords};
use crate::lexer::RuleOption;
use gabion_record::applayer::{BufferId, Catalog};

pub(crate) use meta::unmet_requirement;
pub(crate) use threshold::track as threshold_track;

/// Keywords of our own with their functions. Names are those of the listing.
pub(crate) fn own_keywords() -> impl Iterator<Item = &'static (&'static str, Setup)> {
    [
        meta::KEYWORDS,
        header::KEYWORDS,
        flow::KEYWORDS,
        state::KEYWORDS,
        threshold::KEYWORDS,
        content::KEYWORDS,
        pcre::KEYWORDS,
        bytes::KEYWORDS,
        payload::KEYWORDS,
        dataset::KEYWORDS,
        sticky::KEYWORDS,
        transforms::KEYWORDS,
        app::KEYWORDS,
        files::KEYWORDS,
        lua::KEYWORDS,
    ]
    .into_iter()
    .flatten()
}

/// All names that rules may use: those of the listings, of the catalog, and of the files here.
pub(crate) fn index(catalog: &Catalog) -> Keywords {
    let mut index = Keywords::with_capacity_and_hasher(600, Default::default());
    for known in known_keywords() {
        for name in names_of(known.name, known.aliases) {
            index.insert(name, Keyword::Inert(known));
        }
    }
    for (at, buffer) in (0u16..).zip(&catalog.buffers) {
        let id = BufferId(at);
        index.insert(buffer.def.name, Keyword::Sticky(id));
        for alias in buffer.def.aliases {
            index.insert(alias, Keyword::Sticky(id));
        }
        if let Some(known) = known_keyword(buffer.def.name) {
            for name in names_of(known.name, known.aliases) {
                index.insert(name, Keyword::Sticky(id));
            }
        }
        if let Some(modifier) = buffer.def.modifier {
            index.insert(modifier, Keyword::Modifier(id));
        }
    }
    for table in &catalog.protocols {
        for def in table.integers {
            for name in
                known_keyword(def.name).into_iter().flat_map(|k| names_of(k.name, k.aliases))
            {
                index.insert(name, Keyword::Integer(def));
            }
            index.insert(def.name, Keyword::Integer(def));
            for alias in def.aliases {
                index.insert(alias, Keyword::Integer(def));
            }
        }
        for def in table.conditions {
            for name in
                known_keyword(def.name).into_iter().flat_map(|k| names_of(k.name, k.aliases))
            {
                index.insert(name, Keyword::Condition(def));
            }
            index.insert(def.name, Keyword::Condition(def));
            for alias in def.aliases {
                index.insert(alias, Keyword::Condition(def));
            }
        }
    }
    for (name, setup) in own_keywords() {
        let Some(known) = known_keyword(name) else {
            debug_assert!(false, "`{name}` has no row in own_keywords.tsv");
            continue;
        };
        for name in names_of(known.name, known.aliases) {
            index.insert(name, Keyword::Own(known, *setup));
        }
    }
    index
}

fn names_of(name: &'static str, aliases: &'static str) -> impl Iterator<Item = &'static str> {
    std::iter::once(name).chain(aliases.split(',').filter(|a| !a.is_empty()))
}

/// What is wrong with the quotes of a value that needs some.
fn unquoted(text: &str) -> &'static str {
    match text.chars().next() {
        // Left and right, single and double, low and high: what word processors make of quotes.
        Some('\u{2018}'..='\u{201f}' | '\u{ab}' | '\u{bb}') => {
            "typographic quotes are not quotes: write \" before and after the value"
        }
        Some('\'') => "single quotes are not quotes: write \" before and after the value",
        _ => "write \" before and after the value",
    }
}

/// Reads an option into the draft.
pub(crate) fn apply<'t>(
    c: &mut Compiler<'_>,
    d: &mut Draft<'t>,
    option: RuleOption<'t>,
) -> Checked<()> {
    let name = option.keyword.text;
    let Some(keyword) = c.keyword(name) else {
        let said = format!("unknown rule keyword '{name}'.");
        let reason = match c.keyword_like(name) {
            Some(near) => format!("no such keyword: did you mean `{near}`?"),
            None => "no such keyword".to_owned(),
        };
        return Err(Refusal::new("detect-parse", said)
            .at(option.keyword.at, name.len())
            .because(reason));
    };
    let known = match keyword {
        Keyword::Own(known, _) | Keyword::Inert(known) => Some(known),
        Keyword::Sticky(_) | Keyword::Modifier(_) | Keyword::Integer(_) | Keyword::Condition(_) => {
            known_keyword(&name.to_ascii_lowercase())
        }
    };
    if c.firewall_rules
        && let Some(known) = known
        && !known.supports_firewall()
    {
        let said = format!("keyword '{name}' has not been tested for firewall rules");
        c.warn(Refusal::new("detect-parse", said));
    }
    let value = match known {
        Some(known) => prepare(known, option)?,
        None => raw_value(option),
    };
    match keyword {
        Keyword::Own(_, setup) => setup(c, d, value),
        Keyword::Sticky(id) => sticky::app_buffer(c, d, id, value),
        Keyword::Modifier(id) => sticky::modifier(c, d, id, name),
        Keyword::Integer(def) => app::integer(c, d, def, value),
        Keyword::Condition(def) => app::condition(c, d, def, value),
        Keyword::Inert(known) => inert(d, known),
    }
}

/// A keyword that this sensor can't run: the rule loads, and never matches.
fn inert(d: &mut Draft<'_>, known: &'static KnownKeyword) -> Checked<()> {
    d.inert.get_or_insert(known.name);
    match known.kind {
        KeywordKind::Sticky => sticky::inert_buffer(d, false),
        KeywordKind::Modifier => sticky::inert_buffer(d, true),
        KeywordKind::Plain | KeywordKind::Transform => {}
    }
    Ok(())
}

fn raw_value<'t>(option: RuleOption<'t>) -> Value<'t> {
    match option.value {
        Some(v) => Value { text: v.text, at: v.at, negated: false, is_some: !v.text.is_empty() },
        None => Value::default(),
    }
}

/// Checks presence and quotes of the value, in Suricata's order and words.
fn prepare<'t>(known: &KnownKeyword, option: RuleOption<'t>) -> Checked<Value<'t>> {
    let name = option.keyword.text;
    let refuse = |said: String| Err(Refusal::new("detect-parse", said));
    let mut value = raw_value(option);
    match known.value {
        ValueUse::None if value.is_some => {
            return refuse(format!("unexpected option to {name} keyword: '{name}'"));
        }
        ValueUse::Required if !value.is_some => {
            return refuse(format!(
                "invalid formatting or malformed option to {name} keyword: '{name}'"
            ));
        }
        ValueUse::None | ValueUse::Optional | ValueUse::Required => {}
    }
    if !value.is_some {
        return Ok(value);
    }
    if known.quotes == Quotes::Refused {
        if value.text.starts_with('"') {
            return refuse(format!("quotes on {name} keyword that doesn't support them: '{name}'"));
        }
        return Ok(value);
    }
    if takes_negation(known.name)
        && let Some(rest) = value.text.strip_prefix('!')
    {
        let trimmed = rest.trim_start();
        value.at += value.text.len() - trimmed.len();
        value.text = trimmed;
        value.negated = true;
    }
    if !value.text.starts_with('"') {
        if known.quotes == Quotes::Mandatory {
            let said = format!(
                "invalid formatting to {name} keyword: value must be double quoted '{name}'"
            );
            return refuse(said).map_err(|e| e.because(unquoted(value.text)));
        }
        return Ok(value);
    }
    let inside = value.text.get(1..).unwrap_or("");
    let Some(inside) = inside.strip_suffix('"') else {
        let text = raw_value(option).text;
        return refuse(format!(
            "bad option value formatting (possible missing semicolon) for keyword {name}: '{text}'"
        ));
    };
    if inside.is_empty() {
        return refuse(format!("bad input for keyword {name}: '\"'"));
    }
    value.text = inside;
    value.at += 1;
    Ok(value)
}

/// Keywords whose value may have a `!` before its quotes.
fn takes_negation(name: &str) -> bool {
    matches!(
        name,
        "content"
            | "uricontent"
            | "pcre"
            | "replace"
            | "tls.subject"
            | "tls.issuerdn"
            | "tls.fingerprint"
            | "filename"
            | "fileext"
            | "filemagic"
            | "app-layer-protocol"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without its row a keyword would not be known, and without its function a keyword of ours would
    /// load and never match.
    #[test]
    fn every_keyword_has_its_row_and_every_row_of_ours_its_function() {
        let rowless: Vec<&str> = own_keywords()
            .map(|(name, _)| *name)
            .filter(|name| known_keyword(name).is_none_or(|k| k.name != *name))
            .collect();
        assert!(rowless.is_empty(), "no row in keywords.tsv or own_keywords.tsv: {rowless:?}");
        let inert: Vec<&str> = crate::known::own_rows()
            .map(|k| k.name)
            .filter(|name| own_keywords().all(|(own, _)| own != name))
            .collect();
        assert!(inert.is_empty(), "no function in keywords/: {inert:?}");
    }
}
