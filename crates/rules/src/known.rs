//! The peer's keywords: one table (`keywords.tsv`) that the reader of rules, `--list-keywords` and
//! the documents share.
//!
//! Keywords of protocols that the catalog does not have are known by this table alone: rules that
//! use them load and are listed as inert. What stands in neither is refused, as the peer does.

use std::collections::HashMap;
use std::sync::OnceLock;

/// What kind of keyword it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeywordKind {
    /// Takes a value or stands alone.
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

/// Whether the value stands in quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quotes {
    /// Never.
    Refused,
    /// Perhaps.
    Optional,
    /// Always.
    Mandatory,
}

/// A keyword as the peer lists it.
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
    /// Features as the listing has them (`supports firewall:prefilter`).
    pub features: &'static str,
    /// Page of the peer's documents, relative.
    pub page: &'static str,
    /// What it does.
    pub description: &'static str,
}

impl KnownKeyword {
    /// May be used as a prefilter.
    pub fn supports_prefilter(&self) -> bool {
        self.features.split(':').any(|f| f == "prefilter")
    }

    /// May be used in firewall rules. The listing does not say it of keywords without a value.
    pub fn supports_firewall(&self) -> bool {
        self.features.split(':').any(|f| f == "supports firewall" || f == "No option")
    }

    /// A rule with it may still be IP-only.
    pub fn is_ip_only_compatible(&self) -> bool {
        self.features.split(':').any(|f| f == "compatible with IP only rule")
    }

    /// Name of the protocol it belongs to, by its prefix; `None` for those of no protocol.
    pub fn protocol(&self) -> Option<&'static str> {
        let prefix = self.name.split(['.', '_']).next().unwrap_or("");
        let of = |protos: &[&'static str]| protos.iter().find(|p| **p == prefix).copied();
        of(&[
            "http",
            "http2",
            "dns",
            "mdns",
            "tls",
            "ssh",
            "smb",
            "dcerpc",
            "nfs",
            "krb5",
            "ike",
            "dhcp",
            "mqtt",
            "rfb",
            "sip",
            "ldap",
            "pgsql",
            "snmp",
            "ntp",
            "quic",
            "websocket",
            "enip",
            "modbus",
            "dnp3",
            "ftp",
            "smtp",
        ])
        .or(match prefix {
            "ssl" | "ja3" | "ja3s" | "ja4" => Some("tls"),
            "email" => Some("smtp"),
            "sdp" => Some("sip"),
            "cip" => Some("enip"),
            "ftpdata" => Some("ftp-data"),
            _ => None,
        })
    }
}

/// All of them, in the order of the peer's listing.
pub fn known_keywords() -> &'static [KnownKeyword] {
    &table().0
}

/// The keyword of that name (lower case) or further name.
pub fn known_keyword(name: &str) -> Option<&'static KnownKeyword> {
    let (all, by_name) = table();
    by_name.get(name).and_then(|at| all.get(*at))
}

/// What is known of one keyword, as the peer's `--list-keywords=NAME` prints it.
pub fn describe(name: &str, version: &str) -> Option<String> {
    let (all, by_name) = table();
    let k = all.get(*by_name.get(name)?)?;
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

/// The peer's `--list-keywords=csv`: header, then one line a keyword. `version` is written into
/// the addresses of the documents.
pub fn list_csv(version: &str) -> String {
    let mut out = String::from("name;description;app layer;features;documentation\n");
    for k in known_keywords() {
        let page = match k.page {
            "" | ";" => k.page.to_string(),
            page => format!("https://docs.suricata.io/en/suricata-{version}{page}"),
        };
        out.push_str(&format!("{};{};Unset;{};{page}\n", k.name, k.description, k.features));
    }
    out
}

type Table = (Vec<KnownKeyword>, HashMap<&'static str, usize>);

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        let all: Vec<KnownKeyword> = include_str!("keywords.tsv").lines().filter_map(row).collect();
        let mut by_name = HashMap::new();
        for (at, k) in all.iter().enumerate() {
            by_name.insert(k.name, at);
            for alias in k.aliases.split(',').filter(|a| !a.is_empty()) {
                by_name.insert(alias, at);
            }
        }
        (all, by_name)
    })
}

fn row(line: &'static str) -> Option<KnownKeyword> {
    if line.starts_with('#') {
        return None;
    }
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
        features: next()?,
        page: next()?,
        description: next()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_whole() {
        assert_eq!(known_keywords().len(), 394);
        assert_eq!(known_keyword("file_data").map(|k| k.name), Some("file.data"));
        assert!(known_keyword("dsize").is_some_and(KnownKeyword::supports_prefilter));
        assert_eq!(known_keyword("nope").map(|k| k.name), None);
    }
}
