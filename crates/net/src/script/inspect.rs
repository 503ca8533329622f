//! Checks a script when its rule is loaded: it must be readable, have the functions it is
//! run by, and its `init` may register what it will read.

use super::call::with_scene;
use super::sandbox::Failure;
use super::scene::Scene;
use super::voice::ScriptSetup;
use crate::error::ScriptError;
use gabion_rules::compiled::ScriptFacts;
use mlua::chunk::ChunkMode;
use mlua::{Function, Lua, Table, Value};
use std::cell::RefCell;
use std::rc::Rc;

/// Collects what `init` registers.
#[derive(Debug, Default)]
pub(super) struct Registered(pub(super) RefCell<ScriptFacts>);

/// A placeholder for the signature that `init` receives.
pub(super) struct SignatureToken;

impl mlua::UserData for SignatureToken {}

/// Whether a script of a rule could need this before rules had hooks.
fn was_need(family: &str) -> bool {
    let table = gabion_proto::registry::table_by_eve_name(family);
    family == "ja3s" || table.is_some_and(|t| t.own_outputs.was_script_need)
}

/// The error of a script that can't be read: its path and the reason.
#[must_use]
pub fn unreadable(path: &str, why: &str) -> ScriptError {
    ScriptError::Step { step: "load file", why: format!("cannot open {path}: {why}") }
}

/// Loads a script and runs its `init`. The error has Suricata's message.
pub fn inspect(
    path: &str,
    source: &[u8],
    is_transform: bool,
    setup: &ScriptSetup,
) -> Result<ScriptFacts, ScriptError> {
    let (lua, allowance) =
        super::load(path, source, setup).map_err(|(_, what)| ScriptError::Load(what))?;
    let globals = lua.globals();
    let is_there = |name: &str| globals.get::<Function>(name).ok();
    let mut needs_payload = false;
    let registered = Rc::new(Registered::default());
    if is_transform {
        if is_there("transform").is_none() {
            return Err(ScriptError::NoFunction("transform"));
        }
    } else {
        let init = is_there("init").ok_or(ScriptError::NoFunction("init"))?;
        lua.set_app_data(Rc::clone(&registered));
        allowance.renew();
        let run = with_scene(&lua, Scene::default(), || {
            init.call::<Value>(lua.create_userdata(SignatureToken)?)
        });
        let answer = run.map_err(|e| {
            let failure = Failure::from_error(&e, Some(&allowance));
            let why = failure.message().to_owned();
            ScriptError::Step { step: "run script 'init' function", why }
        })?;
        let Value::Table(needs) = answer else {
            return Err(ScriptError::InitWithoutTable);
        };
        needs_payload = read_needs(&needs)?;
    }
    let mut facts = registered.0.take();
    facts.source = source.into();
    facts.needs_payload = needs_payload;
    facts.keeps_state = setup.limits.allow_restricted || keeps_state(&lua, source);
    Ok(facts)
}

/// Whether the script keeps something from one run to the next.
fn keeps_state(lua: &Lua, source: &[u8]) -> bool {
    let chunk = lua.load(source).set_mode(ChunkMode::Text).into_function();
    chunk.map_or(true, |chunk| super::keeping::keeps_state(&chunk.dump(true)))
}

/// Whether the script needs payload; an error if it needs unknown data.
fn read_needs(needs: &Table) -> Result<bool, ScriptError> {
    let mut payload = false;
    for pair in needs.pairs::<Value, Value>() {
        let Ok((Value::String(key), value)) = pair else { continue };
        let key = key.to_string_lossy();
        let is_true = matches!(&value, Value::String(s) if s.as_bytes().as_ref() == b"true");
        let family = key.split('.').next().unwrap_or_default();
        match key.as_str() {
            "payload" => payload |= is_true,
            "packet" | "buffer" | "stream" | "ja3" => {}
            _ if was_need(family) => {
                return Err(ScriptError::OldNeed(key));
            }
            _ => return Err(ScriptError::UnknownNeed(key)),
        }
    }
    Ok(payload)
}
