//! `suricata.dnp3`: a DNP3 message.

use super::{Library, member, tx_as};
use crate::script::call::{Answer, Call};
use gabion_proto::dnp3::{Dnp3Tx, Part, Point, Value, walk_objects};
use gabion_record::Direction;
use mlua::{Lua, Table};

pub(super) const LIBRARY: Library = Library {
    name: "dnp3",
    class: "suricata:dnp3:tx",
    functions: &[member("get_tx", transaction)],
    methods: &[],
};

/// The transaction as a table.
fn transaction(c: &mut Call<'_, '_>) -> Answer {
    if c.scene.proto_name() != "dnp3" {
        return c.nil("error: protocol not dnp3");
    }
    let Some(tx) = tx_as::<Dnp3Tx>(c) else { return c.nil("error: no tx") };
    let is_request = tx.direction == Direction::ToServer;
    let table = c.lua.create_table()?;
    // Suricata counts them from 1.
    table.raw_set("tx_num", tx.id.saturating_add(1))?;
    table.raw_set("is_request", is_request)?;
    table.raw_set(if is_request { "request" } else { "response" }, message(c.lua, tx)?)?;
    c.give(table)
}

fn message(lua: &Lua, tx: &Dnp3Tx) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("done", tx.is_done)?;
    table.raw_set("complete", tx.is_complete)?;
    let link = lua.create_table()?;
    link.raw_set("len", tx.link.len)?;
    link.raw_set("control", tx.link.control)?;
    link.raw_set("dst", tx.link.destination)?;
    link.raw_set("src", tx.link.source)?;
    link.raw_set("crc", tx.link.crc)?;
    table.raw_set("link_header", link)?;
    table.raw_set("transport_header", tx.transport)?;
    let header = lua.create_table()?;
    header.raw_set("control", tx.control())?;
    header.raw_set("function_code", tx.function().unwrap_or(0))?;
    table.raw_set("application_header", header)?;
    if tx.direction == Direction::ToClient {
        table.raw_set("indicators", tx.indications().unwrap_or(0))?;
    }
    table.raw_set("objects", objects(lua, tx)?)?;
    Ok(table)
}

fn objects(lua: &Lua, tx: &Dnp3Tx) -> mlua::Result<Table> {
    let list = lua.create_table()?;
    if !tx.is_done {
        return Ok(list);
    }
    let mut points = lua.create_table()?;
    let mut outcome = Ok(());
    walk_objects(tx.object_bytes(), tx.bounds, u64::MAX, &mut |part| {
        if outcome.is_err() {
            return;
        }
        outcome = match part {
            Part::Object(header) => lua.create_table().and_then(|new| {
                points = new;
                let object = lua.create_table()?;
                object.raw_set("group", header.group)?;
                object.raw_set("variation", header.variation)?;
                object.raw_set("points", &points)?;
                list.raw_push(object)
            }),
            Part::Point(point) => values(lua, point).and_then(|values| points.raw_push(values)),
        };
    });
    outcome.map(|()| list)
}

fn values(lua: &Lua, point: Point<'_>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("index", point.index)?;
    let mut outcome = Ok(());
    point.values(&mut |name, value| {
        // Records name the bytes by their place in Suricata's structures, scripts do not.
        let name = name.strip_prefix("data->").unwrap_or(name);
        let set = match value {
            Value::Number(n) => table.raw_set(name, n as i64),
            Value::Float(x) => table.raw_set(name, x),
            Value::Text(bytes) | Value::Data(bytes) => {
                lua.create_string(bytes).and_then(|text| table.raw_set(name, text))
            }
        };
        if outcome.is_ok() {
            outcome = set;
        }
    });
    outcome.map(|()| table)
}
