//! Files that rules use: thresholds, classes, references, values of datasets.

use crate::seeds::Seeds;
use gabion_net::Datasets;
use gabion_rules::compiled::{DatasetDef, DatasetFormat, DatasetType};
use gabion_rules::{
    LoadOptions, RuleSource, Ruleset, parse_classification, parse_thresholds, read_references,
};

const TYPES: &[DatasetType] = &[
    DatasetType::String,
    DatasetType::Md5,
    DatasetType::Sha256,
    DatasetType::Ipv4,
    DatasetType::Ip,
];

/// The first byte selects the kind of file, the rest is its text.
pub fn files(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let text = || String::from_utf8_lossy(rest);
    match first % 4 {
        0 => {
            let (entries, diagnostics) =
                parse_thresholds(&text(), "any.config", &crate::rules::vars());
            let catalog = gabion_proto::registry::catalog();
            let rules = "alert ip any any -> any any (msg:\"one\"; sid:1; gid:1;)";
            let rules = RuleSource { name: "any.rules", text: rules, is_firewall: false };
            let vars = crate::rules::vars();
            let (mut set, _) = Ruleset::load(&[rules], &catalog, &vars, &LoadOptions::default());
            let more = set.apply_thresholds(&entries, "any.config");
            let _ = format!("{diagnostics:?}{more:?}");
        }
        1 => {
            let _ = format!("{:?}", parse_classification(&text(), "any.config"));
        }
        2 => {
            let _ = format!("{:?}", read_references(&text(), "any.config"));
        }
        _ => dataset(first / 4, rest),
    }
}

/// Values of a set; a saved set has all values that were added.
fn dataset(mode: u8, text: &[u8]) {
    let kind = TYPES.get(usize::from(mode) % TYPES.len()).copied().unwrap_or(DatasetType::String);
    let format = match mode / 8 % 3 {
        0 => DatasetFormat::Csv,
        1 => DatasetFormat::Json,
        _ => DatasetFormat::NdJson,
    };
    let is_json = format != DatasetFormat::Csv;
    let def = DatasetDef {
        name: "any".into(),
        kind,
        load: Some("any.lst".into()),
        save: Some("any.lst".into()),
        rule_folder: String::new(),
        has_reputation: mode & 32 != 0,
        memcap: 1 << 20,
        hashsize: 1 << 10,
        format,
        value_key: is_json.then(|| "a.b".into()),
        array_key: is_json.then(|| "list".into()),
        context_key: is_json.then(|| "context".into()),
        remove_key: mode & 16 != 0,
    };
    let (mut sets, mut notes) = (Datasets::default(), Vec::new());
    if !sets.open(&def, Some(("any.lst", text)), &mut notes) {
        assert!(!notes.is_empty(), "an error has a reason");
        return;
    }
    let saved = sets.saves();
    // Sets of both versions of IP write IPv4 unmapped and read it mapped, as in Suricata.
    if format == DatasetFormat::Csv && kind != DatasetType::Ip {
        for (_, written) in &saved {
            let (mut again, mut notes) = (Datasets::default(), Vec::new());
            assert!(again.open(&def, Some(("any.lst", written)), &mut notes), "{notes:?}");
            assert_eq!(
                &again.saves(),
                &saved,
                "a saved set can be read again: {}",
                text.escape_ascii()
            );
        }
    }
}

/// Files of each kind: those of the corpus, and a few short ones.
pub fn seeds(seeds: &Seeds) -> Vec<Vec<u8>> {
    let with = |mode: u8, text: &[u8]| [&[mode], text].concat();
    let mut all = vec![
        with(0, b"suppress gen_id 1, sig_id 1, track by_src, ip [10.0.0.0/8,!10.1.0.0/16]\n"),
        with(0, b"threshold gen_id 0, sig_id 0, type both, track by_dst, count 2, seconds 5\n"),
        with(0, b"rate_filter gen_id 1, sig_id 1, track by_rule, count 2, seconds 5, \\\n new_action drop, timeout 3\n"),
        with(1, b"config classification: bad-unknown,Potentially Bad Traffic,2\n"),
        with(2, b"config reference: cve https://cve.mitre.org/cgi-bin/cvename.cgi?name=\n"),
        with(3, b"dGVzdA==\nYWJj\n"),
        with(3 | 4, b"d41d8cd98f00b204e9800998ecf8427e\n"),
        with(3 | 12, b"10.0.0.1\n192.168.0.255\n"),
        with(3 | 16, b"fd00::1\n::ffff:10.0.0.1\n"),
        with(3 | 32, br#"{"list": [{"a": {"b": "dGVzdA=="}, "c": 2}]}"#),
        with(3 | 64, b"{\"a\": {\"b\": \"dGVzdA==\"}}\n{\"a\": {\"b\": \"x\"}}\n"),
        with(3 | 128, b"dGVzdA==,12\nYWJj,300\n"),
    ];
    let Some(corpus) = &seeds.corpus else { return all };
    let tests = std::fs::read_dir(corpus.join("suricata-verify/tests"));
    let mut folders: Vec<_> = tests.into_iter().flatten().flatten().map(|e| e.path()).collect();
    folders.sort();
    for folder in folders {
        for file in std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()) {
            let name = file.file_name().and_then(|n| n.to_str()).unwrap_or_default().to_owned();
            let ending = name.rsplit('.').next().unwrap_or_default();
            let mode = match ending {
                _ if name.starts_with("threshold") => 0,
                "lst" | "csv" | "list" => 3,
                "json" => 3 | 32,
                _ => continue,
            };
            all.extend(
                std::fs::read(&file).ok().filter(|t| t.len() < 8_000).map(|t| with(mode, &t)),
            );
        }
    }
    all
}
