//! Lua scripts of rules: `lua`, `luaxform`, and what they may read.
//!
//! Each worker has a state of its own for each use of a script in a rule (`Scripts`). A run borrows
//! the current packet, flow and transaction (`Scene`) for its duration; functions of the
//! `suricata.*` libraries (`library`) look into it. Nothing a script does can stop the engine: its
//! errors are counted and reported, and mean *no match*. Semantics and messages are Suricata's (8.0.7),
//! the limits are enforced more strictly (`sandbox`, `bounded`).

mod allowance;
mod bounded;
mod call;
mod hash;
mod inspect;
mod keeping;
mod library;
pub(crate) mod output;
mod output_script;
mod pattern;
mod sandbox;
mod scene;
mod stream_logs;
mod voice;

#[cfg(test)]
mod tests;

pub use inspect::{inspect, unreadable};
pub use output::OutputScripts;
pub(crate) use output::StreamPiece;
pub use output_script::{OutputKind, OutputScript};
pub use sandbox::ScriptLimits;
pub(crate) use scene::{FlowAt, Scene};
pub(crate) use stream_logs::{Logged, StreamLogs};
pub use voice::{ScriptSetup, Severity, Voice};

use crate::datasets::Datasets;
use allowance::Allowance;
use call::with_scene;
use gabion_rules::Ruleset;
use gabion_rules::compiled::ScriptRef;
use mlua::chunk::ChunkMode;
use mlua::{Function, Lua, Value};
use sandbox::Failure;
use std::cell::Cell;
use std::rc::Rc;

const WHO: &str = "detect-lua";

/// Errors of scripts, as Suricata counts them (`detect.lua`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScriptCounters {
    /// Runs that failed, for any reason.
    pub errors: u64,
    /// A blocked function was called.
    pub blocked_functions: u64,
    /// The instruction limit was reached.
    pub instruction_limits: u64,
    /// The memory limit was reached.
    pub memory_limits: u64,
}

impl ScriptCounters {
    fn count(&mut self, failure: &Failure) {
        self.errors += 1;
        match failure {
            Failure::Instructions => self.instruction_limits += 1,
            Failure::Memory => self.memory_limits += 1,
            Failure::Blocked(_) => self.blocked_functions += 1,
            Failure::Error(_) => {}
        }
    }

    /// Adds another worker's counts.
    pub fn merge(&mut self, o: &ScriptCounters) {
        self.errors += o.errors;
        self.blocked_functions += o.blocked_functions;
        self.instruction_limits += o.instruction_limits;
        self.memory_limits += o.memory_limits;
    }
}

/// One script of one worker, loaded.
struct Script {
    lua: Lua,
    allowance: Rc<Allowance>,
    /// `match` or `transform`; `None`: the script has no such function.
    entry: Option<Function>,
    /// A failure of its was reported: each one is counted, the first one reported.
    has_reported: Cell<bool>,
}

impl Script {
    fn report(&self, failure: &Failure, setup: &ScriptSetup) {
        if !self.has_reported.replace(true) {
            let said = format!("Lua script failed to run successfully: {}", failure.message());
            setup.voice.send_message(Severity::Warning, WHO, &said);
        }
    }
}

/// Input and outcome of a transform.
struct Transformed {
    script: u32,
    input: Vec<u8>,
    output: Option<Vec<u8>>,
}

/// The scripts of one worker, by their number in the rule set; `None`: it could not be started.
#[derive(Default)]
pub(crate) struct Scripts {
    setup: ScriptSetup,
    scripts: Vec<Option<Script>>,
    /// Results of transforms for the current packet: a transform runs once for each input.
    transformed: Vec<Transformed>,
    pub(crate) counters: ScriptCounters,
}

impl Scripts {
    /// Starts the scripts of a rule set.
    pub(crate) fn new(set: &Ruleset, datasets: &Datasets, setup: &ScriptSetup) -> Scripts {
        let mut s = Scripts { setup: setup.clone(), ..Scripts::default() };
        for script in &set.scripts {
            let started = s.start(set, datasets, script);
            s.scripts.push(started);
        }
        s
    }

    fn start(&mut self, set: &Ruleset, datasets: &Datasets, script: &ScriptRef) -> Option<Script> {
        let say = |what: &str| self.setup.voice.send_message(Severity::Error, WHO, what);
        let (lua, allowance) = match load(&script.path, &script.facts.source, &self.setup) {
            Ok(loaded) => loaded,
            Err((_, what)) => {
                self.counters.errors += 1;
                say(&what);
                return None;
            }
        };
        let scene = Scene {
            set: Some(set),
            script: Some(script),
            datasets: Some(datasets),
            ..Scene::default()
        };
        if let Ok(init) = lua.globals().get::<Function>("thread_init") {
            allowance.renew();
            if let Err(e) = with_scene(&lua, scene, || init.call::<()>(Value::Nil)) {
                let failure = Failure::from_error(&e, Some(&allowance));
                self.counters.count(&failure);
                say(&format!("couldn't run script 'thread_init' function: {}", failure.message()));
                say("setting up thread local detect ctx for keyword \"lua\" failed");
                return None;
            }
        }
        let name = if script.is_transform { "transform" } else { "match" };
        let entry = lua.globals().get::<Function>(name).ok();
        Some(Script { lua, allowance, entry, has_reported: Cell::new(false) })
    }

