//! slog's files of the corpus: what each must give.

use gabion_seal::SecretKey;
use serde_json::Value;

#[test]
fn slogs_files_give_slogs_verdicts_and_two_more() {
    use gabion_seal::slog::{Fault, Import};
    let test = "slogs_files_give_slogs_verdicts_and_two_more";
    let Some(folder) = gabion_corpus::find(test, "sealed/slog") else { return };
    let key = SecretKey::parse_file(
        &std::fs::read_to_string(folder.join("storage_rsa.slogpem")).unwrap(),
    )
    .unwrap();
    // The number of suspicious lines is slog's own (replay-verdicts.json), but for two files that slog
    // passes: a splice is seen by ours, a cut end only against a number of lines known from elsewhere.
    for (name, suspicious) in [
        ("good", 0),
        ("removed-line", 1),
        ("swapped-lines", 3),
        ("no-head", 1),
        ("truncated-tail", 0),
        ("spliced", 1),
        ("duplicate-line", 1),
        ("edited-timestamp", 2),
        ("edited-crc", 2),
        ("edited-blob", 2),
        ("torn", 1),
    ] {
        let bytes = std::fs::read(folder.join(format!("{name}.slog"))).unwrap();
        let lines: Vec<&[u8]> = bytes.split(|c| *c == b'\n').filter(|l| !l.is_empty()).collect();
        for checks_wraps in [false, true] {
            let mut import = Import::new(&key, Some(b"my-fancy-password".to_vec()), checks_wraps);
            let read: Vec<_> = lines.iter().map(|l| import.line(l)).collect();
            let faults: Vec<_> = read.iter().map(|r| &r.faults).collect();
            assert_eq!(import.summary.suspicious, suspicious, "{name}: {faults:?}");
            assert_eq!(import.summary.lines, lines.len() as u64);
            if checks_wraps {
                assert!(import.summary.unwrapped >= lines.len() as u64 - 1, "{name}");
            } else if name == "good" {
                assert_eq!(import.summary.unwrapped, 1);
            }
            if name == "spliced" {
                assert_eq!(import.summary.spliced, 1);
                assert!(faults.iter().any(|f| f.contains(&Fault::Spliced)));
            }
        }
    }
    let bytes = std::fs::read(folder.join("good.slog")).unwrap();
    let expected: Value =
        serde_json::from_str(&std::fs::read_to_string(folder.join("good.expected.json")).unwrap())
            .unwrap();
    let mut import = Import::new(&key, Some(b"other".to_vec()), false);
    for (line, want) in bytes.split(|c| *c == b'\n').zip(expected["records"].as_array().unwrap()) {
        let read = import.line(line);
        let record = read.record.unwrap();
        assert_eq!(record.decrypted, want["decrypted-data"].as_str().unwrap());
        assert_eq!(record.received_at, want["wire-data"]["received-at"].as_str().unwrap());
        assert_eq!(record.source_ip, want["wire-data"]["source-ip"].as_str().unwrap());
        assert_eq!(record.is_suspicious, want["suspicious-in"].as_bool().unwrap());
    }
    assert_eq!(
        import.summary.suspicious, 1,
        "the line whose password was opened is not under the one given"
    );
}
