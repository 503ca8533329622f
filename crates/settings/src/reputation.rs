//! Reputation files: categories (`id,short name,description`) and scores (`address,id,score`).

use crate::error::{Error, Result};
use crate::messages::Messages;
use gabion_net::Reputation;
use gabion_record::{Addr, Tree};
use gabion_rules::Ruleset;
use gabion_runtime::limits::NAMED_FILE_BYTES_MAX;
use gabion_runtime::operator_file;
use std::net::IpAddr;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};

/// Ids of categories, and scores: what Suricata 8.0.7 takes.
const CATEGORY_IDS: Range<u32> = 0..60;
const SCORES: RangeInclusive<u8> = 0..=127;

/// Reads the files the configuration names; a missing file is an error. Lines that cannot be read are reported by
/// [`report_reputation`].
pub(crate) fn load(config: &Tree, set: &Ruleset) -> Result<Reputation> {
    let mut r = Reputation::default();
    let Some(categories) = config.text("reputation-categories-file") else { return Ok(r) };
    let mut ids: Vec<(u32, u32)> = Vec::new();
    for line in entries(&text(Path::new(categories))?) {
        let Ok((id, name)) = category(line.1) else { continue };
        if let Some(category) = set.categories.find(name) {
            ids.push((id, category));
        }
    }
    for path in files(config) {
        for line in entries(&text(&path)?) {
            let Ok(score) = score(line.1) else { continue };
            let category = ids.iter().find(|(id, _)| *id == score.category).map(|(_, n)| *n);
            let (address, version) =
                (Addr::from_ip(score.ip), if score.ip.is_ipv6() { 6 } else { 4 });
            match (score.prefix, category) {
                // An address is listed also where its category is none of the file's.
                (None, category) => r.set_address(address, category, score.score),
                (Some(prefix), Some(category)) => {
                    r.set_network(address, version, prefix, category, score.score);
                }
                (Some(_), None) => {}
            }
        }
    }
    Ok(r)
}

/// The names of the categories, for rules.
pub(crate) fn category_names(text: &str) -> Vec<String> {
    entries(text).filter_map(|line| Some(category(line.1).ok()?.1.to_owned())).collect()
}

/// Names the files that are read, and lines of them that can't be read, in Suricata's words.
pub(crate) fn report_reputation(config: &Tree, log: &mut Messages<'_>) {
    let Some(categories) = config.text("reputation-categories-file") else { return };
    // What can't be read ends the run where it is needed.
    if let Ok(text) = text(Path::new(categories)) {
        for (number, line) in entries(&text) {
            if let Err(fault) = category(line) {
                fault.report(&format!("{categories}:{number}"), log);
            }
        }
    }
    for path in files(config) {
        let shown = path.display();
        log.info("reputation", &format!("Loading reputation file: {shown}"));
        let Ok(text) = text(&path) else { continue };
        for (number, line) in entries(&text) {
            if let Err(fault) = score(line) {
                fault.report(&format!("{shown}:{number}"), log);
            }
        }
    }
}

fn text(path: &Path) -> Result<String> {
    operator_file::text(path, NAMED_FILE_BYTES_MAX)
        .map_err(|source| Error::Reputation { path: path.to_owned(), source })
}

fn files(config: &Tree) -> impl Iterator<Item = PathBuf> {
    let base = Path::new(config.text("default-reputation-path").unwrap_or(""));
    let named = config.get("reputation-files").map_or(&[][..], |t| &t.children);
    named.iter().filter_map(move |(_, item)| Some(base.join(item.value.as_ref()?)))
}

/// Lines that are no remarks, with their numbers.
fn entries(text: &str) -> impl Iterator<Item = (usize, &str)> {
    // Suricata 8.0.7 reads no further than a carriage return.
    let lines = (1..).zip(text.lines().map(|line| line.split('\r').next().unwrap_or_default()));
    lines.filter(|(_, line)| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
}

/// What is wrong with a line.
#[derive(Debug, PartialEq)]
enum Fault<'t> {
    /// It is no entry.
    Bad(&'t str, &'static str),
    /// Its network is none.
    NoNetwork(&'static str, &'t str),
}

impl Fault<'_> {
    fn report(&self, place: &str, log: &mut Messages<'_>) {
        match self {
            Fault::Bad(line, why) => {
                log.error("reputation", &format!("bad line \"{line}\": {place}: {why}"));
            }
            Fault::NoNetwork(kind, network) => log.warning(
                "reputation",
                &format!("failed to add {kind} host {network}: {place}: its prefix is none"),
            ),
        }
    }
}

/// A category: its id and its name.
fn category(line: &str) -> std::result::Result<(u32, &str), Fault<'_>> {
    let wanted = "a category is `id,short name,description`, with an id from 0 to 59";
    let bad = Fault::Bad(line, wanted);
    let mut parts = line.split(',');
    match (parts.next().and_then(|id| id.parse().ok()), parts.next()) {
        (Some(id), Some(name)) if CATEGORY_IDS.contains(&id) => Ok((id, name.trim())),
        (_, _) => Err(bad),
    }
}

/// The score of an address or network in a category.
struct Score {
    ip: IpAddr,
    /// That of a network.
    prefix: Option<u8>,
    category: u32,
    score: u8,
}

