//! `rotate-interval` and `rotate-size`: files of lines are opened again by the clock and by their size, and together hold
//! what one file would.

mod program;

use program::{demo, repository};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

/// A configuration of three outputs; `rotation` is added to each.
fn configuration(folder: &Path, date: &str, rotation: &str) -> String {
    let path = folder.join("suricata.yaml");
    let text = format!(
        "%YAML 1.1\n---\nvars:\n  address-groups:\n    HOME_NET: any\n    EXTERNAL_NET: any\noutputs:\n  \
         - fast: {{ enabled: yes, filename: 'fast{date}.log'{rotation} }}\n  \
         - eve-log: {{ enabled: yes, filename: 'eve{date}.json', filemode: '600', types: [alert, dns, http, flow, stats]{rotation} }}\n  \
         - stats: {{ enabled: yes, filename: 'stats{date}.log'{rotation} }}\n"
    );
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// Lines of all files of an output together, in the order of their names, and how many files there are.
fn lines(folder: &Path, front: &str) -> (Vec<String>, usize) {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with(front) {
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(text.is_empty() || text.ends_with('\n'), "{name} ends in half a line");
            files.insert(name, text);
        }
    }
    (files.values().flat_map(|text| text.lines().map(str::to_owned)).collect(), files.len())
}

/// Lines without what differs from run to run: the time of the run, and what it cost.
fn lasting(lines: Vec<String>) -> Vec<String> {
    lines.into_iter().filter(|l| !l.contains("\"event_type\":\"stats\"")).collect()
}

/// The demonstration's capture in pieces of some hundred packets.
fn pieces() -> Vec<Vec<u8>> {
    let all = std::fs::read(demo()).unwrap();
    let (mut at, mut from, mut packets) = (24, 0, 0);
    let mut found = Vec::new();
    while at < all.len() {
        let len: [u8; 4] = all[at + 8..at + 12].try_into().unwrap();
        at += 16 + u32::from_le_bytes(len) as usize;
        packets += 1;
        if packets % 400 == 0 {
            found.push(all[from..at].to_vec());
            from = at;
        }
    }
    found.push(all[from..].to_vec());
    found
}

/// Whether a file of that output has a line.
fn has_line(folder: &Path, front: &str) -> bool {
    std::fs::read_dir(folder).is_ok_and(|entries| {
        entries.flatten().any(|e| {
            e.file_name().to_string_lossy().starts_with(front)
                && e.metadata().is_ok_and(|m| m.len() > 0)
        })
    })
}

