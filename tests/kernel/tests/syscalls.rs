//! System calls on this kernel: what a program did is what the records say, and what is shed is counted.

use gabion_condition::rules::{Loader, Matching, RuleMatcher, RuleSet};
use gabion_kernel_tests::{Program, live, record};
use gabion_probe::syscalls::{Call, Class, Interest, Session, Settings};
use gabion_record::fields::Fields;
use gabion_scap::{
    Address, Cause, Event, Item, Merger, Param, Reader, Toctou, Tuple, Writer, types,
};
use gabion_syscall::{Options, State};
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

const NEEDED: &[&str] = &["programs", "btf", "sys_exit", "sys_enter"];

fn interest(names: &[&str]) -> Interest {
    let mut set = Interest::none();
    for name in names {
        assert!(set.add(name), "{name}");
    }
    set
}

fn text(call: &Call<'_>, name: &str) -> String {
    let value = call.event.param_named(name).and_then(|p| p.as_text()).unwrap_or_default();
    String::from_utf8_lossy(value).into_owned()
}

#[test]
fn forty_thousand_plain_opens_are_all_verified() {
    let name = "forty_thousand_plain_opens_are_all_verified";
    let Some(_guard) = live(name, NEEDED) else { return };
    let Some(program) = Program::built(name) else { return };
    let mut session = Session::start(&Settings::new(interest(&["openat"]))).expect("it is here");
    assert!(session.is_left_out());
    let folder = tempfile::tempdir().expect("there is space");
    let path = folder.path().join("plain");
    std::fs::write(&path, "x").expect("there is space");
    let path = std::fs::canonicalize(&path).expect("it was made");
    let (mut seen, mut other) = (0, Vec::new());
    record(&mut session, program.command("opens").arg("40000").arg(&path), &mut |call| {
        if text(call, "name") == path.to_string_lossy() {
            seen += 1;
            if call.event.live.toctou != Some(Toctou::Verified) && other.len() < 5 {
                other.push((
                    call.event.live.toctou,
                    String::from_utf8_lossy(call.event.live.opened).into_owned(),
                ));
            }
        }
    });
    assert!(other.is_empty(), "{other:?}");
    let counts = session.counts().total();
    assert_eq!(counts.received, counts.passed + counts.shed_ring + counts.shed_size);
    assert_eq!(seen, 40_000, "{counts:?}");
}

/// What a record of an open says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OpenRecord {
    toctou: Option<Toctou>,
    name: String,
    file: (u64, u64),
    has_enter: bool,
    /// A rule on one file matches by the name that the call gave, or by the path of the kernel's file.
    is_matched: bool,
}

/// The rule on one file, with the state of the threads.
struct RuleOnFile {
    state: State,
    rules: RuleSet,
    matcher: RuleMatcher,
}

impl RuleOnFile {
    fn new(file: &str) -> Self {
        let text = format!(
            "- rule: r\n  desc: d\n  condition: evt.type = openat and fd.name = \"{file}\"\n  output: o\n  priority: INFO\n"
        );
        let mut loader = Loader::new(gabion_condition::rules::Settings::default());
        assert!(loader.load("rules.yaml", &text).is_successful());
        let rules = loader.into_rules();
        let budget = gabion_record::budget::Budget::standalone("threads", 16 << 20);
        let matcher = RuleMatcher::new(&rules);
        Self { state: State::new(Options::default(), budget), rules, matcher }
    }

    fn record(&mut self, event: &Event<'_>) -> OpenRecord {
        self.state.apply(event);
        let (given, mut matched) = (self.state.view(event), Vec::new());
        let opened = given.by_opened();
        let views = (&given as &dyn Fields, opened.as_ref().map(|view| view as &dyn Fields));
        self.matcher.matches_either(&self.rules, views, Matching::First, &mut matched);
        let number = |name: &str| {
            event.param_named(name).and_then(|p| p.as_i64()).unwrap_or(0).cast_unsigned()
        };
        let name = event.param_named("name").and_then(|p| p.as_text()).unwrap_or_default();
        OpenRecord {
            toctou: event.live.toctou,
            name: String::from_utf8_lossy(name).into_owned(),
            file: (number("dev"), number("ino")),
            has_enter: event.enter.is_some(),
            is_matched: !matched.is_empty(),
        }
    }
}

/// The opens of a recorded file.
fn read_again(file: &[u8], rule: &str) -> Vec<OpenRecord> {
    let mut reader = Reader::new(std::io::Cursor::new(file.to_vec())).expect("it was written");
    let (mut merger, mut rule, mut records) = (Merger::new(), RuleOnFile::new(rule), Vec::new());
    while let Some(item) = reader.next_item().expect("it was written") {
        if let Item::Event(event) = item
            && let Some(event) = merger.merge(&event)
        {
            records.push(rule.record(&event));
        }
    }
    records
}

