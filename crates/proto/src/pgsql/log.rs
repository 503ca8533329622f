//! EVE records of PostgreSQL.

use super::tx::{Message, Parameter, PgsqlTx, Request, Response, Startup};
use crate::LogOptions;
use gabion_record::json::Json;

/// Fields of errors as records name them ("Error and Notice Message Fields" of PostgreSQL's manual).
fn error_field(kind: u8) -> &'static str {
    match kind {
        b'S' => "severity_localizable",
        b'V' => "severity_non_localizable",
        b'C' => "code",
        b'M' => "message",
        b'D' => "detail",
        b'H' => "hint",
        b'P' => "position",
        b'p' => "internal_position",
        b'q' => "internal_query",
        b'W' => "where",
        b's' => "schema_name",
        b't' => "table_name",
        b'c' => "column_name",
        b'd' => "data_type",
        b'n' => "constraint_name",
        b'F' => "file",
        b'L' => "line",
        b'R' => "routine",
        _ => "unknown_field_type",
    }
}

/// Writes the record. Passwords are written if `passwords` asks for them.
pub(super) fn write(tx: &PgsqlTx, json: &mut Json, how: LogOptions<'_>) {
    json.number("tx_id", tx.id.saturating_add(1));
    if let Some(request) = &tx.request {
        let has_passwords = how.config.and_then(|c| c.flag("passwords")).unwrap_or(false);
        json.open_key("request");
        write_request(request, json, has_passwords);
        json.close();
    }
    if let Some(response) = &tx.response {
        json.open_key("response");
        write_response(response, json);
        json.close();
    }
}

fn write_request(r: &Request, json: &mut Json, has_passwords: bool) {
    if let Some(Startup { version: (major, minor), user, parameters }) = &r.startup {
        json.field_plain("protocol_version", &format!("{major}.{minor}"));
        json.open_key("startup_parameters");
        json.field("user", user);
        write_parameters("optional_parameters", parameters, json);
        json.close();
    }
    if let Some(query) = &r.query {
        json.field("simple_query", query);
    }
    match &r.password {
        Some(password) if has_passwords => json.field("password", password),
        Some(_) => json.boolean("password_redacted", true),
        None => {}
    }
    if let Some((mechanism, parameter)) = &r.sasl {
        json.field_plain("sasl_authentication_mechanism", mechanism);
        json.field("sasl_param", parameter);
    }
    if let Some(text) = &r.sasl_response {
        json.field("sasl_response", text);
    }
    write_copied("copy_data_in", "msg_count", r.copied, json);
    if let Some(message) = r.message {
        json.field_plain("message", message);
    }
    if let Some(text) = &r.copy_fail {
        json.field("copy_fail", text);
    }
    write_key(r.cancel, json);
}

fn write_response(r: &Response, json: &mut Json) {
    if let Some(is_accepted) = r.ssl_accepted {
        json.boolean("ssl_accepted", is_accepted);
    }
    if let Some(salt) = &r.salt {
        json.field("authentication_md5_password", salt);
    }
    if let Some(text) = &r.sasl_final {
        json.field("authentication_sasl_final", text);
    }
    for (kind, text) in &r.error {
        json.field(error_field(*kind), text);
    }
    match &r.message {
        Some(Message::Plain(text)) => json.field_plain("message", text),
        Some(Message::OfError(text)) => json.field("message", text),
        None => {}
    }
    write_parameters("parameter_status", &r.parameters, json);
    write_key(r.key, json);
    if let Some((count, is_malformed)) = r.fields {
        json.boolean("row_description_malformed", is_malformed);
        json.number("field_count", count);
    }
    for (key, columns) in [("copy_in_response", r.copy_in), ("copy_out_response", r.copy_out)] {
        if let Some((columns, is_malformed)) = columns {
            json.open_key(key);
            json.boolean("malformed", is_malformed);
            json.number("columns", columns);
            json.close();
        }
    }
    write_copied("copy_data_out", "row_count", r.copied, json);
    if let Some((rows, size)) = r.rows {
        json.number("data_rows", rows);
        json.number("data_size", size);
    }
    if let Some(command) = &r.command {
        json.field("command_completed", command);
    }
}

fn write_key(key: Option<(u32, u32)>, json: &mut Json) {
    if let Some((process, key)) = key {
        json.number("process_id", process);
        json.number("secret_key", key);
    }
}

fn write_copied(key: &str, count_key: &str, copied: Option<(u64, u64)>, json: &mut Json) {
    if let Some((count, size)) = copied {
        json.open_key(key);
        json.number(count_key, count);
        json.number("data_size", size);
        json.close();
    }
}

fn write_parameters(key: &str, parameters: &[Parameter], json: &mut Json) {
    if parameters.is_empty() {
        return;
    }
    json.open_array_key(key);
    for (name, value) in parameters {
        json.open();
        let name: &[u8] = match &name[..] {
            b"DateStyle" => b"date_style",
            b"IntervalStyle" => b"interval_style",
            b"TimeZone" => b"time_zone",
            name => name,
        };
        json.key_text(name);
        json.push(&quoted(value));
        json.close();
    }
    json.close_array();
}

fn quoted(text: &[u8]) -> Vec<u8> {
    let mut json = Json::new();
    json.quoted(text);
    json.take_bytes()
}
