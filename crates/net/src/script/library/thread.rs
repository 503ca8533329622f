//! `suricata.util`: which worker this is.

use super::{Library, member};
use crate::script::call::{Answer, Call};

pub(super) const LIBRARY: Library = Library {
    name: "util",
    class: "suricata:util",
    functions: &[member("thread_info", thread_info)],
    methods: &[],
};

fn thread_info(c: &mut Call<'_, '_>) -> Answer {
    let info = c.lua.create_table()?;
    info.raw_set("id", 1)?;
    info.raw_set("name", "W#01")?;
    info.raw_set("group_name", "Workers")?;
    c.give(info)
}
