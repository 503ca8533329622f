//! Properties of MQTT 5 messages (mqtt-v5.0 2.2.2).

use super::limits::reached;
use super::message::{Cursor, Malformed, Span};

/// A property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Property {
    /// Its name in EVE; `None` for a user property, which has a key of its own.
    pub name: Option<&'static str>,
    /// Its value.
    pub value: Value,
}

/// The value of a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number of any width.
    Number(u32),
    /// Text or bytes.
    Text(Span),
    /// Key and value of a user property.
    User(Span, Span),
}

/// How a property is written on the wire.
#[derive(Clone, Copy)]
enum Form {
    Byte,
    Two,
    Four,
    Varying,
    Text,
    Bytes,
    Pair,
}

/// What an identifier stands for. Others are passed over byte by byte, as Suricata does.
fn form_of(id: u8) -> Option<(Form, &'static str)> {
    Some(match id {
        1 => (Form::Byte, "payload_format_indicator"),
        2 => (Form::Four, "message_expiry_interval"),
        3 => (Form::Text, "content_type"),
        8 => (Form::Text, "response_topic"),
        9 => (Form::Bytes, "correlation_data"),
        11 => (Form::Varying, "subscription_identifier"),
        17 => (Form::Four, "session_expiry_interval"),
        18 => (Form::Text, "assigned_client_identifier"),
        19 => (Form::Two, "server_keep_alive"),
        21 => (Form::Text, "authentication_method"),
        22 => (Form::Bytes, "authentication_data"),
        23 => (Form::Byte, "request_problem_information"),
        24 => (Form::Four, "will_delay_interval"),
        25 => (Form::Byte, "request_response_information"),
        26 => (Form::Text, "response_information"),
        28 => (Form::Text, "server_reference"),
        31 => (Form::Text, "reason_string"),
        33 => (Form::Two, "receive_maximum"),
        34 => (Form::Two, "topic_alias_maximum"),
        35 => (Form::Two, "topic_alias"),
        36 => (Form::Byte, "maximum_qos"),
        37 => (Form::Byte, "retain_available"),
        38 => (Form::Pair, "user_property"),
        39 => (Form::Four, "maximum_packet_size"),
        40 => (Form::Byte, "wildcard_subscription_available"),
        41 => (Form::Byte, "subscription_identifier_available"),
        42 => (Form::Byte, "shared_subscription_available"),
        _ => return None,
    })
}

/// Reads the properties at the cursor, their length first. `None` when the length is 0.
pub fn read_properties(c: &mut Cursor<'_>) -> Result<Option<Box<[Property]>>, Malformed> {
    let len = c.varying()?;
    if len == 0 {
        return Ok(None);
    }
    let behind = c.narrow(usize::try_from(len).map_err(|_| Malformed)?)?;
    let mut all = Vec::new();
    while !c.is_empty() {
        let Some((form, name)) = form_of(c.byte()?) else { continue };
        let (name, value) = match form {
            Form::Byte => (Some(name), Value::Number(c.byte()?.into())),
            Form::Two => (Some(name), Value::Number(c.two()?.into())),
            Form::Four => (Some(name), Value::Number(c.four()?)),
            Form::Varying => (Some(name), Value::Number(c.varying()?)),
            Form::Text => (Some(name), Value::Text(c.text()?)),
            Form::Bytes => (Some(name), Value::Text(c.bytes()?)),
            Form::Pair => (None, Value::User(c.text()?, c.text()?)),
        };
        if reached::PROPERTIES_KEPT_MAX.has_room(all.len()) {
            all.push(Property { name, value });
        } else {
            c.note_too_many_properties();
        }
    }
    c.widen(behind);
    Ok(Some(all.into_boxed_slice()))
}
