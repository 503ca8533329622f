//! Keywords on captured texts, on what files are and on countries, over the demonstration's capture.
//! What each does was measured with Suricata (8.0.7) over another capture.

mod program;

use program::{demo, gabion};

/// Alerts by signature.
fn alerts(rules: &str, more: &[&str]) -> Vec<(u64, u64)> {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    std::fs::write(dir.path().join("r.rules"), rules).unwrap();
    let (rules, out, capture) = (path("r.rules"), path("out"), demo());
    let mut args = vec!["read", "-q", "-S", &rules, "-l", &out, &capture];
    args.extend_from_slice(more);
    let ran = gabion(&args);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let text = std::fs::read_to_string(dir.path().join("out/eve.json")).unwrap();
    let mut counts = std::collections::BTreeMap::new();
    for line in text.lines() {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        if let Some(sid) = record["alert"]["signature_id"].as_u64() {
            *counts.entry(sid).or_insert(0) += 1;
        }
    }
    counts.into_iter().collect()
}

fn fired(rules: &str) -> Vec<u64> {
    alerts(rules, &[]).into_iter().map(|(sid, _)| sid).collect()
}

#[test]
fn captured_texts_are_compared() {
    let rules = r#"
alert http any any -> any any (msg:"flow"; http.user_agent; content:"curl"; pcre:"/^(.+)$/, flow:ua"; sid:1;)
alert tcp any any -> any any (msg:"has it"; flowvar:ua,curl; sid:2;)
alert tcp any any -> any any (msg:"quoted, as hex"; flowvar:ua,"|63 75|rl"; sid:3;)
alert tcp any any -> any any (msg:"case counts"; flowvar:ua,CURL; sid:4;)
alert tcp any any -> any any (msg:"no such text"; flowvar:other,curl; sid:5;)
"#;
    assert_eq!(fired(rules), [1, 2, 3]);
}

#[test]
fn files_are_known_by_their_first_bytes() {
    let rules = r#"
alert http any any -> any any (msg:"text"; flow:to_client; file.magic; content:" text"; sid:1;)
alert http any any -> any any (msg:"old form"; flow:to_client; filemagic:" TEXT"; sid:2;)
alert http any any -> any any (msg:"none"; flow:to_client; file.magic; content:"PDF document"; sid:3;)
"#;
    assert_eq!(fired(rules), [1, 2]);
}

#[test]
fn the_model_of_a_keyword_looks_at_the_time_to_live() {
    let rules = r#"
alert ip any any -> any any (msg:"all"; template2:>0; sid:1;)
alert ip any any -> any any (msg:"none"; template2:<1; sid:2;)
"#;
    assert_eq!(fired(rules), [1]);
}

#[test]
fn countries_need_a_database() {
    let rules = "alert ip any any -> any any (geoip:any,DE; sid:1;)\n\
                 alert ip any any -> any any (sid:2;)\n";
    // The rule is refused, the others hold.
    assert_eq!(fired(rules), [2]);
    let none = ["--set", "geoip-database=/nonexistent.mmdb"];
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("r.rules");
    std::fs::write(&file, rules).unwrap();
    let ran = gabion(&[&["read", "-S", &file.display().to_string(), &demo()][..], &none].concat());
    assert!(ran.code != 0 && ran.err.contains("nonexistent"), "{} {}", ran.code, ran.err);
}
