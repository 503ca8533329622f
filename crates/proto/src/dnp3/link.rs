//! The data link layer (IEEE 1815-2012 9.2): frames with a header and blocks of 16 bytes, each with a
//! checksum.

/// Bytes of a header with its checksum.
pub(super) const HEADER_LEN: usize = 10;

/// Bytes that the length field counts of the header: control, destination and source.
const COUNTED_LEN: usize = 5;

/// Bytes of a block that one checksum covers.
const BLOCK_LEN: usize = 16;

/// Bytes with which a frame begins.
pub(super) const START: [u8; 2] = [0x05, 0x64];

/// A frame's header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkHeader {
    /// Bytes from the control field on, without checksums.
    pub len: u8,
    /// Direction, primary station, frame count bits, function code.
    pub control: u8,
    /// Address of the receiver.
    pub destination: u16,
    /// Address of the sender.
    pub source: u16,
    /// The header's checksum as it was sent.
    pub crc: u16,
}

impl LinkHeader {
    /// Reads the header at the beginning of `bytes`; `None`: it is not all there.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<LinkHeader> {
        let h: &[u8; HEADER_LEN] = bytes.first_chunk()?;
        Some(LinkHeader {
            len: h[2],
            control: h[3],
            destination: u16::from_le_bytes([h[4], h[5]]),
            source: u16::from_le_bytes([h[6], h[7]]),
            crc: u16::from_le_bytes([h[8], h[9]]),
        })
    }

    /// Sent by a master.
    pub fn is_from_master(self) -> bool {
        self.control & 0x80 != 0
    }

    /// Sent by a primary station.
    pub fn is_primary(self) -> bool {
        self.control & 0x40 != 0
    }

    /// Frame count bit.
    pub fn has_frame_count(self) -> bool {
        self.control & 0x20 != 0
    }

    /// The frame count bit is valid.
    pub fn is_frame_count_valid(self) -> bool {
        self.control & 0x10 != 0
    }

    /// Function code.
    pub fn function(self) -> u8 {
        self.control & 0x0f
    }

    /// It carries user data, confirmed or not. Suricata asks for the function code alone, whichever
    /// station sends it.
    pub(super) fn has_user_data(self) -> bool {
        matches!(self.function(), 3 | 4)
    }

    /// Bytes of user data without checksums; `None`: the length field is too small for a header.
    pub(super) fn data_len(self) -> Option<usize> {
        usize::from(self.len).checked_sub(COUNTED_LEN)
    }

    /// Bytes of the frame with all checksums.
    pub(super) fn frame_len(self) -> usize {
        let data = self.data_len().unwrap_or(0);
        HEADER_LEN + data + 2 * data.div_ceil(BLOCK_LEN)
    }
}

/// Whether the first bytes of a frame have the right checksum.
pub(super) fn is_header_intact(frame: &[u8]) -> bool {
    frame.first_chunk::<HEADER_LEN>().is_some_and(|h| is_intact(h))
}

/// Whether bytes are followed by their checksum.
fn is_intact(block: &[u8]) -> bool {
    block
        .split_last_chunk::<2>()
        .is_some_and(|(data, crc)| checksum(data) == u16::from_le_bytes(*crc))
}

/// Appends the user data of a frame to `out`, without checksums. False: a checksum is wrong, and
/// nothing was appended.
pub(super) fn take_user_data(frame: &[u8], out: &mut Vec<u8>) -> bool {
    let blocks = || frame.get(HEADER_LEN..).unwrap_or_default().chunks(BLOCK_LEN + 2);
    if !blocks().all(is_intact) {
        return false;
    }
    blocks().for_each(|b| {
        out.extend_from_slice(b.get(..b.len().saturating_sub(2)).unwrap_or_default())
    });
    true
}

/// Checksums of single bytes: the polynomial 0x3d65, low bit first.
const CHECKSUMS: [u16; 256] = {
    let mut table = [0u16; 256];
    let mut n = 0;
    while n < 256 {
        let mut crc = n as u16;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 != 0 { crc >> 1 ^ 0xa6bc } else { crc >> 1 };
            bit += 1;
        }
        table[n] = crc;
        n += 1;
    }
    table
};

/// The checksum of a block (IEEE 1815-2012 9.2.4.3).
fn checksum(bytes: &[u8]) -> u16 {
    let add = |crc: u16, b: &u8| crc >> 8 ^ CHECKSUMS[usize::from(crc as u8 ^ b)];
    !bytes.iter().fold(0, add)
}

/// Frames for tests.
#[cfg(test)]
pub(super) mod made {
    use super::*;

    /// A frame around user data.
    pub(crate) fn frame(control: u8, data: &[u8]) -> Vec<u8> {
        let mut out = vec![0x05, 0x64, 5 + data.len() as u8, control, 2, 0, 3, 0];
        out.extend(checksum(&out).to_le_bytes());
        for block in data.chunks(BLOCK_LEN) {
            out.extend_from_slice(block);
            out.extend(checksum(block).to_le_bytes());
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_a_frame_on_the_wire() {
        // A request for a link's state: `05 64 05 c0 01 00 00 04 e9 21` (IEEE 1815-2012, annex E).
        assert_eq!(checksum(b"\x05\x64\x05\xc0\x01\x00\x00\x04"), 0x21e9);
    }

    #[test]
    fn user_data_comes_without_checksums() {
        let data: Vec<u8> = (0..40).collect();
        let frame = made::frame(0xc4, &data);
        let header = LinkHeader::from_bytes(&frame).unwrap_or_default();
        assert_eq!((header.frame_len(), header.data_len()), (frame.len(), Some(40)));
        assert!(is_header_intact(&frame) && header.has_user_data() && header.is_from_master());
        let mut out = Vec::new();
        assert!(take_user_data(&frame, &mut out));
        assert_eq!(out, data);
        for at in HEADER_LEN..frame.len() {
            let mut damaged = frame.clone();
            damaged[at] ^= 0x10;
            assert!(!take_user_data(&damaged, &mut Vec::new()), "{at}");
        }
        assert_eq!(LinkHeader { len: 4, ..header }.frame_len(), HEADER_LEN);
    }
}
