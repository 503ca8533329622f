//! What is known of keywords: Suricata's by one table (`keywords.tsv`), those of ours that Suricata
//! does not have by another (`own_keywords.tsv`), those of protocols by the catalog. The reader of
//! rules and `--list-keywords` share them.
//!
//! Keywords of protocols that the catalog does not have are known by the tables alone: rules that
//! use them load and are listed as inert. A word that is nowhere is refused, as Suricata does.

use crate::names::NameMap;
use gabion_record::applayer::Catalog;
use std::sync::OnceLock;

/// What kind of keyword it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeywordKind {
    /// Takes a value or is used alone.
    Plain,
    /// Selects the buffer for what follows.
    Sticky,
    /// Moves the content before it to a buffer.
    Modifier,
    /// Function on the sticky buffer before it.
    Transform,
}

/// Whether a value follows the keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueUse {
    /// Never.
    None,
    /// Perhaps.
    Optional,
    /// Always.
    Required,
}

/// Whether the value is in quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quotes {
    /// Never.
    Refused,
    /// Perhaps.
    Optional,
    /// Always.
    Mandatory,
}

/// A keyword as Suricata lists it.
#[derive(Clone, Copy, Debug)]
pub struct KnownKeyword {
    /// Name.
    pub name: &'static str,
    /// Further names, separated by commas.
    pub aliases: &'static str,
    /// Kind.
    pub kind: KeywordKind,
    /// Value.
    pub value: ValueUse,
    /// Quotes around the value.
    pub quotes: Quotes,
    /// Name of the buffer in reports, when it selects one.
    pub internal: &'static str,
    /// What it may be used for.
    pub uses: KeywordUses,
    /// Features as the listing shows them (`supports firewall:prefilter`): nothing follows from them.
    pub features: &'static str,
    /// Page of Suricata's documents, relative.
    pub page: &'static str,
    /// What it does.
    pub description: &'static str,
}

impl KnownKeyword {
    /// May be used as a prefilter.
    pub fn supports_prefilter(&self) -> bool {
        self.uses.prefilter
    }

    /// May be used in firewall rules.
    pub fn supports_firewall(&self) -> bool {
        self.uses.firewall
    }

    /// A rule with it may still be IP-only.
    pub fn is_ip_only_compatible(&self) -> bool {
        self.uses.ip_only
    }
}

/// What a keyword may be used for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeywordUses {
    /// A rule's prefilter.
    pub prefilter: bool,
    /// Firewall rules.
    pub firewall: bool,
    /// Rules that are IP-only.
    pub ip_only: bool,
}

/// Those of the tables, Suricata's in the order of its listing, then ours.
pub(crate) fn known_keywords() -> &'static [KnownKeyword] {
    &table().0
}

/// The keyword of that name (lower case) or further name in the tables.
pub(crate) fn known_keyword(name: &str) -> Option<&'static KnownKeyword> {
    let (all, by_name) = table();
    by_name.get(name).and_then(|at| all.get(*at))
}

/// All keywords: those of the tables, then those of the catalog that the tables don't have.
pub fn all_keywords(catalog: &Catalog) -> Vec<KnownKeyword> {
    let mut all = known_keywords().to_vec();
    let mut add = |more: KnownKeyword| {
        if known_keyword(more.name).is_none() && all.iter().all(|k| k.name != more.name) {
            all.push(more);
        }
    };
    for table in &catalog.protocols {
        for b in table.buffers {
            let sticky = KnownKeyword {
                kind: KeywordKind::Sticky,
                value: ValueUse::Optional,
                internal: b.internal,
                features: "No option:sticky buffer",
                description: if b.description.is_empty() { "sticky buffer" } else { b.description },
                ..of_catalog(b.name)
            };
            add(sticky);
            for alias in b.aliases {
                add(KnownKeyword { name: alias, ..sticky });
            }
            if let Some(modifier) = b.modifier {
                add(KnownKeyword {
                    name: modifier,
                    kind: KeywordKind::Modifier,
                    value: ValueUse::None,
                    features: "No option:content modifier",
                    ..sticky
                });
            }
        }
        for i in table.integers {
            let description = "match on a number of the protocol's transactions";
            let number = KnownKeyword { description, ..of_catalog(i.name) };
            add(number);
            for alias in i.aliases {
                add(KnownKeyword { name: alias, ..number });
            }
        }
        for c in table.conditions {
            let description = "match on a condition of the protocol's transactions";
            let condition = KnownKeyword {
                value: ValueUse::Optional,
                quotes: Quotes::Optional,
                description,
                ..of_catalog(c.name)
            };
            add(condition);
            for alias in c.aliases {
                add(KnownKeyword { name: alias, ..condition });
            }
        }
    }
    all
}

