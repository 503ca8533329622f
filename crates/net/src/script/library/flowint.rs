//! `suricata.flowint`: the flow's integers.

use super::{Library, member};
use crate::script::call::{Answer, Call, Held, Member};
use crate::script::inspect::Registered;
use gabion_rules::compiled::ScriptFacts;
use gabion_rules::compiled::actions::FlowintCommand;
use gabion_rules::compiled::packet::FlowintValue;
use std::rc::Rc;

pub(super) const LIBRARY: Library = Library {
    name: "flowint",
    class: "suricata:flowint:mt",
    functions: &[member("register", register), member("get", get)],
    methods: METHODS,
};

const METHODS: &[Member] = &[
    member("value", value),
    member("set", set),
    member("incr", |c| change(c, FlowintCommand::Add)),
    member("decr", |c| change(c, FlowintCommand::Subtract)),
];

/// Notes a name that `init` registers.
pub(super) fn note(
    c: &Call<'_, '_>,
    list: fn(&mut ScriptFacts) -> &mut Vec<String>,
    too_many: &str,
) -> Answer {
    let name = c.name(0)?;
    if let Some(registered) = c.lua.app_data_ref::<Rc<Registered>>() {
        let mut facts = registered.0.borrow_mut();
        let list = list(&mut facts);
        if !list.contains(&name) {
            if list.len() >= crate::limits::SCRIPT_VARIABLES_MAX {
                return Err(c.error(too_many));
            }
            list.push(name);
        }
    }
    c.give(c.object(Held::Slot(u32::MAX))?)
}

fn register(c: &mut Call<'_, '_>) -> Answer {
    note(c, |f| &mut f.flow_integers, "too many flowints registered")
}

fn get(c: &mut Call<'_, '_>) -> Answer {
    let name = c.name(0)?;
    // Rules and other scripts may have named it.
    let registered = c.scene.script.and_then(|s| {
        let at = s.facts.flow_integers.iter().position(|n| *n == name)?;
        s.flow_integers.get(at).copied()
    });
    let slot = registered.or_else(|| c.scene.set.and_then(|set| set.flowints.find(&name)));
    match slot {
        Some(n) => c.give(c.object(Held::Slot(n))?),
        None => Err(c.error("flowint does not exist")),
    }
}

fn read_variable(c: &Call<'_, '_>, slot: u32) -> Option<u32> {
    let flow = c.scene.flow()?;
    flow.ext.vars.ints().iter().find(|(n, _)| *n == slot).map(|(_, v)| *v)
}

fn value(c: &mut Call<'_, '_>) -> Answer {
    let slot = c.slot()?;
    c.give(read_variable(c, slot).map(f64::from))
}

fn set(c: &mut Call<'_, '_>) -> Answer {
    let slot = c.slot()?;
    let Some(n) = c.integer(0) else { return Err(c.error("value is not a number")) };
    // Suricata keeps 32 bits.
    let n = n as u32;
    if let Some(v) = c.scene.variables() {
        v.apply_int(slot, FlowintCommand::Set, FlowintValue::Number(n));
    }
    c.give(false)
}

fn change(c: &mut Call<'_, '_>, command: FlowintCommand) -> Answer {
    let slot = c.slot()?;
    let old = read_variable(c, slot);
    // One more than nothing is one; nothing made smaller, like zero, stays.
    let new = match (command, old) {
        (FlowintCommand::Add, n) => n.unwrap_or(0).saturating_add(1),
        (_, n) => n.unwrap_or(0).saturating_sub(1),
    };
    if let Some(v) = c.scene.variables() {
        v.apply_int(slot, FlowintCommand::Set, FlowintValue::Number(new));
    }
    c.give(f64::from(new))
}
