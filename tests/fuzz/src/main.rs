//! Runs targets without libFuzzer: a plain loop that changes real inputs at random. It needs only
//! the pinned toolchain, so that a gate can always run it; it does not measure coverage.
//!
//!     gabion-fuzz list
//!     gabion-fuzz seeds FOLDER               write first inputs, a folder for each target
//!     gabion-fuzz run [--seconds N] [--seed N] [TARGET…]
//!     gabion-fuzz replay TARGET FILE…
//!
//! A panic is caught, its input kept in `fuzz/artifacts/TARGET-…`, and the loop continues; the same
//! place is reported once. An input that takes longer than ten seconds ends the program. Exit
//! codes: 0 nothing found, 1 something found, 2 usage.
#![allow(clippy::print_stdout, reason = "the results are printed to a terminal")]
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods)] // the loop runs for a given time

use gabion_fuzz::mutate::{Dice, mutate};
use gabion_fuzz::seeds::{Seeds, repository};
use gabion_fuzz::{Target, targets};
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Seconds an input may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Resident memory of the process that no input may exceed, KiB.
const MEMORY_KIB_MAX: u64 = 2 << 20;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["list"] => {
            targets().iter().for_each(|target| println!("{}", target.name));
            ExitCode::SUCCESS
        }
        ["seeds", folder] => write_seeds(Path::new(folder)),
        ["run", rest @ ..] => match options(rest) {
            Some(options) => run(&options),
            None => usage(),
        },
        ["replay", name, files @ ..] if !files.is_empty() => replay(name, files),
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    eprintln!(
        "gabion-fuzz: usage: gabion-fuzz list | seeds FOLDER | run [--seconds N] [--seed N] \
         [TARGET…] | replay TARGET FILE…"
    );
    ExitCode::from(2)
}

struct Options<'a> {
    seconds: u64,
    seed: u64,
    names: Vec<&'a str>,
}

fn options<'a>(words: &[&'a str]) -> Option<Options<'a>> {
    let mut options = Options { seconds: 10, seed: 1, names: Vec::new() };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--seconds" => options.seconds = words.next()?.parse().ok()?,
            "--seed" => options.seed = words.next()?.parse().ok()?,
            name if name.starts_with('-') => return None,
            name => options.names.push(name),
        }
    }
    Some(options)
}

fn seeds() -> Seeds {
    Seeds::new(Some(&gabion_corpus::root()))
}

