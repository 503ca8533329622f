//! nfdump's binary files, compared with nfdump's own output for them, and with the same flows as text.

mod program;

use program::{Ran, demo, gabion, repository};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The output of nfdump for these arguments; none if it is not installed.
fn nfdump(args: &[&str]) -> Option<String> {
    let ran = Command::new("nfdump").args(args).env("TZ", "UTC").output().ok()?;
    Some(String::from_utf8_lossy(&ran.stdout).into_owned())
}

fn is_there(test: &str) -> bool {
    let is_there = ["nfdump", "nfpcapd"].iter().all(|p| Command::new(p).arg("-V").output().is_ok());
    if !is_there {
        eprintln!("{test}: skipped: nfdump and nfpcapd are not installed");
    }
    is_there
}

/// A file that nfpcapd makes of a capture.
fn made(capture: &str, folder: &Path) -> PathBuf {
    std::fs::create_dir_all(folder).unwrap();
    let shown = folder.display().to_string();
    let ran = Command::new("nfpcapd")
        .args(["-r", capture, "-l", &shown, "-S", "0"])
        .env("TZ", "UTC")
        .output()
        .unwrap();
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|f| f.file_name().is_some_and(|n| n.to_string_lossy().starts_with("nfcapd.2")));
    files.sort();
    files.into_iter().next().unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&ran.stderr)))
}

/// `read --behavior` over inputs.
fn behavior(inputs: &[&str], out: &Path) -> Ran {
    let out = out.display().to_string();
    let args = [&["read", "--behavior", "-l", &out, "--json"], inputs].concat();
    let ran = gabion(&args);
    assert_eq!(ran.code, 0, "{}", ran.err);
    ran
}

/// Findings without the values that differ in each run.
fn findings(out: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(out.join("alerts.json")).unwrap();
    let lines = text.lines().map(|line| {
        let v: Value = serde_json::from_str(line).unwrap();
        format!("{} {} {} {}", v["Description"], v["StartTime"], v["Source"], v["Target"])
    });
    lines.collect()
}

/// Each flow of nfdump's JSON, in the form of our reader's row.
fn by_nfdump(file: &str) -> Vec<String> {
    let text = nfdump(&["-r", file, "-o", "json"]).unwrap();
    if text.contains("No matching flows") {
        return Vec::new();
    }
    // A summary follows it.
    let list = serde_json::Deserializer::from_str(&text).into_iter::<Vec<Value>>().next();
    let flows = list.unwrap().unwrap_or_else(|e| panic!("{e}: {text}"));
    let mut rows: Vec<String> = flows
        .iter()
        .map(|f| {
            let ms = |key: &str| {
                let t = f[key].as_str().unwrap();
                let at: jiff::Timestamp = format!("{t}Z").parse().unwrap();
                at.as_millisecond()
            };
            let address = |end: &str| {
                let a = f[format!("{end}4_addr")].as_str().or(f[format!("{end}6_addr")].as_str());
                a.unwrap().parse::<std::net::IpAddr>().unwrap()
            };
            let ports = match f["icmp_type"].as_u64() {
                Some(kind) => [kind, f["icmp_code"].as_u64().unwrap()],
                None => ["src_port", "dst_port"].map(|p| f[p].as_u64().unwrap_or(0)),
            };
            let flags = f["tcp_flags"].as_str().unwrap_or("........");
            let back = |key: &str| f[key].as_u64().map_or(String::new(), |n| n.to_string());
            format!(
                "{}000000,{},{},{},{},{},{},{flags},{},{},{},{}",
                ms("first"),
                (ms("last") - ms("first")) * 1_000_000,
                f["proto"],
                address("src"),
                ports[0],
                address("dst"),
                ports[1],
                f["in_packets"],
                f["in_bytes"],
                back("out_packets"),
                back("out_bytes")
            )
        })
        .collect();
    rows.sort();
    rows
}

/// The rows that our reader makes of a file.
fn by_us(file: &Path) -> Vec<String> {
    use gabion_flowlog::source::{LineRead, Lines};
    let mut lines = Lines::from_file(std::fs::File::open(file).unwrap());
    let mut rows = Vec::new();
    while let LineRead::Line(from, to) = lines.next_line() {
        rows.push(String::from_utf8_lossy(&lines.text()[from..to]).into_owned());
    }
    assert_eq!(lines.error(), None);
    rows.remove(0);
    rows.sort();
    rows
}

