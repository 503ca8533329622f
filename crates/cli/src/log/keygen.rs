//! `gabion log keygen`: keys of readers and signers.

use super::options::{KeyType, Keygen};
use super::{Ended, folders};
use crate::exit::about;
use crate::log::LogFault;
use crate::standard_output;
use gabion_record::hex::to_hex;
use gabion_record::json::Json;
use gabion_seal::files::EpochKey;
use gabion_seal::files::SEED_FILE;
use gabion_seal::{Recipient, SecretKey};

pub(super) fn run(options: &Keygen) -> Ended {
    use std::os::unix::fs::DirBuilderExt;
    let out = &options.out;
    let made = std::fs::DirBuilder::new().mode(0o700).recursive(true).create(out);
    made.map_err(|e| LogFault::environment(about(out.display(), &e)))?;
    if let (true, Some(origin)) = (options.signer, &options.origin) {
        return signer(options, origin);
    }
    let (key, text) = match options.kind {
        KeyType::X25519 => {
            let key = SecretKey::generate()?;
            let text = key.to_text().ok_or_else(|| LogFault::input("no text of the key"))?;
            (key, text)
        }
        KeyType::Rsa4096 => SecretKey::generate_rsa()?,
    };
    folders::write_secret(&out.join("recipient.key"), &text)?;
    folders::write_new(&out.join("recipient.pub"), &key.recipient().to_text(), 0o644)?;
    let id = to_hex(&key.recipient().id());
    let kind = match key.recipient() {
        Recipient::X25519(_) => "x25519",
        Recipient::Rsa(_) => "rsa4096",
    };
    if options.output.json {
        let mut json = Json::new();
        json.open();
        json.field("type", kind);
        json.field("id", &id);
        json.field("public", out.join("recipient.pub").to_string_lossy().as_ref());
        json.field("secret", out.join("recipient.key").to_string_lossy().as_ref());
        json.close();
        standard_output::line(String::from_utf8_lossy(json.bytes()));
    } else {
        standard_output::line(format_args!("public key   {}", out.join("recipient.pub").display()));
        standard_output::line(format_args!(
            "private key  {}   keep it away from the logging host",
            out.join("recipient.key").display()
        ));
        standard_output::line(format_args!("fingerprint  {id}"));
    }
    Ok(0)
}

/// A seed that `init` makes the signer's state of.
fn signer(options: &Keygen, origin: &str) -> Ended {
    let key = EpochKey::generate()?;
    if !gabion_seal::checkpoints::is_origin(origin) {
        return Err(LogFault::usage(format!(
            "{origin}: an origin is a name without spaces, `+` and control characters"
        )));
    }
    folders::write_secret(&options.out.join(SEED_FILE), &to_hex(key.seed()))?;
    let vkey = key.vkey(origin).to_string();
    if options.output.json {
        let mut json = Json::new();
        json.open();
        json.field("vkey", &vkey);
        json.close();
        standard_output::line(String::from_utf8_lossy(json.bytes()));
    } else {
        standard_output::line(vkey);
        eprintln!("gabion: keep this public key off the host: it is what `verify --vkey` pins");
    }
    Ok(0)
}
