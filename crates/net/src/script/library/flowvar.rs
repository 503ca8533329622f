//! `suricata.flowvar`: the flow's variables.

use super::{Library, flowint, member};
use crate::script::call::{Answer, Call, Held, Member};

pub(super) const LIBRARY: Library = Library {
    name: "flowvar",
    class: "suricata:flowvar:mt",
    functions: &[member("register", register), member("get", get)],
    methods: METHODS,
};

const METHODS: &[Member] = &[member("value", value), member("set", set)];

fn register(c: &mut Call<'_, '_>) -> Answer {
    flowint::note(c, |f| &mut f.flow_variables, "too many flowvars registered")
}

fn get(c: &mut Call<'_, '_>) -> Answer {
    let name = c.name(0)?;
    // Rules and other scripts may have named it.
    let registered = c.scene.script.and_then(|s| {
        let at = s.facts.flow_variables.iter().position(|n| *n == name)?;
        s.flow_variables.get(at).copied()
    });
    let slot = registered.or_else(|| c.scene.set.and_then(|set| set.variables.find(&name)));
    match slot {
        Some(n) => c.give(c.object(Held::Slot(n))?),
        None => Err(c.error("flowvar does not exist")),
    }
}

fn value(c: &mut Call<'_, '_>) -> Answer {
    let slot = c.slot()?;
    let texts = c.scene.flow().map(|f| f.ext.vars.texts.as_slice());
    let found = texts.unwrap_or_default().iter().find(|(n, _)| *n == slot);
    c.text(found.map(|(_, v)| v.as_slice()))
}

/// The value and how much of it; a greater length means all of it.
fn set(c: &mut Call<'_, '_>) -> Answer {
    let slot = c.slot()?;
    let mut value = c.bytes(0)?;
    if let Some(len) = c.integer(1) {
        value.truncate(usize::try_from(len).unwrap_or(0));
    }
    if let Some(v) = c.scene.variables() {
        v.set_text(slot, value);
    }
    c.give(false)
}
