//! Flash files: unpacked for inspection when the configuration wants it.
//!
//! A compressed Flash file begins with `CWS` (zlib) or `ZWS` (lzma), a version byte and the length
//! of the whole when unpacked; the packed part follows. Rules see it as the unpacked file would
//! be (`FWS`). Source: Adobe's SWF file format specification, chapter 2.

use super::limits::{FLASH_BYTES_MAX, UNPACKED_BYTES_FROM_ONE, reached};
use super::settings::SwfDepths;
use flate2::{Decompress, FlushDecompress};
use std::io::Write;

/// Bytes before the packed part.
const HEADER_BYTES: usize = 8;

/// The unpacked file, when `data` is a packed one that can be read.
pub(crate) fn unpack(data: &[u8], depths: &SwfDepths) -> Option<Vec<u8>> {
    let (magic, rest) = data.split_first_chunk::<3>()?;
    let header = data.get(..HEADER_BYTES)?;
    let said = rest.get(1..5)?;
    let said = u32::from_le_bytes([said[0], said[1], said[2], said[3]]) as usize;
    let wanted = match usize::try_from(depths.decompressed).unwrap_or(usize::MAX) {
        0 => said,
        depth => depth.min(said),
    };
    let wanted = wanted.saturating_sub(HEADER_BYTES);
    reached::FLASH_BYTES_MAX.holds(wanted);
    let packed = data.get(HEADER_BYTES..)?;
    let packed = match usize::try_from(depths.compressed).unwrap_or(usize::MAX) {
        0 => packed,
        depth => packed.get(..depth).unwrap_or(packed),
    };
    // What a file is made to cost depends on what was sent, as for every other body.
    let earned = (packed.len() as u64).saturating_mul(UNPACKED_BYTES_FROM_ONE);
    let earned = usize::try_from(earned).unwrap_or(usize::MAX);
    let room = wanted.min(FLASH_BYTES_MAX).min(earned);
    let body = match magic {
        b"CWS" if depths.deflate => inflate(packed, room),
        b"ZWS" if depths.lzma => unlzma(packed, room),
        _ => return None,
    };
    if body.is_empty() {
        return None;
    }
    if earned < wanted && body.len() >= room {
        reached::UNPACKED_BYTES_MAX.count();
    }
    let mut out = b"FWS".to_vec();
    out.extend_from_slice(&header[3..]);
    out.extend_from_slice(&body);
    Some(out)
}

fn inflate(packed: &[u8], room: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(room);
    // A broken stream yields what came before the break.
    let _ = Decompress::new(true).decompress_vec(packed, &mut out, FlushDecompress::Finish);
    out
}

/// Takes bytes up to a limit.
struct Bounded {
    bytes: Vec<u8>,
    room: usize,
}

impl Write for Bounded {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        let n = data.len().min(self.room - self.bytes.len());
        self.bytes.extend_from_slice(&data[..n]);
        if n < data.len() {
            return Err(std::io::Error::other("enough"));
        }
        Ok(n)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The packed length and five bytes of properties precede the lzma stream, which has no
/// length of its own.
fn unlzma(packed: &[u8], room: usize) -> Vec<u8> {
    const LENGTH_BYTES: usize = 4;
    let Some(stream) = packed.get(LENGTH_BYTES..) else { return Vec::new() };
    let options = lzma_rs::decompress::Options {
        unpacked_size: lzma_rs::decompress::UnpackedSize::UseProvided(Some(room as u64)),
        memlimit: Some(FLASH_BYTES_MAX),
        allow_incomplete: true,
    };
    let mut out = Bounded { bytes: Vec::new(), room };
    let mut input = stream;
    let _ = lzma_rs::lzma_decompress_with_options(&mut input, &mut out, &options);
    out.bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_says_too_much_is_counted() {
        let depths = SwfDepths { deflate: true, lzma: true, compressed: 0, decompressed: 0 };
        let mut file = b"CWS\x08".to_vec();
        file.extend_from_slice(&(64_u32 << 20).to_le_bytes());
        let _ = unpack(&file, &depths);
        assert_eq!(
            gabion_record::limits::take_reached().times_reached(&reached::FLASH_BYTES_MAX),
            1
        );
    }

    /// However much a file unpacks to, what is made of it is bounded by what was sent, and the cut is counted.
    #[test]
    fn a_bomb_makes_no_more_than_it_has_earned() {
        let depths = SwfDepths { deflate: true, lzma: true, compressed: 0, decompressed: 0 };
        for size in [1usize << 16, 1 << 20, 1 << 23] {
            let mut z = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
            z.write_all(&vec![0; size]).unwrap();
            let packed = z.finish().unwrap();
            let mut file = b"CWS\x0a".to_vec();
            file.extend_from_slice(&((size + HEADER_BYTES) as u32).to_le_bytes());
            file.extend_from_slice(&packed);
            let made = unpack(&file, &depths).unwrap().len();
            assert!(made <= HEADER_BYTES + packed.len() * 64, "{size}: {made} of {}", packed.len());
            assert!(made > packed.len() * 60, "{size}: {made} of {}", packed.len());
            let counts = gabion_record::limits::take_reached();
            assert_eq!(counts.times_reached(&reached::UNPACKED_BYTES_MAX), 1, "{size}");
        }
    }

    #[test]
    fn packed_flash_files_are_unpacked() {
        let body = b"the flash file's body ".repeat(20);
        let mut z = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        z.write_all(&body).unwrap();
        let packed = z.finish().unwrap();
        let length = (body.len() + HEADER_BYTES) as u32;
        let mut file = b"CWS\x0a".to_vec();
        file.extend_from_slice(&length.to_le_bytes());
        file.extend_from_slice(&packed);
        let all = SwfDepths { deflate: true, lzma: true, compressed: 0, decompressed: 0 };
        let out = unpack(&file, &all).unwrap();
        assert!(out.starts_with(b"FWS\x0a"));
        assert_eq!(&out[HEADER_BYTES..], &body[..]);
        let shallow = SwfDepths { decompressed: 20, ..all };
        assert_eq!(unpack(&file, &shallow).unwrap().len(), 20);
        assert_eq!(unpack(b"FWS\x0a1234body", &all), None);
    }
}
