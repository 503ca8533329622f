//! Messages that are compressed (RFC 7692): all of a direction are one stream of deflate data.

use super::limits::{UNPACKED_BYTES_FROM_ONE, UNPACKED_BYTES_MAX, reached};
use flate2::{Decompress, FlushDecompress, Status};

/// What a sender takes off the end of each message (RFC 7692 7.2.1).
pub(super) const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];

/// Bytes made at a time.
const PIECE_BYTES: usize = 8 * 1024;

/// Bytes that the decoder makes ahead of those it hands out.
const WINDOW_BYTES: u64 = 32 << 10;

/// The decoder of a direction, and what it may make: so much for each byte that its sender has sent, whatever the
/// segments. A message of 80 bytes may unpack to 64 KiB, which costs as much as dozens of packets.
#[derive(Debug)]
pub(super) struct Inflater {
    stream: Decompress,
    sent: u64,
    made: u64,
}

impl Inflater {
    /// A decoder that has seen nothing.
    pub(super) fn new() -> Inflater {
        Inflater { stream: Decompress::new(false), sent: 0, made: 0 }
    }

    /// Bytes that it may make yet.
    fn left(&self) -> usize {
        let earned = self.sent.saturating_mul(UNPACKED_BYTES_FROM_ONE);
        let left = UNPACKED_BYTES_MAX.saturating_add(earned).saturating_sub(self.made);
        usize::try_from(left).unwrap_or(usize::MAX)
    }

    /// What comes next begins with a context of its own. What was made ahead of the bytes handed out is lost.
    fn restart(&mut self) {
        self.made = self.made.saturating_add(WINDOW_BYTES);
        self.stream.reset(false);
    }

    /// Unpacks a message, with its tail, to at most this many bytes. `None`: nothing came of it.
    pub(super) fn unpack(&mut self, mut packed: &[u8], max: usize) -> Option<Vec<u8>> {
        self.sent = self.sent.saturating_add(packed.len() as u64);
        let left = self.left();
        let max = max.min(left);
        let is_scant = max == left;
        let mut out = Vec::new();
        let mut piece = [0; PIECE_BYTES];
        loop {
            // What is beyond the limit is not unpacked: the context is lost with it.
            if out.len() >= max && !packed.is_empty() {
                if is_scant {
                    reached::UNPACKED_BYTES_MAX.count();
                }
                self.restart();
                break;
            }
            let before = (self.stream.total_in(), self.stream.total_out());
            let status = self.stream.decompress(packed, &mut piece, FlushDecompress::Sync);
            let used = (self.stream.total_in() - before.0) as usize;
            let made = (self.stream.total_out() - before.1) as usize;
            self.made = self.made.saturating_add(made as u64);
            packed = packed.get(used..).unwrap_or_default();
            let room = max.saturating_sub(out.len()).min(made);
            out.extend_from_slice(piece.get(..room).unwrap_or_default());
            match status {
                Err(_) | Ok(Status::StreamEnd) => {
                    self.restart();
                    break;
                }
                Ok(Status::Ok | Status::BufError) => {
                    let is_stuck = used == 0 && made == 0;
                    if is_stuck || (packed.is_empty() && made < piece.len()) {
                        break;
                    }
                }
            }
        }
        (!out.is_empty()).then_some(out)
    }

    /// Bytes that it made.
    pub(super) fn bytes_made(&self) -> u64 {
        self.made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7692 7.2.3.1 and 7.2.3.2: a message, and the same once more with the context of the first.
    #[test]
    fn messages_share_a_context() {
        let mut inflater = Inflater::new();
        let mut unpack = |bytes: &[u8]| inflater.unpack(&[bytes, &TAIL].concat(), 100);
        let first = b"\xf2\x48\xcd\xc9\xc9\x07\x00";
        assert_eq!(unpack(first).as_deref(), Some(&b"Hello"[..]));
        assert_eq!(unpack(b"\xf2\x00\x11\x00\x00").as_deref(), Some(&b"Hello"[..]));
        // As Suricata 8.0.7: these three are no deflate data.
        assert_eq!(unpack(b"\xff\xff\xff"), None);
        assert_eq!(unpack(first).as_deref(), Some(&b"Hello"[..]));
    }

    #[test]
    fn a_bomb_is_cut() {
        let mut packer = flate2::Compress::new(flate2::Compression::best(), false);
        let mut packed = Vec::with_capacity(1 << 20);
        packer.compress_vec(&vec![0; 1 << 24], &mut packed, flate2::FlushCompress::Sync).unwrap();
        let mut inflater = Inflater::new();
        assert_eq!(inflater.unpack(&packed, 1000).map(|out| out.len()), Some(1000));
        assert!(inflater.stream.total_out() == 0);
    }
}
