//! Measures what the programs of system calls cost the programs that make calls, in nanoseconds of CPU time of the
//! caller for each call, above an empty program at the same place. Needs root.
//!
//! `cargo run --release -p gabion-probe --example cost [RUNS [PART OF A ROW'S NAME]]`. The loops run in a process of
//! their own, since calls of the process that records are left out. Variants take turns, so that a change of the machine's speed meets all of them; the
//! medians and minima are printed, and how much time the machine took away (steal). What the same records cost where each is
//! written value by value from its recipe stands in a column of its own.

#![allow(clippy::print_stdout, reason = "its results are for a terminal")]

use gabion_probe::object::{Link, Object};
use gabion_probe::syscalls::{Interest, Session, Settings};
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Calls of a run: enough that starting the process is nothing, few enough that no ring fills.
const CALLS: u32 = 100_000;

/// What a run has attached.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Attached {
    Nothing,
    EmptyExit,
    EmptyBoth,
    /// Our programs for these calls.
    Ours(&'static [&'static str]),
    /// The same with every record written from its recipe.
    Recipes(&'static [&'static str]),
}

/// A loop, and what is compared.
struct Row {
    name: &'static str,
    work: &'static str,
    ours: &'static [&'static str],
}

const ROWS: &[Row] = &[
    Row { name: "a call that nobody asked for", work: "getppid", ours: &["openat", "execve"] },
    Row { name: "fixed-size record, no state", work: "getuid", ours: &["getuid"] },
    Row { name: "fixed-size record with state", work: "setsid", ours: &["setsid"] },
    Row { name: "write of 80 bytes", work: "write", ours: &["write"] },
    Row { name: "open of a missing file, merged", work: "missing", ours: &["openat"] },
    Row {
        name: "open and close, with the kernel's path",
        work: "open",
        ours: &["openat", "close"],
    },
    Row { name: "dup and close", work: "dup", ours: &["dup", "close"] },
    Row { name: "chdir", work: "chdir", ours: &["chdir"] },
    Row { name: "prlimit", work: "prlimit", ours: &["prlimit64"] },
    Row { name: "sendto and recvfrom", work: "datagram", ours: &["sendto", "recvfrom"] },
    Row { name: "connect", work: "connect", ours: &["connect"] },
    Row { name: "accept4 where nobody waits", work: "accept", ours: &["accept4"] },
    Row { name: "execve of a missing file", work: "execve", ours: &["execve"] },
];

fn cpu_ns() -> u64 {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    t.tv_sec.cast_unsigned() * 1_000_000_000 + t.tv_nsec.cast_unsigned()
}

/// Makes calls and prints the CPU time of each in picoseconds.
fn work(name: &str, file: &str) {
    use rustix::fs::{CWD, Mode, OFlags, openat};
    let null = std::fs::File::create("/dev/null").expect("/dev/null is there");
    let bytes = [b'x'; 80];
    let datagrams = UdpSocket::bind("127.0.0.1:0").expect("there is a loopback");
    let address = datagrams.local_addr().expect("it is bound");
    datagrams.connect(address).expect("it is there");
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a loopback");
    listener.set_nonblocking(true).expect("it is a socket");
    let begin = cpu_ns();
    for _ in 0..CALLS {
        match name {
            "getppid" => {
                black_box(rustix::process::getppid());
            }
            "getuid" => {
                black_box(rustix::process::getuid());
            }
            "setsid" => {
                black_box(rustix::process::setsid().ok());
            }
            "write" => {
                black_box(rustix::io::write(&null, &bytes).ok());
            }
            "dup" => {
                black_box(rustix::io::dup(&null).ok());
            }
            "chdir" => {
                black_box(rustix::process::chdir("/").ok());
            }
            "prlimit" => {
                black_box(rustix::process::getrlimit(rustix::process::Resource::Nofile));
            }
            "datagram" => {
                black_box(datagrams.send(&bytes).ok());
                black_box(datagrams.recv(&mut [0; 80]).ok());
            }
            "connect" => {
                black_box(datagrams.connect(address).ok());
            }
            "accept" => {
                black_box(listener.accept().ok());
            }
            "execve" => {
                black_box(Command::new("/gabion-missing").exec());
            }
            "missing" => {
                black_box(openat(CWD, "/tmp/gabion-missing", OFlags::RDONLY, Mode::empty()).ok());
            }
            _ => {
                black_box(openat(CWD, file, OFlags::RDONLY, Mode::empty()).ok());
            }
        }
    }
    println!("{}", (cpu_ns() - begin) * 1000 / u64::from(CALLS));
}

