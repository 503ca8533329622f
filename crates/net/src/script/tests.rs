//! Scripts that exceed their limits, patterns compared with Lua's own, results of `match`.

use super::sandbox::{Failure, ScriptLimits};
use super::voice::{ScriptSetup, Voice};
use super::*;
use gabion_rules::compiled::ScriptFacts;
use std::sync::{Arc, Mutex};

fn limits(allow_restricted: bool) -> ScriptLimits {
    ScriptLimits { allow_restricted, ..ScriptLimits::default() }
}

/// Runs a chunk as a script's body and returns how it ended.
fn run(limits: ScriptLimits, body: &str) -> Result<String, Failure> {
    run_in(limits, Scene::default(), body)
}

/// The same in a scene.
fn run_in(limits: ScriptLimits, scene: Scene<'_>, body: &str) -> Result<String, Failure> {
    let setup = ScriptSetup { limits, ..ScriptSetup::default() };
    let source = format!("function match(args)\n{body}\nend");
    let (lua, allowance) = load("test.lua", source.as_bytes(), &setup)
        .map_err(|(step, what)| Failure::Error(format!("{step}: {what}")))?;
    let f: Function = lua.globals().get("match").map_err(|e| Failure::from_error(&e, None))?;
    allowance.renew();
    let value = with_scene(&lua, scene, || f.call::<Value>(lua.create_table()?))
        .map_err(|e| Failure::from_error(&e, Some(&allowance)))?;
    value.to_string().map_err(|e| Failure::from_error(&e, Some(&allowance)))
}

#[test]
fn endless_work_ends() {
    for (restricted, body) in [
        (false, "while true do end"),
        (false, "repeat local x = {} until false"),
        (false, "::again:: goto again"),
        (false, "for i = 1, math.maxinteger do end"),
        (false, "return string.rep('', 1 << 40)"),
        (false, "table.move({}, 1, 1 << 40, 2)"),
        (false, "return ('a'):rep(40):find(('a*'):rep(20) .. 'b')"),
        (false, "return ('a'):rep(4000):match('.-.-.-.-.-.-b')"),
        (false, "return ('a'):rep(60):gsub(('a?'):rep(60) .. ('a'):rep(60) .. 'b', '')"),
        (false, "for m in ('a'):rep(4000):gmatch('.-.-.-.-b') do end"),
        (false, "return ('x'):rep(1000):gsub('.', function() while true do end end)"),
        (
            false,
            "local t = {} for i = 1, 900 do t[i] = i end table.sort(t, function() while true do end end)",
        ),
        (true, "while true do pcall(function() while true do end end) end"),
        (true, "while true do xpcall(function() while true do end end, function() end) end"),
        (true, "while true do pcall(error) end"),
        (true, "local function f() pcall(f) pcall(f) end f()"),
        (
            true,
            "while true do local c = coroutine.wrap(function() while true do end end) pcall(c) end",
        ),
        (
            true,
            "local c = coroutine.create(function() while true do end end) while true do coroutine.resume(c) end",
        ),
        (true, "while true do coroutine.wrap(function() end)() end"),
        (
            true,
            "local t = setmetatable({}, {__index = function(t, k) return t[k + 1] and k end}) while true do pcall(function() return t[1] end) end",
        ),
        (
            true,
            "local t = setmetatable({}, {__close = function() while true do end end}) while true do local x <close> = t error('x') end",
        ),
        (true, "error(setmetatable({}, {__tostring = function() while true do end end}))"),
    ] {
        let end = run(limits(restricted), body);
        assert_eq!(end, Err(Failure::Instructions), "{body}");
    }
}

#[test]
fn memory_ends() {
    for body in [
        "local s = 'x' while true do s = s .. s end",
        "return string.rep('B', 1 << 30)",
        "return string.rep('ab', 1 << 62)",
        "local t = {} for i = 1, 100000 do t[i] = i end",
        "local t = {} for i = 1, 20000 do t[i] = ('x'):rep(64) .. i end",
        "return ('x'):rep(400000):gsub('.', 'yyyyyyyyyy')",
        "local t = {} for i = 1, 40 do t[i] = ('x'):rep(10000) .. i end return table.concat(t)",
    ] {
        match run(limits(false), body) {
            // A result that would be too long is refused before memory is allocated.
            Err(Failure::Memory | Failure::Instructions) => {}
            Err(Failure::Error(e)) if e.contains("resulting string too large") => {}
            other => panic!("{body}: {other:?}"),
        }
    }
    let wide = ScriptLimits { max_bytes: 4 << 20, ..ScriptLimits::default() };
    let body = "local s = string.rep('B', 400000) return #s";
    assert_eq!(run(wide, body), Ok("400000".into()));
    let narrow = ScriptLimits { max_bytes: 20_000, ..ScriptLimits::default() };
    assert_eq!(run(narrow, body), Err(Failure::Memory));
    assert_eq!(run(narrow, "return 1"), Ok("1".into()));
}

