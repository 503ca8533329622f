//! EVE records of SSH, and what the behaviour engine takes of a session.

use super::limits::LOGGED_MAX;
use super::parser::{Side, SshTx};
use gabion_record::json::{Json, readable};
use gabion_record::logs::{Body, Ssh};
use gabion_record::{Direction, TakeReport, TxReport};
use std::borrow::Cow;

/// Writes the record. False when no side has introduced itself.
pub fn write(tx: &SshTx, json: &mut Json) -> bool {
    let mut is_any = false;
    for (key, direction) in [("client", Direction::ToServer), ("server", Direction::ToClient)] {
        let side = tx.side(direction);
        if side.proto.is_empty() {
            continue;
        }
        is_any = true;
        json.open_key(key);
        write_side(side, json);
        json.close();
    }
    is_any
}

/// Reports the programs of both sides. A side that has not introduced itself has none.
pub(super) fn report(tx: &SshTx, to: TakeReport<'_>) {
    let sides = Direction::BOTH.map(|d| tx.side(d));
    if sides.iter().all(|side| side.proto.is_empty()) {
        return;
    }
    let [client, server] = sides.map(|side| {
        if side.proto.is_empty() { Cow::Borrowed(&[][..]) } else { limited(&side.software) }
    });
    let ssh = Ssh { client: &readable(&client), server: &readable(&server), ..Ssh::default() };
    to(&TxReport::from_body(Body::Ssh(ssh)));
}

fn write_side(side: &Side, json: &mut Json) {
    write_limited("proto_version", &side.proto, json);
    if !side.software.is_empty() {
        write_limited("software_version", &side.software, json);
    }
    if side.hassh.is_empty() {
        return;
    }
    json.open_key("hassh");
    json.field("hash", &side.hassh);
    json.field("string", &side.hassh_string);
    json.close();
}

fn write_limited(key: &str, text: &[u8], json: &mut Json) {
    json.field(key, limited(text));
}

/// A text up to a limit, with a note about the rest.
fn limited(text: &[u8]) -> Cow<'_, [u8]> {
    match text.split_at_checked(LOGGED_MAX) {
        Some((head, tail)) if !tail.is_empty() => {
            let note = format!("[truncated {} additional bytes]", tail.len());
            [head, note.as_bytes()].concat().into()
        }
        _ => text.into(),
    }
}
