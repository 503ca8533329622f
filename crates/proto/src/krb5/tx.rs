//! The transaction of Kerberos: each request, reply or error is one.

use super::message::{Message, Name, kind};
use super::names::{is_weak, name_of_encryption, name_of_error};
use super::tables::buffer;
use crate::datagrams::one_datagram;
use crate::transaction::EventList;
use crate::{Buffer, Inspect, LogOptions, Transaction};
use gabion_record::Direction;
use gabion_record::json::Json;

/// A message.
#[derive(Debug)]
pub(super) struct KrbTx {
    pub(super) id: u64,
    pub(super) direction: Direction,
    pub(super) message: Message,
    /// The request that an error answers.
    pub(super) request: Option<u8>,
    pub(super) events: EventList,
}

impl KrbTx {
    pub(super) fn bytes_held(&self) -> usize {
        let names = [&self.message.client, &self.message.service].into_iter().flatten().flatten();
        let names = names.map(|part| part.len() + size_of_val(part)).sum::<usize>();
        size_of::<KrbTx>() + names + self.message.realm.as_ref().map_or(0, |realm| realm.len())
    }
}

/// The name of a type of messages.
fn name_of_kind(kind: u8) -> &'static str {
    match kind {
        kind::AS_REQ => "KRB_AS_REQ",
        kind::AS_REP => "KRB_AS_REP",
        kind::TGS_REQ => "KRB_TGS_REQ",
        kind::TGS_REP => "KRB_TGS_REP",
        kind::AP_REQ => "KRB_AP_REQ",
        kind::ERROR => "KRB_ERROR",
        _ => "UNKNOWN",
    }
}

fn write_name(key: &str, name: Option<&Name>, json: &mut Json) {
    match name {
        Some(parts) => json.field(key, parts.join(&b'/')),
        None => json.field_plain(key, "<empty>"),
    }
}

impl Transaction for KrbTx {
    one_datagram!();

    fn buffer(&self, local: u16, _: Direction, index: usize, _: Inspect) -> Option<Buffer<'_>> {
        let name = match local {
            buffer::CLIENT => &self.message.client,
            buffer::SERVICE => &self.message.service,
            _ => return None,
        };
        name.as_ref()?.get(index).map(|part| Buffer::whole(part))
    }

    fn is_logged_as_packet(&self) -> bool {
        true
    }

    fn log(&self, json: &mut Json, _: LogOptions<'_>) -> bool {
        let message = &self.message;
        json.field_plain("msg_type", name_of_kind(message.kind));
        if let Some(error) = message.error {
            json.field_plain("failed_request", self.request.map_or("UNKNOWN", name_of_kind));
            json.field_plain("error_code", &name_of_error(error));
        }
        write_name("cname", message.client.as_ref(), json);
        json.field("realm", message.realm.as_deref().unwrap_or(b"<empty>"));
        write_name("sname", message.service.as_ref(), json);
        match message.encryption {
            Some(kind) => json.field_plain("encryption", &name_of_encryption(kind)),
            None => json.field_plain("encryption", "<none>"),
        }
        json.boolean("weak_encryption", message.encryption.is_some_and(is_weak));
        if let Some(kind) = message.ticket_encryption {
            json.field_plain("ticket_encryption", &name_of_encryption(kind));
            json.boolean("ticket_weak_encryption", is_weak(kind));
        }
        true
    }
}
