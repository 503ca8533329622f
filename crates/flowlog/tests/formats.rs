//! Logs of every format through the crate's door: known by their lines or by name, read as records, and counted.

use gabion_flowlog::{Feed, Format, Line, Options, Reader, Skip};
use gabion_record::files::FileOpener;
use gabion_record::logs::Body;
use std::ops::ControlFlow;

/// A flow of TCP of 1,700,000,000 s from 10.0.0.1 to 192.0.2.7, port 443, in each format.
const LOGS: [(&str, &str, &[&str]); 6] = [
    (
        "conn.log",
        "zeek",
        &[
            "#path\tconn",
            "#fields\tts\tuid\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\tproto\torig_bytes\tconn_state",
            "1700000000.000000\tC1\t10.0.0.1\t40000\t192.0.2.7\t443\ttcp\t70\tSF",
        ],
    ),
    (
        "conn.json",
        "zeek",
        &[
            r#"{"ts":1700000000.0,"uid":"C1","id.orig_h":"10.0.0.1","id.resp_h":"192.0.2.7","id.resp_p":443,"proto":"tcp","orig_bytes":70,"conn_state":"SF"}"#,
        ],
    ),
    (
        "eve.json",
        "eve",
        &[
            r#"{"timestamp":"2023-11-14T22:13:21.0+0000","event_type":"flow","src_ip":"10.0.0.1","dest_ip":"192.0.2.7","dest_port":443,"proto":"TCP","flow":{"bytes_toserver":70,"start":"2023-11-14T22:13:20.0+0000"}}"#,
        ],
    ),
    (
        "a.binetflow",
        "argus",
        &[
            "StartTime,Dur,Proto,SrcAddr,Sport,Dir,DstAddr,Dport,State,TotPkts,TotBytes,SrcBytes",
            "2023/11/14 22:13:20.000000,0.5,tcp,10.0.0.1,40000,->,192.0.2.7,443,CON,2,134,70",
        ],
    ),
    (
        "a.csv",
        "nfdump",
        &[
            "ts,te,td,sa,da,sp,dp,pr,flg,ipkt,ibyt",
            "2023-11-14 22:13:20,x,0.5,10.0.0.1,192.0.2.7,40000,443,TCP,.AP.SF,2,70",
        ],
    ),
    (
        "a.txt",
        "nfdump",
        &["2023-11-14 22:13:20.000 0.5 TCP 10.0.0.1:40000 -> 192.0.2.7:443 .AP.SF 0 2 70 1"],
    ),
];

fn read(name: &str, format: Option<Format>, lines: &[&str]) -> Vec<(i64, String, u16, u64)> {
    let mut reader = Reader::new(name, format);
    let mut scratch = Vec::new();
    let mut found = Vec::new();
    for line in lines {
        if let Line::Record(ts, layout) = reader.line(line.as_bytes()) {
            let r = reader.record(layout, line.as_bytes(), &mut scratch).unwrap();
            assert_eq!(r.ts, ts);
            let Body::Conn(c) = r.body else { panic!("{name}: not a flow") };
            found.push((r.ts.seconds(), r.dst.to_string(), r.dst_port, c.orig_bytes));
        }
    }
    found
}

#[test]
fn each_format_is_known_by_its_lines_and_by_its_name() {
    let wanted = [(1_700_000_000, "192.0.2.7".to_owned(), 443, 70)];
    for (name, format, lines) in LOGS {
        assert_eq!(read(name, None, lines), wanted, "{name}");
        assert_eq!(read(name, Format::from_name(format), lines), wanted, "{name} as {format}");
        // Nothing but a named format is looked for. But a header of Zeek counts always, and an event of EVE among
        // Zeek's logs is one.
        for row in Format::ALL.iter().filter(|row| row.name != format) {
            let is_known = lines[0].starts_with('#') || (format, row.name) == ("eve", "zeek");
            let found = read(name, Some(row.format), lines).len();
            assert_eq!(found, usize::from(is_known), "{name} as {}", row.name);
        }
    }
}

#[test]
fn no_cut_or_changed_byte_panics() {
    for (name, _, lines) in LOGS {
        for cut in 0..lines[lines.len() - 1].len() {
            let mut changed: Vec<Vec<u8>> = lines.iter().map(|l| l.as_bytes().to_vec()).collect();
            if let Some(last) = changed.last_mut() {
                last.truncate(cut);
                last.extend_from_slice(b"\xff,\t{");
            }
            let (mut reader, mut scratch) = (Reader::new(name, None), Vec::new());
            for line in &changed {
                if let Line::Record(_, layout) = reader.line(line) {
                    let _ = reader.record(layout, line, &mut scratch);
                }
            }
        }
    }
}

#[test]
fn many_logs_are_one_stream_and_skipped_lines_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut paths = Vec::new();
    for (name, _, lines) in LOGS {
        let path = folder.path().join(name);
        std::fs::write(&path, lines.join("\n") + "\nno record at all\n").unwrap();
        paths.push(path);
    }
    let mut feed = Feed::survey(
        &FileOpener::new(|path, _| std::fs::File::open(path)),
        &paths,
        Options::default(),
    );
    let mut times = Vec::new();
    feed.run(&mut |records| {
        times.extend(records.iter().map(|r| r.ts));
        ControlFlow::Continue(())
    });
    assert_eq!(times.len(), LOGS.len());
    assert!(times.is_sorted());
    for report in feed.reports() {
        report.ledger.balance().unwrap();
        let skipped: Vec<(Skip, u64)> = report.skips.iter().map(|(s, n, _)| (s, n)).collect();
        assert_eq!(skipped.len(), 1, "{}: {skipped:?}", report.path.display());
    }
}
