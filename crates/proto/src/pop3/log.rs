//! EVE records of POP3.

use super::tx::Pop3Tx;
use gabion_record::json::Json;

/// Writes the record.
pub(super) fn write(tx: &Pop3Tx, json: &mut Json) {
    if let Some(request) = &tx.request {
        json.open_key("request");
        json.field("command", &request.command);
        write_lines("args", &request.arguments, json);
        json.close();
    }
    if let Some(response) = &tx.response {
        json.open_key("response");
        json.boolean("success", response.is_positive);
        json.field_plain("status", if response.is_positive { "OK" } else { "ERR" });
        json.field("header", &response.header);
        write_lines("data", &response.lines, json);
        json.close();
    }
}

fn write_lines(key: &str, lines: &[Vec<u8>], json: &mut Json) {
    json.open_array_key(key);
    lines.iter().for_each(|line| json.item(line));
    json.close_array();
}
