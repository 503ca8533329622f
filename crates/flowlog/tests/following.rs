//! Logs that grow, are renamed, copied and truncated, replaced, compressed and removed, while they are followed and
//! while nobody follows them: each line once.

use flate2::Compression;
use flate2::write::GzEncoder;
use gabion_flowlog::Follow;
use gabion_flowlog::Taken;
use gabion_record::files::FileOpener;
use gabion_record::logs::Record;
use std::fs::{self, File};
use std::io::ErrorKind::PermissionDenied;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

fn files() -> FileOpener {
    FileOpener::new(|path, _| File::open(path))
}

fn line(second: u32) -> String {
    format!(
        "{{\"ts\":{second}.5,\"uid\":\"C{second}\",\"id.orig_h\":\"10.0.0.1\",\"id.resp_h\":\"10.0.0.2\"}}\n"
    )
}

fn lines(seconds: impl IntoIterator<Item = u32>) -> String {
    seconds.into_iter().map(line).collect()
}

fn append(path: &Path, text: &str) {
    let mut file = fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn pack(path: &Path) {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(&fs::read(path).unwrap()).unwrap();
    let to = PathBuf::from(format!("{}.gz", path.display()));
    fs::write(to, packed.finish().unwrap()).unwrap();
}

/// A folder that is followed, and what was given out of it.
struct Trial {
    folder: tempfile::TempDir,
    follow: Follow,
    seen: Vec<i64>,
}

impl Trial {
    fn new() -> Trial {
        let folder = tempfile::tempdir().unwrap();
        let follow = Follow::new(files(), vec![folder.path().to_owned()], None, 0);
        Trial { folder, follow, seen: Vec::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// One look, and all that it saw.
    fn look(&mut self) {
        self.follow.look_at_logs(0);
        while !self.take(usize::MAX).is_drained {}
    }

    fn take(&mut self, most: usize) -> Taken {
        let seen = &mut self.seen;
        self.follow.take_records(most, &mut |r: &Record<'_>| {
            seen.push(r.ts.seconds());
            ControlFlow::Continue(())
        })
    }

    /// The program ends, and another continues from its checkpoint.
    fn next(&mut self) {
        let mut saved = Vec::new();
        self.follow.save(&mut saved);
        let mut next = Follow::new(files(), vec![self.folder.path().to_owned()], None, 0);
        let from = &mut saved.as_slice();
        next.restore(from).unwrap();
        assert!(from.is_empty());
        let mut again = Vec::new();
        next.save(&mut again);
        assert_eq!(again.len(), saved.len());
        self.follow = next;
    }

    /// Each once, whatever the order.
    fn are(&self, seconds: std::ops::RangeInclusive<i64>) {
        let mut seen = self.seen.clone();
        seen.sort_unstable();
        assert_eq!(seen, seconds.collect::<Vec<_>>());
        for report in self.follow.reports() {
            report.ledger.balance().unwrap();
        }
    }

    fn restarts(&self) -> u64 {
        self.follow.reports().map(|r| r.restarts).sum()
    }
}

/// Each case while it is followed, and with the program stopped while it happens.
fn both(case: impl Fn(&mut Trial, &dyn Fn(&mut Trial))) {
    case(&mut Trial::new(), &|_| {});
    case(&mut Trial::new(), &Trial::next);
}

#[test]
fn halves_of_lines_wait_for_their_other_half() {
    both(|t, between| {
        let path = t.path("conn.log");
        let text = lines(1..=3);
        for at in 0..text.len() {
            append(&path, &text[at..=at]);
            between(t);
            t.look();
        }
        t.are(1..=3);
        assert!(t.seen.is_sorted());
    });
}

#[test]
fn a_renamed_log_and_the_new_one_are_read_once() {
    both(|t, between| {
        let path = t.path("conn.log");
        fs::write(&path, lines(1..=2)).unwrap();
        t.look();
        append(&path, &lines(3..=4));
        fs::rename(&path, t.path("conn.2026-01-01.log")).unwrap();
        fs::write(&path, lines(5..=6)).unwrap();
        between(t);
        t.look();
        append(&path, &line(7));
        between(t);
        t.look();
        t.are(1..=7);
        assert_eq!(t.restarts(), 0);
    });
}

/// `truncated.sh`: cut off and written longer than before between two looks, or shorter, or as long.
#[test]
fn a_log_that_is_cut_off_and_rewritten_is_read_from_its_start() {
    for upto in [101, 150, 200, 201, 999] {
        both(|t, between| {
            let path = t.path("conn.log");
            fs::write(&path, lines(100..=199)).unwrap();
            t.look();
            fs::write(&path, lines(200..=upto + 99)).unwrap();
            between(t);
            t.look();
            t.are(100..=i64::from(upto) + 99);
            assert_eq!(t.restarts(), 1);
        });
    }
}

/// logrotate's copytruncate: a copy is made, the log is cut off. What was written between the last look and
/// the copy is read in the copy.
#[test]
fn a_log_that_is_copied_and_cut_off_loses_and_doubles_nothing() {
    both(|t, between| {
        let path = t.path("conn.log");
        fs::write(&path, lines(1..=10)).unwrap();
        t.look();
        append(&path, &lines(11..=20));
        fs::copy(&path, t.path("conn.log.1")).unwrap();
        // A look may come before it is cut off.
        between(t);
        t.look();
        fs::write(&path, lines(21..=50)).unwrap();
        between(t);
        t.look();
        t.look();
        t.are(1..=50);
        // And once more, without a look between the copy and the cut.
        append(&path, &lines(51..=60));
        fs::copy(&path, t.path("conn.log.2")).unwrap();
        fs::write(&path, lines(61..=61)).unwrap();
        between(t);
        t.look();
        t.look();
        t.are(1..=61);
    });
}

#[test]
fn a_packed_log_is_not_read_again() {
    both(|t, between| {
        let (path, old) = (t.path("conn.log"), t.path("conn.log.1"));
        fs::write(&path, lines(1..=10)).unwrap();
        t.look();
        fs::rename(&path, &old).unwrap();
        fs::write(&path, lines(11..=12)).unwrap();
        between(t);
        t.look();
        // While it is compressed both are there.
        pack(&old);
        between(t);
        t.look();
        fs::remove_file(&old).unwrap();
        between(t);
        t.look();
        t.look();
        append(&path, &line(13));
        t.look();
        t.are(1..=13);
    });
}

/// What was written since the last look is in a compressed log alone.
#[test]
fn a_log_that_was_compressed_unseen_continues_there() {
    let mut t = Trial::new();
    let path = t.path("conn.log");
    fs::write(&path, lines(1..=10)).unwrap();
    t.look();
    append(&path, &lines(11..=20));
    pack(&path);
    fs::remove_file(&path).unwrap();
    fs::write(&path, lines(21..=30)).unwrap();
    t.next();
    t.look();
    t.look();
    t.are(1..=30);
}

/// An unknown compressed log is read whole, and so is one that begins alike and continues with other bytes.
#[test]
fn new_logs_are_read_whole_however_they_begin() {
    both(|t, between| {
        fs::write(t.path("conn.a.log"), lines(1..=10)).unwrap();
        pack(&t.path("conn.a.log"));
        fs::remove_file(t.path("conn.a.log")).unwrap();
        t.look();
        between(t);
        t.look();
        t.are(1..=10);
        let other = t.path("conn.b.log");
        fs::write(&other, lines(20..=29)).unwrap();
        t.look();
        fs::remove_file(&other).unwrap();
        between(t);
        t.look();
        t.look();
        t.seen.clear();
        fs::write(t.path("conn.c.log"), line(20) + &lines(30..=60)).unwrap();
        between(t);
        t.look();
        assert_eq!(t.seen, [&[20][..], &(30..=60).collect::<Vec<_>>()].concat());
    });
}

/// The system gives a new file the inode of one that was removed.
#[test]
fn a_log_of_a_reused_inode_is_read_from_its_start() {
    both(|t, between| {
        let path = t.path("conn.log");
        let mut next = 1;
        for _ in 0..8 {
            fs::write(&path, lines(next..next + 5)).unwrap();
            next += 5;
            between(t);
            t.look();
            fs::remove_file(&path).unwrap();
            between(t);
            t.look();
        }
        t.are(1..=i64::from(next) - 1);
    });
}

/// What is there at a look is returned by time, whatever log it is in.
#[test]
fn logs_are_put_together_by_time() {
    let mut t = Trial::new();
    for (rest, name) in ["conn.log", "dns.log", "ssl.log"].iter().enumerate() {
        let of = (1..=5000).filter(|n| *n as usize % 3 == rest);
        fs::write(t.path(name), lines(of)).unwrap();
    }
    t.look();
    assert!(t.seen.is_sorted());
    t.are(1..=5000);
}

type Seen = Vec<(i64, Vec<u8>, bool)>;

/// Columns are known after a cut too, and lines that wait for earlier ones wait on.
/// A collector's binary file grows by blocks, and gets its name when it is done; each record is given out once, also
/// where a look comes in the middle of a block.
#[test]
fn a_binary_file_of_nfdump_is_read_as_it_grows() {
    let whole =
        fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/nfcapd/demo.lz4")).unwrap();
    // The first block stands three times in it.
    let header = &whole[..40];
    let len = u32::from_le_bytes(whole[44..48].try_into().unwrap()) as usize;
    let block = &whole[40..52 + len];
    both(|trial, restart| {
        let (current, done) = (trial.path("nfcapd.current.77"), trial.path("nfcapd.202611211125"));
        fs::write(&current, header).unwrap();
        trial.look();
        assert_eq!(trial.seen.len(), 0);
        let mut file = fs::OpenOptions::new().append(true).open(&current).unwrap();
        for n in 0..3 {
            let cut = [5, 12, 1000][n];
            file.write_all(&block[..cut]).unwrap();
            trial.look();
            restart(trial);
            assert_eq!(trial.seen.len(), 431 * n);
            file.write_all(&block[cut..]).unwrap();
            trial.look();
            restart(trial);
            assert_eq!(trial.seen.len(), 431 * (n + 1), "block {n}");
        }
        fs::rename(&current, &done).unwrap();
        trial.look();
        restart(trial);
        trial.look();
        assert_eq!(trial.seen.len(), 3 * 431);
    });
}

#[test]
fn any_cut_gives_the_same_lines() {
    let head = "#separator \\x09\n#path\tconn\n#fields\tts\tuid\tid.orig_h\tid.resp_h\n";
    let rows: String = (1..=300)
        .map(|n: u32| format!("{}.0\tC{n}\t10.0.0.1\t10.0.0.2\n", 1000 + (n ^ 5) * 2))
        .collect();
    let text = format!("{head}{rows}no line\n{head}99.0\tD\t10.0.0.1\t10.0.0.2\n");
    let run = |cuts: u64| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("conn.log");
        let new = || Follow::new(files(), vec![path.clone()], None, 20_000_000_000);
        let (mut follow, mut seen) = (new(), Seen::new());
        let mut state = cuts;
        let mut next = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % below
        };
        let keep = |r: &Record<'_>, seen: &mut Seen| {
            seen.push((r.ts.0, r.uid.to_vec(), r.is_late));
            ControlFlow::Continue(())
        };
        let mut at = 0;
        while at < text.len() {
            let upto = (at + 1 + next(700)).min(text.len());
            append(&path, &text[at..upto]);
            at = upto;
            follow.look_at_logs(0);
            loop {
                let taken = follow.take_records(1 + next(9), &mut |r| keep(r, &mut seen));
                if cuts > 0 && next(3) == 0 {
                    let mut saved = Vec::new();
                    follow.save(&mut saved);
                    follow = new();
                    follow.restore(&mut saved.as_slice()).unwrap();
                    follow.look_at_logs(0);
                } else if taken.is_drained {
                    break;
                }
            }
        }
        follow.finish(&mut |r| keep(r, &mut seen));
        let report = follow.reports().next().unwrap().clone();
        report.ledger.balance().unwrap();
        (seen, report.skips, report.late)
    };
    let whole = run(0);
    assert_eq!((whole.0.len(), whole.1.total()), (301, 1));
    for cuts in 1..20 {
        assert_eq!(run(cuts), whole, "{cuts}");
    }
}