/// A capture that comes piece by piece, each piece in a second of its own: no line is lost, none is there twice, and
/// the sealed log holds the same alerts.
#[test]
fn files_of_every_second_hold_what_one_file_would() {
    let rules = repository("demo/gabion.rules").display().to_string();
    for workers in ["1", "2", "4"] {
        let dir = tempfile::tempdir().unwrap();
        let one = dir.path().join("one");
        let plain = configuration(dir.path(), "", "");
        let shown = one.display().to_string();
        let ran = program::gabion(&[
            "read",
            "-q",
            "-c",
            &plain,
            "-S",
            &rules,
            "-l",
            &shown,
            "--workers",
            workers,
            &demo(),
        ]);
        assert_eq!(ran.code, 0, "{}", ran.err);

        let many = dir.path().join("many");
        let shown = many.display().to_string();
        let (log, key) = (dir.path().join("log"), dir.path().join("reader"));
        let [log, key] = [&log, &key].map(|p| p.display().to_string());
        let made = program::gabion(&["log", "keygen", "--out", &key]);
        assert_eq!(made.code, 0, "{}", made.err);
        let recipient = format!("{key}/recipient.pub");
        let origin = ["--origin", "host.example/log"];
        let made = program::gabion(
            &[&["log", "init", &log, "--recipient", &recipient], &origin[..]].concat(),
        );
        assert_eq!(made.code, 0, "{}", made.err);
        let rotated = configuration(dir.path(), "-%H%M%S", ", rotate-interval: 1s");
        let mut child = program::command(&[
            "read",
            "-c",
            &rotated,
            "-S",
            &rules,
            "-l",
            &shown,
            "--workers",
            workers,
            "--seal",
            &log,
            "-",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
        let mut pipe = child.stdin.take().unwrap();
        for (n, piece) in pieces().into_iter().enumerate() {
            if n > 0 {
                while !has_line(&many, "fast") {
                    std::thread::yield_now();
                }
                std::thread::sleep(std::time::Duration::from_millis(1100));
            }
            pipe.write_all(&piece).unwrap();
        }
        drop(pipe);
        let ended = program::ran(child.wait_with_output().unwrap());
        assert_eq!(ended.code, 0, "{}", ended.err);
        assert!(!ended.err.contains("rotate-interval"), "{}", ended.err);

        let (expected, _) = lines(&one, "fast");
        let (fast, files) = lines(&many, "fast");
        assert!(files >= 2, "{files} files by {workers} workers");
        assert_eq!(fast, expected, "{workers} workers");
        let (expected, _) = lines(&one, "eve");
        let (eve, files) = lines(&many, "eve");
        assert!(files >= 2, "{files} files by {workers} workers");
        assert_eq!(lasting(eve), lasting(expected), "{workers} workers");
        assert_eq!(lines(&many, "stats").1, 2, "one at the start, one at the end");
        let sealed = format!("gabion: {} findings sealed", fast.len());
        assert!(ended.err.contains(&sealed), "{sealed}: {}", ended.err);
        for entry in std::fs::read_dir(&many).unwrap().flatten() {
            use std::os::unix::fs::PermissionsExt;
            let name = entry.file_name().to_string_lossy().into_owned();
            let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
            assert!(!name.starts_with("eve") || mode == 0o600, "{name} {mode:o}");
        }
    }
}

/// The files of an output that `rotate-size` has made, in the order in which they were written, and the last one.
fn by_size(folder: &Path, name: &str) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        let Some(end) = file.strip_prefix(name) else { continue };
        // The last one has no number; of one second the first has no second number.
        let numbers: Vec<u64> = end.split('.').filter_map(|n| n.parse().ok()).collect();
        let place = (numbers.first().copied().unwrap_or(u64::MAX), numbers.get(1).copied());
        found.push((place, path));
    }
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

/// No line is lost, there twice or cut, and no file is larger than it may be.
#[test]
fn files_of_a_size_hold_what_one_file_would() {
    let rules = repository("demo/gabion.rules").display().to_string();
    for workers in ["1", "3"] {
        let dir = tempfile::tempdir().unwrap();
        let run = |out: &str, rotation: &str| {
            let yaml = configuration(dir.path(), "", rotation);
            let out = dir.path().join(out).display().to_string();
            let args = ["read", "-q", "-c", &yaml, "-S", &rules, "-l", &out];
            let more = ["--append", "--workers", workers, &demo()];
            let ran = program::gabion(&[&args[..], &more].concat());
            assert_eq!(ran.code, 0, "{}", ran.err);
        };
        run("one", "");
        // Twice, so that the second run continues in a file that is there.
        run("many", ", rotate-size: 20kb");
        run("many", ", rotate-size: 20kb");
        for name in ["eve.json", "fast.log"] {
            let text = std::fs::read_to_string(dir.path().join("one").join(name)).unwrap();
            let once: Vec<String> = lasting(text.lines().map(str::to_owned).collect());
            let expected = [once.clone(), once].concat();
            let files = by_size(&dir.path().join("many"), name);
            assert!(files.len() >= if name == "eve.json" { 20 } else { 1 }, "{files:?}");
            let mut all = String::new();
            for file in &files {
                use std::os::unix::fs::PermissionsExt;
                let text = std::fs::read_to_string(file).unwrap();
                assert!(text.ends_with('\n'), "{} ends in half a line", file.display());
                // A line that is larger has a file of its own.
                assert!(text.len() <= 20 << 10 || text.lines().count() == 1, "{}", text.len());
                let mode = file.metadata().unwrap().permissions().mode() & 0o777;
                assert!(name != "eve.json" || mode == 0o600, "{} {mode:o}", file.display());
                all += &text;
            }
            let found = lasting(all.lines().map(str::to_owned).collect());
            assert!(found == expected, "{name}, {workers}: {} of {}", found.len(), expected.len());
        }
    }
}

/// What is no interval ends the run before anything is read, in both front doors and in a test of a configuration.
#[test]
fn a_wrong_interval_is_refused_with_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let rules = repository("demo/gabion.rules").display().to_string();
    let out = dir.path().join("out").display().to_string();
    std::fs::create_dir(dir.path().join("out")).unwrap();
    for (key, words) in [
        ("rotate-interval: 5y", "write minute, hour, day"),
        ("rotate-size: large", "write a number of bytes"),
        ("rotate-size: 0", "write a number of bytes"),
    ] {
        let wrong = configuration(dir.path(), "", &format!(", {key}"));
        for args in [
            &["read", "-q", "-c", &wrong, "-S", &rules, "-l", &out, &demo()][..],
            &["suricata", "-c", &wrong, "-S", &rules, "-l", &out, "-r", &demo()],
            &["suricata", "-T", "-c", &wrong, "-S", &rules, "-l", &out],
        ] {
            let ran = program::gabion(args);
            assert_ne!(ran.code, 0, "{args:?}: {}{}", ran.out, ran.err);
            let said = format!("{}{}", ran.out, ran.err);
            for word in ["fast.log", key, words] {
                assert!(said.contains(word), "{word}: {said}");
            }
        }
    }
    // The first outputs have no fault: they leave no empty files either.
    let late = configuration(dir.path(), "", "");
    let text = std::fs::read_to_string(&late).unwrap();
    let text = text.replace("'stats.log'", "'stats.log', rotate-size: 0");
    std::fs::write(&late, text).unwrap();
    let ran = program::gabion(&["suricata", "-c", &late, "-S", &rules, "-l", &out, "-r", &demo()]);
    assert_ne!(ran.code, 0, "{}", ran.err);
    let left: Vec<_> = std::fs::read_dir(&out).unwrap().map(|e| e.unwrap().file_name()).collect();
    let is_output = |name: &std::ffi::OsString| {
        ["fast", "eve", "stats"].iter().any(|front| name.to_string_lossy().starts_with(front))
    };
    assert!(!left.iter().any(is_output), "{left:?}");
}