/// One run of a loop; nanoseconds for each call.
fn run(row: &Row, file: &str, session: Option<&mut Session>) -> f64 {
    let me = std::env::current_exe().expect("this program has a path");
    let out = Command::new(me).args(["work", row.work, file]).output().expect("it starts");
    if let Some(session) = session {
        session.drain(&mut |_| {});
    }
    let text = String::from_utf8_lossy(&out.stdout);
    text.trim().parse::<f64>().expect("a number") / 1000.0
}

/// Attaches a variant, runs the loop once, and detaches.
fn measure(row: &Row, attached: Attached, file: &str) -> f64 {
    let empty = |programs: &[(&str, &str)]| -> (Object, Vec<Link>) {
        let mut object = Object::open("empty_calls", |_| {}).expect("root and BTF are needed");
        let attach = |(program, point): &(&str, &str)| {
            object.attach_tracepoint(program, point).expect("the kernel takes it")
        };
        let links = programs.iter().map(attach).collect();
        (object, links)
    };
    match attached {
        Attached::Nothing => run(row, file, None),
        Attached::EmptyExit => {
            let _kept = empty(&[("empty_exit", "sys_exit")]);
            run(row, file, None)
        }
        Attached::EmptyBoth => {
            let _kept = empty(&[("empty_exit", "sys_exit"), ("empty_enter", "sys_enter")]);
            run(row, file, None)
        }
        Attached::Ours(calls) | Attached::Recipes(calls) => {
            let mut set = Interest::none();
            for call in calls {
                assert!(set.add(call), "{call}");
            }
            let by_recipes = matches!(attached, Attached::Recipes(_));
            let settings = Settings { ring_bytes: 256 << 20, by_recipes, ..Settings::new(set) };
            let mut session = Session::start(&settings).expect("root and BTF are needed");
            let ns = run(row, file, Some(&mut session));
            let counts = session.counts().total();
            assert_eq!(counts.shed_ring + counts.shed_size, 0, "{counts:?}");
            ns
        }
    }
}

/// Time that the hypervisor took away, in hundredths of a second, of all CPUs.
fn steal() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = stat.lines().next().unwrap_or_default();
    line.split_whitespace().nth(8).and_then(|n| n.parse().ok()).unwrap_or(0)
}

fn median(of: &mut [f64]) -> f64 {
    of.sort_by(f64::total_cmp);
    of.get(of.len() / 2).copied().unwrap_or(0.0)
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, first, name, file] = arguments.as_slice()
        && first == "work"
    {
        return work(name, file);
    }
    let runs: usize = arguments.get(1).and_then(|n| n.parse().ok()).unwrap_or(7);
    let folder = std::env::temp_dir().join(format!("gabion-cost-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("there is space");
    let path = folder.join("file");
    std::fs::write(&path, "x").expect("there is space");
    let file = path.to_string_lossy().into_owned();
    println!("ns of CPU time for each call, median (minimum) of {runs} interleaved runs");
    println!(
        "{:40} {:>14} {:>14} {:>14} {:>20} {:>20}",
        "", "bare", "empty exit", "empty both", "ours above empty", "by recipe above it"
    );
    let wanted = arguments.get(2).map_or("", String::as_str);
    for row in ROWS.iter().filter(|row| row.name.contains(wanted)) {
        let before = steal();
        let variants = [
            Attached::Nothing,
            Attached::EmptyExit,
            Attached::EmptyBoth,
            Attached::Ours(row.ours),
            Attached::Recipes(row.ours),
        ];
        let mut times: Vec<Vec<f64>> = vec![Vec::new(); variants.len()];
        for _ in 0..runs {
            for (variant, times) in variants.iter().zip(&mut times) {
                times.push(measure(row, *variant, &file));
            }
        }
        let cells: Vec<(f64, f64)> = times
            .iter_mut()
            .map(|times| {
                let median = median(times);
                (median, times.first().copied().unwrap_or(0.0))
            })
            .collect();
        let [bare, exit, both, ours, recipes] = [cells[0], cells[1], cells[2], cells[3], cells[4]];
        let cell = |(median, least): (f64, f64)| format!("{median:.0} ({least:.0})");
        let above = |of: (f64, f64)| cell((of.0 - exit.0, of.1 - exit.1));
        println!(
            "{:40} {:>14} {:>14} {:>14} {:>20} {:>20}  steal {}",
            row.name,
            cell(bare),
            cell(exit),
            cell(both),
            above(ours),
            above(recipes),
            steal() - before
        );
    }
    let _ = std::fs::remove_dir_all(&folder);
}
