//! The command socket of `gabion suricata`: commands with the answers of Suricata 8.0.7, commands that are cut, huge, or from
//! a thousand clients, `suricatasc` and suricata-update where they are installed.
#![allow(clippy::disallowed_methods, reason = "answers come by the clock")]

mod program;

use program::packets::{CLIENT, SERVER, capture_at, ipv4, udp};
use program::wire::{Wire, wait_until};
use program::{command, copy_program};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const RULES: &str = r#"
alert udp any any -> any any (msg:"marks"; content:"mark"; hostbits:set,host,src; sid:1;)
alert dns any any -> any any (msg:"notes"; dns.query; dataset:set,names,type string; sid:2;)
alert udp any any -> any any (msg:"bad"; nokeyword; sid:3;)
"#;

/// A run that reads from a pipe and listens at a socket.
struct Run {
    child: Child,
    dir: tempfile::TempDir,
    pipe: File,
}

impl Run {
    fn start(more: &[&str]) -> Run {
        let dir = tempfile::tempdir().unwrap();
        let place = |name: &str| dir.path().join(name).display().to_string();
        std::fs::create_dir(place("out")).unwrap();
        std::fs::write(place("test.rules"), RULES).unwrap();
        let made = Command::new("mkfifo").arg(place("pipe")).status().unwrap();
        assert!(made.success());
        let set = [
            format!("unix-command.filename={}", place("socket")),
            format!("default-rule-path={}", dir.path().display()),
        ];
        let (pipe, out) = (place("pipe"), place("out"));
        let mut all = vec!["suricata", "-r", &pipe, "-l", &out, "-k", "none", "-v"];
        for set in ["unix-command.enabled=yes", "rule-files.0=test.rules", &set[0], &set[1]] {
            all.extend(["--set", set]);
        }
        all.extend_from_slice(more);
        let said = File::create(place("said")).unwrap();
        let mut command = command(&all);
        let child = command.stdout(said.try_clone().unwrap()).stderr(said);
        let child = child.stdin(Stdio::null()).spawn().unwrap();
        let mut pipe = std::fs::OpenOptions::new().write(true).open(place("pipe")).unwrap();
        let name = capture_at(101, dir.path(), "first.pcap", [(1_700_000_000_000, says(b"mark"))]);
        pipe.write_all(&std::fs::read(name).unwrap()).unwrap();
        let mut run = Run { child, dir, pipe };
        // Several workers use state across flows in the order of packets: where no other comes, they do not wait for it.
        run.wait_for("out/fast.log", "[1:1:");
        run
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn wait_for(&mut self, name: &str, what: &str) {
        let began = Instant::now();
        while !self.text(name).contains(what) {
            let is_over = self.child.try_wait().unwrap().is_some();
            assert!(!is_over && began.elapsed() < Duration::from_secs(30), "{}", self.text("said"));
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn client(&self) -> Client {
        Client::greet(&self.path("socket"))
    }

    /// Sends another packet of the flow.
    fn send_another(&mut self) {
        let name = capture_at(101, self.dir.path(), "next.pcap", [(1_700_000_000_100, says(b"x"))]);
        self.pipe.write_all(&std::fs::read(name).unwrap()[24..]).unwrap();
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn says(text: &[u8]) -> Vec<u8> {
    ipv4(17, 1, 0, [CLIENT, SERVER], &udp([1000, 9], text))
}

struct Client {
    stream: UnixStream,
    lines: BufReader<UnixStream>,
}

impl Client {
    /// One that has named the version of the protocol.
    fn greet(socket: &Path) -> Client {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut client = Client { lines: BufReader::new(stream.try_clone().unwrap()), stream };
        assert_eq!(client.ask(&json!({"version": "0.2"})), json!({"return": "OK"}));
        client
    }

    fn send(&mut self, asked: &Value) {
        self.stream.write_all(format!("{asked}\n").as_bytes()).unwrap();
    }

    fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"))
    }

    fn ask(&mut self, asked: &Value) -> Value {
        self.send(asked);
        self.answer()
    }

    fn command(&mut self, name: &str) -> Value {
        self.ask(&json!({"command": name}))
    }
}

fn ok(message: &Value) -> Value {
    json!({"message": message, "return": "OK"})
}

fn no(message: &str) -> Value {
    json!({"message": message, "return": "NOK"})
}

const BY_TWO: [&str; 5] = [
    "--runmode=workers",
    "--set",
    "threading.set-cpu-affinity=yes",
    "--set",
    "threading.cpu-affinity.worker-cpu-set.threads=2",
];

/// All counters, once this many packets were decoded.
fn await_packets(c: &mut Client, packets: u64) -> Value {
    let began = Instant::now();
    loop {
        let counters = c.command("dump-counters");
        if counters["message"]["decoder"]["pkts"].as_u64() >= Some(packets) {
            return counters;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{counters}");
    }
}

/// Each expected answer is what Suricata 8.0.7 answered to the same command.
#[test]
fn commands_are_answered_as_by_suricata() {
    for more in [&[][..], &BY_TWO] {
        let mut run = Run::start(more);
        let mut c = run.client();
        assert_eq!(c.command("version"), ok(&json!("8.0.7 RELEASE")));
        assert!(c.command("uptime")["message"].is_u64());
        let mode = if more.is_empty() { "single" } else { "workers" };
        assert_eq!(c.command("running-mode"), ok(&json!(mode)));
        assert_eq!(c.command("capture-mode"), ok(&json!("PCAP_FILE")));
        assert_eq!(c.command("nope"), no("Unknown command"));
        let list = c.command("command-list");
        assert_eq!(list, c.command("help"));
        let names = list["message"]["commands"].as_array().unwrap();
        assert_eq!(list["message"]["count"], json!(names.len()));
        let get = |name: &str| json!({"command": "conf-get", "arguments": {"variable": name}});
        assert_eq!(c.ask(&get("unix-command.enabled")), ok(&json!("yes")));
        assert_eq!(c.ask(&get("nope")), no("Unable to get value"));
        let stats = json!([{"id": 0, "rules_loaded": 2, "rules_failed": 1, "rules_skipped": 0}]);
        assert_eq!(c.command("ruleset-stats"), ok(&stats));
        let failed = c.command("ruleset-failed-rules");
        assert_eq!(failed["message"].as_array().unwrap().len(), 1, "{failed}");
        assert_eq!(failed["message"][0]["line"], json!(4), "{failed}");
        let before = c.command("ruleset-reload-time");
        assert_eq!(before["message"][0]["id"], json!(0), "{before}");
        for name in ["register-tenant", "reload-tenants", "unregister-tenant-handler"] {
            assert_eq!(c.command(name), no("multi-tenant support not enabled"));
        }
        assert_eq!(c.command("iface-bypassed-stat"), no("No interface using bypass"));
        assert_eq!(c.command("iface-list"), ok(&json!({"count": 0, "ifaces": []})));

        let bit = |command: &str, host: &str, name: &str| {
            let arguments = json!({"ipaddress": host, "hostbit": name, "expire": 60});
            json!({"command": command, "arguments": arguments})
        };
        let list =
            |host: &str| json!({"command": "list-hostbit", "arguments": {"ipaddress": host}});
        assert_eq!(c.ask(&list("x")), no("invalid address string"));
        let marked = c.ask(&list("10.0.0.1"));
        assert_eq!(marked["message"]["hostbits"][0]["name"], json!("host"), "{marked}");
        assert_eq!(c.ask(&list("10.0.0.9")), no("host not found"));
        let added = c.ask(&bit("add-hostbit", "10.0.0.9", "host"));
        assert_eq!(added, ok(&json!("hostbit added")));
        let unknown = c.ask(&bit("add-hostbit", "10.0.0.9", "other"));
        assert_eq!(unknown, no("hostbit not found"));
        assert_eq!(c.ask(&list("10.0.0.9"))["message"]["count"], json!(1));
        let removed = c.ask(&bit("remove-hostbit", "10.0.0.9", "host"));
        assert_eq!(removed, ok(&json!("hostbit removed")));
        assert_eq!(c.ask(&list("10.0.0.9")), no("host not found"));

        let mut set = |command: &str, name: &str, kind: &str, value: &str| {
            let mut arguments = json!({"setname": name, "settype": kind, "datavalue": value});
            if let Some(context) = command.strip_prefix("dataset-add-json ") {
                arguments["datajson"] = json!(context);
            }
            let command = command.split(' ').next().unwrap();
            c.ask(&json!({"command": command, "arguments": arguments}))
        };
        for (command, name, kind, answer) in [
            ("dataset-lookup", "names", "string", no("item not found in set")),
            ("dataset-add", "names", "string", ok(&json!("data added"))),
            ("dataset-add", "names", "string", ok(&json!("data already in set"))),
            ("dataset-lookup", "names", "string", ok(&json!("item found in set"))),
            ("dataset-remove", "names", "string", ok(&json!("data removed"))),
            ("dataset-remove", "names", "string", no("failed to remove data")),
            ("dataset-add", "others", "string", no("set not found or wrong type")),
            ("dataset-add", "names", "md5", no("set not found or wrong type")),
            ("dataset-add", "names", "nope", no("unknown settype")),
            ("dataset-add-json {\"y\":2}", "names", "string", ok(&json!("data added"))),
            ("dataset-add-json 5", "names", "string", ok(&json!("data already in set"))),
            ("dataset-lookup", "names", "string", ok(&json!("item found in set"))),
            ("dataset-remove", "names", "string", ok(&json!("data removed"))),
            ("dataset-add-json {\"y\":", "names", "string", no("failed to add data")),
            ("dataset-add-json", "names", "string", no("failed to add data")),
            ("dataset-add-json 5", "others", "string", no("set not found or wrong type")),
            ("dataset-add-json 5", "names", "md5", no("set not found or wrong type")),
            ("dataset-add-json 5", "names", "nope", no("unknown settype")),
            ("dataset-clear", "names", "string", ok(&json!("dataset cleared"))),
            ("dataset-clear", "others", "string", no("set not found or wrong type")),
        ] {
            assert_eq!(set(command, name, kind, "YWJj"), answer, "{command} {name} {kind}");
        }
        assert_eq!(c.command("dataset-dump"), ok(&json!("datasets dump done")));

        let mut memcap = |name: &str, value: &str| {
            let arguments = json!({"config": name, "memcap": value});
            c.ask(&json!({"command": "memcap-set", "arguments": arguments}))
        };
        let updated = |text: &str| ok(&json!(text));
        let too_small = "memcap value specified for 'flow' is less than the memory in use: ";
        for (name, value, answer) in [
            ("stream", "100mb", updated("memcap value for 'stream' updated: 104857600 ")),
            ("flow", "banana", no("error parsing memcap specified, value not changed")),
            ("flow", "0", no("Unlimited value is not allowed for 'flow'")),
            ("nope", "1mb", no("Memcap value not found. Use 'memcap-list' to show all")),
            ("flow", "1gb", updated("memcap value for 'flow' updated: 1073741824 ")),
        ] {
            assert_eq!(memcap(name, value), answer, "{name} {value}");
        }
        let refused = memcap("flow", "1");
        assert!(refused["message"].as_str().unwrap().starts_with(too_small), "{refused}");
        let arguments = json!({"config": "stream"});
        let set = c.ask(&json!({"command": "memcap-set", "arguments": arguments}));
        assert_eq!(set, no("memcap value is not a string"));
        let shown = c.ask(&json!({"command": "memcap-show", "arguments": arguments}));
        assert_eq!(shown, ok(&json!({"value": "100mb"})));

        run.send_another();
        let counters = await_packets(&mut c, 2);
        assert_eq!(counters["message"]["detect"]["engines"][0]["rules_loaded"], json!(2));
        let flow = json!({"command": "get-flow-stats-by-id", "arguments": {"flow_id": 1}});
        assert_eq!(c.ask(&flow), no("Not found"));
        let eve = run.text("out/eve.json");
        let alert: Value = serde_json::from_str(eve.lines().next().unwrap()).unwrap();
        let flow = json!({"command": "get-flow-stats-by-id",
            "arguments": {"flow_id": alert["flow_id"]}});
        let seen = c.ask(&flow);
        assert!(seen["message"]["pkts_toserver"].as_u64() >= Some(2), "{seen}");

        std::fs::write(run.path("test.rules"), RULES.lines().nth(1).unwrap()).unwrap();
        assert_eq!(c.command("reload-rules"), ok(&json!("done")));
        assert_eq!(c.command("ruleset-stats")["message"][0]["rules_loaded"], json!(1));
        assert_ne!(c.command("ruleset-reload-time"), before);
        std::fs::remove_file(run.path("test.rules")).unwrap();
        assert_eq!(c.command("ruleset-reload-rules")["return"], json!("NOK"));
        // The log says how both ended, as the answers do.
        for (line, times) in [("starting", 2), ("complete", 1), ("failed", 1)] {
            let said = run.text("said");
            assert_eq!(
                said.matches(&format!("rule reload {line}")).count(),
                times,
                "{line}: {said}"
            );
        }
        assert_eq!(c.command("ruleset-stats")["message"][0]["rules_loaded"], json!(1));

        std::fs::rename(run.path("out/eve.json"), run.path("out/eve.json.1")).unwrap();
        assert_eq!(c.command("reopen-log-files"), ok(&json!("done")));
        assert_eq!(c.command("shutdown"), ok(&json!("Closing Suricata")));
        assert!(run.child.wait().unwrap().success(), "{}", run.text("said"));
        assert!(run.text("out/eve.json").contains("\"stats\""), "opened again");
        assert!(!run.path("socket").exists());
    }
}

/// A datagram with the text `x` in a frame, from this port to port 9.
fn frame(port: u16) -> Vec<u8> {
    let packet = ipv4(17, 1, 0, [CLIENT, SERVER], &udp([port, 9], b"x"));
    [&b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02\x08\0"[..], &packet].concat()
}

/// Of a run over an interface, by both doors and by one worker and two: what the kernel counted, and rules that are loaded by
/// command and by signal while frames come. The socket is there where the configuration says `auto`, as Suricata's own does.
#[test]
fn a_run_over_an_interface_answers_about_it() {
    let Some(wire) = Wire::new("a_run_over_an_interface_answers_about_it") else { return };
    let rules = wire.folder.path().join("my.rules");
    let of = |sid| format!("alert udp any any -> any 9 (msg:\"r\"; content:\"x\"; sid:{sid};)\n");
    let shown = rules.display().to_string();
    let socket = wire.folder.path().join("socket");
    let set = format!("unix-command.filename={}", socket.display());
    for (door, threads) in [("suricata", "1"), ("suricata", "2"), ("read", "1"), ("read", "2")] {
        std::fs::write(&rules, of(1)).unwrap();
        let two = format!("af-packet.0.threads={threads}");
        let own = if door == "read" { "--behavior" } else { "-v" };
        let base = ["-i", "in", "-S", &shown, "-k", "none", own, "--set", &set, "--set", &two];
        let more = ["--set", "af-packet.0.interface=in", "--set", "unix-command.enabled=auto"];
        let mut sensor = wire.spawn(door, &[&base[..], &more].concat());
        wait_until("the socket is there", || UnixStream::connect(&socket).is_ok());
        let mut c = Client::greet(&socket);
        assert_eq!(c.command("capture-mode"), ok(&json!("AF_PACKET_DEV")));
        let mode = if threads == "1" { "single" } else { "workers" };
        assert_eq!(c.command("running-mode"), ok(&json!(mode)));
        let one = json!({"count": 1, "ifaces": ["in"]});
        wait_until("it is listed", || c.command("iface-list") == ok(&one));
        wire.send(&(0..50).map(|n| frame(4000 + n)).collect::<Vec<_>>());
        let stat = |name: &str| json!({"command": "iface-stat", "arguments": {"iface": name}});
        assert_eq!(c.ask(&stat("out")), no("Iface does not exist"));
        let all = json!({"pkts": 50, "drop": 0, "invalid-checksums": 0, "bypassed": 0});
        wait_until("the kernel's count is known", || c.ask(&stat("in")) == ok(&all));
        assert_eq!(await_packets(&mut c, 50)["message"]["capture"]["kernel_packets"], json!(50));
        std::fs::write(&rules, of(1) + &of(2)).unwrap();
        assert_eq!(c.command("ruleset-reload-rules"), ok(&json!("done")));
        assert_eq!(c.command("ruleset-stats")["message"][0]["rules_loaded"], json!(2));
        let has = |sid: u64| {
            let all = sensor.records("alert");
            all.iter().any(|r| r["alert"]["signature_id"] == sid)
        };
        let await_alert = |sid| {
            wait_until("the new rule alerts", || {
                wire.send(&[frame(4001)]);
                has(sid)
            });
        };
        await_alert(2);
        std::fs::write(&rules, of(1) + &of(2) + &of(3)).unwrap();
        sensor.signal(rustix::process::Signal::USR2);
        await_alert(3);
        assert_eq!(c.command("ruleset-stats")["message"][0]["rules_loaded"], json!(3));
        assert_eq!(c.command("shutdown"), ok(&json!("Closing Suricata")));
        // As after SIGTERM.
        let code = sensor.child.wait().unwrap().code();
        let said = sensor.text("said") + &sensor.text("err");
        assert_eq!(code, Some(0), "{door} {threads}: {said}");
        assert_eq!(said.matches("rule reload complete").count(), 2, "{door} {threads}: {said}");
        assert!(!socket.exists());
        std::fs::remove_dir_all(&sensor.log).unwrap();
    }
}

/// Where no rules are named there is nothing to load, and where the configuration names no socket there is none.
#[test]
fn commands_of_a_run_without_rules_and_a_run_without_commands() {
    let test = "commands_of_a_run_without_rules_and_a_run_without_commands";
    let Some(wire) = Wire::new(test) else { return };
    let socket = wire.folder.path().join("socket");
    let set = format!("unix-command.filename={}", socket.display());
    let base = ["--interface", "in", "--set", &set];
    let sensor = wire.spawn("read", &[&base[..], &["--set", "unix-command.enabled=yes"]].concat());
    wait_until("the socket is there", || UnixStream::connect(&socket).is_ok());
    let mut c = Client::greet(&socket);
    assert_eq!(c.command("version"), ok(&json!("8.0.7 RELEASE")));
    assert_eq!(c.command("reload-rules"), no("detection is disabled"));
    assert_eq!(c.command("ruleset-stats")["message"][0]["rules_loaded"], json!(0));
    let (code, said) = sensor.terminate();
    assert_eq!(code, 0, "{said}");
    // Something else is in the way: the run continues without, and a line says so.
    std::fs::write(&socket, b"a file").unwrap();
    let sensor = wire.spawn("read", &[&base[..], &["--set", "unix-command.enabled=yes"]].concat());
    wait_until("packets are read", || sensor.text("err").contains("in: packets are read"));
    let (code, said) = sensor.terminate();
    assert_eq!(code, 0, "{said}");
    assert_eq!(said.matches("it is not a socket").count(), 1, "{said}");
    std::fs::remove_file(&socket).unwrap();
    for enabled in ["unix-command.enabled=no", "stats.interval=8"] {
        let sensor = wire.spawn("read", &[&base[..], &["--set", enabled]].concat());
        wait_until("packets are read", || sensor.text("err").contains("in: packets are read"));
        assert!(!socket.exists(), "{enabled}");
        let (code, said) = sensor.terminate();
        assert_eq!(code, 0, "{said}");
    }
}

/// A load takes as long as its files do: meanwhile further requests by command are refused and counted, and after it one is
/// carried out again. The answer is Suricata's.
#[test]
fn a_load_by_command_is_refused_while_one_is_under_way() {
    for more in [&[][..], &BY_TWO] {
        let mut run = Run::start(more);
        let rules = run.path("test.rules");
        std::fs::remove_file(&rules).unwrap();
        let made = Command::new("mkfifo").arg(&rules).status().unwrap();
        assert!(made.success());
        let (mut first, mut second) = (run.client(), run.client());
        first.send(&json!({"command": "reload-rules"}));
        run.wait_for("said", "rule reload starting");
        for name in ["reload-rules", "ruleset-reload-rules", "ruleset-reload-nonblocking"] {
            assert_eq!(second.command(name), no("Reload already in progress"));
        }
        assert_eq!(second.command("ruleset-stats")["message"][0]["rules_loaded"], json!(2));
        // Written at once, when the pipe's reader is there.
        std::fs::write(&rules, RULES.lines().nth(1).unwrap()).unwrap();
        assert_eq!(first.answer(), ok(&json!("done")));
        assert_eq!(second.command("ruleset-stats")["message"][0]["rules_loaded"], json!(1));
        std::fs::remove_file(&rules).unwrap();
        std::fs::write(&rules, RULES).unwrap();
        assert_eq!(second.command("reload-rules"), ok(&json!("done")));
        assert_eq!(second.command("ruleset-stats")["message"][0]["rules_loaded"], json!(2));
        for (line, times) in [("starting", 2), ("complete", 2), ("failed", 0)] {
            let said = run.text("said");
            let line = format!("rule reload {line}");
            assert_eq!(said.matches(&line).count(), times, "{line}: {said}");
        }
    }
}

#[test]
fn what_is_no_command_is_answered_and_stops_nothing() {
    let run = Run::start(&[]);
    // Cut.
    let mut cut = run.client();
    cut.stream.write_all(b"{\"command\":\"upt").unwrap();
    drop(cut);
    // No version first, no object, no command, arguments of another kind.
    for (greets, said) in [
        (false, &b"{\"command\":\"uptime\"}\n"[..]),
        (false, b"GET / HTTP/1.0\r\n\r\n"),
        (true, b"[1,2]\n"),
        (true, b"{\"command\":7}\n"),
        (true, b"{\"nothing\":\"here\"}\n"),
    ] {
        let mut client = if greets {
            run.client().stream
        } else {
            UnixStream::connect(run.path("socket")).unwrap()
        };
        client.write_all(said).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.contains("\"return\":\"NOK\""), "{answer}");
    }
    // Arguments that are missing.
    let mut client = run.client();
    assert_eq!(client.command("conf-get")["return"], json!("NOK"));
    assert_eq!(client.command("dataset-add")["return"], json!("NOK"));
    // Huge.
    let mut huge = run.client();
    let text = format!("{{\"command\":\"{}", "x".repeat(1 << 20));
    let _ = huge.stream.write_all(text.as_bytes());
    let mut answer = String::new();
    let _ = huge.lines.read_line(&mut answer);
    assert!(answer.is_empty() || answer.contains("too long"), "{answer}");
    // Many at once, in one piece and in single bytes.
    client.stream.write_all(&b"{\"command\":\"version\"}".repeat(200)).unwrap();
    for byte in b"{\"command\":\"version\"}" {
        client.stream.write_all(&[*byte]).unwrap();
    }
    for _ in 0..201 {
        assert_eq!(client.answer(), ok(&json!("8.0.7 RELEASE")));
    }
}

/// What commands change has its effect: a limit of memory on flows that begin later, a value with JSON on the alert that it
/// causes.
#[test]
fn commands_act_on_the_run() {
    let mut run = Run::start(&[]);
    let rules = "alert dns any any -> any any (msg:\"known\"; dns.query; dataset:isset,names,type string; sid:4;)\n";
    std::fs::write(run.path("test.rules"), RULES.to_owned() + rules).unwrap();
    let mut c = run.client();
    assert_eq!(c.command("reload-rules"), ok(&json!("done")));
    let arguments = json!({"setname": "names", "settype": "string", "datavalue": "b25lLmV4YW1wbGU=",
        "datajson": "{\"why\": \"by command\"}"});
    let added = c.ask(&json!({"command": "dataset-add-json", "arguments": arguments}));
    assert_eq!(added, ok(&json!("data added")));
    let mut asks = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 3];
    asks.extend_from_slice(b"one\x07example\0\0\x01\0\x01");
    let packet = ipv4(17, 1, 0, [CLIENT, SERVER], &udp([5353, 53], &asks));
    let mut send = |packets: Vec<Vec<u8>>| {
        let timed = packets.into_iter().map(|packet| (1_700_000_000_200, packet));
        let name = capture_at(101, run.dir.path(), "next.pcap", timed);
        run.pipe.write_all(&std::fs::read(name).unwrap()[24..]).unwrap();
    };
    send(vec![packet]);
    await_packets(&mut c, 2);
    let is_there = || {
        let eve = std::fs::read_to_string(run.dir.path().join("out/eve.json")).unwrap();
        let found = eve.lines().find(|line| line.contains("\"signature_id\":4,"))?.to_owned();
        Some(serde_json::from_str::<Value>(&found).unwrap())
    };
    wait_until("the alert is there", || is_there().is_some());
    let alert = is_there().unwrap();
    assert!(alert["alert"]["context"].to_string().contains("by command"), "{alert}");

    let arguments = json!({"config": "flow", "memcap": "512kb"});
    let set = c.ask(&json!({"command": "memcap-set", "arguments": arguments}));
    assert_eq!(set, ok(&json!("memcap value for 'flow' updated: 524288 ")));
    send(
        (0..5000)
            .map(|n| ipv4(17, 1, 0, [CLIENT, [10, 9, (n >> 8) as u8, n as u8]], &udp([1, 9], b"x")))
            .collect(),
    );
    let counters = await_packets(&mut c, 5002);
    let flow = &counters["message"]["flow"];
    assert!(flow["memuse"].as_u64() <= Some(524_288), "{flow}");
    assert!(flow["active"].as_u64() < Some(5_000), "others made room: {flow}");
    assert_eq!(flow["emerg_mode_entered"], json!(1), "{flow}");
}

#[test]
fn a_thousand_clients_are_answered() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let run = Run::start(&[]);
    let mut clients: Vec<Client> = (0..1_000).map(|_| run.client()).collect();
    clients.iter_mut().for_each(|client| client.send(&json!({"command": "version"})));
    for client in &mut clients {
        assert_eq!(client.answer(), ok(&json!("8.0.7 RELEASE")));
    }
}

#[test]
fn a_socket_of_a_run_that_was_killed_is_replaced_and_others_are_not() {
    let mut run = Run::start(&[]);
    let out = run.path("out").display().to_string();
    let again = |socket: &std::path::Path, more: &[&str]| {
        let set = format!("unix-command.filename={}", socket.display());
        let args = ["suricata", "-r", &program::demo(), "-l", &out, "--set", &set, "--set"];
        let enabled = ["unix-command.enabled=yes", "-S", "/dev/null"];
        program::gabion(&[&args[..], &enabled, more].concat())
    };
    let written = std::fs::read(run.path("said")).unwrap();
    for (path, why) in [("socket", "another program listens there"), ("said", "it is not a socket")]
    {
        let second = again(&run.path(path), &[]);
        assert_eq!(second.code, 0, "{}", second.err);
        let said = &second.out;
        assert!(said.contains(why) && said.contains("continues without"), "{said}");
        let strict = again(&run.path(path), &["--init-errors-fatal"]);
        assert!(strict.code == 1 && strict.err.contains(why), "{}", strict.err);
    }
    assert_eq!(run.client().command("version"), ok(&json!("8.0.7 RELEASE")));
    assert!(std::fs::read(run.path("said")).unwrap().starts_with(&written));
    run.child.kill().unwrap();
    run.child.wait().unwrap();
    assert!(run.path("socket").exists());
    let third = again(&run.path("socket"), &["--init-errors-fatal"]);
    assert_eq!(third.code, 0, "{}", third.err);
}

/// Whether a program is installed; a line names the test that is skipped without it.
fn has(program: &str, test: &str) -> bool {
    let mut asked = Command::new(program);
    let is_there = asked.arg("--help").output().is_ok();
    if !is_there {
        eprintln!("skipped: {test}: needs {program}");
    }
    is_there
}

#[test]
fn suricatasc_is_answered() {
    if !has("suricatasc", "suricatasc_is_answered") {
        return;
    }
    let run = Run::start(&[]);
    let ask = |line: &str| {
        let done = Command::new("suricatasc").arg("-c").arg(line).arg(run.path("socket")).output();
        let done = done.unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8_lossy(&done.stdout).into_owned()
    };
    for (line, answer) in [
        ("version", "8.0.7 RELEASE"),
        ("running-mode", "single"),
        ("conf-get unix-command.enabled", "yes"),
        ("ruleset-stats", "rules_loaded"),
        ("dataset-add names string YWJj", "data added"),
        ("ruleset-reload-rules", "done"),
        ("reopen-log-files", "done"),
    ] {
        let said = ask(line);
        assert!(said.contains(answer) && said.contains("OK"), "{line}: {said}");
    }
}

/// suricata-update tests rules with the program and makes a run load them.
#[test]
fn suricata_update_tests_rules_and_reloads_them() {
    let test = "suricata_update_tests_rules_and_reloads_them";
    if !has("suricata-update", test) || !has("suricatasc", test) {
        return;
    }
    let run = Run::start(&[]);
    let place = |name: &str| run.path(name).display().to_string();
    copy_program(env!("CARGO_BIN_EXE_gabion"), &run.path("gabion"));
    // What it was called with and its exit code are kept.
    let wrapper = format!(
        "#!/bin/sh\n{} suricata \"$@\"\ncode=$?\necho \"$code $*\" >> {}\nexit $code\n",
        place("gabion"),
        place("calls")
    );
    std::fs::write(run.path("suricata"), wrapper).unwrap();
    std::fs::set_permissions(run.path("suricata"), PermissionsExt::from_mode(0o755)).unwrap();
    let yaml = format!(
        "%YAML 1.1\n---\ndefault-rule-path: {}\nrule-files: [suricata.rules]\n",
        place("rules")
    );
    std::fs::write(run.path("suricata.yaml"), yaml).unwrap();
    std::fs::create_dir(run.path("data")).unwrap();
    std::fs::create_dir(run.path("rules")).unwrap();
    let rule = "alert udp any any -> any any (msg:\"new\"; content:\"new\"; sid:11; rev:1;)\n";
    std::fs::write(run.path("local.rules"), rule).unwrap();
    let reload = format!(
        "cp {} {} && suricatasc -c ruleset-reload-rules {}",
        place("rules/suricata.rules"),
        place("test.rules"),
        place("socket")
    );
    let mut update = Command::new("suricata-update");
    update.args(["--suricata", &place("suricata"), "--suricata-conf", &place("suricata.yaml")]);
    update.args(["-D", &place("data"), "-o", &place("rules"), "--no-check-certificate"]);
    update.args([
        "--local",
        &place("local.rules"),
        "--url",
        &format!("file://{}", place("local.rules")),
    ]);
    let done = update.args(["--reload-command", &reload]).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{said}");
    // It lets the program test what it has written before it asks for the reload.
    let calls = run.text("calls");
    let is_test = |call: &&str| call.split(' ').any(|word| word == "-T");
    let tests: Vec<&str> = calls.lines().filter(is_test).collect();
    assert_eq!(tests.len(), 1, "{calls}");
    assert!(tests[0].starts_with("0 ") && tests[0].contains("suricata.rules"), "{calls}");
    let mut client = run.client();
    let stats = client.command("ruleset-stats");
    assert_eq!(stats["message"][0]["rules_loaded"], json!(1), "{stats} {said}");
    assert_eq!(stats["message"][0]["rules_failed"], json!(0), "{stats} {said}");
}
