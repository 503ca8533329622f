//! nfdump's binary files: layouts, compression of blocks, parts of records.

use crate::seeds::Seeds;
use gabion_flowlog::Line;
use gabion_flowlog::Reader;
use gabion_flowlog::source::{LineRead, Lines};
use std::io::{self, Read};

/// A stream that returns a few bytes at a time, and between them that there is no more data yet.
struct Slow {
    bytes: Vec<u8>,
    given: usize,
    piece: usize,
    is_pausing: bool,
}

impl Read for Slow {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.is_pausing = !self.is_pausing;
        if self.is_pausing && self.piece != usize::MAX {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let rest = self.bytes.get(self.given..).unwrap_or_default();
        let len = self.piece.min(rest.len()).min(into.len());
        into.iter_mut().zip(rest.iter().take(len)).for_each(|(to, from)| *to = *from);
        self.given += len;
        Ok(len)
    }
}

/// Records and skips of a file that arrives in pieces, why it ended, and the size of its rows.
fn read(bytes: &[u8], piece: usize) -> (Vec<String>, Option<String>, u64) {
    let from = Slow { bytes: bytes.to_vec(), given: 0, piece, is_pausing: false };
    let mut lines = Lines::unpacked(Box::new(from));
    let mut reader = Reader::new("nfcapd.202611231200", None);
    let mut scratch = Vec::new();
    let mut all = Vec::new();
    loop {
        let (from, to) = match lines.next_line() {
            LineRead::Line(from, to) => (from, to),
            LineRead::TooLong(_) | LineRead::Pending => continue,
            LineRead::End => break,
        };
        let line = lines.text().get(from..to).unwrap_or_default();
        match reader.line(line) {
            Line::Record(ts, layout) => {
                if let Ok(record) = reader.record(layout, line, &mut scratch) {
                    assert_eq!(record.ts, ts, "two passes over a row find different times");
                }
                all.push(String::from_utf8_lossy(line).into_owned());
            }
            Line::Skip(skip) => all.push(skip.name().to_owned()),
            Line::Quiet => {}
        }
    }
    (all, lines.error().map(ToString::to_string), lines.bytes())
}

/// Reads any bytes after the first as a file, in pieces of the size in the first byte: whole and in
/// pieces have the same result, and its rows are no larger than a packed log may become.
pub fn file(data: &[u8]) {
    let [piece, bytes @ ..] = data else { return };
    // Other files are for `flowlog_feed`.
    if !matches!(bytes, [0x0c, 0xa5, ..] | [0xa5, 0x0c, ..]) {
        return;
    }
    let whole = read(bytes, usize::MAX);
    assert_eq!(whole, read(bytes, usize::from(*piece).max(1)), "pieces change the result");
    let most = gabion_flowlog::limits::EXPANSION_MAX * bytes.len() as u64 + (2 << 20);
    assert!(whole.2 <= most, "{} bytes of rows", whole.2);
}

/// A file of each layout, with blocks of each compression.
pub fn seeds(_: &Seeds) -> Vec<Vec<u8>> {
    let words = |words: &[u16]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
    let block = |kind: u16, flags: u16, body: &[u8]| {
        let len = u32::try_from(body.len()).unwrap_or(0);
        [&2_u32.to_le_bytes()[..], &len.to_le_bytes(), &words(&[kind, flags]), body].concat()
    };
    let mut generic = words(&[1, 52]);
    generic
        .extend([1_700_000_000_000_u64; 3].iter().chain(&[5, 600]).flat_map(|n| n.to_le_bytes()));
    generic.extend([0xa0, 0x0f, 0xbb, 1, 6, 0x1b, 0, 0]);
    let v4 = [words(&[2, 12]), vec![1, 0, 0, 10, 2, 0, 0, 10]].concat();
    let v6 = [words(&[3, 36]), vec![0x20; 32]].concat();
    let back = [words(&[5, 28]), vec![1; 24]].concat();
    let record = |parts: &[&[u8]]| {
        let body = parts.concat();
        let len = u16::try_from(body.len() + 12).unwrap_or(0);
        let count = u16::try_from(parts.len()).unwrap_or(0);
        [words(&[11, len, count, 0, 0, 0]), body].concat()
    };
    let body = [record(&[&generic, &v4]), record(&[&generic, &v6, &back])].concat();
    let second = |packing: u8| {
        let mut head = vec![0x0c, 0xa5, 2, 0];
        head.resize(40, 0);
        head[16] = packing;
        head
    };
    let mut first = vec![0x0c, 0xa5, 1, 0];
    first.resize(276, 0);
    let map = words(&[2, 14, 7, 0, 5, 14, 0]);
    let mut old = words(&[10, 60, 0, 7]);
    old.resize(60, 3);
    let lzo = [&[17 + 80][..], &body[..80], &[0x40 | 3 << 2, 0, 17, 0, 0]].concat();
    let bz2 = b"BZh91AY&SY\x17rE8P\x90\0\0\0\0";
    let files = [
        [second(0), block(3, 0, &body), block(9, 0, &body)].concat(),
        [second(1), block(3, 0, &lzo), block(3, 1, &body)].concat(),
        [second(2), block(3, 0, bz2), block(3, 1, &body)].concat(),
        [second(3), block(3, 0, &body), block(3, 1, &body)].concat(),
        [second(4), block(3, 0, &body), block(3, 1, &body)].concat(),
        [first, block(2, 0, &[map, old].concat())].concat(),
        include_bytes!("../../../crates/flowlog/tests/data/nfcapd/demo.bz2").to_vec(),
    ];
    files.into_iter().map(|file| [vec![7], file].concat()).collect()
}
