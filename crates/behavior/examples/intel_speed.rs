//! What lists of millions of indicators cost: time to load, bytes, time of a look-up.
//!
//! `cargo run --release -p gabion-behavior --example intel_speed -- [MILLIONS]` makes lines of
//! addresses, names, hashes and URLs in the usual proportions and asks for listed and other ones.
#![allow(clippy::print_stdout, reason = "its results are for a terminal")]
#![allow(clippy::disallowed_methods)] // a measurement reads the clock

use gabion_behavior::intel::{Builder, Purpose};
use gabion_record::Ip;
use gabion_record::evidence::ThreatLevel;
use std::fmt::Write;
use std::hint::black_box;
use std::time::Instant;

/// Bytes given to the builder at once.
const CHUNK: usize = 1 << 20;
/// Questions of each kind.
const ASKED: u64 = 2_000_000;
/// Names that are asked for in turn: more than any cache of one core holds the lines of.
const NAMES: u64 = 1 << 18;

/// A number that looks random (splitmix64).
fn mix(n: u64) -> u64 {
    let n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ n >> 31
}

fn address(n: u64) -> u32 {
    0x0b00_0000 + (mix(n) % 0x5f00_0000) as u32
}

fn line(n: u64, out: &mut String) {
    let _ = match n % 10 {
        0..=3 => {
            let [a, b, c, d] = address(n).to_be_bytes();
            writeln!(out, "{a}.{b}.{c}.{d},high,botnet")
        }
        4..=7 => writeln!(out, "h{:x}.example{}.com,medium,phishing", mix(n), n % 1000),
        8 => writeln!(out, "{:016x}{:016x},high,worm", mix(n), mix(n ^ 1)),
        _ => writeln!(out, "http://h{:x}.example.net/x/{n},low,dropper", mix(n)),
    };
}

/// Resident memory of this process, MiB.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|l| l.starts_with("VmRSS")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0) / 1024
}

fn main() {
    let millions: u64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(5);
    let count = millions * 1_000_000;
    let mut builder = Builder::default();
    builder.file("made", ThreatLevel::Medium, Purpose::Indicators);
    let before = resident();
    let mut text = String::with_capacity(CHUNK + 256);
    let mut loading = std::time::Duration::ZERO;
    for n in 0..count {
        line(n, &mut text);
        if text.len() >= CHUNK || n + 1 == count {
            let started = Instant::now();
            builder.push(text.as_bytes());
            loading += started.elapsed();
            text.clear();
        }
    }
    let started = Instant::now();
    let intel = builder.finish(None);
    loading += started.elapsed();
    println!(
        "{} indicators: {:.2} s to load, {} MiB held ({} MiB more resident)",
        intel.len(),
        loading.as_secs_f64(),
        intel.bytes() >> 20,
        resident().saturating_sub(before)
    );
    let time = |what: &str, ask: &dyn Fn(u64) -> bool| {
        let started = Instant::now();
        let found = (0..ASKED).filter(|n| ask(black_box(*n))).count();
        let ns = started.elapsed().as_nanos() as f64 / ASKED as f64;
        println!("{what}: {ns:.0} ns a look-up, {found} found");
    };
    let any = |n: u64| mix(n) % count;
    let listed = |n: u64| Ip::v4(address(any(n) / 10 * 10));
    let other = |n: u64| Ip::v4(0x8000_0000 | any(n) as u32);
    time("addresses that are not listed", &|n| intel.ip(other(n)).is_some());
    time("addresses that are listed", &|n| intel.ip(listed(n)).is_some());
    time("addresses of which one in ten is listed", &|n| {
        intel.ip(if any(n) % 10 == 7 { listed(n) } else { other(n) }).is_some()
    });
    let name = |n: u64| format!("h{:x}.example{}.com", mix(n), n % 1000);
    let others: Vec<String> = (0..NAMES).map(|n| format!("www{n}.shop.example.org")).collect();
    let listed: Vec<String> = (0..NAMES).map(|n| name(any(n) / 10 * 10 + 4)).collect();
    let ask = |names: &[String], n: u64| {
        names.get((n % NAMES) as usize).is_some_and(|name| intel.domain(name.as_bytes()).is_some())
    };
    time("names of four labels that are not listed", &|n| ask(&others, n));
    time("names of three labels that are listed", &|n| ask(&listed, n));
    let made = |of: &dyn Fn(u64) -> String| (0..NAMES).map(of).collect::<Vec<String>>();
    let far = made(&|n| format!("www{}.shop{}.h{:x}.org", n % 10, n % 77, any(n)));
    time("names of four labels that are not listed, each of another domain", &|n| ask(&far, n));
    let short = made(&|n| format!("h{:x}.org", any(n)));
    time("names of two labels that are not listed", &|n| ask(&short, n));
    let near = made(&|n| format!("n{:x}.example{}.com", mix(!n), any(n) % 1000));
    time("names that are not listed, next to listed ones", &|n| ask(&near, n));
    let below = made(&|n| format!("www.{}", name(any(n) / 10 * 10 + 4)));
    time("names of four labels below listed ones", &|n| ask(&below, n));
    memory(intel.bytes());
}

/// What this machine takes for a read of memory at an unpredictable place, of as many bytes
/// as the lists take: reads that wait for the one before, and reads that wait for none.
fn memory(bytes: usize) {
    let words: Vec<u64> = (0..bytes as u64 / 8).map(mix).collect();
    let at = |n: u64| {
        words.get(((u128::from(n) * words.len() as u128) >> 64) as usize).copied().unwrap_or(0)
    };
    let time = |what: &str, read: &dyn Fn() -> u64| {
        let started = Instant::now();
        black_box(read());
        let ns = started.elapsed().as_nanos() as f64 / ASKED as f64;
        println!("one read of {} MiB of memory, {what}: {ns:.0} ns", bytes >> 20);
    };
    time("each behind the one before", &|| (0..ASKED).fold(0, |found, n| at(mix(found ^ n))));
    time("none behind another", &|| (0..ASKED).fold(0, |found, n| found ^ at(mix(n))));
}
