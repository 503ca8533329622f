//! Calls from a script to a library's function, and the objects that libraries return.
//!
//! Functions of libraries are plain Rust functions over [`Call`]. In the state they are closures
//! that know their number only; while a script runs, one scoped function holds the scene and
//! carries out the calls.

use super::allowance::error_at;
use super::hash::Hash;
use super::scene::Scene;
use super::voice::ScriptSetup;
use crate::limits::{SCRIPT_LINE_BYTES_MAX, reached};
use mlua::{
    AnyUserData, Function, IntoLua, IntoLuaMulti, Lua, LuaString, MetaMethod, MultiValue, Table,
    UserData, UserDataMethods, Value,
};
use std::cell::RefCell;

/// What a library function returns.
pub(super) type Answer = mlua::Result<MultiValue>;

/// A function of a library or a method of its objects.
#[derive(Clone, Copy)]
pub(super) struct Member {
    pub(super) name: &'static str,
    pub(super) run: fn(&mut Call<'_, '_>) -> Answer,
}

/// A library.
pub(super) struct Library {
    /// The name after `suricata.`.
    pub(super) name: &'static str,
    /// The name of its objects in messages.
    pub(super) class: &'static str,
    /// Its functions.
    pub(super) functions: &'static [Member],
    /// Methods of its objects.
    pub(super) methods: &'static [Member],
}

/// One call.
pub(super) struct Call<'c, 'a> {
    pub(super) lua: &'c Lua,
    pub(super) scene: &'c mut Scene<'a>,
    pub(super) setup: &'c ScriptSetup,
    /// Arguments; a method's object is not among them.
    pub(super) args: MultiValue,
    /// The object of a method.
    pub(super) this: Option<AnyUserData>,
    library: &'static Library,
    member: &'static str,
    number: u32,
}

/// What an object holds in addition to its class.
#[derive(Default)]
pub(super) enum Held {
    /// Nothing: it represents the current packet, flow or transaction.
    #[default]
    Nothing,
    /// A number (a variable's).
    Slot(u32),
    /// A name (a dataset's).
    Name(String),
    /// A hash that is being computed; `None` once it is finished.
    Hash(Option<Hash>),
}

/// An object of a library.
pub(super) struct Object {
    number: u32,
    class: &'static str,
    pub(super) held: RefCell<Held>,
}

impl UserData for Object {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method(MetaMethod::Index, |lua, this, key: Value| {
            let Some(state) = lua.app_data_ref::<State>() else { return Ok(Value::Nil) };
            match state.methods.get(this.number as usize) {
                Some(t) => t.raw_get::<Value>(key),
                None => Ok(Value::Nil),
            }
        });
        methods.add_meta_method(MetaMethod::ToString, |_, this, ()| {
            Ok(format!("{}: {this:p}", this.class))
        });
    }
}

/// What a state keeps for its libraries.
struct State {
    setup: ScriptSetup,
    libraries: &'static [&'static Library],
    methods: Vec<Table>,
    /// Carries calls out while a script runs.
    running: Option<Function>,
}

/// Makes the libraries of a state, which `require` returns.
pub(super) fn install(
    lua: &Lua,
    setup: &ScriptSetup,
    libraries: &'static [&'static Library],
) -> mlua::Result<()> {
    let mut methods = Vec::new();
    let names = lua.create_table()?;
    for (n, library) in libraries.iter().enumerate() {
        let n = u32::try_from(n).unwrap_or(u32::MAX);
        let functions = lua.create_table()?;
        for (i, f) in library.functions.iter().enumerate() {
            functions.raw_set(f.name, entry(lua, n, false, i)?)?;
        }
        let object = lua.create_table()?;
        for (i, m) in library.methods.iter().enumerate() {
            object.raw_set(m.name, entry(lua, n, true, i)?)?;
        }
        methods.push(object);
        names.raw_set(format!("suricata.{}", library.name), functions)?;
    }
    lua.set_app_data(State { setup: setup.clone(), libraries, methods, running: None });
    let before: Option<Function> = lua.globals().get("require").ok();
    let require = lua.create_function(move |lua, name: LuaString| {
        let library: Value = names.raw_get(name.clone())?;
        match (library, &before) {
            (Value::Nil, Some(f)) => f.call::<Value>(name),
            (Value::Nil, None) => {
                Err(error_at(lua, &format!("Module not found: {}", name.to_string_lossy())))
            }
            (library, _) => Ok(library),
        }
    })?;
    lua.globals().set("require", require)?;
    let print = lua.create_function(|lua, args: MultiValue| {
        let mut line = String::new();
        for (i, v) in args.iter().enumerate() {
            if line.len() > SCRIPT_LINE_BYTES_MAX {
                reached::SCRIPT_LINE_BYTES_MAX.count();
                break;
            }
            if i > 0 {
                line.push('\t');
            }
            line.push_str(&String::from_utf8_lossy(v.to_string()?.as_bytes()));
        }
        if let Some(state) = lua.app_data_ref::<State>() {
            state.setup.voice.send_message(super::Severity::Print, "lua", &line);
        }
        Ok(())
    })?;
    lua.globals().set("print", print)
}

fn entry(lua: &Lua, library: u32, is_method: bool, member: usize) -> mlua::Result<Function> {
    lua.create_function(move |lua, args: MultiValue| {
        let running = lua.app_data_ref::<State>().and_then(|s| s.running.clone());
        match running {
            Some(f) => f.call::<MultiValue>((library, is_method, member, args)),
            None => run(lua, &mut Scene::default(), library, is_method, member, args),
        }
    })
}

