//! EVE records of DNP3.

use super::objects::{Part, Value, walk_objects};
use super::tables::INDICATION_NAMES;
use super::tx::Dnp3Tx;
use crate::LogOptions;
use gabion_record::Direction;
use gabion_record::json::Json;

/// Function code of a response that nobody asked for.
const UNSOLICITED: u8 = 130;

/// Writes the members: in an alert they are in an object `request` or `response`, in a record not.
pub(super) fn write(tx: &Dnp3Tx, json: &mut Json, how: LogOptions<'_>) {
    if !tx.is_done {
        return;
    }
    if how.in_alert {
        json.open_key(match tx.direction {
            Direction::ToServer => "request",
            Direction::ToClient => "response",
        });
    }
    write_message(tx, json);
    if how.in_alert {
        json.close();
    }
}

fn write_message(tx: &Dnp3Tx, json: &mut Json) {
    json.field_plain(
        "type",
        match (tx.direction, tx.function()) {
            (Direction::ToServer, _) => "request",
            (Direction::ToClient, Some(UNSOLICITED)) => "unsolicited_response",
            (Direction::ToClient, _) => "response",
        },
    );
    let link = tx.link;
    json.open_key("control");
    json.boolean("dir", link.is_from_master());
    json.boolean("pri", link.is_primary());
    json.boolean("fcb", link.has_frame_count());
    json.boolean("fcv", link.is_frame_count_valid());
    json.number("function_code", link.function());
    json.close();
    json.number("src", link.source);
    json.number("dst", link.destination);
    json.open_key("application");
    json.open_key("control");
    let control = tx.control();
    for (name, bit) in [("fir", 0x80), ("fin", 0x40), ("con", 0x20), ("uns", 0x10)] {
        json.boolean(name, control & bit != 0);
    }
    json.number("sequence", control & 0x0f);
    json.close();
    json.number("function_code", tx.function().unwrap_or(0));
    if !tx.objects.is_empty() {
        write_objects(tx, json);
    }
    json.boolean("complete", tx.is_complete);
    json.close();
    if let Some(indications) = tx.indications() {
        json.open_key("iin");
        if indications != 0 {
            json.open_array_key("indicators");
            for (name, _) in INDICATION_NAMES.iter().filter(|(_, bit)| indications & bit != 0) {
                json.item(name);
            }
            json.close_array();
        }
        json.close();
    }
}

/// What is open of the array of objects.
#[derive(Clone, Copy, PartialEq)]
enum Open {
    Nothing,
    Object,
    Points,
}

fn write_objects(tx: &Dnp3Tx, json: &mut Json) {
    json.open_array_key("objects");
    let mut open = Open::Nothing;
    walk_objects(tx.object_bytes(), tx.bounds, tx.listed_points, &mut |part| match part {
        Part::Object(header) => {
            close(json, open);
            open = Open::Object;
            json.open();
            json.number("group", header.group);
            json.number("variation", header.variation);
            json.number("qualifier", header.qualifier);
            json.number("prefix_code", header.prefix_code());
            json.number("range_code", header.range_code());
            json.number("start", header.start);
            json.number("stop", header.stop);
            json.number("count", header.count);
        }
        Part::Point(point) => {
            if open == Open::Object {
                open = Open::Points;
                json.open_array_key("points");
            }
            // A byte may be eight points: the members that all have are written in few pieces.
            json.next_item();
            json.push(b"{\"prefix\":");
            json.push_number(point.prefix);
            json.push(b",\"index\":");
            json.push_number(point.index);
            if let Some(size) = point.size {
                json.number("size", size);
            }
            point.values(&mut |name, value| match value {
                Value::Number(n) => json.number(name, n),
                // Without an exponent, and whole numbers without a fraction.
                Value::Float(x) if x.is_finite() => json.raw(name, x.to_string().as_bytes()),
                Value::Float(_) => json.raw(name, b"null"),
                Value::Text(text) => json.field(name, text),
                Value::Data(data) => json.base64(name, data),
            });
            json.close();
        }
    });
    close(json, open);
    json.close_array();
}

fn close(json: &mut Json, open: Open) {
    match open {
        Open::Nothing => {}
        Open::Object => json.close(),
        Open::Points => {
            json.close_array();
            json.close();
        }
    }
}
