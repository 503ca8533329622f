//! A Lua state that can't do more than it is allowed: memory, instructions, functions.
//!
//! Memory is limited in Lua's allocator. Instructions are counted by a hook every
//! [`STRIDE`] of them; what functions written in C or Rust do in one instruction is charged by
//! [`super::bounded`]. Once the budget is used up the error comes back at every later step of the
//! same run, so that a script that catches it can't continue. The error of a limit has Suricata's
//! words (8.0.7).

use super::allowance::{Allowance, error_at};
use mlua::{Function, HookTriggers, Lua, LuaOptions, MultiValue, StdLib, Value, VmState};
use std::cell::Cell;
use std::rc::Rc;

/// Instructions between two checks of the budget.
const STRIDE: u32 = 500;

/// Instructions charged for an error that is caught: with a deep stack to report it takes as long.
const CAUGHT_ERROR_INSTRUCTIONS: u64 = 1000;

/// Bytes of an empty state that Suricata counts into its limit: with a lower limit it can't start.
/// An empty state has another size here, so the limit begins after it.
const EMPTY_STATE_BYTES: usize = 12 << 10;

/// Functions that a rule's script may not call, unless the configuration allows all.
const BLOCKED: &[&str] = &[
    "collectgarbage",
    "dofile",
    "getmetatable",
    "loadfile",
    "load",
    "pcall",
    "setmetatable",
    "xpcall",
];

/// Limits of scripts (`security.lua`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptLimits {
    /// Bytes of one script's state (`max-bytes`).
    pub max_bytes: u64,
    /// Instructions of one call (`max-instructions`).
    pub max_instructions: u64,
    /// All functions may be called and all of Lua's libraries are loaded
    /// (`allow-restricted-functions`).
    pub allow_restricted: bool,
}

impl Default for ScriptLimits {
    fn default() -> ScriptLimits {
        ScriptLimits {
            max_bytes: crate::limits::SCRIPT_BYTES_MAX,
            max_instructions: crate::limits::SCRIPT_INSTRUCTIONS_MAX,
            allow_restricted: false,
        }
    }
}

impl ScriptLimits {
    /// As configured.
    pub fn from_config(config: &gabion_record::Tree) -> ScriptLimits {
        let d = ScriptLimits::default();
        ScriptLimits {
            max_bytes: config.size("security.lua.max-bytes").unwrap_or(d.max_bytes),
            max_instructions: config
                .size("security.lua.max-instructions")
                .unwrap_or(d.max_instructions),
            allow_restricted: config.flag("security.lua.allow-restricted-functions") == Some(true),
        }
    }
}

/// Why a run failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The instruction limit.
    Instructions,
    /// The memory limit.
    Memory,
    /// A blocked function was called: message with its place.
    Blocked(String),
    /// Anything else.
    Error(String),
}

impl Failure {
    /// Suricata's words.
    pub(crate) fn message(&self) -> &str {
        match self {
            Failure::Instructions => "instruction limit exceeded",
            Failure::Memory => "memory limit exceeded",
            Failure::Blocked(m) | Failure::Error(m) => m,
        }
    }

    /// The failure that an error of Lua means.
    pub(crate) fn from_error(error: &mlua::Error, allowance: Option<&Allowance>) -> Failure {
        if allowance.is_some_and(|a| a.is_over.get()) {
            return Failure::Instructions;
        }
        let mut e = error;
        while let mlua::Error::CallbackError { cause, .. } = e {
            e = cause;
        }
        let text = match e {
            mlua::Error::MemoryError(_) => return Failure::Memory,
            mlua::Error::RuntimeError(m) => m.clone(),
            mlua::Error::SyntaxError { message, .. } => message.clone(),
            other => other.to_string(),
        };
        let end = text.find("\nstack traceback:").unwrap_or(text.len());
        let said = text.get(..end).unwrap_or(&text);
        // A value that is no text is written as Suricata writes it.
        let said = if said.starts_with("table: ") || said == "nil" {
            "(null)".to_string()
        } else {
            said.to_string()
        };
        if allowance.is_some_and(|a| a.is_blocked.get()) {
            Failure::Blocked(said)
        } else {
            Failure::Error(said)
        }
    }
}