/// Every field of every flow, in each packing that nfdump has, of one direction and of both.
#[test]
fn flows_are_those_that_nfdump_prints() {
    if !is_there("flows_are_those_that_nfdump_prints") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut captures = vec![demo()];
    for more in ["captures/arkime", "captures/ndpi"] {
        let test = "flows_are_those_that_nfdump_prints";
        let Some(folder) = gabion_corpus::find(test, more) else { continue };
        let folder = std::fs::read_dir(folder).unwrap();
        let mut files: Vec<_> = folder.flatten().map(|e| e.path()).collect();
        files.sort();
        let is_small = |f: &PathBuf| {
            f.extension().is_some_and(|e| e == "pcap")
                && f.metadata().is_ok_and(|m| m.len() < 1 << 20)
        };
        captures
            .extend(files.into_iter().filter(is_small).take(40).map(|f| f.display().to_string()));
    }
    let (mut flows, mut both, mut six) = (0, 0, 0);
    for (n, capture) in captures.iter().enumerate() {
        let folder = dir.path().join(n.to_string());
        std::fs::create_dir_all(&folder).unwrap();
        let ran = Command::new("nfpcapd")
            .args(["-r", capture, "-l", &folder.display().to_string(), "-S", "0"])
            .env("TZ", "UTC")
            .output()
            .unwrap();
        let mut files: Vec<_> =
            std::fs::read_dir(&folder).unwrap().flatten().map(|e| e.path()).collect();
        files
            .retain(|f| f.file_name().is_some_and(|n| n.to_string_lossy().starts_with("nfcapd.2")));
        assert!(n > 0 || !files.is_empty(), "{}", String::from_utf8_lossy(&ran.stderr));
        for file in files.iter().take(3) {
            let shown = file.display().to_string();
            let joined = folder.join("both").display().to_string();
            nfdump(&["-r", &shown, "-b", "-w", &joined]).unwrap();
            // Of no flows nfdump makes no file.
            for name in [shown, joined].into_iter().filter(|n| Path::new(n).exists()) {
                let theirs = by_nfdump(&name);
                assert_eq!(by_us(Path::new(&name)), theirs, "{capture}: {name}");
                flows += theirs.len();
                both += theirs.iter().filter(|r| !r.ends_with(",,")).count();
                six += theirs.iter().filter(|r| r.contains("::")).count();
                for packing in ["1", "2", "3"] {
                    nfdump(&["-J", packing, "-r", &name]).unwrap();
                    assert_eq!(by_us(Path::new(&name)), theirs, "{capture}: packing {packing}");
                }
            }
        }
    }
    assert!(flows > 500 && both > 50, "{flows} flows, {both} of both directions, {six} of IPv6");
}

/// Hosts do the same in a binary file and in the text that nfdump makes of it; a folder of such files is read too.
#[test]
fn findings_are_those_of_the_text() {
    if !is_there("findings_are_those_of_the_text") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = made(&demo(), &dir.path().join("flows"));
    let shown = file.display().to_string();
    let text = dir.path().join("flows.txt");
    std::fs::write(&text, nfdump(&["-r", &shown, "-o", "long6", "-N", "-q"]).unwrap()).unwrap();
    let outs = ["binary", "text", "folder"].map(|name| dir.path().join(name));
    let folder = dir.path().join("flows").display().to_string();
    let inputs = [shown.clone(), text.display().to_string(), folder];
    let runs: Vec<Value> = inputs
        .iter()
        .zip(&outs)
        .map(|(input, out)| serde_json::from_str(&behavior(&[input], out).out).unwrap())
        .collect();
    // Flows of the same millisecond are taken in the order of their texts, which differ.
    let found = outs.each_ref().map(|out| {
        let mut found = findings(out);
        found.sort();
        found
    });
    assert!(found[0].len() > 2, "{:?}", found[0]);
    assert_eq!(found[0], found[1], "{} {}", runs[0], runs[1]);
    assert_eq!(found[0], found[2]);
    // The format may also be named.
    let out = dir.path().join("said");
    behavior(&["--kind", "nfdump", &shown], &out);
    let mut said = findings(&out);
    said.sort();
    assert_eq!(said, found[0]);
}

