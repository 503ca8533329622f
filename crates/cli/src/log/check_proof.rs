//! `gabion log check-proof`: checks a proof against the log's public key; no log is needed.

use super::options::CheckProof;
use super::{Ended, LogFault, folders};
use crate::standard_output;
use gabion_logs::view::rfc3339;
use gabion_record::json::Json;
use gabion_seal::proof::{Checked, Proof};
use gabion_seal::verify::Verdict;

pub(super) fn run(options: &CheckProof) -> Ended {
    let vkey = folders::vkey(&options.vkey)?;
    let bytes = folders::read_bytes(&options.proof, gabion_seal::limits::PROOF_FILE_MAX as u64)?;
    if !Proof::is_one(&bytes) {
        let text = "not a proof of a record: gabion log prove writes them";
        return Err(LogFault::input(text).about(&options.proof));
    }
    let checked = Proof::parse(&bytes).and_then(|p| p.check(&vkey));
    let checked = match checked {
        Ok(checked) => checked,
        Err(e) => {
            if options.output.json {
                let mut json = Json::new();
                json.open();
                json.boolean("holds", false);
                json.field("reason", e.to_string());
                json.close();
                standard_output::line(String::from_utf8_lossy(json.bytes()));
            }
            let text = format!("{}: refused: {e}", options.proof.display());
            return Err(LogFault::verdict(Verdict::Tampered, text));
        }
    };
    if options.output.json {
        standard_output::line(String::from_utf8_lossy(&to_json(&checked)));
    } else {
        print(&checked);
    }
    Ok(0)
}

fn to_json(checked: &Checked) -> Vec<u8> {
    let mut json = Json::new();
    json.open();
    json.boolean("holds", true);
    json.field("origin", &checked.origin);
    json.number("record", checked.record);
    json.number("chunk", checked.chunk);
    json.number("size", checked.size);
    if let Some(time) = checked.signed_time {
        json.number("signed_time", time);
    }
    if let Some(content) = &checked.content {
        json.field("time", rfc3339(content.time_ns));
        json.field("kind", content.kind.name());
        json.field("transport", content.source.0);
        json.field("source", &content.source.1);
        json.field("identity", &content.source.2);
        json.field("msg", String::from_utf8_lossy(&content.bytes).as_ref());
        json.base64("raw_b64", &content.bytes);
    }
    json.close();
    json.take_bytes()
}

fn print(checked: &Checked) {
    standard_output::line(format_args!(
        "holds: record {} of {} (chunk {} of {})",
        checked.record, checked.origin, checked.chunk, checked.size
    ));
    if let Some(time) = checked.signed_time {
        standard_output::line(format_args!(
            "signed by {}",
            rfc3339(time.saturating_mul(1_000_000_000))
        ));
    }
    match &checked.content {
        None => standard_output::line("content left out: existence and place are proven"),
        Some(content) => {
            let (transport, peer, _) = &content.source;
            let from = if peer.is_empty() {
                String::new()
            } else {
                format!(" from {}", peer.escape_debug())
            };
            standard_output::line(format_args!(
                "received {} by {transport}{from}",
                rfc3339(content.time_ns)
            ));
            standard_output::line(String::from_utf8_lossy(&content.bytes).escape_debug());
        }
    }
}