fn score(line: &str) -> std::result::Result<Score, Fault<'_>> {
    let wanted = "a score is `address,id of a category,score`, with a score from 0 to 127";
    let bad = || Fault::Bad(line, wanted);
    let mut parts = line.split(',');
    // Blanks may stand before a number, and nowhere else.
    let network = parts.next().ok_or_else(bad)?;
    let category: u32 = parts.next().and_then(|id| id.trim_start().parse().ok()).ok_or_else(bad)?;
    let score: u8 = parts.next().and_then(|id| id.trim_start().parse().ok()).ok_or_else(bad)?;
    if !CATEGORY_IDS.contains(&category) || !SCORES.contains(&score) {
        return Err(bad());
    }
    let (address, prefix) = match network.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix)),
        None => (network, None),
    };
    let ip: IpAddr = address.parse().map_err(|_| bad())?;
    let (kind, most) = if ip.is_ipv6() { ("ipv6", 128) } else { ("ipv4", 32) };
    let no_network = Fault::NoNetwork(kind, network);
    let prefix = match prefix.map(str::parse) {
        None => None,
        Some(Ok(prefix)) if prefix <= most => Some(prefix),
        Some(_) => return Err(no_network),
    };
    Ok(Score { ip, prefix, category, score })
}

#[cfg(test)]
mod tests {
    use super::*;

    // An address and its network differ: only a listed address has a score of zero in other categories.
    #[test]
    fn an_address_is_no_network_of_one() {
        let prefix = |line| score(line).map(|s| s.prefix).ok();
        assert_eq!(prefix("10.0.0.1,1,100"), Some(None));
        assert_eq!(prefix("10.0.0.1/32,1,100"), Some(Some(32)));
        assert_eq!(prefix("::1,1,100"), Some(None));
        assert_eq!(prefix("::1/128,1,100"), Some(Some(128)));
    }

    // Suricata 8.0.7 takes and refuses the same lines. Where it passes over a line that begins with a blank
    // in silence, the line is named here.
    #[test]
    fn bad_lines_are_named() {
        for good in ["1,Bad,known", "59,ok,x", "0,zero,b", "6,noDesc", "11,two words,x"] {
            assert!(category(good).is_ok(), "{good}");
        }
        for bad in ["300,a,b", "60,top,x", "x,y,z", "5", "-1,neg,x", " 8,space,x"] {
            assert!(category(bad).is_err(), "{bad}");
        }
        assert_eq!(category_names("1,Bad,x\n300,a,b\n# c\n\n2,Good\n"), ["Bad", "Good"]);
        for good in [
            "10.0.0.1,1,100",
            "10.0.0.7, 1, 50",
            "10.0.0.9,1,0",
            "10.0.0.10,1,127",
            "10.0.0.13,59,5",
            "10.0.0.14,0,5",
            "10.0.0.15,1,5,6",
            "10.0.0.17/24,1,5",
            "::1,1,5",
            "fe80::/10,1,5",
        ] {
            assert!(score(good).is_ok(), "{good}");
        }
        for bad in [
            "10.0.0.2;1;50",
            "bad line",
            "10.0.0.3,1,128",
            "10.0.0.4,77,5",
            "10.0.0.5,1,",
            "10.0.0.8,1,50 # c",
            "10.0.0.11,1,-1",
            "10.0.0.12,60,5",
            "10.0.0.256,1,5",
            "::zz,1,5",
            "10.0.0.18,x,5",
            "10.0.0.19,1,5x",
            "10.0.0.21,1,50  ",
            "10.0.0,1,7",
            " 10.0.0.6,1,50",
        ] {
            assert!(matches!(score(bad), Err(Fault::Bad(line, _)) if line == bad), "{bad}");
        }
        for (bad, kind) in [
            ("10.0.0.0/33", "ipv4"),
            ("10.0.0.16/x", "ipv4"),
            ("10.0.1.0/24 ", "ipv4"),
            ("fe80::/129", "ipv6"),
        ] {
            let line = format!("{bad},1,5");
            assert_eq!(score(&line).err(), Some(Fault::NoNetwork(kind, bad)));
        }
    }

    #[test]
    fn a_report_names_file_and_line() {
        let dir = tempfile::tempdir().unwrap();
        let mut config = Tree::default();
        let path = |name: &str| dir.path().join(name).display().to_string();
        std::fs::write(path("cat"), "1,Bad,x\n77,y,z\n").unwrap();
        std::fs::write(path("list"), "#\n10.0.0.1,1,5\n10.0.0.3,1,128\n10.0.0.0/33,1,5\n").unwrap();
        config.set("reputation-categories-file", &path("cat"));
        config.set("default-reputation-path", &path(""));
        config.set("reputation-files.0", "list");
        let mut said = Vec::new();
        let mut report = |_, _: &str, text: &str| said.push(text.to_owned());
        report_reputation(&config, &mut Messages::new(&mut report));
        let [category, loading, score, network] = said.as_slice() else { panic!("{said:?}") };
        assert!(category.starts_with("bad line \"77,y,z\": ") && category.contains("cat:2: "));
        assert!(loading.starts_with("Loading reputation file: "));
        assert!(score.starts_with("bad line \"10.0.0.3,1,128\": ") && score.contains("list:3: "));
        assert!(network.starts_with("failed to add ipv4 host 10.0.0.0/33: "), "{network}");
    }
}