#[test]
fn no_open_of_a_flipping_name_is_wrongly_verified() {
    let name = "no_open_of_a_flipping_name_is_wrongly_verified";
    let Some(_guard) = live(name, NEEDED) else { return };
    let Some(program) = Program::built(name) else { return };
    let mut session = Session::start(&Settings::new(interest(&["openat"]))).expect("it is here");
    let folder = tempfile::tempdir().expect("there is space");
    let folder = std::fs::canonicalize(folder.path()).expect("it was made");
    let names = ["flip-a", "flip-b"].map(|n| folder.join(n).to_string_lossy().into_owned());
    for name in &names {
        std::fs::write(name, "x").expect("there is space");
    }
    let file = |path: &str| std::fs::metadata(path).map(|m| (m.dev(), m.ino())).unwrap();
    let files: HashMap<(u64, u64), &str> = names.iter().map(|n| (file(n), n.as_str())).collect();
    // A run that catches few flips proves little, so it is repeated.
    let mut flips = 0;
    for _ in 0..6 {
        let (mut records, mut rule) = (Vec::new(), RuleOnFile::new(&names[0]));
        let mut writer = Writer::new(Vec::new());
        writer.section().expect("memory takes everything");
        let mut command = program.command("flip");
        let command = command.arg("20000").arg(&names[0]).arg("b");
        let printed = record(&mut session, command, &mut |call| {
            if text(call, "name").starts_with(&*folder.to_string_lossy()) {
                records.push(rule.record(&call.event));
                writer.event(&call.event).expect("memory takes everything");
            }
        });
        let pair = |line: &str| {
            let (device, inode) = line.split_once(' ').unwrap();
            (device.parse().unwrap(), inode.parse().unwrap())
        };
        let opened: Vec<(u64, u64)> = printed.lines().map(pair).collect();
        assert_eq!(records.len(), opened.len(), "{:?}", session.counts());
        for (record, truth) in records.iter().zip(&opened) {
            assert_eq!(record.file, *truth, "device and inode are those of the program's fstat");
            let is_right = files.get(truth) == Some(&record.name.as_str());
            match record.toctou {
                Some(Toctou::Verified) => assert!(is_right, "not opened: {record:?}"),
                Some(Toctou::Mismatch) => assert!(record.has_enter, "both names are there"),
                Some(Toctou::Linked) => assert!(!is_right),
                other => panic!("{other:?} for a plain open"),
            }
            if files.get(truth) == Some(&names[0].as_str()) {
                assert!(record.is_matched, "the rule misses an open of its file: {record:?}");
            }
            flips += u64::from(record.toctou != Some(Toctou::Verified));
        }
        let file = writer.finish().expect("memory takes everything");
        assert_eq!(read_again(&file, &names[0]), records, "a file keeps all of it");
        if flips >= 100 {
            return;
        }
    }
    eprintln!("skipped: {name}: only {flips} flips were caught in 120,000 opens");
}

#[test]
fn socketcall_is_recorded_as_the_calls_that_it_makes() {
    let name = "socketcall_is_recorded_as_the_calls_that_it_makes";
    let Some(_guard) = live(name, NEEDED) else { return };
    let Some(program) = Program::built(name) else { return };
    let set = interest(&["socket", "connect"]);
    let mut session = Session::start(&Settings::new(set)).expect("it is here");
    let mut found = Vec::new();
    record(&mut session, &mut program.command("socketcall"), &mut |call| {
        if !call.is_ia32 {
            return;
        }
        let kind = call.event.kind().number;
        match kind {
            types::SOCKET_X => {
                assert_eq!(call.event.param_named("domain").and_then(|p| p.as_i64()), Some(2));
            }
            _ => {
                let address = Param::Address(Address::V4([127, 0, 0, 1], 9));
                assert_eq!(call.event.param_named("addr"), Some(address));
                assert_ne!(call.event.live.netns, 0, "the network namespace is known");
            }
        }
        found.push((kind, call.event.live.toctou));
    });
    let ia32 = Some(Toctou::ExitOnly(Cause::Ia32));
    assert_eq!(found, [(types::SOCKET_X, None), (types::CONNECT_X, ia32)]);
}

