//! Reads arbitrary bytes in two ways that must agree: whole, and as a stream in pieces. It is the
//! entry point of fuzzers and of the tests over captures, and panics if a check fails; nothing else
//! calls it.

use std::io::{self, Read};

use gabion_record::ledger::Ledger;

use crate::bytes::CaptureBytes;
use crate::error::Error;
use crate::source::{Note, OpenOptions, Source, packing};

/// All results of reading a capture, to compare two ways of reading it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) frames: Vec<(u64, u32, u16, u16, Vec<u8>)>,
    pub(crate) ledger: Ledger,
    pub(crate) notes: Vec<Note>,
}

pub(crate) fn read_all(mut source: Source, frames_max: usize) -> Reading {
    let (mut refs, mut frames) = (Vec::new(), Vec::new());
    while let Some(block) = source.next_block(frames_max, &mut refs) {
        assert!(block.frames > 0 && block.frames <= frames_max, "invariant: batches are bounded");
        frames.extend(refs.drain(..).map(|r| {
            let f = r.frame(&block.bytes);
            assert_eq!(f.data.len(), r.len as usize, "invariant: references are whole");
            (f.ts_ns, f.wire_len, f.link, f.interface, f.data.to_vec())
        }));
    }
    assert_eq!(source.ledger().balance(), Ok(()), "invariant: the ledger balances");
    assert_eq!(source.frames_total(), frames.len() as u64, "invariant: every frame is counted");
    Reading { frames, ledger: source.ledger().clone(), notes: source.notes().to_vec() }
}

/// A reader that returns its bytes in pieces whose lengths repeat.
struct Pieces {
    bytes: Vec<u8>,
    pos: usize,
    lengths: Vec<usize>,
    turn: usize,
}

impl Read for Pieces {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = self.lengths.get(self.turn % self.lengths.len().max(1)).copied().unwrap_or(1);
        self.turn += 1;
        let rest = self.bytes.get(self.pos..).unwrap_or_default();
        let len = len.max(1).min(rest.len()).min(out.len());
        if let (Some(to), Some(from)) = (out.get_mut(..len), rest.get(..len)) {
            to.copy_from_slice(from);
        }
        self.pos += len;
        Ok(len)
    }
}

/// Reads as a stream in pieces.
pub(crate) fn read_in_pieces(
    data: &[u8],
    lengths: Vec<usize>,
    block_len: usize,
) -> Result<Reading, Error> {
    let pieces = Pieces { bytes: data.to_vec(), pos: 0, lengths, turn: 0 };
    let options = OpenOptions { block_len };
    Source::from_reader_with(Box::new(pieces), true, options).map(|s| read_all(s, 7))
}

/// Reads whole and in pieces and checks that both agree. Returns the number of frames, or the
/// reason why it is not a capture.
pub(crate) fn read_both_ways(data: &[u8]) -> Result<usize, Error> {
    let whole = Source::from_bytes(CaptureBytes::from_vec(data.to_vec())).map(|s| read_all(s, 64));
    if packing(data.get(..4).unwrap_or_default()).is_some() {
        // Packed data is read as a stream only.
        return read_in_pieces(data, vec![4096], 64).map(|r| r.frames.len());
    }
    let split = read_in_pieces(data, vec![1, 5, 64, 3], 64);
    match (whole, split) {
        (Ok(whole), Ok(split)) => {
            assert_eq!(whole, split, "invariant: splits do not matter");
            Ok(whole.frames.len())
        }
        (Err(whole), Err(_)) => Err(whole),
        (whole, split) => panic!("invariant: {:?} against {:?}", whole.err(), split.err()),
    }
}
