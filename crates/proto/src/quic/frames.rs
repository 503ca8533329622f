//! Frames of packets: as far as Initial packets may have them (RFC 9000 12.4), and Google's stream frames.

use super::header::take_varint;

/// Types of frames (RFC 9000 19); those of Google's streams have their highest bit set.
mod frame_type {
    pub(super) const PADDING: u8 = 0;
    pub(super) const PING: u8 = 1;
    pub(super) const ACK: u8 = 2;
    pub(super) const ACK_ECN: u8 = 3;
    pub(super) const CRYPTO: u8 = 6;
    pub(super) const GOOGLE_STREAM: u8 = 0x80;
}

/// A frame that may carry a part of a hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame<'a> {
    Crypto {
        offset: u64,
        data: &'a [u8],
    },
    /// The data of a stream of Google's.
    Stream(&'a [u8]),
}

/// The bytes are not frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoFrame;

/// Such frames of a packet, one after the other; `Err` where something is cut short.
pub(super) struct Frames<'a> {
    rest: &'a [u8],
}

impl<'a> Frames<'a> {
    pub(super) fn from_payload(payload: &'a [u8]) -> Frames<'a> {
        Frames { rest: payload }
    }

    /// The next one; others are skipped. `None`: something is cut short.
    fn next_frame(&mut self) -> Option<Option<Frame<'a>>> {
        while let Some((&kind, rest)) = self.rest.split_first() {
            self.rest = rest;
            match kind {
                frame_type::PADDING | frame_type::PING => {}
                frame_type::ACK | frame_type::ACK_ECN => self.skip_ack(kind)?,
                frame_type::CRYPTO => {
                    let offset = take_varint(&mut self.rest)?;
                    let len = usize::try_from(take_varint(&mut self.rest)?).ok()?;
                    return Some(Some(Frame::Crypto { offset, data: self.take_bytes(len)? }));
                }
                frame_type::GOOGLE_STREAM.. => {
                    return Some(Some(Frame::Stream(self.take_stream_data(kind)?)));
                }
                // What else may come has no hello, and neither has what follows it (as in Suricata).
                _ => self.rest = &[],
            }
        }
        Some(None)
    }

    fn take_bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(bytes)
    }

    /// An acknowledgement: largest number, delay, count of ranges, first range, then gap and length of each
    /// further one (RFC 9000 19.3), then three counts where ECN is used.
    fn skip_ack(&mut self, kind: u8) -> Option<()> {
        take_varint(&mut self.rest)?;
        take_varint(&mut self.rest)?;
        let ranges = take_varint(&mut self.rest)?;
        let counts = if kind == frame_type::ACK_ECN { 3 } else { 0 };
        // Each number takes at least a byte, so that the loop ends with the bytes.
        for _ in 0..ranges.checked_mul(2)?.checked_add(1 + counts)? {
            take_varint(&mut self.rest)?;
        }
        Some(())
    }

    /// A stream frame after its type `1fdoooss`: stream id, offset, length where `d` is set.
    fn take_stream_data(&mut self, kind: u8) -> Option<&'a [u8]> {
        let id_len = usize::from(kind & 3) + 1;
        let offset_len = match kind >> 2 & 7 {
            0 => 0,
            n => usize::from(n) + 1,
        };
        self.take_bytes(id_len + offset_len)?;
        if kind & 0x20 == 0 {
            return Some(std::mem::take(&mut self.rest));
        }
        let len: [u8; 2] = self.take_bytes(2)?.try_into().ok()?;
        self.take_bytes(u16::from_be_bytes(len).into())
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, NoFrame>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.next_frame() {
            Some(frame) => frame.map(Ok),
            None => {
                self.rest = &[];
                Some(Err(NoFrame))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list_frames(payload: &[u8]) -> Vec<Result<Frame<'_>, NoFrame>> {
        Frames::from_payload(payload).collect()
    }

    #[test]
    fn other_frames_are_skipped() {
        let expected = [Ok(Frame::Crypto { offset: 3, data: b"ab" }), Ok(Frame::Stream(b"xy"))];
        for before in [
            &b""[..],
            b"\0\0\x01",
            b"\x02\x05\0\x02\0\x01\x01\x01\x01",
            b"\x03\x05\0\0\0\x01\x02\x03",
        ] {
            let payload = [before, b"\x06\x03\x02ab\0\xa4\x01\x04\0\0\x02xy\0"].concat();
            assert_eq!(list_frames(&payload), expected);
        }
        // CONNECTION_CLOSE ends what is looked into.
        assert_eq!(list_frames(b"\x1c\0\x06\x03\x02ab"), []);
        assert_eq!(list_frames(b"\x81\x01\x02xyz"), [Ok(Frame::Stream(b"xyz"))]);
    }

    #[test]
    fn frames_that_are_cut_short_are_none() {
        for payload in [
            &b"\x02\0\0"[..],
            b"\x06\0\x05abc",
            b"\xa0\x01\0\x09abc",
            b"\x02\0\0\xff\xff\xff\xff\xff\xff\xff\xff\0",
        ] {
            assert_eq!(list_frames(payload), [Err(NoFrame)]);
        }
        assert_eq!(
            list_frames(b"\x06\0\x01a\x06"),
            [Ok(Frame::Crypto { offset: 0, data: b"a" }), Err(NoFrame)]
        );
    }
}
