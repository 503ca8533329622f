//! Messages of the BitTorrent DHT (BEP 5, 32): a dictionary with a query, a response or an error.
//!
//! What is read of a message, and what is not a message, is Suricata's (8.0.7).

use super::bencode::{Entries, Malformed, Reader, Value, to_number};
use super::limits::reached;

type Bytes = Box<[u8]>;

/// A message; what of it was read before it broke off.
#[derive(Debug, Default)]
pub(super) struct Message {
    /// Number that a response repeats.
    pub(super) transaction_id: Bytes,
    pub(super) client_version: Option<Bytes>,
    pub(super) content: Option<Content>,
}

/// What a message is about.
#[derive(Debug)]
pub(super) enum Content {
    Query { kind: Bytes, query: Query },
    Response(Response),
    Error { number: u16, text: Bytes },
}

/// Arguments of a query.
#[derive(Debug, Default)]
pub(super) struct Query {
    pub(super) id: Bytes,
    pub(super) target: Option<Bytes>,
    pub(super) info_hash: Option<Bytes>,
    pub(super) token: Option<Bytes>,
    pub(super) implied_port: Option<u8>,
    pub(super) port: Option<u16>,
}

/// Values of a response.
#[derive(Debug, Default)]
pub(super) struct Response {
    pub(super) id: Bytes,
    /// Nodes as they were sent: 26 bytes each, or 38 with an address of IPv6.
    pub(super) nodes: Bytes,
    pub(super) nodes6: Bytes,
    /// Addresses with ports: 6 or 18 bytes.
    pub(super) values: Vec<Bytes>,
    pub(super) token: Option<Bytes>,
}

/// Bytes of a node: its id, address and port (BEP 5, BEP 32).
pub(super) const NODE_LEN: usize = 26;
pub(super) const NODE6_LEN: usize = 38;

/// Bytes of an address with its port.
pub(super) const PEER_LEN: usize = 6;
pub(super) const PEER6_LEN: usize = 18;

/// How messages begin: with the arguments of a query, a response, an address, or an error.
pub(super) const STARTS: [&[u8; 5]; 4] = [b"d1:ad", b"d1:rd", b"d2:ip", b"d1:el"];

/// Reads a message into `message`.
pub(super) fn read_message(bytes: &[u8], message: &mut Message) -> Result<(), Malformed> {
    let Some(Value::Dictionary(content)) = Reader::from_bytes(bytes).next_value()? else {
        return Err(Malformed);
    };
    let (mut query, mut kind, mut response, mut error) = (None, None, None, None);
    let (mut transaction_id, mut class, mut version) = (None, None, None);
    let mut entries = Entries::from_content(content);
    while let Some((key, value)) = entries.next_entry()? {
        match key {
            b"a" => query = Some(read_query(value)?),
            b"e" => error = Some(read_error(value)?),
            b"q" => kind = Some(read_text(value)?),
            b"r" => response = Some(read_response(value)?),
            b"t" => transaction_id = Some(read_bytes(value)?),
            b"v" => version = Some(read_bytes(value)?),
            b"y" => class = Some(read_bytes(value)?),
            _ => {}
        }
    }
    message.content = Some(match class.as_deref() {
        Some(b"q") => {
            Content::Query { kind: kind.ok_or(Malformed)?, query: query.ok_or(Malformed)? }
        }
        Some(b"r") => Content::Response(response.ok_or(Malformed)?),
        Some(b"e") => error.ok_or(Malformed)?,
        _ => return Err(Malformed),
    });
    message.transaction_id = transaction_id.ok_or(Malformed)?;
    message.client_version = version;
    Ok(())
}

fn read_query(value: Value<'_>) -> Result<Query, Malformed> {
    let Value::Dictionary(content) = value else { return Err(Malformed) };
    let (mut query, mut has_id) = (Query::default(), false);
    let mut entries = Entries::from_content(content);
    while let Some((key, value)) = entries.next_entry()? {
        match key {
            b"id" => (query.id, has_id) = (read_bytes(value)?, true),
            b"target" => query.target = Some(read_bytes(value)?),
            b"info_hash" => query.info_hash = Some(read_bytes(value)?),
            b"token" => query.token = Some(read_bytes(value)?),
            b"implied_port" => query.implied_port = Some(read_number(value)?),
            b"port" => query.port = Some(read_number(value)?),
            _ => {}
        }
    }
    has_id.then_some(query).ok_or(Malformed)
}

fn read_response(value: Value<'_>) -> Result<Response, Malformed> {
    let Value::Dictionary(content) = value else { return Err(Malformed) };
    let (mut response, mut has_id) = (Response::default(), false);
    let mut entries = Entries::from_content(content);
    while let Some((key, value)) = entries.next_entry()? {
        match (key, value) {
            (b"id", _) => (response.id, has_id) = (read_bytes(value)?, true),
            (b"nodes", _) => response.nodes = read_bytes(value)?,
            (b"nodes6", _) => response.nodes6 = read_bytes(value)?,
            (b"token", _) => response.token = Some(read_bytes(value)?),
            (b"values", Value::List(list)) => response.values = read_peers(list)?,
            _ => {}
        }
    }
    has_id.then_some(response).ok_or(Malformed)
}

/// Addresses with their ports; what follows one in its text is left alone, and less than one can't be read.
fn read_peers(list: &[u8]) -> Result<Vec<Bytes>, Malformed> {
    let (mut peers, mut reader) = (Vec::new(), Reader::from_bytes(list));
    while let Some(value) = reader.next_value()? {
        let bytes = read_bytes(value)?;
        let peer = bytes.get(..PEER6_LEN).or_else(|| bytes.get(..PEER_LEN)).ok_or(Malformed)?;
        if reached::PEERS_MAX.has_room(peers.len()) {
            peers.push(peer.into());
        }
    }
    Ok(peers)
}

/// A number and a text, in any order.
fn read_error(value: Value<'_>) -> Result<Content, Malformed> {
    let Value::List(list) = value else { return Err(Malformed) };
    let (mut number, mut text, mut reader) = (None, None, Reader::from_bytes(list));
    while let Some(value) = reader.next_value()? {
        match value {
            Value::Number(_) => number = Some(read_number(value)?),
            Value::Bytes(_) => text = Some(read_text(value)?),
            Value::List(_) | Value::Dictionary(_) => return Err(Malformed),
        }
    }
    Ok(Content::Error { number: number.ok_or(Malformed)?, text: text.ok_or(Malformed)? })
}

fn read_bytes(value: Value<'_>) -> Result<Bytes, Malformed> {
    let Value::Bytes(bytes) = value else { return Err(Malformed) };
    Ok(bytes.into())
}

fn read_text(value: Value<'_>) -> Result<Bytes, Malformed> {
    let bytes = read_bytes(value)?;
    std::str::from_utf8(&bytes).map_err(|_| Malformed)?;
    Ok(bytes)
}

fn read_number<T: std::str::FromStr>(value: Value<'_>) -> Result<T, Malformed> {
    let Value::Number(digits) = value else { return Err(Malformed) };
    to_number(digits).ok_or(Malformed)
}
