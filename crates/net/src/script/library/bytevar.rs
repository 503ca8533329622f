//! `suricata.bytevar`: what `byte_extract` and `byte_math` of the rule found.

use super::{Library, member};
use crate::script::call::{Answer, Call, Held, Member};
use crate::script::inspect::{Registered, SignatureToken};
use mlua::Value;
use std::rc::Rc;

pub(super) const LIBRARY: Library = Library {
    name: "bytevar",
    class: "suricata:bytevar",
    functions: &[member("map", map), member("get", get)],
    methods: METHODS,
};

const METHODS: &[Member] = &[member("value", value)];

fn map(c: &mut Call<'_, '_>) -> Answer {
    let is_signature =
        matches!(c.args.front(), Some(Value::UserData(u)) if u.is::<SignatureToken>());
    let Some(registered) = c.lua.app_data_ref::<Rc<Registered>>().map(|r| Rc::clone(&r)) else {
        return Err(c.error("bytevar.map: first argument must be the signature passed to init"));
    };
    if !is_signature {
        return Err(c.error("bytevar.map: first argument must be the signature passed to init"));
    }
    let name = c.name(1)?;
    let mut facts = registered.0.borrow_mut();
    if !facts.byte_variables.contains(&name) {
        if facts.byte_variables.len() >= crate::limits::SCRIPT_VARIABLES_MAX {
            return Err(c.error("too many bytevars mapped"));
        }
        facts.byte_variables.push(name);
    }
    c.give(())
}

fn get(c: &mut Call<'_, '_>) -> Answer {
    let name = c.name(0)?;
    let slot = c.scene.script.and_then(|s| {
        let at = s.facts.byte_variables.iter().position(|n| *n == name)?;
        s.byte_variables.get(at).copied()
    });
    match slot {
        Some(n) => c.give(c.object(Held::Slot(u32::from(n)))?),
        None => Err(c.error(&format!("unknown bytevar: {name}"))),
    }
}

fn value(c: &mut Call<'_, '_>) -> Answer {
    let slot = c.slot()?;
    match c.scene.byte_variables.get(slot as usize) {
        Some(v) => c.give(i64::from_ne_bytes(v.to_ne_bytes())),
        None => c.give(Value::Nil),
    }
}