#[test]
fn metatables_do_not_hide_work() {
    let mt = limits(true);
    for (body, why) in [
        ("setmetatable({}, {__gc = function() while true do end end})", "__gc is not allowed"),
        (
            "table.sort(setmetatable({}, {__len = function() return 1 << 30 end}), rawequal)",
            "__len",
        ),
        ("table.insert(setmetatable({}, {__len = function() return 1 << 40 end}), 1, 1)", "__len"),
        ("local function f() return 1 + f() end return f()", "stack overflow"),
    ] {
        match run(mt, body) {
            Err(Failure::Error(e)) => assert!(e.contains(why), "{body}: {e}"),
            Err(Failure::Memory) if why == "stack overflow" => {}
            other => panic!("{body}: {other:?}"),
        }
    }
    let caught = "local ok, e = pcall(error, {code = 7}) return tostring(ok) .. e.code";
    assert_eq!(run(mt, caught), Ok("false7".into()));
}

/// The list and the words are Suricata's (8.0.7, observed).
#[test]
fn functions_are_blocked() {
    for name in [
        "collectgarbage",
        "dofile",
        "getmetatable",
        "loadfile",
        "load",
        "pcall",
        "setmetatable",
        "xpcall",
    ] {
        let said = format!("test.lua:2: Blocked Lua function called: {name}");
        assert_eq!(run(limits(false), &format!("{name}('x')")), Err(Failure::Blocked(said)));
    }
    for name in ["io", "os", "debug", "package", "coroutine"] {
        let said = format!("test.lua:2: attempt to index a nil value (global '{name}')");
        assert_eq!(run(limits(false), &format!("{name}.x()")), Err(Failure::Error(said)));
    }
    let said = "test.lua:2: Module not found: os".to_string();
    assert_eq!(run(limits(false), "require('os')"), Err(Failure::Error(said)));
    // Compiled chunks are refused.
    let setup = ScriptSetup::default();
    assert!(load("x", b"\x1bLua\x54\x00", &setup).is_err());
}

