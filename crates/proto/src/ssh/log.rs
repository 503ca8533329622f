//! EVE records of SSH.

use super::limits::LOGGED_MAX;
use super::parser::{Side, SshTx};
use gabion_record::Direction;
use gabion_record::json::Json;

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
    match text.split_at_checked(LOGGED_MAX) {
        Some((head, tail)) if !tail.is_empty() => {
            let note = format!("[truncated {} additional bytes]", tail.len());
            json.field(key, [head, note.as_bytes()].concat());
        }
        _ => json.field(key, text),
    }
}