#[test]
fn a_call_by_the_table_of_32_bits_has_its_own_numbers() {
    let name = "a_call_by_the_table_of_32_bits_has_its_own_numbers";
    let Some(_guard) = live(name, NEEDED) else { return };
    let Some(program) = Program::built(name) else { return };
    let set = interest(&["openat", "preadv"]);
    let mut session = Session::start(&Settings::new(set)).expect("it is here");
    let mut found = Vec::new();
    record(&mut session, program.command("ia32").arg("/etc/passwd"), &mut |call| {
        if call.is_ia32 {
            found.push((call.event.kind().number, text(call, "name"), call.event.live.toctou));
        }
    });
    let wanted = (types::OPENAT_2_X, "/etc/passwd".to_owned(), Some(Toctou::ExitOnly(Cause::Ia32)));
    assert_eq!(found, [wanted]);
}

#[test]
fn links_and_relative_names_are_distinguished() {
    let name = "links_and_relative_names_are_distinguished";
    let Some(_guard) = live(name, NEEDED) else { return };
    let mut session = Session::start(&Settings::new(interest(&["openat"]))).expect("it is here");
    let folder = tempfile::tempdir().expect("there is space");
    let folder = std::fs::canonicalize(folder.path()).expect("it was made");
    std::fs::create_dir(folder.join("in")).expect("there is space");
    std::fs::write(folder.join("file"), "x").expect("there is space");
    std::os::unix::fs::symlink("file", folder.join("link")).expect("there is space");
    let mut found = HashMap::new();
    let mut cat = Command::new("cat");
    cat.current_dir(folder.join("in"));
    cat.args(["../file", "../link", "./../in/../file"]).arg(folder.join("file"));
    record(&mut session, &mut cat, &mut |call| {
        found.insert(text(call, "name"), call.event.live.toctou);
    });
    let state = |name: &str| found.get(name).copied().flatten();
    assert_eq!(state("../file"), Some(Toctou::Verified), "{found:?}");
    assert_eq!(state("./../in/../file"), Some(Toctou::Verified));
    assert_eq!(state("../link"), Some(Toctou::Linked));
    assert_eq!(state(&folder.join("file").to_string_lossy()), Some(Toctou::Verified));
}

#[test]
fn a_program_has_its_arguments_environment_and_path() {
    let name = "a_program_has_its_arguments_environment_and_path";
    let Some(_guard) = live(name, NEEDED) else { return };
    let mut session = Session::start(&Settings::new(Interest::state())).expect("it is here");
    let (mut programs, mut ends) = (Vec::new(), 0);
    let mut command = Command::new("/bin/true");
    command.args(["one", "two words"]).env_clear().env("SEEN", "yes");
    record(&mut session, &mut command, &mut |call| {
        let number = |name: &str| call.event.param_named(name).and_then(|p| p.as_i64());
        match call.event.kind().number {
            types::EXECVE_19_X => {
                assert_eq!(number("res"), Some(0));
                assert_eq!(
                    (number("tid"), number("pid")),
                    (Some(call.event.tid), Some(call.event.tid))
                );
                assert!(number("ptid").is_some_and(|p| p > 1));
                assert_eq!(text(call, "env"), "SEEN=yes\0");
                assert!(text(call, "cgroups").starts_with("cpuset=/"), "{}", text(call, "cgroups"));
                programs.push([
                    text(call, "exe"),
                    text(call, "args"),
                    text(call, "comm"),
                    text(call, "trusted_exepath"),
                    text(call, "filename"),
                ]);
            }
            types::PROCEXIT_1_E => ends += 1,
            _ => {}
        }
    });
    let path = std::fs::canonicalize("/bin/true").expect("it is everywhere");
    let wanted = ["/bin/true", "one\0two words\0", "true", &*path.to_string_lossy(), "/bin/true"];
    assert_eq!(programs, [wanted.map(str::to_owned)]);
    assert_eq!(ends, 1);
}

/// Forks of the program `storm`: one for each 4,096 writes.
const WRITES_PER_FORK: u64 = 4096;

