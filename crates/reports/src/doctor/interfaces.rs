//! The part of `gabion doctor` about interfaces that packets are read from.

use gabion_outputs::table::{Align, Table};
use gabion_record::json::Json;
use gabion_sensor::packets::InterfaceHealth;

/// A number now and the most there can be.
fn of_most(pair: Option<(u32, u32)>) -> String {
    pair.map_or_else(|| "unknown".to_owned(), |(now, most)| format!("{now} of {most}"))
}

fn switch(is_on: Option<bool>) -> &'static str {
    match is_on {
        Some(true) => "on",
        Some(false) => "off",
        None => "unknown",
    }
}

/// A table of the interfaces, if some are looked at.
pub(super) fn write_text(all: &[InterfaceHealth], width: Option<u16>, out: &mut String) {
    if all.is_empty() {
        return;
    }
    let right = Align::Right;
    let mut table = Table::new(&[
        ("INTERFACE", Align::Left),
        ("MTU", right),
        ("RING", right),
        ("QUEUES", right),
        ("GRO", Align::Left),
        ("LRO", Align::Left),
        ("DROPPED", right),
        ("MISSED", right),
        ("BACKLOG", right),
    ]);
    for i in all {
        table.row([
            i.name.clone(),
            i.state.mtu.to_string(),
            of_most(i.hardware.ring),
            of_most(i.hardware.queues),
            switch(i.hardware.gro).to_owned(),
            switch(i.hardware.lro).to_owned(),
            i.lost.dropped.to_string(),
            i.lost.missed.to_string(),
            i.lost.backlog.to_string(),
        ]);
    }
    out.push_str("\nInterfaces\n");
    out.push_str(&table.render(width));
}

/// An array of the interfaces.
pub(super) fn write_json(all: &[InterfaceHealth], j: &mut Json) {
    if all.is_empty() {
        return;
    }
    j.open_array_key("interfaces");
    for i in all {
        j.open();
        j.field("name", &i.name);
        j.boolean("up", i.state.is_up);
        j.number("mtu", i.state.mtu);
        for (name, pair) in [("ring", i.hardware.ring), ("queues", i.hardware.queues)] {
            if let Some((now, most)) = pair {
                j.number(name, now);
                j.number(&format!("{name}_max"), most);
            }
        }
        for (name, is_on) in [("gro", i.hardware.gro), ("lro", i.hardware.lro)] {
            if let Some(is_on) = is_on {
                j.boolean(name, is_on);
            }
        }
        j.number("dropped", i.lost.dropped);
        j.number("missed", i.lost.missed);
        j.number("backlog_drops", i.lost.backlog);
        j.close();
    }
    j.close_array();
}