/// A keyword of a protocol that no table has, to be refined.
fn of_catalog(name: &'static str) -> KnownKeyword {
    KnownKeyword {
        name,
        aliases: "",
        kind: KeywordKind::Plain,
        value: ValueUse::Required,
        quotes: Quotes::Refused,
        internal: "",
        uses: KeywordUses { firewall: true, ..KeywordUses::default() },
        features: "supports firewall",
        page: ";",
        description: "",
    }
}

/// What is known of one keyword, as Suricata's `--list-keywords=NAME` prints it.
pub fn describe(name: &str, catalog: &Catalog, version: &str) -> Option<String> {
    let all;
    let k = match known_keyword(name) {
        Some(known) => known,
        None => {
            all = all_keywords(catalog);
            all.iter().find(|k| k.name == name)?
        }
    };
    let mut out = format!("= {} =\nDescription: {}\n", k.name, k.description);
    out.push_str(&format!("Features: {}\n", k.features.replace(':', ",")));
    if !matches!(k.page, "" | ";") {
        let page = k.page.trim_end_matches(';');
        out.push_str(&format!(
            "Documentation: https://docs.suricata.io/en/suricata-{version}{page}\n"
        ));
    }
    Some(out)
}

/// Suricata's `--list-keywords=csv`: header, then one line a keyword. `version` is written into
/// the addresses of the documents.
pub fn list_csv(catalog: &Catalog, version: &str) -> String {
    let mut out = String::from("name;description;app layer;features;documentation\n");
    for k in all_keywords(catalog) {
        let page = match k.page {
            "" | ";" => k.page.to_string(),
            page => format!("https://docs.suricata.io/en/suricata-{version}{page}"),
        };
        out.push_str(&format!("{};{};Unset;{};{page}\n", k.name, k.description, k.features));
    }
    out
}

/// Suricata's keywords.
const SURICATAS: &str = include_str!("keywords.tsv");

/// Keywords of ours that Suricata does not have.
const OURS: &str = include_str!("own_keywords.tsv");

/// Rows of keywords of ours.
#[cfg(test)]
pub(crate) fn own_rows() -> impl Iterator<Item = KnownKeyword> {
    rows(OURS)
}

type Table = (Vec<KnownKeyword>, NameMap<&'static str, usize>);

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        let all: Vec<KnownKeyword> = [SURICATAS, OURS].iter().flat_map(|t| rows(t)).collect();
        let mut by_name = NameMap::default();
        for (at, k) in all.iter().enumerate() {
            by_name.insert(k.name, at);
            for alias in k.aliases.split(',').filter(|a| !a.is_empty()) {
                by_name.insert(alias, at);
            }
        }
        (all, by_name)
    })
}

fn rows(table: &'static str) -> impl Iterator<Item = KnownKeyword> {
    table.lines().filter(|line| !line.starts_with('#')).filter_map(row)
}

fn row(line: &'static str) -> Option<KnownKeyword> {
    let mut cells = line.split('\t');
    let mut next = || cells.next();
    Some(KnownKeyword {
        name: next()?,
        aliases: next()?,
        kind: match next()? {
            "sticky" => KeywordKind::Sticky,
            "modifier" => KeywordKind::Modifier,
            "transform" => KeywordKind::Transform,
            _ => KeywordKind::Plain,
        },
        value: match next()? {
            "none" => ValueUse::None,
            "optional" => ValueUse::Optional,
            _ => ValueUse::Required,
        },
        quotes: match next()? {
            "mandatory" => Quotes::Mandatory,
            "optional" => Quotes::Optional,
            _ => Quotes::Refused,
        },
        internal: next()?,
        uses: uses(next()?)?,
        features: next()?,
        page: next()?,
        description: next()?,
    })
}

/// `None`: a word that stands for no use.
fn uses(words: &str) -> Option<KeywordUses> {
    let mut uses = KeywordUses::default();
    for word in words.split(',').filter(|word| !word.is_empty()) {
        match word {
            "prefilter" => uses.prefilter = true,
            "firewall" => uses.firewall = true,
            "ip-only" => uses.ip_only = true,
            _ => return None,
        }
    }
    Some(uses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_whole() {
        let lines = |table: &str| table.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(rows(SURICATAS).count(), 394);
        assert_eq!(lines(SURICATAS), 394);
        assert_eq!(rows(OURS).count(), lines(OURS), "a row of own_keywords.tsv is not whole");
        assert_eq!(known_keyword("file_data").map(|k| k.name), Some("file.data"));
        assert!(known_keyword("dsize").is_some_and(KnownKeyword::supports_prefilter));
        assert_eq!(known_keyword("nope").map(|k| k.name), None);
    }

    /// A name that stands for two keywords would hide one of them.
    #[test]
    fn a_name_stands_for_one_keyword() {
        let mut names = std::collections::HashSet::new();
        for k in known_keywords() {
            for name in
                std::iter::once(k.name).chain(k.aliases.split(',').filter(|a| !a.is_empty()))
            {
                assert!(names.insert(name), "{name} stands twice");
            }
        }
    }
}