/// More logs than stay open: all are read, and what they grow by too.
#[test]
fn very_many_logs_are_followed_with_few_descriptors() {
    let mut t = Trial::new();
    let count = 2000u32;
    for n in 0..count {
        fs::write(t.path(&format!("conn.{n}.log")), line(n)).unwrap();
    }
    let open = || fs::read_dir("/proc/self/fd").unwrap().count();
    // As many as stay open, and those of other tests that run at the same time.
    t.follow.look_at_logs(0);
    assert!(open() < 1000, "{}", open());
    t.look();
    assert!(open() < 1000, "{}", open());
    for n in 0..count {
        append(&t.path(&format!("conn.{n}.log")), &line(count + n));
    }
    t.look();
    t.are(0..=i64::from(2 * count) - 1);
    assert_eq!(t.follow.count(), count as usize);
}

/// A log that grows is opened by what the caller hands in, each time: what that refuses is not read.
#[test]
fn logs_are_opened_by_what_the_caller_hands_in() {
    let (folder, real) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (named, kept) = (folder.path().join("conn.log"), real.path().join("conn.log"));
    append(&kept, &lines(1..3));
    fs::hard_link(&kept, &named).unwrap();
    let is_open = Arc::new(AtomicBool::new(false));
    let allowed = Arc::clone(&is_open);
    let path = kept.clone();
    let files = FileOpener::new(move |_, _| {
        if allowed.load(Relaxed) { File::open(&path) } else { Err(PermissionDenied.into()) }
    });
    let follow = Follow::new(files, vec![named], None, 0);
    let mut trial = Trial { folder, follow, seen: Vec::new() };
    trial.look();
    assert_eq!(trial.seen, [0; 0]);
    is_open.store(true, Relaxed);
    trial.look();
    append(&kept, &line(3));
    trial.look();
    assert_eq!(trial.seen, [1, 2, 3]);
}
