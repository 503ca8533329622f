//! The same evidence, however profiles are spread over holders: one holder, two, and a number that changes all the
//! time; and whatever file of a folder is named first.

mod inputs;

use gabion_behavior::stages::Placed;
use gabion_behavior::stages::{Back, Ends, Front, Shards};
use gabion_behavior::whitelist::Whitelist;
use gabion_behavior::{Engine, Output, Settings};
use gabion_record::Ip;
use gabion_record::logs::TimeNs;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

/// Little, so that profiles fold while they are held.
const ROOM: usize = 4 << 20;
/// Records between two collections of what was found.
const BATCH: u64 = 97;

/// Encodings of profiles by address and window.
type KeptWindows = BTreeMap<(Ip, i64), Vec<u8>>;

/// Several holders of shards, as threads would be, without the threads.
struct Holders {
    front: Front,
    back: Back,
    holders: Vec<Shards>,
    /// Who holds each shard.
    held_by: Vec<usize>,
    placed: Vec<Placed>,
    newest: i64,
    said: Vec<String>,
    /// Profiles at the end of their windows.
    kept: KeptWindows,
}

impl Holders {
    fn new(count: usize, settings: Settings, start: Option<TimeNs>) -> Holders {
        let settings = Arc::new(settings);
        let make = || {
            let mut shards = Shards::new(Arc::clone(&settings), ROOM);
            shards.keep_windows();
            shards
        };
        let shards = make().count();
        assert!(shards > 4);
        Holders {
            front: Front::new(Arc::clone(&settings), start),
            back: Back::new(Arc::clone(&settings)),
            holders: (0..count).map(|_| make()).collect(),
            held_by: (0..shards).map(|shard| shard % count).collect(),
            placed: Vec::new(),
            newest: 0,
            said: Vec::new(),
            kept: BTreeMap::new(),
        }
    }

    fn holder(&mut self, ip: Ip) -> &mut Shards {
        let at = gabion_behavior::stages::shard_of(ip, self.held_by.len());
        &mut self.holders[self.held_by[at]]
    }

    fn record(&mut self, r: &gabion_record::logs::Record<'_>) {
        let (number, facts) = self.front.observe_record(r);
        if facts.is_ignored {
            return;
        }
        if facts.newest > self.newest {
            self.newest = facts.newest;
            let (window, watermark) = (facts.newest, facts.watermark);
            let placed = &mut self.placed;
            self.holders.iter_mut().for_each(|h| h.turn(window, number, watermark, placed));
        }
        let mut placed = std::mem::take(&mut self.placed);
        self.holder(r.src).record(number, r, &facts, Ends::Source, &mut placed);
        self.placed = placed;
    }

    /// Takes what was found, in the order of places.
    fn collect(&mut self, is_end: bool) {
        let watermark = self.front.watermark();
        for holder in &mut self.holders {
            if is_end {
                holder.finish(watermark, &mut |placed| self.placed.push(placed))
            } else {
                holder.fire(watermark, &mut self.placed)
            }
            let mut kept = holder.take_kept();
            if is_end {
                (0..holder.count()).for_each(|shard| kept.append(&mut holder.keep_rest(shard)));
            }
            self.kept.extend(kept.into_iter().map(|k| ((k.ip, k.window), k.bytes)));
        }
        self.placed.sort_by_key(|p| p.place);
        self.back.learn(self.front.take_learned());
        self.back.turn(self.front.take_turns());
        let said = &mut self.said;
        for mut placed in self.placed.drain(..) {
            self.back.take_placed(&mut placed, self.front.start(), &mut |finding| {
                said.push(line_of(&finding))
            });
        }
        self.back.catch_up();
        self.back.turned(&mut |finding| said.push(line_of(&finding)));
        if is_end {
            self.back.finish(&mut |finding| said.push(line_of(&finding)));
        }
    }

