//! `suricata.dataset`: asks and fills datasets of strings.

use super::{Library, member};
use crate::script::call::{Answer, Call, Held, Member};
use mlua::Value;

pub(super) const LIBRARY: Library = Library {
    name: "dataset",
    class: "dataset::metatable",
    functions: &[member("new", new)],
    methods: METHODS,
};

const METHODS: &[Member] = &[member("new", new), member("get", get), member("add", add)];

fn new(c: &mut Call<'_, '_>) -> Answer {
    c.give(c.object(Held::Nothing)?)
}

fn get(c: &mut Call<'_, '_>) -> Answer {
    let Some(Value::String(name)) = c.args.front() else { return c.nil("null string") };
    let name = name.to_string_lossy();
    if c.scene.datasets.is_none_or(|d| !d.has(&name)) {
        return c.nil("dataset not found");
    }
    c.held(|h| *h = Held::Name(name))?;
    c.give(())
}

fn add(c: &mut Call<'_, '_>) -> Answer {
    let name = c.held(|h| match h {
        Held::Name(n) => Some(n.clone()),
        Held::Nothing | Held::Slot(_) | Held::Hash(_) => None,
    })?;
    let Some(name) = name else {
        return c.nil("dataset is not initialized (call :get first)");
    };
    let Some(Value::String(value)) = c.args.front() else {
        return c.nil("1st arg is not a string");
    };
    let Some(len) = c.integer(1) else { return c.nil("2nd arg is not a string") };
    let bytes = value.as_bytes();
    let bytes = usize::try_from(len).ok().and_then(|n| bytes.get(..n));
    let Some(bytes) = bytes else { return c.nil("length out of range for supplied string") };
    match c.scene.datasets.and_then(|d| d.add(&name, bytes)) {
        Some(true) => c.give(1.0),
        Some(false) => c.give(0.0),
        None => c.nil("dataset not found"),
    }
}