fn write_seeds(folder: &Path) -> ExitCode {
    let seeds = seeds();
    for target in targets() {
        let own = folder.join(&target.name);
        let written = std::fs::create_dir_all(&own).and_then(|()| {
            (target.seeds)(&seeds).iter().enumerate().try_for_each(|(at, seed)| {
                let seed = seed.get(..target.len_max).unwrap_or(seed);
                std::fs::write(own.join(format!("seed-{at:05}")), seed)
            })
        });
        if let Err(fault) = written {
            eprintln!("gabion-fuzz: {}: {fault}", own.display());
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn replay(name: &str, files: &[&str]) -> ExitCode {
    let all = targets();
    let Some(target) = all.iter().find(|target| target.name == name) else { return usage() };
    for file in files {
        match std::fs::read(file) {
            Ok(data) => (target.run)(&data),
            Err(fault) => {
                eprintln!("gabion-fuzz: {file}: {fault}");
                return ExitCode::from(2);
            }
        }
        println!("{file}: good");
    }
    ExitCode::SUCCESS
}

fn run(options: &Options<'_>) -> ExitCode {
    let all = targets();
    for name in &options.names {
        if !all.iter().any(|target| target.name == *name) {
            eprintln!("gabion-fuzz: {name}: no such target: see gabion-fuzz list");
            return ExitCode::from(2);
        }
    }
    let seeds = seeds();
    let watch = Watch::start();
    let mut found = 0;
    for target in &all {
        if options.names.is_empty() || options.names.contains(&target.name.as_str()) {
            found += run_target(target, &seeds, options, &watch);
        }
    }
    println!("{found} faults found");
    ExitCode::from(u8::from(found > 0))
}

/// Runs one target for its time and returns the number of places where it failed.
fn run_target(target: &Target, seeds: &Seeds, options: &Options<'_>, watch: &Watch) -> usize {
    let mut dice = Dice::new(options.seed);
    let own = (target.seeds)(seeds);
    let mut pool = if own.is_empty() { vec![vec![0; 16]] } else { own };
    let mut places = HashSet::new();
    let begin = Instant::now();
    let mut tried = 0u64;
    while begin.elapsed() < Duration::from_secs(options.seconds) {
        let at = usize::try_from(tried).unwrap_or(usize::MAX);
        let data = match pool.get(at) {
            Some(seed) => seed.get(..target.len_max).unwrap_or(seed).to_vec(),
            None => {
                let (a, b) = (dice.below(pool.len()), dice.below(pool.len()));
                let (a, b) = (pool.get(a).cloned(), pool.get(b).cloned());
                mutate(&mut dice, &a.unwrap_or_default(), &b.unwrap_or_default(), target.len_max)
            }
        };
        tried += 1;
        if let Some((place, line)) = watch.run(&target.name, &data, || (target.run)(&data)) {
            if places.insert(place) {
                let file = keep(&target.name, &data);
                println!("{}: {line}\n  input kept in {}", target.name, file.display());
            }
        } else if dice.below(400) == 0 && pool.len() < 20_000 {
            // Some changed inputs are kept, so that changes accumulate.
            pool.push(data);
        }
    }
    println!("{:<20} {tried:>9} inputs, {} faults", target.name, places.len());
    places.len()
}

/// Keeps an input, named by its content.
fn keep(name: &str, data: &[u8]) -> PathBuf {
    let folder = repository().join("fuzz/artifacts");
    let hash = data
        .iter()
        .fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3));
    let file = folder.join(format!("{name}-{hash:016x}"));
    let kept = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&file, data));
    if let Err(fault) = kept {
        eprintln!("gabion-fuzz: {}: {fault}", file.display());
    }
    file
}

/// The current input: its start, target and bytes.
type Running = Arc<Mutex<Option<(Instant, String, Vec<u8>)>>>;

/// File and line of a panic, and its message.
type Place = (String, String);

/// Watches inputs: where they panic, how long they take, how much memory they use.
struct Watch {
    running: Running,
    place: Arc<Mutex<Place>>,
}

impl Watch {
    fn start() -> Watch {
        let running: Running = Arc::default();
        let place: Arc<Mutex<Place>> = Arc::default();
        let fault_place = Arc::clone(&place);
        std::panic::set_hook(Box::new(move |info| {
            let place = info.location().map(|l| format!("{}:{}", l.file(), l.line()));
            let line: String = info.to_string().replace('\n', " ").chars().take(400).collect();
            if let Ok(mut fault_place) = fault_place.lock() {
                *fault_place = (place.unwrap_or_default(), line);
            }
        }));
        let seen = Arc::clone(&running);
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(Duration::from_millis(500));
                let Ok(running) = seen.lock() else { return };
                let Some((since, name, data)) = &*running else { continue };
                let (is_late, is_large) =
                    (since.elapsed() > PATIENCE, memory_kib() > MEMORY_KIB_MAX);
                if is_late || is_large {
                    let what = if is_late { "takes too long" } else { "takes too much memory" };
                    println!("{name}: {what}\n  input kept in {}", keep(name, data).display());
                    std::process::exit(1);
                }
            }
        });
        Watch { running, place }
    }

    /// Runs `work`; returns place and message of its panic, if any.
    fn run(&self, name: &str, data: &[u8], work: impl FnOnce()) -> Option<Place> {
        if let Ok(mut running) = self.running.lock() {
            *running = Some((Instant::now(), name.to_owned(), data.to_vec()));
        }
        let outcome = catch_unwind(AssertUnwindSafe(work));
        if let Ok(mut running) = self.running.lock() {
            *running = None;
        }
        outcome.err()?;
        self.place.lock().ok().map(|place| place.clone())
    }
}

fn memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = status.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * 4
}
