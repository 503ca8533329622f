//! Readers' keys, and proofs.

use super::support::Log;
use super::{Threat, judged};
use gabion_record::base64::{from_base64, to_base64};
use gabion_seal::Identity;
use gabion_seal::Stanza;
use gabion_seal::format::chunk;
use gabion_seal::format::data_key::ClassKeys;
use gabion_seal::proof::{Proof, Wanted, prove};
use gabion_seal::reader::Reader;
use gabion_seal::verify::Options;
use gabion_seal::verify::Verdict::{Incomplete, KeyError, Tampered, Unanchored};
use gabion_seal::{Recipient, SecretKey};

pub(crate) fn rows() -> Vec<Threat> {
    vec![
        Threat {
            number: 25,
            attack: "a wrong reader's key, or none that fits",
            by: "O",
            verdict: "KEY-ERROR; the verdict on integrity in addition",
            place: "ids it is wrapped for",
            exit: "24",
            residual: "",
            run: wrong_key,
        },
        Threat {
            number: 26,
            attack: "`.keys` gone or emptied: with a `shred` record; without",
            by: "O / D",
            verdict: "OK, content withdrawn; INCOMPLETE, no record says they were shredded",
            place: "segment",
            exit: "0, 24 / 23",
            residual: "reading can be denied: keep copies of `.keys`",
            run: keys_gone,
        },
        Threat {
            number: 27,
            attack: "a stanza replaced so that another data key comes out; a stanza added that no record names",
            by: "D; P",
            verdict: "KEY-ERROR, and a warning without key; a warning",
            place: "segment, reader",
            exit: "24; 0",
            residual: "who has read a data key keeps it",
            run: stanzas,
        },
        Threat {
            number: 28,
            attack: "a reader's private key is stolen",
            by: "P",
            verdict: "reads what is wrapped for it; any change: TAMPERED",
            place: "",
            exit: "20",
            residual: "confidentiality is gone: change readers",
            run: stolen_key,
        },
        Threat {
            number: 29,
            attack: "a chunk made to open differently for two readers",
            by: "S",
            verdict: "KEY-ERROR: one data key by commitment",
            place: "segment",
            exit: "24",
            residual: "",
            run: two_faces,
        },
        Threat {
            number: 42,
            attack: "a proof for another record, chunk, log, or with altered bytes; a path too long or too short",
            by: "N",
            verdict: "refused",
            place: "step that failed",
            exit: "20",
            residual: "",
            run: proofs,
        },
    ]
}

fn wrong_key() {
    let log = Log::filled();
    let other = [SecretKey::generate().unwrap()];
    let report = log.verify_with(&Options { keys: &other, ..Options::default() });
    judged(&report, KeyError, 24, &["it is wrapped for"]);
    assert!(report.verdicts.contains(&Unanchored), "integrity is judged all the same");
}

fn keys_gone() {
    let log = Log::filled();
    let keys = log.segments()[0].replace("gsl", "keys");
    for bytes in [None, Some(&b"GABKEYS1"[..]), Some(&b""[..])] {
        let log = log.copy();
        match bytes {
            None => log.log.delete(&keys),
            Some(bytes) => log.put(&keys, bytes),
        }
        judged(&log.verify(), Incomplete, 23, &["keys are missing"]);
    }
    let log = log.copy();
    let mut writer = log.open();
    writer.shred(&[0], None, log.now).unwrap();
    writer.close(log.now).unwrap();
    let report = log.verify();
    judged(&report, Unanchored, 10, &[]);
    assert_eq!(report.withdrawn.len(), 1);
    judged(&log.verify_open(), KeyError, 24, &[]);
}

fn stanzas() {
    let log = Log::filled();
    let name = log.segments()[0].clone();
    let keys = name.replace("gsl", "keys");
    let replaced = log.copy();
    let other = Stanza::wrap(log.keys[0].recipient(), &log.header(&name), 0, &[7; 32]).unwrap();
    replaced.put(&keys, &Stanza::encode_all(&[other]));
    let report = replaced.verify();
    judged(&report, Unanchored, 10, &[]);
    assert!(
        report.warnings.iter().any(|w| w.contains("differs from the record")),
        "{:?}",
        report.warnings
    );
    judged(&replaced.verify_open(), KeyError, 24, &["commitment"]);
    // P adds a friend: the data key is real, no record names that friend.
    let friend = SecretKey::generate().unwrap();
    let stanza =
        Stanza::wrap(friend.recipient(), &log.header(&name), 0, &log.data_key(&name)).unwrap();
    let mut all = Stanza::parse_all(&log.get(&keys)).unwrap();
    all.push(stanza);
    log.put(&keys, &Stanza::encode_all(&all));
    let report = log.verify();
    judged(&report, Unanchored, 10, &[]);
    assert!(
        report.warnings.iter().any(|w| w.contains("unannounced recipient")),
        "{:?}",
        report.warnings
    );
}