/// A storm of writes that sheds loses no program, thread, end or change of a user: the known numbers are all there.
#[test]
fn full_rings_shed_writes_and_keep_programs() {
    const WRITES: u64 = 200_000;
    let name = "full_rings_shed_writes_and_keep_programs";
    let Some(_guard) = live(name, NEEDED) else { return };
    let Some(program) = Program::built(name) else { return };
    let mut set = Interest::state();
    set.add("write");
    let settings = Settings { ring_bytes: 16 << 20, cpus_per_ring: 1, ..Settings::new(set) };
    let mut session = Session::start(&settings).expect("it is here");
    // Nobody reads while the program runs; the rings have capacity for what else the machine executes meanwhile.
    let mut child = program.command("storm").arg(WRITES.to_string()).spawn().expect("it starts");
    let storm = i64::from(child.id());
    assert!(child.wait().expect("it is our child").success());
    let counts = session.counts();
    let mut records = 0;
    let (mut writes, mut children, mut by_child) = (0, Vec::new(), HashMap::new());
    let mut count = |call: &Call<'_>| {
        records += 1;
        let (kind, tid) = (call.event.kind().name, call.event.tid);
        let result = call.event.param(0).and_then(|p| p.as_i64()).unwrap_or(-1);
        match kind {
            "write" if tid == storm => writes += 1,
            "clone" | "clone3" | "fork" if tid == storm && result > 0 => children.push(result),
            // The return in the child, its user, its program and its end.
            "clone" | "clone3" | "fork" | "setuid" | "execve" | "procexit" => {
                *by_child.entry((tid, kind)).or_insert(0_u64) += 1;
            }
            _ => {}
        }
    };
    while session.poll(&mut count) > 0 {}
    let io = counts.classes[Class::Io as usize];
    let proc = counts.classes[Class::Proc as usize];
    assert!(io.shed_ring * 10 >= io.received, "the storm fills the rings: {counts:?}");
    assert!(io.received >= WRITES, "{counts:?}");
    assert!(writes <= WRITES && WRITES - writes <= io.shed_ring, "{writes}: {counts:?}");
    assert_eq!(proc.shed_ring + proc.shed_size, 0, "{counts:?}");
    assert_eq!(children.len() as u64, WRITES.div_ceil(WRITES_PER_FORK));
    for child in children {
        for kind in ["setuid", "execve", "procexit"] {
            assert_eq!(by_child.get(&(child, kind)), Some(&1), "{kind} of {child}");
        }
        let begins =
            ["clone", "clone3", "fork"].iter().filter_map(|kind| by_child.get(&(child, *kind)));
        assert_eq!(begins.sum::<u64>(), 1, "the return in {child}");
    }
    for class in &counts.classes {
        assert_eq!(class.received, class.passed + class.shed_ring + class.shed_size, "{counts:?}");
    }
    let after = session.counts();
    assert_eq!(after.undecodable, 0);
    assert!(records >= counts.total().passed && records <= after.total().passed);
}

/// The outcomes of one call of each kind whose name is read twice.
fn outcomes_of_named_calls(
    session: &mut Session,
    program: &Program,
) -> Vec<(&'static str, Option<Toctou>)> {
    let folder = tempfile::tempdir().expect("there is space");
    let folder = std::fs::canonicalize(folder.path()).expect("it was made");
    let mut found = Vec::new();
    record(session, program.command("named").arg(&folder), &mut |call| {
        let kind = call.event.kind();
        if kind.number == types::CONNECT_X || text(call, "name") == "made" {
            found.push((kind.name, call.event.live.toctou));
        }
    });
    found
}

#[test]
fn each_kind_of_named_call_is_verified() {
    let name = "each_kind_of_named_call_is_verified";
    let Some(_guard) = live(name, NEEDED) else { return };
    let Some(program) = Program::built(name) else { return };
    let calls = interest(&["creat", "open", "openat", "openat2", "connect"]);
    let mut session = Session::start(&Settings::new(calls)).expect("it is here");
    let found = outcomes_of_named_calls(&mut session, &program);
    let wanted = ["creat", "open", "openat", "openat2", "connect"];
    assert_eq!(found, wanted.map(|kind| (kind, Some(Toctou::Verified))));
    assert_eq!(session.counts().storage_failed, 0);
}

/// Where the storage of threads has no memory, the names at the entry are in spare memory, and the failures are counted.
#[test]
fn names_at_the_entry_have_spare_memory() {
    let name = "names_at_the_entry_have_spare_memory";
    let Some(_guard) = live(name, NEEDED) else { return };
    let Some(program) = Program::built(name) else { return };
    let calls = interest(&["creat", "open", "openat", "openat2", "connect"]);
    let settings = Settings { without_storage: true, ..Settings::new(calls) };
    let mut session = Session::start(&settings).expect("it is here");
    let found = outcomes_of_named_calls(&mut session, &program);
    let wanted = ["creat", "open", "openat", "openat2", "connect"];
    assert_eq!(found, wanted.map(|kind| (kind, Some(Toctou::Verified))));
    assert!(session.counts().storage_failed >= 5, "{:?}", session.counts());
}