    /// Hands every third shard to the next holder.
    fn change(&mut self, round: usize) {
        for shard in (round % 3..self.held_by.len()).step_by(3) {
            let from = self.held_by[shard];
            let to = (from + 1) % self.holders.len();
            let (held, timers) = self.holders[from].release(shard);
            self.holders[to].adopt(shard, held, timers);
            self.held_by[shard] = to;
        }
    }
}

fn line_of(finding: &Output<'_>) -> String {
    match finding {
        Output::Evidence(e, sum) => format!("{} {sum:.6} {e:?}", e.report_id),
        Output::Report(e, sum) => format!("reported {} {sum:.6} {e:?}", e.report_id),
        Output::Alert(a) => format!("{} {a:?}", a.id),
    }
}

/// Runs over files; returns the output, sorted by id, and the profiles that were kept.
fn run(paths: &[PathBuf], count: usize, is_changing: bool) -> Vec<String> {
    let (mut said, kept) = run_with(Settings::default(), paths, count, is_changing);
    said.extend(kept.into_iter().map(|((ip, window), bytes)| format!("{ip} {window} {bytes:?}")));
    said
}

fn run_with(
    settings: Settings,
    paths: &[PathBuf],
    count: usize,
    is_changing: bool,
) -> (Vec<String>, KeptWindows) {
    let mut feed = inputs::feed(paths);
    let mut holders = Holders::new(count, settings, feed.start());
    let mut records = 0u64;
    feed.run(&mut |together| {
        for r in together {
            holders.record(r);
            records += 1;
            if records.is_multiple_of(BATCH) {
                holders.collect(false);
                if is_changing {
                    holders.change((records / BATCH) as usize);
                }
            }
        }
        ControlFlow::Continue(())
    });
    holders.collect(true);
    let mut said = holders.said;
    said.sort_unstable();
    (said, holders.kept)
}

/// Ten runs.
fn ten(name: &str, paths: &[PathBuf]) {
    let alone = run(paths, 1, false);
    assert!(alone.len() > 20, "{name}: {}", alone.len());
    let turned: Vec<PathBuf> = paths.iter().rev().cloned().collect();
    for (nth, (count, is_changing)) in [
        (1, false),
        (2, false),
        (2, true),
        (3, true),
        (2, false),
        (5, true),
        (4, false),
        (3, true),
        (1, false),
    ]
    .into_iter()
    .enumerate()
    {
        let paths = if nth % 2 == 1 { &turned } else { paths };
        let said = run(paths, count, is_changing);
        let first = said.iter().zip(&alone).find(|(a, b)| a != b);
        assert!(first.is_none(), "{name}, run {nth}: {first:?}");
        assert_eq!(said.len(), alone.len(), "{name}, run {nth}");
    }
}

#[test]
fn ten_runs_over_made_logs_say_the_same() {
    let folder = tempfile::tempdir().unwrap();
    ten("made", &inputs::made(folder.path()));
}

#[test]
fn ten_runs_over_the_corpus_say_the_same() {
    let Some(flows) = inputs::corpus("ten_runs_over_the_corpus_say_the_same") else { return };
    for name in ["slips/test9-mixed-zeek-dir", "slips/test14-malicious-zeek-dir"] {
        ten(name, &inputs::files(&flows.join(name)));
    }
}