/// Damage is counted by its reason and the rest is read; a file that can't be read at all is reported with a remedy.
#[test]
fn damage_is_counted_and_said() {
    let dir = tempfile::tempdir().unwrap();
    let whole = std::fs::read(repository("crates/flowlog/tests/data/nfcapd/demo.lz4")).unwrap();
    let path = dir.path().join("nfcapd.202611211125");
    // A further block, of a packing's nonsense.
    let mut file = whole[..52].to_vec();
    file.splice(
        40..52,
        [7, 0, 0, 0, 8, 0, 0, 0, 3, 0, 0, 0, 0xf0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    );
    file.extend_from_slice(&whole[40..]);
    std::fs::write(&path, &file).unwrap();
    let out = dir.path().join("out");
    let ran = behavior(&[&path.display().to_string()], &out);
    assert!(
        ran.err.contains("7 lines skipped") && ran.err.contains("can't be unpacked"),
        "{}",
        ran.err
    );
    assert!(!findings(&out).is_empty());

    std::fs::write(&path, [0x0c, 0xa5, 3, 0, 0, 0, 0, 0]).unwrap();
    let ran = gabion(&["read", "--behavior", &path.display().to_string()]);
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert!(
        ran.err.contains("of layout 3") && ran.err.contains("nfdump -r FILE -o csv"),
        "{}",
        ran.err
    );
    // Without `--behavior` its format is detected, and reported.
    std::fs::write(&path, &whole).unwrap();
    let ran = gabion(&["read", &path.display().to_string()]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("read as with --behavior"), "{}", ran.err);
}

fn le<const N: usize>(words: [u16; N]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// A record of layout 1 after its extension map.
fn old(number: u16, flags: u16, extensions: &[u16], body: &[u8]) -> Vec<u8> {
    let lengths = |id: &u16| match id {
        4 | 14 | 16 => 4,
        7 | 15 | 17 => 8,
        _ => 16,
    };
    let mut list: Vec<u8> = extensions.iter().flat_map(|e| e.to_le_bytes()).collect();
    list.resize((list.len() + 2).next_multiple_of(4), 0);
    let len = u16::try_from(8 + list.len()).unwrap();
    let map = [le([2, len, number, extensions.iter().map(lengths).sum()]), list].concat();
    let len = u16::try_from(32 + body.len()).unwrap();
    let mut record = le([10, len, flags, number, 123, 373]);
    for _ in 0..2 {
        record.extend_from_slice(&1_700_000_000_u32.to_le_bytes());
    }
    record.extend_from_slice(&[0, 0x1b, 6, 0]);
    record.extend_from_slice(&le([4000, 443]));
    record.resize(32, 0);
    [map, record, body.to_vec()].concat()
}

/// Layout 1, which nfdump 1.7 still reads: both families, counts of 32 and 64 bits, both directions. (Its older kind of record
/// nfdump 1.7 passes over.)
#[test]
fn files_of_layout_1_are_those_that_nfdump_prints() {
    if !is_there("files_of_layout_1_are_those_that_nfdump_prints") {
        return;
    }
    let v4 = [2, 1, 0, 10, 4, 3, 2, 1];
    let v6: Vec<u8> = [0x2001_0db8_0000_0000_u64, 1, 0x2001_0db8_0000_0000, 2]
        .iter()
        .flat_map(|n| n.to_le_bytes())
        .collect();
    let short = [5, 0, 0, 0, 88, 2, 0, 0];
    let long = [(1_u64 << 33).to_le_bytes(), 600_u64.to_le_bytes()].concat();
    let more = [&[9; 4 + 8 + 16][..], &7_u32.to_le_bytes(), &(1_u64 << 40).to_le_bytes(), &[9; 16]]
        .concat();
    let both = [&v4[..], &long, &more].concat();
    let body = [
        old(0, 0, &[], &[&v4[..], &short].concat()),
        old(1, 6, &[4, 7, 10, 14, 17, 20], &both),
        old(2, 1, &[4], &[&v6[..], &short, &[9; 4]].concat()),
    ]
    .concat();
    let mut file = le([0xa50c, 1, 0, 0, 1, 0]);
    file.resize(12 + 128 + 136, 0);
    file.extend_from_slice(&6_u32.to_le_bytes());
    file.extend_from_slice(&u32::try_from(body.len()).unwrap().to_le_bytes());
    file.extend_from_slice(&le([2, 0]));
    file.extend_from_slice(&body);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nfcapd.202311142210");
    std::fs::write(&path, file).unwrap();
    let theirs = by_nfdump(&path.display().to_string());
    assert_eq!(theirs.len(), 3, "{theirs:?}");
    assert_eq!(by_us(&path), theirs);
}

/// What a collector writes of NetFlow version 5 and IPFIX: systems' numbers, translated addresses, counts of 64 bits, IPv6.
#[test]
fn files_of_a_collector_are_those_that_nfdump_prints() {
    let test = "files_of_a_collector_are_those_that_nfdump_prints";
    if !is_there(test) || Command::new("nfcapd").arg("-V").output().is_err() {
        eprintln!("{test}: skipped: nfcapd is not installed");
        return;
    }
    let be = |words: &[u16]| words.iter().flat_map(|w| w.to_be_bytes()).collect::<Vec<u8>>();
    let mut five = be(&[5, 1]);
    five.extend_from_slice(&1_000_000_u32.to_be_bytes());
    five.extend_from_slice(&1_700_000_000_u32.to_be_bytes());
    five.resize(24, 0);
    five.extend_from_slice(&[10, 0, 1, 2, 1, 2, 3, 4, 0, 0, 0, 0, 0, 1, 0, 2]);
    for n in [5_u32, 600, 900_000, 900_250] {
        five.extend_from_slice(&n.to_be_bytes());
    }
    five.extend(be(&[4000, 443]));
    five.extend_from_slice(&[0, 0x1b, 6, 0]);
    five.extend(be(&[64_512, 64_513, 0, 0]));
    let set = |id: u16, body: &[u8]| [be(&[id, body.len() as u16 + 4]), body.to_vec()].concat();
    let template = |id: u16, fields: &[(u16, u16)]| {
        let mut all = be(&[id, fields.len() as u16]);
        all.extend(fields.iter().flat_map(|(f, len)| be(&[*f, *len])));
        set(2, &all)
    };
    let common =
        [(152, 8), (153, 8), (7, 2), (11, 2), (4, 1), (6, 1), (2, 8), (1, 8), (16, 4), (17, 4)];
    let values = |proto: u8, dst_port: u16| {
        let first = 1_700_000_000_123_u64;
        let mut v: Vec<u8> = [first, first + 250].iter().flat_map(|n| n.to_be_bytes()).collect();
        v.extend(be(&[4000, dst_port]));
        v.extend_from_slice(&[proto, 0x12]);
        v.extend([1_u64 << 33, 1 << 40].iter().flat_map(|n| n.to_be_bytes()));
        v.extend([70_000_u32, 70_001].iter().flat_map(|n| n.to_be_bytes()));
        v
    };
    let four: Vec<(u16, u16)> =
        [&common[..], &[(8, 4), (12, 4), (225, 4), (226, 4), (23, 8), (24, 8)]].concat();
    let six: Vec<(u16, u16)> = [&common[..], &[(27, 16), (28, 16)]].concat();
    let mut of_four = values(6, 443);
    of_four.extend_from_slice(&[10, 0, 0, 1, 192, 0, 2, 1, 203, 0, 113, 9, 192, 0, 2, 1]);
    of_four.extend([77_u64, 3].iter().flat_map(|n| n.to_be_bytes()));
    let mut of_six = values(17, 53);
    of_six.extend_from_slice(&[0x20; 16]);
    of_six.extend_from_slice(&[0x21; 16]);
    let sets =
        [template(256, &four), template(257, &six), set(256, &of_four), set(257, &of_six)].concat();
    let mut ipfix = be(&[10, 16 + sets.len() as u16]);
    ipfix.extend_from_slice(&1_700_000_001_u32.to_be_bytes());
    ipfix.resize(16, 0);
    ipfix.extend(sets);

    for packing in [&[][..], &["-z"], &["-y"], &["-j"]] {
        let dir = tempfile::tempdir().unwrap();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut collector = Command::new("nfcapd")
            .args(["-b", "127.0.0.1", "-p", &port.to_string(), "-w"])
            .arg(dir.path())
            .args(packing)
            .env("TZ", "UTC")
            .stderr(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let mut said =
            BufReader::new(collector.stderr.take().unwrap()).lines().map_while(Result::ok);
        let mut until =
            |word: &str| assert!(said.any(|line| line.contains(word)), "ended before {word}");
        until("Startup nfcapd");
        socket.connect(("127.0.0.1", port)).unwrap();
        // A datagram of another engine is named when it is looked at: those before it are done with.
        let mut last = five.clone();
        last[21] = 7;
        for datagram in [&five, &ipfix, &last] {
            socket.send(datagram).unwrap();
        }
        until("Process_v5");
        until("Process_v5");
        let pid = collector.id().to_string();
        Command::new("kill").args(["-TERM", &pid]).status().unwrap();
        collector.wait().unwrap();
        let names = std::fs::read_dir(dir.path()).unwrap().flatten().map(|e| e.path());
        let found: Vec<_> = names.collect();
        let file = found
            .iter()
            .find(|f| f.to_string_lossy().contains("nfcapd.2"))
            .unwrap_or_else(|| panic!("{found:?}"));
        let theirs = by_nfdump(&file.display().to_string());
        assert!(theirs.len() >= 3, "{theirs:?}");
        assert!(theirs.iter().any(|r| r.contains("8589934592,1099511627776,3,77")), "{theirs:?}");
        assert_eq!(by_us(file), theirs, "{packing:?}");
    }
}