/// A state for the scripts of rules, with its allowance.
pub(crate) fn open(limits: &ScriptLimits) -> mlua::Result<(Lua, Rc<Allowance>)> {
    let libraries = if limits.allow_restricted {
        StdLib::ALL_SAFE
    } else {
        StdLib::TABLE | StdLib::STRING | StdLib::UTF8 | StdLib::MATH
    };
    let lua = Lua::new_with(libraries, LuaOptions::new())?;
    let allowance = Rc::new(Allowance {
        max: limits.max_instructions,
        used: Cell::new(0),
        is_over: Cell::new(false),
        is_blocked: Cell::new(false),
    });
    lua.set_app_data(Rc::clone(&allowance));
    if limits.allow_restricted {
        catching(&lua, Some(&allowance))?;
        finalizers(&lua)?;
    } else {
        block(&lua, &allowance)?
    }
    super::bounded::install(&lua, limits.allow_restricted)?;
    let stride = u32::try_from(limits.max_instructions.max(1)).unwrap_or(STRIDE).min(STRIDE);
    let counted = Rc::clone(&allowance);
    lua.set_global_hook(HookTriggers::new().every_nth_instruction(stride), move |_, _| {
        counted.charge(u64::from(stride))?;
        Ok(VmState::Continue)
    })?;
    Ok((lua, allowance))
}

/// Sets the memory limit for allocations from now on; what the state already holds is not counted.
pub(crate) fn limit_memory(lua: &Lua, limits: &ScriptLimits) -> mlua::Result<()> {
    let max = usize::try_from(limits.max_bytes).unwrap_or(usize::MAX);
    if max != 0 {
        let own = max.saturating_sub(EMPTY_STATE_BYTES);
        lua.set_memory_limit(lua.used_memory().saturating_add(own))?;
    }
    Ok(())
}

/// Replaces the functions that a script may not call.
fn block(lua: &Lua, allowance: &Rc<Allowance>) -> mlua::Result<()> {
    for name in BLOCKED {
        let allowance = Rc::clone(allowance);
        let refuse = lua.create_function(move |lua, _: MultiValue| -> mlua::Result<()> {
            allowance.is_blocked.set(true);
            Err(error_at(lua, &format!("Blocked Lua function called: {name}")))
        })?;
        lua.globals().set(*name, refuse)?;
    }
    Ok(())
}

/// Functions that catch errors pass on the end of the budget, and return errors of libraries as
/// text.
pub(super) fn catching(lua: &Lua, allowance: Option<&Rc<Allowance>>) -> mlua::Result<()> {
    let globals = lua.globals();
    let places = [(None, "pcall"), (None, "xpcall"), (Some("coroutine"), "resume")];
    for (library, name) in places.into_iter().chain([(Some("coroutine"), "close")]) {
        let place: mlua::Table = match library {
            Some(l) => globals.get(l)?,
            None => globals.clone(),
        };
        let original: Function = place.get(name)?;
        let allowance = allowance.map(Rc::clone);
        place.set(
            name,
            lua.create_function(move |lua, args: MultiValue| {
                let result: MultiValue = original.call(args)?;
                if let Some(a) = &allowance {
                    let failed = matches!(result.front(), Some(Value::Boolean(false)));
                    a.charge(if failed { CAUGHT_ERROR_INSTRUCTIONS } else { 0 })?;
                }
                let values = result.into_iter().map(|v| match v {
                    Value::Error(e) => {
                        let text = Failure::from_error(&e, None);
                        Ok(Value::String(lua.create_string(text.message())?))
                    }
                    v => Ok(v),
                });
                values.collect::<mlua::Result<MultiValue>>()
            })?,
        )?;
    }
    Ok(())
}

/// Finalizers run where instructions are not counted, so metatables with a finalizer are refused.
fn finalizers(lua: &Lua) -> mlua::Result<()> {
    let globals = lua.globals();
    let original: Function = globals.get("setmetatable")?;
    globals.set(
        "setmetatable",
        lua.create_function(move |lua, args: MultiValue| {
            if let Some(Value::Table(meta)) = args.get(1)
                && !meta.raw_get::<Value>("__gc")?.is_nil()
            {
                return Err(error_at(lua, "a metatable with __gc is not allowed"));
            }
            original.call::<MultiValue>(args)
        })?,
    )
}
