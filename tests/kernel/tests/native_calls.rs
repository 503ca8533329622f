//! The records of calls that have code of their own in the kernel: which calls those are, and that their values are those
//! of the recipes.

mod shipped_rules;

use gabion_condition::rules::Selection;
use gabion_kernel_tests::{Program, live};
use gabion_probe::syscalls::{Call, Interest, Session, Settings};
use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};
use std::time::Duration;

const NEEDED: &[&str] = &["programs", "btf", "sys_exit", "sys_enter"];

/// Event types above which Falco takes a rule for one that does not name its calls.
const TYPES_MAX: usize = 100;
/// The calls that the shipped rules name.
const NAMED_BY_RULES: usize = 41;

#[test]
fn calls_of_the_shipped_rules_have_code_of_their_own() {
    let test = "calls_of_the_shipped_rules_have_code_of_their_own";
    let Some(folder) = gabion_corpus::find(test, "falco-rules") else { return };
    let mut rules = shipped_rules::load(&folder);
    rules.select(&[Selection::Rule("*".to_owned(), true)]);
    let naming = rules.rules().iter().filter(|rule| rule.types.len() <= TYPES_MAX);
    let names: BTreeSet<&str> = naming.flat_map(|rule| rule.types.names()).collect();
    let (mut known, native) = (Interest::none(), Interest::native());
    let calls: Vec<&str> = names.into_iter().filter(|name| known.add(name)).collect();
    assert!(calls.len() >= NAMED_BY_RULES, "{}: {calls:?}", calls.len());
    let slow: Vec<&str> = calls.into_iter().filter(|name| !native.has(name)).collect();
    assert!(slow.is_empty(), "written by their recipes: {slow:?}");
}

/// Everything that a record says but its time.
#[derive(Debug, PartialEq)]
struct Record {
    call: &'static str,
    values: Vec<(&'static str, Vec<u8>)>,
    further: String,
}

/// The time at which the first process of a namespace began: the two sessions know the time of the boot to some
/// microseconds only, so tens of seconds are compared.
const BEGAN: &str = "pidns_init_start_ts";

impl Record {
    fn new(call: &Call<'_>) -> Record {
        let event = &call.event;
        let names = event.kind().parameters.iter().map(|p| p.name);
        let mut values: Vec<_> =
            names.zip(event.values.iter()).map(|(name, raw)| (name, raw.to_vec())).collect();
        for (_, raw) in values.iter_mut().filter(|(name, _)| *name == BEGAN) {
            let ns = raw.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
            *raw = (ns / 10_000_000_000).to_le_bytes().to_vec();
        }
        let enter: Option<Vec<Vec<u8>>> =
            event.enter.map(|values| values.iter().map(<[u8]>::to_vec).collect());
        let further = (enter, event.live, call.is_ia32, call.numbers.of_thread, event.cpu);
        Record { call: event.kind().name, values, further: format!("{further:?}") }
    }
}

/// The records of a command, and of the processes that it makes, by thread.
fn record_twice(
    sessions: &mut [Session; 2],
    command: &mut Command,
) -> [BTreeMap<i64, Vec<Record>>; 2] {
    let mut all = [BTreeMap::new(), BTreeMap::new()];
    let mut child = command.stdout(Stdio::null()).spawn().expect("the program starts");
    let mut poll = |sessions: &mut [Session; 2]| {
        let mut held = 0;
        for (session, records) in sessions.iter_mut().zip(&mut all) {
            held += session.poll(&mut |call| {
                let list: &mut Vec<Record> = records.entry(call.event.tid).or_default();
                list.push(Record::new(call));
            });
        }
        held
    };
    let status = loop {
        if poll(sessions) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        if let Some(status) = child.try_wait().expect("it is our child") {
            break status;
        }
    };
    while poll(sessions) > 0 {}
    assert!(status.success(), "{status}");
    // Other programs run too; a session that began later has less of them.
    let mut ours = BTreeSet::from([i64::from(child.id())]);
    let makers = ["clone", "clone3", "fork", "vfork"];
    loop {
        let made: Vec<i64> = ours
            .iter()
            .filter_map(|tid| all[0].get(tid))
            .flatten()
            .filter(|record| makers.contains(&record.call))
            .filter_map(|record| record.values.first()?.1.first_chunk().copied())
            .map(i64::from_le_bytes)
            .filter(|tid| *tid > 0 && !ours.contains(tid))
            .collect();
        if made.is_empty() {
            break;
        }
        ours.extend(made);
    }
    for records in &mut all {
        records.retain(|tid, _| ours.contains(tid));
    }
    all
}

/// Two sessions see the same calls: one writes what has code of its own by it, the other writes all by recipes.
#[test]
fn native_code_and_recipes_write_the_same_values() {
    let name = "native_code_and_recipes_write_the_same_values";
    let Some(_guard) = live(name, NEEDED) else { return };
    let (Some(typed), Some(calls)) =
        (Program::built_of("typed", name), Program::built_of("calls", &format!("{name}-calls")))
    else {
        return;
    };
    let settings = Settings { ring_bytes: 64 << 20, ..Settings::new(Interest::all()) };
    let start = |by_recipes| {
        Session::start(&Settings { by_recipes, ..settings.clone() }).expect("it is here")
    };
    let mut sessions = [start(false), start(true)];
    let folder = tempfile::tempdir().expect("there is space");
    let path = std::fs::canonicalize(folder.path()).expect("it was made");
    let mut commands = vec![typed.command(&path.to_string_lossy())];
    for arguments in [&["ia32", "/etc/passwd"][..], &["socketcall"], &["sockets"], &["storm", "2"]]
    {
        let (what, more) = arguments.split_first().expect("a command has a name");
        let mut command = calls.command(what);
        command.args(more);
        if *what == "sockets" {
            command.arg(path.join("socket"));
        }
        commands.push(command);
    }
    let mut shell = Command::new("sh");
    shell.args([
        "-c",
        "cat /etc/passwd | (read -r a; exec true two 'words of it'); cd /; exec ls /proc/self",
    ]);
    commands.push(shell);
    let (mut compared, mut differing, mut seen) = (0, Vec::new(), BTreeSet::new());
    for mut command in commands {
        let [native, by_recipes] = record_twice(&mut sessions, &mut command);
        assert_eq!(
            native.iter().map(|(tid, list)| (*tid, list.len())).collect::<Vec<_>>(),
            by_recipes.iter().map(|(tid, list)| (*tid, list.len())).collect::<Vec<_>>(),
            "records by thread of {command:?}"
        );
        for (one, other) in native.into_values().flatten().zip(by_recipes.into_values().flatten()) {
            compared += 1;
            seen.insert(one.call);
            if one != other {
                differing.push((one, other));
            }
        }
    }
    for session in &sessions {
        let counts = session.counts();
        assert_eq!(counts.undecodable, 0);
        assert_eq!(counts.total().received, counts.total().passed, "nothing is shed: {counts:?}");
    }
    for (one, other) in differing.iter().take(10) {
        println!("native     {one:?}\nby recipe  {other:?}");
    }
    println!("{compared} records of {} types of calls were compared", seen.len());
    assert!(differing.is_empty(), "{} of {compared} records differ", differing.len());
    assert!(seen.len() >= 150, "{} types: {seen:?}", seen.len());
}
