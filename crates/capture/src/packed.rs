//! A capture file for writing, optionally compressed.

use lz4_flex::frame::{AutoFinishEncoder, FrameEncoder, FrameInfo};
use std::fs::File;
use std::io::{self, BufWriter, Write};

/// How capture files are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Packing {
    /// No compression.
    #[default]
    None,
    /// An LZ4 frame; file names end with `.lz4`.
    Lz4 {
        /// Whether the frame ends with a checksum of its content.
        checksum: bool,
    },
}

impl Packing {
    /// The suffix of file names.
    pub(crate) const fn suffix(self) -> &'static str {
        match self {
            Packing::None => "",
            Packing::Lz4 { .. } => ".lz4",
        }
    }
}

/// A file; dropping it completes the compression.
pub(crate) enum PackedFile {
    Plain(BufWriter<File>),
    Lz4(Box<AutoFinishEncoder<BufWriter<File>>>),
}

impl std::fmt::Debug for PackedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            PackedFile::Plain(_) => "PackedFile::Plain",
            PackedFile::Lz4(_) => "PackedFile::Lz4",
        })
    }
}

impl PackedFile {
    pub(crate) fn new(file: File, packing: Packing) -> PackedFile {
        let out = BufWriter::with_capacity(64 * 1024, file);
        match packing {
            Packing::None => PackedFile::Plain(out),
            Packing::Lz4 { checksum } => {
                let info = FrameInfo::new().content_checksum(checksum);
                let encoder = FrameEncoder::with_frame_info(info, out);
                PackedFile::Lz4(Box::new(encoder.auto_finish()))
            }
        }
    }
}

impl Write for PackedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            PackedFile::Plain(out) => out.write(bytes),
            PackedFile::Lz4(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            PackedFile::Plain(out) => out.flush(),
            PackedFile::Lz4(out) => out.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn packed_files_can_be_unpacked() {
        for (packing, is_packed) in [
            (Packing::None, false),
            (Packing::Lz4 { checksum: false }, true),
            (Packing::Lz4 { checksum: true }, true),
        ] {
            let mut file = tempfile::tempfile().unwrap();
            let mut out = PackedFile::new(file.try_clone().unwrap(), packing);
            for n in 0..1000u32 {
                out.write_all(&n.to_le_bytes()).unwrap();
                if n == 500 {
                    out.flush().unwrap();
                }
            }
            drop(out);
            let mut bytes = Vec::new();
            io::Seek::rewind(&mut file).unwrap();
            file.read_to_end(&mut bytes).unwrap();
            if is_packed {
                let mut plain = Vec::new();
                let mut decoder = lz4_flex::frame::FrameDecoder::new(bytes.as_slice());
                decoder.read_to_end(&mut plain).unwrap();
                bytes = plain;
            }
            let numbers: Vec<u8> = (0..1000u32).flat_map(u32::to_le_bytes).collect();
            assert_eq!(bytes, numbers);
        }
    }
}
