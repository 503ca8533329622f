//! Flow logs as files and as streams that grow, and the operator's lists: the whitelist, the
//! networks of organizations, the ports of services.

use crate::flowlog::{NAMES, line_seeds};
use crate::seeds::Seeds;
use gabion_behavior::Engine;
use gabion_behavior::Settings;
use gabion_behavior::whitelist::Whitelist;
use gabion_flowlog::source::{LineRead, Lines};
use gabion_flowlog::{Feed, InputReport, Intake, Line, Options, Reader};
use gabion_record::logs::{Record, SECOND, TimeNs};
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, OnceLock};
use tempfile::TempDir;

/// Folder of the log files.
static FOLDER: OnceLock<TempDir> = OnceLock::new();

/// A file that grows: it returns pieces of one size, and between them that there is no more data
/// yet.
struct Growing {
    text: Vec<u8>,
    given: usize,
    piece: usize,
    is_pausing: bool,
}

impl Read for Growing {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.is_pausing = !self.is_pausing;
        let rest = self.text.get(self.given..).unwrap_or_default();
        if self.is_pausing && !rest.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let len = self.piece.min(rest.len()).min(into.len());
        into.iter_mut().zip(rest.iter().take(len)).for_each(|(to, from)| *to = *from);
        self.given += len;
        Ok(len)
    }
}

/// Reads a log while it grows; returns its report and number of records.
fn grow(name: &str, text: &[u8], piece: usize) -> (InputReport, u64) {
    let growing = Growing { text: text.to_vec(), given: 0, piece: piece.max(1), is_pausing: true };
    let mut lines = Lines::new(Box::new(growing));
    let mut intake = Intake::new(Path::new(name), None, 5 * SECOND, 1 << 16);
    let (mut records, mut pauses) = (0, 0);
    let mut each = |_: &Record<'_>| {
        records += 1;
        ControlFlow::Continue(())
    };
    loop {
        let _ = match lines.next_line() {
            LineRead::Line(start, end) => {
                intake.line(lines.text().get(start..end).unwrap_or_default(), &mut each)
            }
            LineRead::TooLong(bytes) => {
                intake.too_long(bytes);
                ControlFlow::Continue(())
            }
            LineRead::Pending => {
                pauses += 1;
                assert!(pauses <= text.len() + 1, "reading of a log that grows continues");
                continue;
            }
            LineRead::End => break,
        };
    }
    assert_eq!(lines.bytes(), text.len() as u64, "every byte is returned or skipped");
    let _ = intake.finish(&mut each);
    (intake.report().clone(), records)
}

/// Reads any bytes as two logs, plain or packed, of any name: as files their records are in order
/// of time and their ledgers balance; as logs that grow they have as many records and skips.
pub fn files(data: &[u8]) {
    let [first, second, cut, piece, text @ ..] = data else { return };
    let folder =
        FOLDER.get_or_init(|| tempfile::tempdir().expect("a temporary folder can be created"));
    let cut = text.len() * usize::from(*cut) / 256;
    let (a, b) = text.split_at(cut);
    let logs = [(*first, a), (*second, b)].map(|(name, text)| {
        (NAMES.get(usize::from(name) % NAMES.len()).copied().unwrap_or("x"), text)
    });
    let paths: Vec<PathBuf> = logs
        .iter()
        .enumerate()
        .map(|(at, (name, text))| {
            let own = folder.path().join(at.to_string());
            std::fs::create_dir_all(&own).expect("the temporary folder can be written");
            let path = own.join(name);
            std::fs::write(&path, text).expect("the temporary folder can be written");
            path
        })
        .collect();
    let options = Options { buffer_bytes: 1 << 16, ..Options::default() };
    let mut feed = Feed::survey(&gabion_runtime::files::direct_opener(), &paths, options);
    let start = feed.start();
    let mut last: Option<TimeNs> = None;
    feed.run(&mut |records| {
        for record in records {
            assert!(start.is_some_and(|s| record.ts >= s), "a record is earlier than the first");
            if !record.is_late {
                assert!(last.is_none_or(|l| record.ts >= l), "records are not in order of time");
                last = Some(record.ts);
            }
        }
        ControlFlow::Continue(())
    });
    for (report, (name, text)) in feed.reports().zip(logs) {
        report.ledger.balance().expect("lines balance");
        let (grown, records) = grow(name, text, usize::from(*piece));
        grown.ledger.balance().expect("lines of a log that grows balance");
        assert_eq!(grown.ledger.passed().items, records, "records are counted");
        let is_packed = matches!(text, [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd, ..]);
        if !is_packed && report.error.is_none() {
            assert_eq!(report.ledger.passed(), grown.ledger.passed(), "the same records of {name}");
            assert_eq!(report.skips.total(), grown.skips.total(), "the same skips of {name}");
        }
    }
}

