//! The corpus' vectors of trees, notes and HPKE.

use gabion_record::base64::from_base64;
use gabion_record::hex::from_hex;
use gabion_seal::checkpoints::{Checkpoint, Note, Vkey};
use gabion_seal::format::tree::{
    Hash, consistency_proof, inclusion_proof, leaf_hash, root, verify_consistency, verify_inclusion,
};
use gabion_seal::proof::Proof;
use rustls::crypto::aws_lc_rs::hpke::ALL_SUPPORTED_SUITES;
use rustls::crypto::hpke::{EncapsulatedSecret, Hpke, HpkePrivateKey, HpkePublicKey};
use serde_json::Value;

fn vectors(test: &str, name: &str) -> Option<Value> {
    let text = gabion_corpus::read(test, &format!("sealed/crypto/{name}"))?;
    Some(serde_json::from_slice(&text).unwrap())
}

fn hash(json: &Value) -> Option<Hash> {
    from_base64(json.as_str()?.as_bytes())?.try_into().ok()
}

/// Some vectors have a root that is no hash: what matters of it is what it equals.
fn any_hash(json: &Value) -> Option<Hash> {
    hash(json).or_else(|| Some(gabion_seal::format::tree::sha256(json.as_str()?.as_bytes())))
}

fn path(json: &Value) -> Option<Vec<Hash>> {
    match json {
        Value::Null => Some(Vec::new()),
        other => other.as_array()?.iter().map(hash).collect(),
    }
}

#[test]
fn trees_of_rfc_6962() {
    let Some(all) = vectors("trees_of_rfc_6962", "rfc6962-proofs.json") else { return };
    let all = all.as_array().unwrap();
    assert_eq!(all.len(), 196);
    for vector in all {
        let name = format!("{} {}", vector["file"], vector["desc"]);
        let number = |key: &str| vector[key].as_u64();
        let holds = if vector.get("size1").is_some() {
            // A root or hash of another length holds nothing.
            (|| {
                let (old, new) = (number("size1")?, number("size2")?);
                let (old_root, new_root) =
                    (any_hash(&vector["root1"])?, any_hash(&vector["root2"])?);
                Some(verify_consistency(
                    (old, &old_root),
                    (new, &new_root),
                    &path(&vector["proof"])?,
                ))
            })()
        } else {
            (|| {
                let index = number("leafIdx").or_else(|| number("leafIndex"))?;
                let size = number("treeSize")?;
                let (leaf, root) = (hash(&vector["leafHash"])?, hash(&vector["root"])?);
                Some(verify_inclusion(index, size, &leaf, &path(&vector["proof"])?, &root))
            })()
        };
        let is_wrong = vector["wantErr"].as_bool().unwrap();
        assert_eq!(holds.unwrap_or(false), !is_wrong, "{name}: {vector}");
    }
}