/// Frames of all files of a packet log, each as its bytes, in the order of the files' names.
fn logged(folder: &Path) -> (Vec<Vec<u8>>, usize) {
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("log.pcap"))
        .collect();
    names.sort();
    let mut all = Vec::new();
    for name in &names {
        assert!(std::fs::metadata(name).unwrap().len() <= 1 << 20, "{}", name.display());
        let file = std::fs::File::open(name).unwrap();
        let mut source = gabion_capture::Source::from_file(file).unwrap();
        let mut refs = Vec::new();
        while let Some(block) = source.next_block(256, &mut refs) {
            all.extend(refs.drain(..).map(|r| r.frame(&block.bytes).data.to_vec()));
        }
    }
    (all, names.len())
}

/// `limit` of `pcap-log` is the size of a file, `max-files` how many stay: together they hold the last frames, whole and in
/// order, by any number of workers.
#[test]
fn packet_logs_are_rotated_by_size() {
    let dir = tempfile::tempdir().unwrap();
    let frames: Vec<Vec<u8>> = (0..3500_u16)
        .map(|n| {
            let ends = [program::packets::CLIENT, program::packets::SERVER];
            let said = [&n.to_be_bytes()[..], &[b'x'; 1000]].concat();
            program::packets::ipv4(
                17,
                n,
                0,
                ends,
                &program::packets::udp([1000 + n % 50, 9], &said),
            )
        })
        .collect();
    // Each in a second of its own: files have the second of their first frame in their names.
    let timed = (0_u64..).map(|n| 1_700_000_000_000 + n * 1000).zip(frames.iter().cloned());
    let capture = program::packets::capture_at(101, dir.path(), "all.pcap", timed);
    for workers in ["1", "3"] {
        for (most, files) in [("100", 4), ("2", 2)] {
            let out = dir.path().join(format!("out-{workers}-{most}"));
            let yaml = dir.path().join("suricata.yaml");
            let text = format!(
                "%YAML 1.1\n---\noutputs:\n  - pcap-log: {{ enabled: yes, filename: log.pcap, limit: 1mb, max-files: {most} }}\n"
            );
            std::fs::write(&yaml, text).unwrap();
            let [yaml, shown] = [&yaml, &out].map(|p| p.display().to_string());
            let args = ["read", "-q", "-c", &yaml, "-l", &shown, "--workers", workers, &capture];
            let ran = program::gabion(&args);
            assert_eq!(ran.code, 0, "{}", ran.err);
            let (found, count) = logged(&out);
            assert_eq!(count, files, "{workers} workers, {most} files");
            assert!(found.len() > 900 * (files - 1), "{}", found.len());
            let last = &frames[frames.len() - found.len()..];
            assert!(found == last, "{workers} workers, {most} files: {} frames", found.len());
            assert_eq!(found.len() == frames.len(), files == 4);
        }
    }
}