/// Pairs of formats, one of them packed, with the lines of one later than those of the other.
pub fn file_seeds(seeds: &Seeds) -> Vec<Vec<u8>> {
    let lines = line_seeds(seeds);
    let mut all = Vec::new();
    for (a, b) in lines.iter().zip(lines.iter().cycle().skip(1)) {
        let ([name, text @ ..], [other, more @ ..]) = (a.as_slice(), b.as_slice()) else {
            continue;
        };
        let cut = (text.len() * 256 / (text.len() + more.len()).max(1)).min(255) as u8;
        all.push([&[*name, *other, cut, 9], text, more].concat());
        let packed = zstd::encode_all(text, 1).unwrap_or_default();
        all.push([&[*name, *other, 255, 200], packed.as_slice()].concat());
    }
    let late: String = [5, 1, 90, 2, 9000, 3]
        .iter()
        .map(|ts| {
            format!("{{\"ts\":{ts},\"id.orig_h\":\"10.0.0.1\",\"id.resp_h\":\"10.0.0.2\"}}\n")
        })
        .collect();
    all.push([&[0, 0, 128, 3], late.as_bytes()].concat());
    all
}

/// Parts of a text between bytes of `0xff`.
fn parts(text: &[u8]) -> [String; 4] {
    let mut parts = text.split(|b| *b == 0xff).map(|p| String::from_utf8_lossy(p).into_owned());
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}

/// Reads any bytes as a whitelist, the lists of an organization, services and a log, separated by
/// `0xff`: every line is an entry or reported, the log becomes evidence under these lists, and
/// sources balance.
pub fn lists(data: &[u8]) {
    let [name, text @ ..] = data else { return };
    let name = NAMES.get(usize::from(*name) % NAMES.len()).copied().unwrap_or("x");
    let [list, organization, services, log] = parts(text);
    let (whitelist, wrong) = Whitelist::parse(&list, &|_| Some(organization.clone()));
    assert!(whitelist.entries().len() <= list.lines().count(), "an entry has a line");
    assert!(wrong.iter().all(|w| w.line >= 1), "an error names its line");
    // Creating settings would take longer than the tested code.
    static SETTINGS: LazyLock<Settings> = LazyLock::new(Settings::default);
    let mut settings = Settings { whitelist: Arc::new(whitelist), ..SETTINGS.clone() };
    let unread = settings.services.add(&services);
    assert!(unread.iter().all(|at| *at >= 1 && *at <= services.lines().count()));
    let mut engine = Engine::with_budget(settings, None, 1 << 20);
    let mut reader = Reader::new(name, None);
    let mut scratch = Vec::new();
    for line in log.as_bytes().split(|b| *b == b'\n') {
        let Line::Record(_, layout) = reader.line(line) else { continue };
        if let Ok(record) = reader.record(layout, line, &mut scratch) {
            engine.record(&record, &mut |_| {});
        }
    }
    engine.finish(&mut |_| {});
    engine.ledger().balance().expect("sources balance");
    for hidden in engine.whitelisted() {
        assert!(hidden.records + hidden.evidence > 0, "an entry without effect is not reported");
    }
}

/// Entries of each kind over each format.
pub fn list_seeds(seeds: &Seeds) -> Vec<Vec<u8>> {
    let list: &[u8] = b"\"IoCType\",\"IoCValue\",\"Direction\",\"IgnoreType\"\n; c\n#ip,1.1.1.1,both,both\n\
        ip,10.0.0.9,src,flows\nip,10.0.1.0/24,dst,alerts\ndomain,a.example,both,both\nasn,AS1,dst,both\n\
        mac,00:11:22:33:44:55,src,both\norganization,google,both,alerts\nip,x,both,both\n";
    let organization: &[u8] = b"AS15169\n8.8.8.0/24\ngoogle.example\n";
    let services: &[u8] = b"# n\nname,4000,tcp,text\nother,x,udp\n";
    line_seeds(seeds)
        .iter()
        .filter_map(|line| line.split_first())
        .map(|(name, log)| {
            [&[*name], list, &[0xff], organization, &[0xff], services, &[0xff], log].concat()
        })
        .collect()
}
