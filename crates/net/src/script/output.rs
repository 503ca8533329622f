//! Lua scripts as outputs: each writes its own log of packets, alerts, transactions, files, flows,
//! streams or statistics.
//!
//! `init` returns what the script wants, `setup` opens its files, `log` is called for each record,
//! `deinit` at the end. These are the operator's own programs: they have Lua's whole library and no
//! limits, as in Suricata. Each worker has its own states; an error of a script is reported, and the
//! next record is tried.

use super::call::{self, with_scene};
use super::library;
use super::output_script::{OutputKind, OutputScript};
use super::sandbox::Failure;
use super::scene::Scene;
use super::voice::{ScriptSetup, Severity};
use crate::error::ScriptError;
use gabion_proto::registry::table_by_eve_name;
use gabion_record::eve::Wants;
use mlua::{Function, Lua, StdLib, Table, Value};

const WHO: &str = "lua-output";

impl OutputScript {
    /// Loads a script and asks its `init` what it logs.
    pub fn load(
        path: &str,
        source: Vec<u8>,
        setup: &ScriptSetup,
    ) -> Result<OutputScript, ScriptError> {
        let lua = open(path, &source, setup)?;
        let init: Function =
            lua.globals().get("init").map_err(|_| ScriptError::NoFunction("init"))?;
        let run = with_scene(&lua, Scene::default(), || init.call::<Value>(Value::Nil));
        let Value::Table(needs) = run.map_err(|e| failed("run script 'init' function", &e))? else {
            return Err(ScriptError::InitWithoutTable);
        };
        Ok(OutputScript { path: path.to_string(), source, kind: kind(&needs)? })
    }
}

struct Output {
    lua: Lua,
    kind: OutputKind,
    log: Function,
    path: String,
}

/// The output scripts of one worker.
#[derive(Default)]
pub struct OutputScripts {
    setup: ScriptSetup,
    scripts: Vec<Output>,
}

impl OutputScripts {
    /// Starts the scripts; a script that fails is reported and left out.
    pub fn new(setup: &ScriptSetup) -> OutputScripts {
        let mut o = OutputScripts { setup: setup.clone(), scripts: Vec::new() };
        for script in &setup.outputs {
            match start(script, setup) {
                Ok(s) => o.scripts.push(s),
                Err(e) => {
                    setup.voice.send_message(Severity::Error, WHO, &format!("{}: {e}", script.path))
                }
            }
        }
        o
    }

    /// Whether the worker has no output scripts.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.scripts.is_empty()
    }

    /// Records that the engine must make for these scripts.
    pub fn records(scripts: &[OutputScript]) -> Wants {
        let any = |is: fn(OutputKind) -> bool| scripts.iter().any(|s| is(s.kind));
        Wants {
            app: any(|k| matches!(k, OutputKind::Transaction(_))),
            files: any(|k| k == OutputKind::File),
            flows: any(|k| k == OutputKind::Flow),
            file_data: any(|k| k == OutputKind::HttpBody),
            bodies: !scripts.is_empty(),
            ..Wants::default()
        }
    }

    /// Whether one wants pieces of streams.
    pub(crate) fn wants_streams(&self) -> bool {
        self.wants(OutputKind::TcpStream) || self.wants(OutputKind::HttpBody)
    }

    /// Whether one wants records of that kind.
    pub(crate) fn wants(&self, kind: OutputKind) -> bool {
        self.scripts.iter().any(|s| s.kind == kind)
    }

    /// Calls the scripts of that kind.
    pub(crate) fn log<'a>(&self, kind: OutputKind, mut scene: impl FnMut() -> Scene<'a>) {
        for s in self.scripts.iter().filter(|s| s.kind == kind) {
            let run = with_scene(&s.lua, scene(), || s.log.call::<()>(s.lua.create_table()?));
            self.heed(s, run);
        }
    }

    /// Calls the scripts of a stream's kind with a piece of it.
    pub(crate) fn log_stream<'a>(
        &self,
        kind: OutputKind,
        piece: &StreamPiece<'_>,
        mut scene: impl FnMut() -> Scene<'a>,
    ) {
        for s in self.scripts.iter().filter(|s| s.kind == kind) {
            let run = with_scene(&s.lua, scene(), || {
                let stream = s.lua.create_table()?;
                stream.raw_set("data", s.lua.create_string(piece.bytes)?)?;
                stream.raw_set("open", piece.is_first)?;
                stream.raw_set("close", piece.is_last)?;
                stream.raw_set("to_server", piece.to_server)?;
                stream.raw_set("to_client", !piece.to_server)?;
                let arguments = s.lua.create_table()?;
                arguments.raw_set("stream", stream)?;
                s.log.call::<()>(arguments)
            });
            self.heed(s, run);
        }
    }

    /// Gives the counters to scripts that want statistics.
    pub fn stats(&self, counters: &[(String, u64)]) {
        for s in self.scripts.iter().filter(|s| s.kind == OutputKind::Stats) {
            let run = with_scene(&s.lua, Scene::default(), || {
                let list = s.lua.create_table()?;
                for (name, value) in counters {
                    let entry = s.lua.create_table()?;
                    entry.raw_set("name", name.as_str())?;
                    entry.raw_set("tmname", "Total")?;
                    entry.raw_set("value", *value)?;
                    entry.raw_set("pvalue", 0)?;
                    list.raw_push(entry)?;
                }
                s.log.call::<()>(list)
            });
            self.heed(s, run);
        }
    }

    /// The run is over.
    pub(crate) fn finish(&self) {
        for s in &self.scripts {
            if let Ok(deinit) = s.lua.globals().get::<Function>("deinit") {
                let run = with_scene(&s.lua, Scene::default(), || deinit.call::<()>(Value::Nil));
                self.heed(s, run);
            }
        }
    }

    fn heed(&self, s: &Output, run: mlua::Result<()>) {
        if let Err(e) = run {
            let failure = Failure::from_error(&e, None);
            let said = format!("{}: failed to run script: {}", s.path, failure.message());
            self.setup.voice.send_message(Severity::Warning, WHO, &said);
        }
    }
}

