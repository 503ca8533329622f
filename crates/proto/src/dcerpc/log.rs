//! EVE records of DCE/RPC.

use super::pdu::{Interface, kind, kind_name};
use super::tx::{CallNumber, DcerpcTx, Side};
use gabion_record::Direction::{ToClient, ToServer};
use gabion_record::json::Json;

/// Writes the record.
pub(super) fn write(tx: &DcerpcTx, json: &mut Json) {
    let request = tx.side(ToServer);
    json.field_plain("request", request.kind.map_or("REQUEST_LOST", kind_name));
    if request.kind == Some(kind::REQUEST) {
        json.open_key("req");
        json.number("opnum", tx.call.map_or(0, |(_, opnum)| opnum));
        write_stub(request, json);
    }
    if request.kind.is_some() {
        write_interfaces(&tx.interfaces, json);
    }
    let response = tx.side(ToClient);
    json.field_plain("response", response.kind.map_or("UNREPLIED", kind_name));
    if response.kind == Some(kind::RESPONSE) {
        json.open_key("res");
        write_stub(response, json);
    }
    match tx.number {
        CallNumber::Association { call_id, minor } => {
            json.number("call_id", call_id);
            json.field_plain("rpc_version", &format!("5.{minor}"));
        }
        CallNumber::Activity { activity, sequence } => {
            json.field_plain("activityuuid", &activity.to_string());
            json.number("seqnum", sequence);
            json.field_plain("rpc_version", "4.0");
        }
    }
}

/// Writes how much stub data there is, and ends the object.
fn write_stub(side: &Side, json: &mut Json) {
    json.number("frag_cnt", side.fragments);
    json.number("stub_data_size", side.stub.len());
    json.close();
}

/// Writes the interfaces of a call or bind, if there are any.
fn write_interfaces(interfaces: &[Interface], json: &mut Json) {
    if interfaces.is_empty() {
        return;
    }
    json.open_array_key("interfaces");
    for interface in interfaces {
        json.open();
        json.field_plain("uuid", &interface.uuid.to_string());
        let (major, minor) = interface.version;
        json.field_plain("version", &format!("{major}.{minor}"));
        if let Some(ack) = interface.ack {
            json.number("ack_result", ack.result);
        }
        json.close();
    }
    json.close_array();
}