/// A flood of findings, of which most are only counted: which ones does not depend on who holds what.
#[test]
fn a_flood_of_findings_says_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("conn.log");
    let line = |n: u32| {
        let (src, dst) = (n % 700, n.wrapping_mul(2_654_435_761) >> 18);
        format!(
            "{{\"ts\":{}.5,\"uid\":\"C{n}\",\"id.orig_h\":\"10.0.{}.{}\",\"id.orig_p\":40000,\
             \"id.resp_h\":\"45.9.{}.{}\",\"id.resp_p\":{},\"proto\":\"tcp\",\"conn_state\":\"SF\",\
             \"duration\":{},\"orig_bytes\":{},\"resp_bytes\":5,\"orig_pkts\":9,\"resp_pkts\":9}}\n",
            n / 4,
            src / 250,
            src % 250,
            dst / 250,
            dst % 250,
            [6667, 31337, 4444][n as usize % 3],
            2000 + n * 37 % 80_000,
            100_000_000 + u64::from(n) * 7_919 % 900_000_000,
        )
    };
    std::fs::write(&path, (0..12_000).map(line).collect::<String>()).unwrap();
    let paths = [path];
    let alone = run(&paths, 1, false);
    let counted = alone.iter().filter(|line| line.contains("why: Counted")).count();
    assert!(counted > 10_000 && alone.len() > counted + 2_000, "{counted} of {}", alone.len());
    for (count, is_changing) in [(2, false), (3, true), (5, true)] {
        assert!(run(&paths, count, is_changing) == alone, "{count}");
    }
}

/// Where windows begin, which network is local and who the gateway is follow the moments of records, not
/// the order of lines: lines moved by less than a minute change no byte.
#[test]
fn lines_out_of_order_within_a_minute_say_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let paths = inputs::made(folder.path());
    let alone = run(&paths, 1, false);
    let text = std::fs::read_to_string(&paths[0]).unwrap();
    let (head, lines): (Vec<&str>, Vec<&str>) = text.lines().partition(|l| l.starts_with('#'));
    for seed in [3u64, 1_000_003] {
        let mut lines = lines.clone();
        let time = |l: &str| l.split('\t').next().unwrap().parse::<f64>().unwrap();
        lines.sort_by_cached_key(|l| {
            let hash =
                l.bytes().fold(seed, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
            ((time(l) + (hash >> 20) as f64 % 59_900.0 / 1000.0) * 1000.0) as i64
        });
        let moved = folder.path().join(seed.to_string());
        std::fs::create_dir(&moved).unwrap();
        let conn = moved.join("conn.log");
        std::fs::write(&conn, [head.join("\n"), lines.join("\n")].join("\n")).unwrap();
        let said = run(&[paths[2].clone(), conn, paths[1].clone()], 2, true);
        assert!(said == alone, "{} {}", said.len(), alone.len());
    }
}

/// What names and hardware addresses teach the whitelist on the way hides the same evidence, whatever worker holds
/// the profiles and however late what they find is looked at.
#[test]
fn a_whitelist_hides_the_same() {
    const LIST: &str = "domain,example,both,alerts\ndomain,google.com,dst,flows\n\
        ip,192.168.3.3,dst,both\nip,10.0.9.3,both,alerts";
    let folder = tempfile::tempdir().unwrap();
    let paths = inputs::made(folder.path());
    let settings = || {
        let (list, wrong) = Whitelist::parse(LIST, &|_| None);
        assert!(wrong.is_empty(), "{wrong:?}");
        Settings { whitelist: Arc::new(list), ..Settings::default() }
    };
    let mut feed = inputs::feed(&paths);
    let mut engine = Engine::with_budget(settings(), feed.start(), ROOM);
    let mut said = Vec::new();
    feed.run(&mut |records| {
        engine.records(records, &mut |finding| said.push(line_of(&finding)));
        ControlFlow::Continue(())
    });
    engine.finish(&mut |finding| said.push(line_of(&finding)));
    said.sort_unstable();
    // Each entry had its part, and what was learned too late hides nothing of before.
    let hidden = engine.whitelisted();
    assert_eq!(hidden.len(), 4, "{hidden:?}");
    let counts = engine.counts();
    assert!(counts.whitelisted > 100 && counts.whitelisted_evidence > 20, "{counts:?}");
    let (all, _) = run_with(Settings::default(), &paths, 1, false);
    assert!(said.len() > 20 && said.len() + 20 < all.len(), "{} {}", said.len(), all.len());
    for (count, is_changing) in [(1, false), (2, false), (3, true)] {
        let (got, _) = run_with(settings(), &paths, count, is_changing);
        assert!(got == said, "{count}: {} for {}", got.len(), said.len());
    }
}