#[test]
fn notes_and_checkpoints_of_c2sp() {
    let Some(all) = vectors("notes_and_checkpoints_of_c2sp", "checkpoints.json") else { return };
    let vkey = Vkey::parse(all["vkey"].as_str().unwrap()).unwrap();
    let witness = Vkey::parse(all["witness_vkey"].as_str().unwrap()).unwrap();
    assert_eq!(vkey.to_string(), all["vkey"].as_str().unwrap());
    let leaves: Vec<Hash> = all["leaves"]
        .as_array()
        .unwrap()
        .iter()
        .map(|l| leaf_hash(l.as_str().unwrap().as_bytes()))
        .collect();
    for (size, want) in all["roots"].as_array().unwrap().iter().enumerate() {
        assert_eq!(root(&leaves[..size]), hash(want).unwrap(), "{size}");
    }
    let keys = [vkey.clone(), witness.clone()];
    for vector in all["checkpoints"].as_array().unwrap() {
        let note = Note::parse(vector["note"].as_str().unwrap().as_bytes()).unwrap();
        assert_eq!(note.to_string(), vector["note"].as_str().unwrap());
        assert_eq!(note.verify(&keys).unwrap().len(), 1);
        let checkpoint = Checkpoint::parse(&note.text).unwrap();
        assert_eq!(checkpoint.size, vector["size"].as_u64().unwrap());
        assert_eq!(checkpoint.root, root(&leaves[..checkpoint.size as usize]));
        let cosigned = Note::parse(vector["cosigned"].as_str().unwrap().as_bytes()).unwrap();
        let verified = cosigned.verify(&keys).unwrap();
        assert!(verified.len() == 2 && verified[1].time.is_some());
        assert!(cosigned.verify(std::slice::from_ref(&witness)).is_ok());
    }
    for vector in all["proofs"].as_array().unwrap() {
        let proof = Proof::parse(vector["tlog_proof"].as_str().unwrap().as_bytes()).unwrap();
        let index = vector["index"].as_u64().unwrap();
        assert_eq!(proof.index, index);
        let leaf = leaf_hash(vector["leaf"].as_str().unwrap().as_bytes());
        proof.check_leaf(&leaf, &keys).unwrap();
        assert!(proof.check_leaf(&leaf_hash(b"another"), &keys).is_err());
        let size = proof.checkpoint.size as usize;
        let made = inclusion_proof(&leaves[..size], index as usize).unwrap();
        assert!(verify_inclusion(index, size as u64, &leaf, &made, &proof.checkpoint.root));
    }
    for vector in all["consistency"].as_array().unwrap() {
        let (old, new) =
            (vector["old"].as_u64().unwrap() as usize, vector["new"].as_u64().unwrap() as usize);
        assert_eq!(
            consistency_proof(&leaves[..new], old).unwrap(),
            path(&vector["proof"]).unwrap(),
            "{old} {new}"
        );
    }
    for vector in all["invalid"].as_array().unwrap() {
        let read = Note::parse(vector["note"].as_str().unwrap().as_bytes())
            .and_then(|note| Checkpoint::parse(&note.text).map(|_| note))
            .and_then(|note| note.verify(&keys[..1]));
        assert!(read.is_err(), "{}", vector["name"]);
    }
}

fn suite(aead: u64) -> Option<&'static dyn Hpke> {
    // KEM 0x0020 is X25519; AEAD 1 and 2 are AES-128 and -256-GCM, 3 is ChaCha20-Poly1305.
    let found = ALL_SUPPORTED_SUITES.iter().find(|s| {
        let suite = s.suite();
        u16::from(suite.kem) == 0x20 && u64::from(u16::from(suite.sym.aead_id)) == aead
    });
    found.copied()
}

#[test]
fn hpke_of_rfc_9180() {
    let Some(all) = vectors("hpke_of_rfc_9180", "hpke-rfc9180-x25519-base-full.json") else {
        return;
    };
    let text = |v: &Value, key: &str| from_hex(v[key].as_str().unwrap().as_bytes()).unwrap();
    let mut opened = 0;
    for vector in all.as_array().unwrap() {
        let hpke = suite(vector["aead_id"].as_str().unwrap().parse().unwrap()).unwrap();
        let (info, enc) = (text(vector, "info"), EncapsulatedSecret(text(vector, "enc")));
        let secret = HpkePrivateKey::from(text(vector, "skRm"));
        let mut opener = hpke.setup_opener(&enc, &info, &secret).unwrap();
        // Sequence numbers count up by one; the vectors leave some out.
        for (number, step) in vector["encryptions"].as_array().unwrap().iter().enumerate() {
            if step["sequence number"].as_str().unwrap() != number.to_string() {
                break;
            }
            assert_eq!(
                opener.open(&text(step, "aad"), &text(step, "ct")).unwrap(),
                text(step, "pt")
            );
            opened += 1;
        }
    }
    assert!(opened >= 4, "{opened}");
    // The suite that stanzas use, AES-256-GCM: what is sealed to a vector's public key opens with its
    // private one. (The accumulated vector needs SHAKE, which nothing else here does.)
    let Some(all) = vectors("hpke_of_rfc_9180", "hpke-rfc9180-x25519-base.json") else { return };
    for vector in all.as_array().unwrap() {
        // One of them exports secrets and encrypts nothing.
        let Some(hpke) = suite(vector["aead_id"].as_u64().unwrap()) else { continue };
        let public = HpkePublicKey(text(vector, "pkRm"));
        let secret = HpkePrivateKey::from(text(vector, "skRm"));
        let (enc, sealed) = hpke.seal(b"info", b"aad", b"data key", &public).unwrap();
        assert_eq!(hpke.open(&enc, b"info", b"aad", &sealed, &secret).unwrap(), b"data key");
        let enc = EncapsulatedSecret(text(vector, "enc"));
        assert!(hpke.setup_opener(&enc, &text(vector, "info"), &secret).is_ok());
    }
    assert!(from_base64(b"AAAA").is_some());
}