/// Each call is made by Lua's own library and by ours.
#[test]
fn patterns_are_those_of_lua() {
    const TEXTS: &[&str] = &[
        "",
        "a",
        "hello world",
        "key = value; k2=v2",
        "THE (quick) fox",
        "((a)(b))",
        "aaa",
        "a.b.c",
        "  trim me  ",
        "2026-11-21",
        "x\\0y",
        "[]]^-%",
        "f(a(b)c)d",
        "one;two;;four",
        "AbCdEf 123",
    ];
    const PATTERNS: &[&str] = &[
        "",
        "a",
        ".",
        ".*",
        ".-",
        "a*",
        "a+",
        "a-",
        "a?b",
        "^a",
        "a$",
        "^$",
        "%a+",
        "%d+",
        "%s*",
        "(%w+)%s*=%s*(%w+)",
        "()a()",
        "%((%a+)%)",
        "%b()",
        "%f[%w]%w+",
        "[a-c]",
        "[^a-c]+",
        "[]]",
        "[^]]",
        "[%a_][%w_]*",
        "(.)%1",
        "^%s*(.-)%s*$",
        "(%d+)-(%d+)-(%d+)",
        "[%-%^]",
        "[a-]",
        "%%",
        "%",
        "[",
        "[a",
        "(",
        ")",
        "%b",
        "%f",
        "(()",
        "%1",
        "[^",
        "[%",
        "^(%a)(.*)$",
        "%u%l",
        "%p",
        "%x+$",
        "[^;]*",
        ";?",
        "(a)(b)?",
        "-",
        "+",
        "*a",
        "%z",
        "%g+",
        "%c",
    ];
    let script = "
        local function show(ok, ...)
            local t = {tostring(ok)}
            for i = 1, select('#', ...) do t[#t + 1] = tostring((select(i, ...))) end
            return (table.concat(t, '|'):gsub('^(false|)[^:]*:%d+: ', '%1'))
        end
        local out = {}
        for _, s in ipairs(TEXTS) do for _, p in ipairs(PATTERNS) do
            out[#out + 1] = show(pcall(string.find, s, p))
            out[#out + 1] = show(pcall(string.find, s, p, 3))
            out[#out + 1] = show(pcall(string.find, s, p, -2))
            out[#out + 1] = show(pcall(string.match, s, p))
            out[#out + 1] = show(pcall(string.gsub, s, p, '<%0>'))
            out[#out + 1] = show(pcall(string.gsub, s, p, '%1', 2))
            out[#out + 1] = show(pcall(string.gsub, s, p, {a = 'A', hello = false}))
            out[#out + 1] = show(pcall(string.gsub, s, p, function(x) return x and '.' end))
            out[#out + 1] = show(pcall(function()
                local all = {}
                for a, b in string.gmatch(s, p) do all[#all + 1] = tostring(a) .. ',' .. tostring(b) end
                return table.concat(all, ';')
            end))
        end end
        return table.concat(out, '\\n')";
    let answer = |lua: &Lua| -> String {
        let list = |items: &[&str]| lua.create_sequence_from(items.iter().copied()).unwrap();
        lua.globals().set("TEXTS", list(TEXTS)).unwrap();
        lua.globals().set("PATTERNS", list(PATTERNS)).unwrap();
        lua.load(script).eval().unwrap()
    };
    let own = answer(&Lua::new());
    let wide = ScriptLimits { max_bytes: 0, max_instructions: u64::MAX, allow_restricted: true };
    let (lua, _allowance) = sandbox::open(&wide).unwrap();
    let ours = answer(&lua);
    for (n, (a, b)) in own.lines().zip(ours.lines()).enumerate() {
        let (s, p) = (TEXTS[n / 9 / PATTERNS.len()], PATTERNS[n / 9 % PATTERNS.len()]);
        assert_eq!(a, b, "call {} on {s:?} with {p:?}", n % 9);
    }
    assert_eq!(own.lines().count(), ours.lines().count());
}

fn script(source: &str, is_transform: bool) -> ScriptRef {
    ScriptRef {
        path: "test.lua".into(),
        is_transform,
        facts: ScriptFacts { source: source.as_bytes().into(), ..ScriptFacts::default() },
        byte_variables: Vec::new(),
        flow_variables: Vec::new(),
        flow_integers: Vec::new(),
    }
}

fn scripts(list: &[(&str, bool)]) -> (Scripts, Arc<Mutex<Vec<String>>>) {
    let all = list.iter().map(|(source, is_transform)| script(source, *is_transform)).collect();
    let set = Ruleset { scripts: all, ..Ruleset::default() };
    let heard = Arc::new(Mutex::new(Vec::new()));
    let ear = Arc::clone(&heard);
    let voice = Voice::new(move |_, _, text| {
        if let Ok(mut h) = ear.lock() {
            h.push(text.to_string());
        }
    });
    let setup = ScriptSetup { voice, ..ScriptSetup::default() };
    (Scripts::new(&set, &Datasets::default(), &setup), heard)
}

/// What counts as a match: observed with Suricata.
#[test]
fn answers() {
    for (source, answer) in [
        ("function match() return 1 end", Some(true)),
        ("function match() return 0 end", Some(false)),
        ("function match() return 2 end", Some(false)),
        ("function match() return -1 end", Some(false)),
        ("function match() return true end", Some(false)),
        ("function match() return {retval = 1} end", Some(false)),
        ("function match() end", Some(false)),
        ("function match() error('x') end", None),
        ("x = 1", None),
        ("function thread_init() error('x') end function match() return 1 end", None),
        ("n = 0 function thread_init() n = 1 end function match() return n end", Some(true)),
    ] {
        let (mut s, _) = scripts(&[(source, false)]);
        assert_eq!(s.matches(0, Scene::default()), answer, "{source}");
    }
}

#[test]
fn failures_are_counted_and_said() {
    let (mut s, heard) = scripts(&[
        ("function match() while true do end end", false),
        ("function match() return string.rep('x', 1000000) end", false),
        ("function match() pcall(print) end", false),
        ("function match() error({}) end", false),
    ]);
    for n in 0..4 {
        assert_eq!(s.matches(n, Scene::default()), None);
    }
    let one =
        ScriptCounters { errors: 4, blocked_functions: 1, instruction_limits: 1, memory_limits: 1 };
    assert_eq!(s.counters, one);
    let said = "Lua script failed to run successfully: ";
    let heard = heard.lock().unwrap().join("\n");
    let wanted = [
        "instruction limit exceeded",
        "memory limit exceeded",
        "test.lua:1: Blocked Lua function called: pcall",
        "(null)",
    ];
    assert_eq!(heard, wanted.map(|w| format!("{said}{w}")).join("\n"));
}

/// Each script reports its first failure, and counts all.
#[test]
fn a_script_reports_one_failure() {
    let failing = ("function match() error('x') end", false);
    let (mut s, heard) = scripts(&[failing, failing]);
    for n in [0, 0, 1, 0, 1] {
        assert_eq!(s.matches(n, Scene::default()), None);
    }
    assert_eq!((s.counters.errors, heard.lock().unwrap().len()), (5, 2));
}

#[test]
fn a_long_line_is_cut_and_counted() {
    let source = "function match() print(string.rep('x', 70000)) print('a', string.rep('x', 70000), 'z') end";
    let (mut s, heard) = scripts(&[(source, false)]);
    assert_eq!(s.matches(0, Scene::default()), Some(false));
    let lengths: Vec<usize> = heard.lock().unwrap().iter().map(String::len).collect();
    assert_eq!(lengths, [70_000, 70_002]);
    let counts = gabion_record::limits::take_reached();
    assert_eq!(counts.times_reached(&crate::limits::reached::SCRIPT_LINE_BYTES_MAX), 1);
}

/// Outcomes of transforms: observed with Suricata. A wrong outcome leaves the buffer as it is.
#[test]
fn transforms() {
    for (source, out) in [
        ("function transform(i, a) return i:upper(), #i end", Some("AB")),
        ("function transform(i, a) return i, 1 end", Some("a")),
        ("function transform(i, a) return i, '2' end", Some("ab")),
        ("function transform(i, a) return a[1] .. #a, 3 end", Some(" x2")),
        ("function transform(i, a) return a[1] .. #a, 5 end", None),
        ("function transform(i, a) return 5, 1 end", Some("5")),
        ("function transform(i, a) return i end", None),
        ("function transform(i, a) return i, 500 end", None),
        ("function transform(i, a) return i, -1 end", None),
        ("function transform(i, a) return '', 0 end", None),
        ("function transform(i, a) return nil, 0 end", None),
        ("function transform(i, a) error('x') end", None),
        ("function transform(i, a) while true do end end", None),
    ] {
        let (mut s, _) = scripts(&[(source, true)]);
        let arguments: [Box<str>; 2] = [" x".into(), "y".into()];
        let got = s.transform(0, b"ab", &arguments, Scene::default());
        assert_eq!(got, out.map(|t| t.as_bytes().to_vec()), "{source}");
    }
    let (mut s, _) =
        scripts(&[("n = 0 function transform(i) n = n + 1 return i .. n, #i + 1 end", true)]);
    let mut once = || s.transform(0, b"a", &[], Scene::default());
    assert_eq!((once(), once()), (Some(b"a1".to_vec()), Some(b"a1".to_vec())));
    s.begin_packet();
    assert_eq!(s.transform(0, b"a", &[], Scene::default()), Some(b"a2".to_vec()));
}

/// Suricata's messages when a rule is loaded.
#[test]
fn inspection() {
    let look = |source: &str, is_transform: bool| {
        let setup = ScriptSetup::default();
        let inspected = inspect("t.lua", source.as_bytes(), is_transform, &setup);
        inspected.map_err(|e| e.to_string())
    };
    for (source, said) in [
        ("function match() end", "no init function in script"),
        (
            "function init() end",
            "init function in script should return table, returned is not table",
        ),
        ("function init( x", "couldn't load file: t.lua:1: ')' expected near <eof>"),
        ("function init() error('boo') end", "couldn't run script 'init' function: t.lua:1: boo"),
        ("error('top')", "couldn't prime file: t.lua:1: top"),
        ("function init() return {foo = true} end", "unsupported data type foo"),
        (
            "function init() return {['http.uri'] = 'true'} end",
            "data type http.uri no longer supported, use rule hooks",
        ),
        (
            "function init() while true do end end",
            "couldn't run script 'init' function: instruction limit exceeded",
        ),
    ] {
        assert_eq!(look(source, false), Err(said.to_string()), "{source}");
    }
    assert_eq!(look("x = 1", true), Err("no transform function in script".into()));
    let missing = unreadable("t.lua", "No such file").to_string();
    assert_eq!(missing, "couldn't load file: cannot open t.lua: No such file");
    let facts = look(
        "local b, f = require('suricata.bytevar'), require('suricata.flowint')
         function init(sig) b.map(sig, 'v') f.register('n') return {payload = 'true'} end",
        false,
    )
    .unwrap();
    assert_eq!((facts.byte_variables, facts.flow_integers), (vec!["v".into()], vec!["n".into()]));
    assert!(facts.needs_payload);
    let many = "local f = require('suricata.flowint')
        function init() for i = 1, 97 do f.register('v' .. i) end return {} end";
    assert!(look(many, false).unwrap_err().contains("too many flowints registered"));
}

/// Suricata 8.0.7: `#p:payload() == 0` matches on packets without payload, fragments and pseudo packets.
#[test]
fn a_packet_without_payload_has_an_empty_one() {
    let headers = gabion_packet::Decoded::new();
    let packet = crate::view::PacketView {
        headers: &headers,
        frame: &[],
        payload: &[],
        ts_ns: 0,
        clock_ns: 0,
        link: 1,
        device: 0,
        number: 1,
        pcap_cnt: Some(1),
        ignores_checksums: false,
        direction: None,
        is_pseudo: false,
        is_established: false,
        stream_events: &[],
        detection_events: &[],
        pkt_src: gabion_record::PacketSource::Wire,
        no_payload: false,
        is_refused: false,
        prefix: &[],
        outer: None,
        root: &headers,
        frame_number: 1,
    };
    for (payload, length) in [(&b""[..], "0"), (b"abc", "3")] {
        let packet = crate::view::PacketView { payload, ..packet };
        let scene = Scene { packet: Some(&packet), ..Scene::default() };
        let body = "return #require('suricata.packet').get():payload()";
        assert_eq!(run_in(limits(false), scene, body), Ok(length.into()));
    }
}

/// A client's hello of QUIC in a version whose frames are in the clear: hash and text are those of Suricata's record
/// (8.0.7), and there is none of a server.
#[test]
fn ja3_of_quic() {
    use gabion_proto::{Endpoints, Input, ParseContext, quic};
    use gabion_record::Direction::ToServer;
    let hello = b"\x01\0\0\x41\x03\x03RRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRR\0\0\x04\x13\x01\x13\x02\
        \x01\0\0\x14\0\0\0\x07\0\x05\0\0\x02ab\0\x2b\0\x05\x04\x03\x04\x0a\x0a";
    let frame = [&b"\x06\0\x40\x45"[..], hello].concat();
    let head = b"\xc0\x0a\x0a\x0a\x0a\x04AAAA\0\0\x40";
    let datagram = [&head[..], &[frame.len() as u8], &frame].concat();
    let settings = (quic::PROTOCOL.configure)(None).unwrap();
    let mut parser = (quic::PROTOCOL.open)(&settings, gabion_record::applayer::Transport::Udp);
    let ends = Endpoints::default();
    let mut cx = ParseContext::new(0, ToServer, &ends);
    parser.parse(&mut cx, Input::Data { bytes: &datagram, eof: false });
    let scene = || Scene { tx: parser.tx(0), ..Scene::default() };
    for (get, expected) in [
        ("ja3_get_hash", "c1ef87234d1f4958b95c016a1a7100df"),
        ("ja3_get_string", "771,4865-4866,0-43,,"),
        ("ja3s_get_hash", "nil"),
        ("ja3s_get_string", "nil"),
    ] {
        let body = format!("return require('suricata.ja3').get_tx():{get}()");
        assert_eq!(run_in(limits(false), scene(), &body), Ok(expected.into()), "{get}");
    }
}

/// Functions that need missing data return the reason, and nothing panics.
#[test]
fn libraries_without_a_scene() {
    let body = "
        local n = 0
        for _, name in ipairs{'packet', 'flow', 'http', 'dns', 'tls', 'ssh', 'smtp', 'ja3', 'file', 'rule'} do
            local lib = require('suricata.' .. name)
            for f, get in pairs(lib) do
                local o, why = get()
                if o == nil then n = n + 1 end
            end
        end
        local h = require('suricata.hashlib').sha256()
        h:update('abc')
        local b = require('suricata.base64')
        return n .. h:finalize_to_hex() .. b.encode(b.decode('YWI='))";
    let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    // enable_ja3 and enable_hassh return nothing as well.
    assert_eq!(run(limits(false), body), Ok(format!("12{abc}YWI=")));
    for (body, said) in [
        (
            "require('suricata.hashlib').md5_digest()",
            "'suricata.hashlib.md5_digest' (string expected",
        ),
        ("require('suricata.packet').get().x()", "nil"),
        ("require('suricata.hashlib').md5().update()", "suricata:hashlib expected, got no value"),
        ("require('suricata.flowint').get('x')", "does not exist"),
        ("require('suricata.bytevar').get('x')", "unknown bytevar: x"),
        ("require('suricata.base64').decode('!')", "base64 decoding failed"),
    ] {
        match run(limits(false), body) {
            Err(Failure::Error(e)) => assert!(e.contains(said), "{body}: {e}"),
            other => panic!("{body}: {other:?}"),
        }
    }
}
