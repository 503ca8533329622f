//! The guard's section of `gabion doctor`: instruments, XDP, tables, what is left to undo, each with the next command.

use gabion_outputs::table::{Align, Table};
use gabion_record::json::Json;
use gabion_sensor::guard::GuardHealth;

/// The section for people; nothing where nothing is known.
pub(super) fn write_text(guard: &GuardHealth, width: Option<u16>, out: &mut String) {
    let mut table = Table::new(&[("", Align::Left), ("", Align::Left), ("", Align::Left)]);
    let mut rows = 0;
    let mut row = |cells: [String; 3]| {
        rows += 1;
        table.row(cells);
    };
    for (name, is_here, remark) in &guard.instruments {
        let state = if *is_here { "there" } else { "absent" };
        row([name.clone(), state.to_owned(), remark.clone()]);
    }
    for (name, what, next) in &guard.interfaces {
        row([name.clone(), what.clone(), next.clone()]);
    }
    for (name, entries, max, file) in &guard.tables {
        let percent = entries.saturating_mul(100) / (*max).max(1);
        row([(*name).to_owned(), format!("{entries} of {max} ({percent} %)"), (*file).to_owned()]);
    }
    for (what, state, _) in &guard.changes {
        row([what.clone(), String::new(), state.clone()]);
    }
    if rows > 0 {
        out.push_str("\nThe guard\n");
        out.push_str(&table.render(width));
    }
}

/// The section for programs.
pub(super) fn write_json(guard: &GuardHealth, j: &mut Json) {
    j.open_key("guard");
    j.open_array_key("instruments");
    for (name, is_here, remark) in &guard.instruments {
        j.open();
        j.field("name", name);
        j.boolean("is_there", *is_here);
        j.field("remark", remark);
        j.close();
    }
    j.close_array();
    j.open_array_key("interfaces");
    for (name, what, next) in &guard.interfaces {
        j.open();
        j.field("interface", name);
        j.field("xdp", what);
        j.field("next", next);
        j.close();
    }
    j.close_array();
    j.open_array_key("tables");
    for (name, entries, max, file) in &guard.tables {
        j.open();
        j.field_plain("table", name);
        j.number("entries", *entries);
        j.number("max", *max);
        j.field_plain("setting", file);
        j.close();
    }
    j.close_array();
    j.open_array_key("changes");
    for (what, state, is_left) in &guard.changes {
        j.open();
        j.field("what", what);
        j.field("state", state);
        j.boolean("is_left", *is_left);
        j.close();
    }
    j.close_array();
    j.close();
}