    /// Runs a rule's script; `None`: it failed, which is counted and reported.
    pub(crate) fn matches(&mut self, script: u32, scene: Scene<'_>) -> Option<bool> {
        let s = self.scripts.get(script as usize)?.as_ref()?;
        let Some(entry) = &s.entry else {
            let failure = Failure::Error("attempt to call a nil value".into());
            self.counters.count(&failure);
            s.report(&failure, &self.setup);
            return None;
        };
        s.allowance.renew();
        let run = with_scene(&s.lua, scene, || {
            let arguments = s.lua.create_table()?;
            entry.call::<Value>(arguments)
        });
        match run {
            Ok(Value::Integer(n)) => Some(n == 1),
            Ok(Value::Number(n)) => Some(n == 1.0),
            Ok(_) => Some(false),
            Err(e) => {
                let failure = Failure::from_error(&e, Some(&s.allowance));
                self.counters.count(&failure);
                s.report(&failure, &self.setup);
                None
            }
        }
    }

    /// A packet's detection begins.
    #[inline]
    pub(crate) fn begin_packet(&mut self) {
        self.transformed.clear();
    }

    /// Runs a transform; `None`: it failed or returned nothing, the buffer stays as it is.
    pub(crate) fn transform(
        &mut self,
        script: u32,
        input: &[u8],
        arguments: &[Box<str>],
        scene: Scene<'_>,
    ) -> Option<Vec<u8>> {
        let known = self.transformed.iter().find(|t| t.script == script && t.input == input);
        if let Some(t) = known {
            return t.output.clone();
        }
        let output = self.transform_now(script, input, arguments, scene);
        if self.transformed.len() < crate::limits::SCRIPT_TRANSFORMED_MAX {
            let (input, output) = (input.to_vec(), output.clone());
            self.transformed.push(Transformed { script, input, output });
        }
        output
    }

    fn transform_now(
        &mut self,
        script: u32,
        input: &[u8],
        arguments: &[Box<str>],
        scene: Scene<'_>,
    ) -> Option<Vec<u8>> {
        let s = self.scripts.get(script as usize)?.as_ref()?;
        let entry = s.entry.as_ref()?;
        s.allowance.renew();
        let run = with_scene(&s.lua, scene, || {
            let list = s.lua.create_sequence_from(arguments.iter().map(|a| a.as_ref()))?;
            entry.call::<(Value, Value)>((s.lua.create_string(input)?, list))
        });
        let (out, len) = match run {
            Ok(both) => both,
            Err(e) => {
                // Suricata does not count these; here nothing fails silently.
                let failure = Failure::from_error(&e, Some(&s.allowance));
                self.counters.count(&failure);
                s.report(&failure, &self.setup);
                return None;
            }
        };
        let out = s.lua.coerce_string(out).ok()??;
        let len = s.lua.coerce_integer(len).ok()??;
        let bytes = out.as_bytes();
        let len = usize::try_from(len).ok().filter(|n| *n > 0)?;
        bytes.get(..len).map(<[u8]>::to_vec)
    }
}

/// A state with a script's functions in it; an error has the name of the step that failed, and the message.
fn load(
    path: &str,
    source: &[u8],
    setup: &ScriptSetup,
) -> Result<(Lua, Rc<Allowance>), (&'static str, String)> {
    let fail = |step: &'static str, allowance: Option<&Rc<Allowance>>, e: &mlua::Error| {
        let failure = Failure::from_error(e, allowance.map(AsRef::as_ref));
        (step, format!("couldn't {step} file: {}", failure.message()))
    };
    let (lua, allowance) = sandbox::open(&setup.limits).map_err(|e| fail("load", None, &e))?;
    let at = Some(&allowance);
    call::install(&lua, setup, library::LIBRARIES).map_err(|e| fail("load", at, &e))?;
    sandbox::limit_memory(&lua, &setup.limits).map_err(|e| fail("load", at, &e))?;
    let chunk = lua.load(source).set_name(format!("@{path}")).set_mode(ChunkMode::Text);
    let chunk = chunk.into_function().map_err(|e| fail("load", at, &e))?;
    chunk.call::<()>(()).map_err(|e| fail("prime", at, &e))?;
    Ok((lua, allowance))
}