/// Runs `f` with a scene.
pub(super) fn with_scene<R>(
    lua: &Lua,
    mut scene: Scene<'_>,
    f: impl FnOnce() -> mlua::Result<R>,
) -> mlua::Result<R> {
    lua.scope(|scope| {
        let carry = scope.create_function_mut(
            |lua, (library, is_method, member, args): (u32, bool, usize, MultiValue)| {
                run(lua, &mut scene, library, is_method, member, args)
            },
        )?;
        set_running(lua, Some(carry));
        let result = f();
        set_running(lua, None);
        result
    })
}

fn set_running(lua: &Lua, f: Option<Function>) {
    if let Some(mut state) = lua.app_data_mut::<State>() {
        state.running = f;
    }
}

fn run(
    lua: &Lua,
    scene: &mut Scene<'_>,
    library: u32,
    is_method: bool,
    member: usize,
    mut args: MultiValue,
) -> Answer {
    let (libraries, setup) = match lua.app_data_ref::<State>() {
        Some(state) => (state.libraries, state.setup.clone()),
        None => (&[][..], ScriptSetup::default()),
    };
    let Some(l) = libraries.get(library as usize) else { return Ok(MultiValue::new()) };
    let list = if is_method { l.methods } else { l.functions };
    let Some(m) = list.get(member) else { return Ok(MultiValue::new()) };
    let this = if is_method { Some(this(lua, l, library, &mut args)?) } else { None };
    (m.run)(&mut Call {
        lua,
        scene,
        setup: &setup,
        args,
        this,
        library: l,
        member: m.name,
        number: library,
    })
}

/// The object a method is called on.
fn this(
    lua: &Lua,
    library: &Library,
    number: u32,
    args: &mut MultiValue,
) -> mlua::Result<AnyUserData> {
    let first = args.pop_front();
    if let Some(Value::UserData(u)) = &first
        && u.borrow::<Object>().is_ok_and(|o| o.number == number)
    {
        return Ok(u.clone());
    }
    let got = first.as_ref().map_or("no value", Value::type_name);
    let said = format!("bad argument #1 to '?' ({} expected, got {got})", library.class);
    Err(error_at(lua, &said))
}

impl Call<'_, '_> {
    /// An error with the place of the script.
    pub(super) fn error(&self, text: &str) -> mlua::Error {
        mlua::Error::RuntimeError(text.to_string())
    }

    /// Returns values.
    pub(super) fn give(&self, values: impl IntoLuaMulti) -> Answer {
        values.into_lua_multi(self.lua)
    }

    /// Returns bytes, or nil if there are none.
    pub(super) fn text(&self, bytes: Option<&[u8]>) -> Answer {
        match bytes {
            Some(b) => self.give(self.lua.create_string(b)?),
            None => self.give(Value::Nil),
        }
    }

    /// Nil and the reason.
    pub(super) fn nil(&self, why: &str) -> Answer {
        self.give((Value::Nil, why))
    }

    /// Bytes, or nil and the reason why there are none.
    pub(super) fn text_or(&self, bytes: Option<&[u8]>, why: &str) -> Answer {
        match bytes {
            Some(b) => self.text(Some(b)),
            None => self.nil(why),
        }
    }

    /// Argument `at` (from 0) as bytes.
    pub(super) fn bytes(&self, at: usize) -> mlua::Result<Vec<u8>> {
        let v = self.args.get(at).cloned().unwrap_or(Value::Nil);
        if matches!(v, Value::String(_) | Value::Integer(_) | Value::Number(_))
            && let Some(s) = self.lua.coerce_string(v.clone())?
        {
            return Ok(s.as_bytes().to_vec());
        }
        let got = if at < self.args.len() { v.type_name() } else { "no value" };
        let (place, who) = match self.this {
            Some(_) => (at + 2, "?".to_string()),
            None => (at + 1, format!("suricata.{}.{}", self.library.name, self.member)),
        };
        Err(error_at(
            self.lua,
            &format!("bad argument #{place} to '{who}' (string expected, got {got})"),
        ))
    }

    /// Argument `at` as text.
    pub(super) fn name(&self, at: usize) -> mlua::Result<String> {
        Ok(String::from_utf8_lossy(&self.bytes(at)?).into_owned())
    }

    /// Argument `at` as an integer, if it is one.
    pub(super) fn integer(&self, at: usize) -> Option<i64> {
        let v = self.args.get(at).cloned()?;
        self.lua.coerce_integer(v).ok().flatten()
    }

    /// An object of this library.
    pub(super) fn object(&self, held: Held) -> mlua::Result<Value> {
        let object =
            Object { number: self.number, class: self.library.class, held: RefCell::new(held) };
        self.lua.create_userdata(object)?.into_lua(self.lua)
    }

    /// Looks into the method's object.
    pub(super) fn held<R>(&self, f: impl FnOnce(&mut Held) -> R) -> mlua::Result<R> {
        let Some(this) = &self.this else { return Ok(f(&mut Held::Nothing)) };
        let object = this.borrow::<Object>()?;
        let mut held = object.held.try_borrow_mut().map_err(mlua::Error::external)?;
        Ok(f(&mut held))
    }

    /// The number that the method's object holds.
    pub(super) fn slot(&self) -> mlua::Result<u32> {
        self.held(|h| match h {
            Held::Slot(n) => *n,
            Held::Nothing | Held::Name(_) | Held::Hash(_) => u32::MAX,
        })
    }
}
