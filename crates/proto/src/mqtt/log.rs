//! EVE records of MQTT: one object a message, by its name.

use super::limits::LOGGED_BYTES_MAX;
use super::message::{Body, Connect, Message, Span, connect_flag, kind};
use super::property::{Property, Value};
use super::tx::MqttTx;
use crate::LogOptions;
use gabion_record::json::Json;

/// What the record's configuration says.
struct Options {
    /// Bytes of a text.
    max: usize,
    has_passwords: bool,
}

impl Options {
    fn from_config(how: LogOptions<'_>) -> Options {
        // Alerts know nothing of the record's configuration.
        let config = how.config.filter(|_| !how.in_alert);
        let max = config.and_then(|c| c.size("string-log-limit")).unwrap_or(LOGGED_BYTES_MAX);
        Options {
            max: usize::try_from(max).unwrap_or(usize::MAX),
            has_passwords: config.and_then(|c| c.flag("passwords")) != Some(false),
        }
    }
}

/// A message on its way into the record.
struct Writer<'a> {
    message: &'a Message,
    options: &'a Options,
}

/// Writes the messages of a transaction.
pub fn write(tx: &MqttTx, json: &mut Json, how: LogOptions<'_>) {
    let options = Options::from_config(how);
    for message in tx.messages.iter().filter(|m| m.header.kind() != kind::UNASSIGNED) {
        let name = kind::NAMES.get(usize::from(message.header.kind())).map_or("", |(name, _)| name);
        json.open_key(name);
        json.number("qos", message.header.qos());
        json.boolean("retain", message.header.is_retained());
        json.boolean("dup", message.header.is_dup());
        Writer { message, options: &options }.body(json);
        json.close();
    }
}

impl Writer<'_> {
    fn body(&self, json: &mut Json) {
        match &self.message.body {
            Body::Plain => {}
            Body::Skipped(len) => {
                json.boolean("truncated", true);
                json.number("skipped_length", *len);
            }
            Body::Connect(connect) => self.connect(connect, json),
            Body::Connack { session_present, code, properties } => {
                json.boolean("session_present", *session_present);
                json.number("return_code", *code);
                self.properties(properties, json);
            }
            Body::Publish { topic, id, message, properties } => {
                self.text("topic", *topic, json);
                if let Some(id) = id {
                    json.number("message_id", *id);
                }
                self.text("message", *message, json);
                self.properties(properties, json);
            }
            Body::PublishAnswer { id, code, properties } => {
                json.number("message_id", *id);
                if let Some(code) = code {
                    json.number("reason_code", *code);
                }
                self.properties(properties, json);
            }
            Body::Subscribe { id, topics, properties } => {
                json.number("message_id", *id);
                self.topics(topics, json);
                self.properties(properties, json);
            }
            Body::Unsubscribe { id, topics, .. } => {
                json.number("message_id", *id);
                json.open_array_key("topics");
                for topic in topics.iter() {
                    json.item(self.message.bytes(*topic));
                }
                json.close_array();
            }
            Body::SubscribeAnswer { id, codes, .. } => {
                json.number("message_id", *id);
                if codes.is_some() {
                    let is_grant = self.message.header.kind() == kind::SUBACK;
                    json.open_array_key(if is_grant { "qos_granted" } else { "reason_codes" });
                    self.message.codes().iter().for_each(|code| json.item_number(*code));
                    json.close_array();
                }
            }
            Body::Reason { code, properties } => {
                if let Some(code) = code {
                    json.number("reason_code", *code);
                }
                self.properties(properties, json);
            }
        }
    }

    /// Topics share the limit, in Suricata's way of counting: each costs its length, at most the
    /// limit, and the first after what was spent is still named.
    fn topics(&self, topics: &[(Span, u8)], json: &mut Json) {
        let max = self.options.max;
        let mut spent = 0usize;
        json.open_array_key("topics");
        for (topic, options) in topics {
            if spent > max {
                break;
            }
            json.open();
            json.key("topic");
            self.quoted(*topic, max - spent, json);
            json.number("qos", *options);
            json.close();
            spent = spent.saturating_add(self.message.bytes(*topic).len().min(max));
        }
        json.close_array();
    }

    fn connect(&self, connect: &Connect, json: &mut Json) {
        json.field("protocol_string", self.message.bytes(connect.protocol));
        json.number("protocol_version", connect.version);
        self.text("client_id", connect.client_id, json);
        json.open_key("flags");
        for (name, flag) in [
            ("username", connect_flag::USERNAME),
            ("password", connect_flag::PASSWORD),
            ("will_retain", connect_flag::WILL_RETAIN),
            ("will", connect_flag::WILL),
            ("clean_session", connect_flag::CLEAN_SESSION),
        ] {
            json.boolean(name, connect.has(flag));
        }
        json.close();
        if let Some(username) = connect.username {
            self.text("username", username, json);
        }
        if let Some(password) = connect.password.filter(|_| self.options.has_passwords) {
            json.field("password", self.message.bytes(password));
        }
        if let Some((topic, message)) = connect.will {
            json.open_key("will");
            self.text("topic", topic, json);
            self.text("message", message, json);
            self.properties(&connect.will_properties, json);
            json.close();
        }
        self.properties(&connect.properties, json);
    }

    /// Properties in the order in which they came; user properties under keys of their own
    /// (Suricata up to 8.0.6; 8.0.7 has an array of them).
    fn properties(&self, properties: &Option<Box<[Property]>>, json: &mut Json) {
        let Some(properties) = properties else { return };
        json.open_key("properties");
        for property in properties {
            match (property.name, property.value) {
                (Some(name), Value::Number(n)) => json.number(name, n),
                (Some(name), Value::Text(text)) => self.text(name, text, json),
                (_, Value::User(key, value)) => {
                    json.key_text(self.message.bytes(key));
                    self.quoted(value, self.options.max, json);
                }
                (None, _) => {}
            }
        }
        json.close();
    }

    fn text(&self, key: &str, span: Span, json: &mut Json) {
        json.key(key);
        self.quoted(span, self.options.max, json);
    }

    fn quoted(&self, span: Span, max: usize, json: &mut Json) {
        let text = self.message.bytes(span);
        match text.split_at_checked(max) {
            Some((head, tail)) if !tail.is_empty() => {
                let s = if tail.len() == 1 { "" } else { "s" };
                let note = format!("[truncated {} additional byte{s}]", tail.len());
                json.quoted(&[head, note.as_bytes()].concat());
            }
            _ => json.quoted(text),
        }
    }
}
