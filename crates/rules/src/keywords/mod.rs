//! Reading of options: one function a keyword, found by one table.
//!
//! [`apply`] prepares the value as the peer does (presence, quotes, negation), then hands it to the
//! keyword's own function. Keywords of protocols come from the catalog; those of protocols that the
//! catalog does not have make the rule inert.

mod app;
mod bytes;
mod content;
mod dataset;
mod files;
mod flow;
mod header;
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
use crate::known::{KeywordKind, KnownKeyword, Quotes, ValueUse, known_keyword};
use crate::lexer::{Piece, RuleOption};
use gabion_record::applayer::{BufferId, ConditionDef, IntegerDef};

pub(crate) use meta::requires;
pub(crate) use threshold::track as threshold_track;

/// The value of an option, quotes and negation taken off.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Value<'t> {
    /// The text; empty when there is none.
    pub(crate) text: &'t str,
    /// Its position in the rule.
    pub(crate) at: usize,
    /// `!` stood before the quotes.
    pub(crate) negated: bool,
    /// There is one.
    pub(crate) is_some: bool,
}

impl<'t> Value<'t> {
    /// As a piece of the rule.
    pub(crate) fn piece(self) -> Piece<'t> {
        Piece { text: self.text, at: self.at }
    }
}

/// Reads one keyword into the draft.
pub(crate) type Setup =
    for<'a, 'c, 't> fn(&'a mut Compiler<'c>, &'a mut Draft<'t>, Value<'t>) -> Checked<()>;

/// What a name in a rule means.
#[derive(Clone, Copy)]
pub(crate) enum Keyword {
    /// One of ours.
    Own(&'static KnownKeyword, Setup),
    /// A buffer of a protocol.
    Sticky(BufferId),
    /// A legacy modifier.
    Modifier(BufferId),
    /// An integer of a protocol.
    Integer(&'static IntegerDef),
    /// A condition of a protocol.
    Condition(&'static ConditionDef),
    /// Known to the peer, not to this sensor.
    Inert(&'static KnownKeyword),
}

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

/// What is wrong with the quotes of a value that needs some.
fn unquoted(text: &str) -> &'static str {
    match text.chars().next() {
        // Left and right, single and double, low and high: what word processors make of quotes.
        Some('\u{2018}'..='\u{201f}' | '\u{ab}' | '\u{bb}') => {
            "typographic quotes are none: write \" before and behind the value"
        }
        Some('\'') => "single quotes are none: write \" before and behind the value",
        _ => "write \" before and behind the value",
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

/// Checks presence and quotes of the value, in the peer's order and words.
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