/// A piece of a stream or body.
pub(crate) struct StreamPiece<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) is_first: bool,
    pub(crate) is_last: bool,
    pub(crate) to_server: bool,
}

/// A step that failed.
fn failed(step: &'static str, e: &mlua::Error) -> ScriptError {
    ScriptError::Step { step, why: Failure::from_error(e, None).message().to_owned() }
}

/// A state with a script's functions in it.
fn open(path: &str, source: &[u8], setup: &ScriptSetup) -> Result<Lua, ScriptError> {
    let lua = Lua::new_with(StdLib::ALL_SAFE, mlua::LuaOptions::new())
        .map_err(|e| failed("make a state", &e))?;
    call::install(&lua, setup, library::LIBRARIES).map_err(|e| failed("make libraries", &e))?;
    super::sandbox::catching(&lua, None).map_err(|e| failed("make libraries", &e))?;
    if let Ok(package) = lua.globals().get::<Table>("package") {
        let set = package.set("path", setup.module_path.as_str());
        set.and_then(|()| package.set("cpath", "")).map_err(|e| failed("set up modules", &e))?;
    }
    lua.load(source).set_name(format!("@{path}")).exec().map_err(|e| failed("load file", &e))?;
    Ok(lua)
}

fn start(script: &OutputScript, setup: &ScriptSetup) -> Result<Output, ScriptError> {
    let lua = open(&script.path, &script.source, setup)?;
    let globals = lua.globals();
    if let Ok(f) = globals.get::<Function>("setup") {
        let run = with_scene(&lua, Scene::default(), || f.call::<()>(Value::Nil));
        run.map_err(|e| failed("run script 'setup' function", &e))?;
    }
    let log: Function = globals.get("log").map_err(|_| ScriptError::NoFunction("log"))?;
    Ok(Output { lua, kind: script.kind, log, path: script.path.clone() })
}

fn kind(needs: &Table) -> Result<OutputKind, ScriptError> {
    let text = |key: &str| needs.get::<Option<String>>(key).ok().flatten();
    match text("streaming").as_deref() {
        Some("tcp") => return Ok(OutputKind::TcpStream),
        Some(name) if table_by_eve_name(name).is_some_and(|t| t.own_outputs.logs_bodies) => {
            return Ok(OutputKind::HttpBody);
        }
        Some(other) => return Err(ScriptError::UnknownStream(other.to_owned())),
        None => {}
    }
    if let Some(name) = text("protocol") {
        let known = table_by_eve_name(&name).filter(|t| t.own_outputs.has_scripts);
        return match known {
            Some(table) => Ok(OutputKind::Transaction(table.eve_name)),
            None => Err(ScriptError::UnknownProtocol(name)),
        };
    }
    match (text("type").as_deref(), text("filter").as_deref()) {
        (Some("packet"), Some("alerts")) => Ok(OutputKind::Alert),
        (Some("packet"), _) => Ok(OutputKind::Packet),
        (Some("file"), _) => Ok(OutputKind::File),
        (Some("flow"), _) => Ok(OutputKind::Flow),
        (Some("stats"), _) => Ok(OutputKind::Stats),
        (Some("streaming"), _) => Ok(OutputKind::TcpStream),
        (Some(other), _) => Err(ScriptError::UnknownType(other.to_owned())),
        (None, _) => Err(ScriptError::NoType),
    }
}
