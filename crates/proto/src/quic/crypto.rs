//! The bytes of CRYPTO frames of one side, put into order (RFC 9000 19.6): a hello may come in any number of
//! pieces, in any order, and more than once.

use super::limits::{CRYPTO_BYTES_MAX, reached};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes before the body of a handshake message (RFC 8446 4).
const MESSAGE_HEADER_LEN: usize = 4;

/// Type and body of the handshake message at the beginning of these bytes, if it is whole.
pub(super) fn message_in(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let (header, rest) = bytes.split_first_chunk::<MESSAGE_HEADER_LEN>()?;
    let [kind, len @ ..] = *header;
    let len = len.iter().fold(0usize, |n, b| n << 8 | usize::from(*b));
    Some((kind, rest.get(..len)?))
}

/// A piece that lies too far ahead, or does not fit any more.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

/// The stream of one side's handshake bytes up to the end of its first message.
#[derive(Debug, Default)]
pub(super) struct CryptoStream {
    /// Bytes from the beginning, without a hole.
    whole: Vec<u8>,
    /// Pieces that lie behind a hole, by their places.
    pieces: BTreeMap<usize, Box<[u8]>>,
}

impl CryptoStream {
    /// Adds a piece. Where bytes come twice, the last ones count (as in Suricata 8.0.7).
    pub(super) fn add_piece(&mut self, offset: u64, data: &[u8]) -> Result<(), TooLong> {
        let start = usize::try_from(offset).map_err(|_| TooLong)?;
        let end = start.checked_add(data.len()).filter(|end| *end <= CRYPTO_BYTES_MAX);
        let end = end.ok_or(TooLong)?;
        if start > self.whole.len() {
            return self.add_behind_hole(start, end, data);
        }
        let known = self.whole.len().min(end) - start;
        let (old, new) = data.split_at_checked(known).unwrap_or((data, &[]));
        if let Some(place) = self.whole.get_mut(start..start + known) {
            place.copy_from_slice(old);
        }
        self.whole.extend_from_slice(new);
        while let Some(entry) = self.pieces.first_entry() {
            if *entry.key() > self.whole.len() {
                break;
            }
            let (start, piece) = entry.remove_entry();
            let known = self.whole.len() - start;
            self.whole.extend_from_slice(piece.get(known..).unwrap_or_default());
        }
        Ok(())
    }

    /// Overwrites what is there of `start..end`, and keeps the rest as pieces of its own: so pieces never
    /// overlap, and none is copied for another.
    fn add_behind_hole(&mut self, start: usize, end: usize, data: &[u8]) -> Result<(), TooLong> {
        let first = self.pieces.range(..=start).next_back().map_or(start, |(at, _)| *at);
        let (mut at, mut holes) = (start, SmallVec::<[Range<usize>; 4]>::new());
        for (&from, piece) in self.pieces.range_mut(first..end.max(first)) {
            let to = from + piece.len();
            if to <= at {
                continue;
            }
            if from > at {
                holes.push(at..from);
                at = from;
            }
            let until = to.min(end);
            let new = data.get(at - start..until - start).ok_or(TooLong)?;
            piece.get_mut(at - from..until - from).ok_or(TooLong)?.copy_from_slice(new);
            at = until;
        }
        if at < end {
            holes.push(at..end);
        }
        for hole in holes {
            if !reached::CRYPTO_PIECES_MAX.has_room(self.pieces.len()) {
                return Err(TooLong);
            }
            let new = data.get(hole.start - start..hole.end - start).ok_or(TooLong)?;
            self.pieces.insert(hole.start, new.into());
        }
        Ok(())
    }

    /// Type and body of the first message, once it is there.
    pub(super) fn first_message(&self) -> Option<(u8, &[u8])> {
        message_in(&self.whole)
    }

    /// Bytes held.
    pub(super) fn bytes_held(&self) -> usize {
        let of_piece = size_of::<(usize, Box<[u8]>)>();
        let pieces = self.pieces.values().map(|piece| piece.len() + of_piece);
        self.whole.capacity() + pieces.sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quic::limits::CRYPTO_PIECES_MAX;

    #[test]
    fn any_order_gives_the_same_message() {
        let message: Vec<u8> =
            [1, 0, 0, 200].into_iter().chain((0..200).map(|n| n as u8)).collect();
        for size in [1, 3, 7, 50, 203, 204] {
            let pieces: Vec<(usize, &[u8])> =
                message.chunks(size).enumerate().map(|(i, piece)| (i * size, piece)).collect();
            let orders: [Vec<(usize, &[u8])>; 3] = [
                pieces.clone(),
                pieces.iter().rev().copied().collect(),
                pieces.iter().step_by(2).chain(pieces.iter()).copied().collect(),
            ];
            for order in orders {
                let mut stream = CryptoStream::default();
                for (at, piece) in order {
                    stream.add_piece(at as u64, piece).unwrap();
                }
                assert_eq!(stream.first_message(), Some((1, &message[4..])), "{size}");
                assert!(stream.pieces.is_empty());
            }
        }
    }

    #[test]
    fn bytes_that_come_last_count() {
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let pieces: [(u64, &[u8]); 3] =
                [(0, b"\x01\0\0\x06ab"), (3, b"\x06xyz"), (5, b"12345")];
            let (mut stream, mut expected) = (CryptoStream::default(), [0; 10]);
            for n in order {
                let (at, data) = pieces[n];
                stream.add_piece(at, data).unwrap();
                expected[at as usize..at as usize + data.len()].copy_from_slice(data);
            }
            assert_eq!(stream.first_message(), Some((1, &expected[4..])), "{order:?}");
        }
        let mut stream = CryptoStream::default();
        for (at, data) in
            [(10, &b"aaaa"[..]), (16, b"bb"), (8, b"cccccccccccc"), (11, b"dd"), (4, b"")]
        {
            stream.add_piece(at, data).unwrap();
        }
        let pieces: Vec<u8> =
            stream.pieces.values().flat_map(|piece| piece.iter().copied()).collect();
        assert_eq!(pieces, b"cccddccccccc");
    }

    /// Single bytes at far places take a bounded number of entries, whatever their number.
    #[test]
    fn single_bytes_far_ahead_are_bounded() {
        let mut stream = CryptoStream::default();
        let refused = (0..30_000u64).filter(|n| stream.add_piece(9 + n * 2, b"x").is_err()).count();
        assert!(stream.pieces.len() <= CRYPTO_PIECES_MAX);
        assert_eq!(refused, 30_000 - CRYPTO_PIECES_MAX);
        assert!(stream.bytes_held() < 64 * CRYPTO_PIECES_MAX);
        assert_eq!(stream.add_piece(1 << 40, b"x"), Err(TooLong));
        assert_eq!(stream.add_piece(u64::MAX >> 2, b"x"), Err(TooLong));
        let counts = gabion_record::limits::take_reached();
        assert!(counts.times_reached(&reached::CRYPTO_PIECES_MAX) > 0);
    }
}