/// Connects to an address that another thread changes: none is verified with another port than the kernel took.
#[test]
fn no_connect_to_a_flipping_address_is_wrongly_verified() {
    let name = "no_connect_to_a_flipping_address_is_wrongly_verified";
    let Some(_guard) = live(name, NEEDED) else { return };
    let Some(program) = Program::built(name) else { return };
    let mut session = Session::start(&Settings::new(interest(&["connect"]))).expect("it is here");
    let mut mismatches = 0;
    for _ in 0..6 {
        let mut records = Vec::new();
        let printed = record(&mut session, program.command("connects").arg("20000"), &mut |call| {
            let Some(Param::Tuple(Tuple::V4(_, (_, port)))) = call.event.param(1) else {
                panic!("a connect of a datagram socket has both ends: {:?}", call.event)
            };
            let Some(Param::Address(Address::V4(_, given))) = call.event.param(3) else {
                panic!("the address is there: {:?}", call.event)
            };
            records.push((call.event.live.toctou, port, given, call.event.enter.is_some()));
        });
        let ports: Vec<u16> = printed.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(records.len(), ports.len(), "{:?}", session.counts());
        for ((toctou, port, given, has_enter), truth) in records.iter().zip(&ports) {
            assert_eq!(port, truth, "the port is that of the kernel's socket");
            match toctou {
                Some(Toctou::Verified) => assert_eq!(given, truth),
                Some(Toctou::Linked) => assert_ne!(given, truth),
                Some(Toctou::Mismatch) => {
                    assert!(has_enter, "both addresses are there");
                    mismatches += 1;
                }
                other => panic!("{other:?} for a plain connect"),
            }
        }
        if mismatches >= 100 {
            return;
        }
    }
    eprintln!("skipped: {name}: only {mismatches} flips were caught in 120,000 connects");
}

/// Of a path with more components than are kept, no outcome is reported that its beginning could refute.
#[test]
fn a_path_that_is_cut_is_neither_linked_nor_verified() {
    let name = "a_path_that_is_cut_is_neither_linked_nor_verified";
    let Some(_guard) = live(name, NEEDED) else { return };
    let mut session = Session::start(&Settings::new(interest(&["openat"]))).expect("it is here");
    let folder = tempfile::tempdir().expect("there is space");
    let top = std::fs::canonicalize(folder.path()).expect("it was made");
    let deep = (0..60).fold(top, |path, n| path.join(format!("d{n}")));
    std::fs::create_dir_all(&deep).expect("there is space");
    std::fs::write(deep.join("file"), "x").expect("there is space");
    let whole = deep.join("file").to_string_lossy().into_owned();
    let mut found = HashMap::new();
    let mut cat = Command::new("cat");
    cat.current_dir(&deep).args(["file", &whole]);
    record(&mut session, &mut cat, &mut |call| {
        let opened = String::from_utf8_lossy(call.event.live.opened).into_owned();
        found.insert(text(call, "name"), (call.event.live.toctou, opened));
    });
    let (toctou, opened) = &found[&whole];
    assert_eq!(*toctou, Some(Toctou::ExitOnly(Cause::PathCut)));
    assert!(opened.starts_with("...") && whole.ends_with(&opened[3..]), "{opened}");
    assert_eq!(opened.matches('/').count(), 48);
    assert_eq!(found["file"].0, Some(Toctou::Verified), "below the working folder all is known");
}

#[test]
fn io_uring_is_reported_as_unseen() {
    let name = "io_uring_is_reported_as_unseen";
    let Some(_guard) = live(name, NEEDED) else { return };
    let Some(program) = Program::built(name) else { return };
    let mut session = Session::start(&Settings::new(Interest::simple())).expect("it is here");
    record(&mut session, &mut program.command("uring"), &mut |_| {});
    assert!(session.unseen().is_some_and(|line| line.contains("io_uring")));
}

#[test]
fn runs_of_the_programs_are_counted_where_it_is_asked_for() {
    let name = "runs_of_the_programs_are_counted_where_it_is_asked_for";
    let Some(_guard) = live(name, NEEDED) else { return };
    let calls = interest(&["openat"]);
    let mut session = Session::start(&Settings::new(calls.clone())).expect("it is here");
    record(&mut session, Command::new("cat").arg("/dev/null"), &mut |_| {});
    assert_eq!(session.runs(), []);
    drop(session);
    let settings = Settings { counts_runs: true, ..Settings::new(calls) };
    let mut session = Session::start(&settings).expect("it is here");
    record(&mut session, Command::new("cat").arg("/dev/null"), &mut |_| {});
    let runs = session.runs();
    let of = |name: &str| runs.iter().find(|runs| runs.name == name).expect("it is loaded");
    let (exit, enter) = (of("sys_exit"), of("enter_openat"));
    assert!(exit.count > 0 && enter.count > 0 && !exit.time.is_zero(), "{runs:?}");
}
