//! Lua scripts of rules: runs any text as a rule's script on a short HTTP connection.

use crate::engine::Lines;
use crate::seeds::{Seeds, repository};
use gabion_net::script::{ScriptLimits, ScriptSetup, inspect};
use gabion_net::{Engine, FrameIn, Worker, WorkerBudgets};
use gabion_rules::{LoadOptions, RuleSource, Ruleset};
use std::sync::{Arc, OnceLock};

/// Frames of the demonstration for scripts: more would only repeat.
const FRAMES_MAX: usize = 14;

/// The script in each place of a rule that takes one; small limits, so that they are reached.
const RULES: &str = r#"
alert tcp any any -> any any (msg:"packet"; lua:any.lua; sid:1;)
alert http any any -> any any (msg:"buffer"; http.uri; content:"/"; lua:any.lua; sid:2;)
alert http1:request_complete any any -> any any (msg:"hook"; lua:any.lua; sid:3;)
alert http any any -> any any (msg:"transform"; http.uri; luaxform:any.lua, a, b; content:"a"; sid:4;)
"#;

/// Loads the text and runs it if it loads. Whatever it does, the run ends.
pub fn script(data: &[u8]) {
    let setup = ScriptSetup {
        limits: ScriptLimits {
            max_bytes: 120_000,
            max_instructions: 4_000,
            allow_restricted: data.first().is_some_and(|b| *b == b'!'),
        },
        ..ScriptSetup::default()
    };
    let source = data.strip_prefix(b"!").unwrap_or(data);
    let look = |path: &str, is_transform: bool| {
        let facts = inspect(path, source, is_transform, &setup);
        assert!(
            facts.as_ref().err().is_none_or(|reason| !reason.to_string().is_empty()),
            "an error has a reason"
        );
        Ok(facts?)
    };
    let catalog = gabion_proto::registry::catalog();
    let rules = RuleSource { name: "any.rules", text: RULES, is_firewall: false };
    let options = LoadOptions { inspect_script: Some(&look), ..LoadOptions::default() };
    let (set, _) = Ruleset::load(&[rules], &catalog, &crate::rules::vars(), &options);
    if set.scripts.is_empty() {
        return;
    }
    let mut engine: Engine = crate::engine::assemble(&crate::engine::configuration(), set, catalog);
    engine.scripts = setup;
    let engine = Arc::new(engine);
    let mut worker = Worker::new(Arc::clone(&engine), WorkerBudgets::standalone(&engine));
    let mut sink = Lines::new();
    for (number, (ts_ns, frame)) in (1..).zip(http_frames()) {
        let frame = FrameIn {
            ts_ns: *ts_ns,
            clock_ns: *ts_ns,
            is_leap: false,
            number,
            device: 0,
            link: 1,
            ignores_checksums: false,
            wire_len: 0,
            data: frame,
            fragments: None,
        };
        worker.frame(&frame, &mut sink);
    }
    worker.finish(&mut sink);
}

/// The first frames to and from a web server in the demonstration.
fn http_frames() -> &'static [(u64, Vec<u8>)] {
    static TALK: OnceLock<Vec<(u64, Vec<u8>)>> = OnceLock::new();
    TALK.get_or_init(|| {
        let seeds = Seeds::new(None);
        let is_web = |frame: &[u8]| {
            let port = |at: usize| frame.get(at..at + 2).is_some_and(|p| p == [0, 80]);
            frame.get(12..14).is_some_and(|t| t == [8, 0])
                && frame.get(23).is_some_and(|p| *p == 6)
                && (port(34) || port(36))
        };
        let all = seeds.frames.iter().flatten().filter(|frame| is_web(&frame.data));
        all.take(FRAMES_MAX).map(|frame| (frame.ts_ns, frame.data.clone())).collect()
    })
}

/// Scripts of the corpus's tests, and some that exceed limits.
pub fn seeds(seeds: &Seeds) -> Vec<Vec<u8>> {
    const BODIES: &[&str] = &[
        "while true do end",
        "return ('a'):rep(4000):find('.-.-.-b') and 1 or 0",
        "local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(i) end",
        "return string.format('%5s %q %d', 'a', 'b\\n', 3):len()",
        "local t = {3, 2, 1} table.sort(t) return table.concat(t, ',') == '1,2,3' and 1 or 0",
        "local function f(n) return f(n + 1) + 1 end return f(1)",
        "return utf8.len(string.char(0xe2, 0x82, 0xac)) // 1 | 0",
        "local c = coroutine and coroutine.wrap(function() end) return c and c()",
        "error({code = 2})",
    ];
    let mut all: Vec<Vec<u8>> = Vec::new();
    for body in BODIES {
        let script = format!(
            "local packet = require \"suricata.packet\"\nfunction init(sig) return {{}} end\n\
             function match(args)\n{body}\nend\nfunction transform(input, args)\n{body}\n\
             return input, #input\nend\n"
        );
        all.push(script.clone().into_bytes());
        all.push(format!("!{script}").into_bytes());
    }
    for library in ["http", "flow", "packet", "hashlib", "base64", "flowvar", "dns", "file"] {
        all.push(
            format!(
                "local l = require \"suricata.{library}\"\nfunction init(sig) return {{}} end\n\
                 function match(args)\nlocal n = 0\nfor k, v in pairs(l) do n = n + 1\n\
                 local a = v(args, 'x', 1)\nend\nreturn n end\n"
            )
            .into_bytes(),
        );
    }
    let mut files = vec![repository().join("lab")];
    files.extend(seeds.corpus.iter().map(|corpus| corpus.join("suricata-verify/tests")));
    for folder in files {
        scripts_below(&folder, &mut all);
    }
    all
}

fn scripts_below(folder: &std::path::Path, all: &mut Vec<Vec<u8>>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            scripts_below(&path, all);
        } else if path.extension().is_some_and(|e| e == "lua") {
            all.extend(std::fs::read(&path).ok().filter(|text| text.len() < 8_000));
        }
    }
}