fn stolen_key() {
    let log = Log::filled();
    let mut reader = Reader::open(&log.log, &log.keys).unwrap();
    reader.locate(50, |found| Ok(found.opener.records(&found.header)?.records.len())).unwrap();
    let name = log.segments()[0].clone();
    let (range, _) = log.chunks(&name)[3].clone();
    log.change(&name, |b| b[range.end - 30] ^= 1);
    judged(&log.verify(), Tampered, 20, &[&name]);
}

fn two_faces() {
    // Two data keys under one header: the commitment fits one of them only.
    let log = Log::filled();
    let name = log.segments()[0].clone();
    let header = log.header(&name);
    let (one, other) = (SecretKey::generate().unwrap(), SecretKey::generate().unwrap());
    let real = log.data_key(&name);
    let keys = name.replace("gsl", "keys");
    let mut stanzas = Stanza::parse_all(&log.get(&keys)).unwrap();
    stanzas.push(Stanza::wrap(one.recipient(), &header, 0, &real).unwrap());
    stanzas.push(Stanza::wrap(other.recipient(), &header, 0, &[9; 32]).unwrap());
    log.put(&keys, &Stanza::encode_all(&stanzas));
    assert!(
        ClassKeys::of_segment(&header, &real).is_ok()
            && ClassKeys::of_segment(&header, &[9; 32]).is_err()
    );
    let other = [other];
    let report = log.verify_with(&Options { keys: &other, ..Options::default() });
    judged(&report, KeyError, 24, &["commitment"]);
    let id = one.recipient().id();
    assert!(matches!(one.recipient(), Recipient::X25519(_)) && id != [0; 8]);
}

fn proof_of(log: &Log, record: u64) -> String {
    let mut reader = Reader::open(&log.log, &log.keys).unwrap();
    let origin = reader.identity.origin.clone();
    reader.locate(record, |found| prove(&log.log, found, &origin, Wanted::default())).unwrap()
}

fn proofs() {
    let mut log = Log::filled();
    let mut writer = log.open();
    writer.switch_epoch_now(log.now).unwrap();
    log.fill(&mut writer, 20);
    writer.switch_epoch_now(log.now).unwrap();
    writer.close(log.now).unwrap();
    let vkey = Identity::parse(&log.get("log.id")).unwrap().vkey;
    let other_vkey = Identity::parse(&Log::filled().get("log.id")).unwrap().vkey;
    let check = |text: &str| Proof::parse(text.as_bytes()).and_then(|p| p.check(&vkey));
    // Records of every epoch and segment, and statements in clear.
    let last = log.verify().records - 1;
    for record in [0, 1, 5, 150, 250, 420, last] {
        let proof = proof_of(&log, record);
        let checked = check(&proof).unwrap();
        assert_eq!(checked.record, record);
        assert!(Proof::parse(proof.as_bytes()).unwrap().check(&other_vkey).is_err());
    }
    let proof = proof_of(&log, 250);
    assert!(check(&proof).unwrap().content.unwrap().bytes.starts_with(b"<13>Nov 14"));
    // Any altered part.
    let (head, rest) = proof.split_once("\nextra ").unwrap();
    let (extra, rest) = rest.split_once('\n').unwrap();
    let json = String::from_utf8(from_base64(extra.as_bytes()).unwrap()).unwrap();
    let with = |json: &str| format!("{head}\nextra {}\n{rest}", to_base64(json.as_bytes()));
    assert!(check(&with(&json)).is_ok());
    for (from, to) in [
        ("\"record\":250", "\"record\":251"),
        ("\"flags\":0", "\"flags\":1"),
        ("\"kind\":0", "\"kind\":1"),
        ("\"time_ns\":17", "\"time_ns\":18"),
        ("\"path\":[\"", "\"path\":[\"47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\",\""),
    ] {
        assert!(json.contains(from), "{from}");
        assert!(check(&with(&json.replacen(from, to, 1))).is_err(), "{from}");
    }
    let lines: Vec<&str> = proof.lines().collect();
    let without = |n: usize| {
        let mut lines = lines.clone();
        lines.remove(n);
        lines.join("\n") + "\n"
    };
    assert!(check(&without(3)).is_err(), "a path too short");
    let mut longer = lines.clone();
    longer.insert(3, lines[3]);
    assert!(check(&(longer.join("\n") + "\n")).is_err(), "a path too long");
    assert!(check(&proof.replacen("index ", "index 1", 1)).is_err());
    let other = Log::filled();
    let other_proof = proof_of(&other, 250);
    assert!(check(&other_proof).is_err(), "of another log");
    assert_eq!(chunk::BOUND_LEN, 96);
}
