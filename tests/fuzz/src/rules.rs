//! Rules: parses any text as a rule file, and compiles and describes its rules.

use crate::seeds::{Seeds, repository};
use gabion_record::applayer::Catalog;
use gabion_rules::{LoadOptions, RuleSource, RuleVars, Ruleset};
use std::sync::OnceLock;

/// Loads the text with all protocols. Every file that a rule names is the same short one.
pub fn parse(data: &[u8]) {
    static CATALOG: OnceLock<Catalog> = OnceLock::new();
    let catalog = CATALOG.get_or_init(gabion_proto::registry::catalog);
    let text = String::from_utf8_lossy(data);
    let source = RuleSource { name: "any.rules", text: &text, is_firewall: false };
    let read = |_: &str| Ok(b"d41d8cd98f00b204e9800998ecf8427e\n".to_vec());
    let options = LoadOptions { read_file: Some(&read), ..LoadOptions::default() };
    let (set, diagnostics) = Ruleset::load(&[source], catalog, &vars(), &options);
    for diagnostic in &diagnostics {
        let _ = format!("{diagnostic:?}");
    }
    for signature in &set.signatures {
        let _ = (set.msg(signature), set.category(signature), set.metadata(signature).count());
    }
}

/// The variables of Suricata's default configuration.
#[must_use]
pub fn vars() -> RuleVars {
    let pairs = |list: &[(&str, &str)]| {
        list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    RuleVars {
        addresses: pairs(&[
            ("HOME_NET", "[192.168.0.0/16,10.0.0.0/8,172.16.0.0/12]"),
            ("EXTERNAL_NET", "!$HOME_NET"),
            ("HTTP_SERVERS", "$HOME_NET"),
            ("SMTP_SERVERS", "$HOME_NET"),
            ("SQL_SERVERS", "$HOME_NET"),
            ("DNS_SERVERS", "$HOME_NET"),
        ]),
        ports: pairs(&[
            ("HTTP_PORTS", "80"),
            ("SHELLCODE_PORTS", "!80"),
            ("SSH_PORTS", "22"),
            ("FTP_PORTS", "21"),
        ]),
    }
}

/// Single rules of the demonstration and of the corpus's tests.
pub fn seeds(seeds: &Seeds) -> Vec<Vec<u8>> {
    let mut texts = vec![read(&repository().join("demo/gabion.rules"))];
    if let Some(corpus) = &seeds.corpus {
        let mut folders: Vec<_> = std::fs::read_dir(corpus.join("suricata-verify/tests"))
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .collect();
        folders.sort();
        texts.extend(folders.iter().map(|folder| read(&folder.join("test.rules"))));
    }
    let rules = texts.iter().flat_map(|text| text.lines());
    let rules =
        rules.filter(|line| !line.starts_with('#') && line.len() > 10 && line.len() < 4_000);
    let all: Vec<Vec<u8>> = rules.map(|line| line.as_bytes().to_vec()).collect();
    // Neighboring rules are similar; some thousands are enough.
    let step = (all.len() / 3_000).max(1);
    all.into_iter().step_by(step).collect()
}

fn read(path: &std::path::Path) -> String {
    std::fs::read(path).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default()
}
