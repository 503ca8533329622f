//! EVE records of the BitTorrent DHT.

use super::message::{Content, Message, NODE_LEN, NODE6_LEN};
use gabion_record::json::Json;

/// Writes the record. Numbers, names and tokens are any bytes: they are written in hex.
pub(super) fn write_record(message: &Message, json: &mut Json) {
    json.hex("transaction_id", &message.transaction_id);
    if let Some(version) = &message.client_version {
        json.hex("client_version", version);
    }
    match &message.content {
        None => {}
        Some(Content::Error { number, text }) => {
            json.open_key("error");
            json.number("num", *number);
            json.field("msg", text);
            json.close();
        }
        Some(Content::Query { kind, query }) => {
            json.field("request_type", kind);
            json.open_key("request");
            json.hex("id", &query.id);
            let texts = [
                ("target", &query.target),
                ("info_hash", &query.info_hash),
                ("token", &query.token),
            ];
            for (key, bytes) in texts {
                if let Some(bytes) = bytes {
                    json.hex(key, bytes);
                }
            }
            if let Some(implied) = query.implied_port {
                json.number("implied_port", implied);
            }
            if let Some(port) = query.port {
                json.number("port", port);
            }
            json.close();
        }
        Some(Content::Response(response)) => {
            json.open_key("response");
            json.hex("id", &response.id);
            write_nodes("nodes", &response.nodes, NODE_LEN, json);
            write_nodes("nodes6", &response.nodes6, NODE6_LEN, json);
            if !response.values.is_empty() {
                json.open_array_key("values");
                for peer in &response.values {
                    json.open();
                    write_peer(peer, json);
                    json.close();
                }
                json.close_array();
            }
            if let Some(token) = &response.token {
                json.hex("token", token);
            }
            json.close();
        }
    }
}

/// Whole nodes; what is left of a list is none.
fn write_nodes(key: &str, nodes: &[u8], len: usize, json: &mut Json) {
    if nodes.len() < len {
        return;
    }
    json.open_array_key(key);
    for node in nodes.chunks_exact(len) {
        let (id, peer) = node.split_at(20);
        json.open();
        json.hex("id", id);
        write_peer(peer, json);
        json.close();
    }
    json.close_array();
}

/// An address and a port.
fn write_peer(peer: &[u8], json: &mut Json) {
    let Some((address, port)) = peer.split_last_chunk::<2>() else { return };
    let text = match address {
        [a, b, c, d] => format!("{a}.{b}.{c}.{d}"),
        _ => {
            let groups = address.chunks(2).map(gabion_record::hex::to_hex);
            groups.collect::<Vec<_>>().join(":")
        }
    };
    json.field_plain("ip", &text);
    json.number("port", u16::from_be_bytes(*port));
}
