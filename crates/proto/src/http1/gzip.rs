//! The header of a gzip stream. Checksums are not read: browsers do not check them.

/// Where the header of a gzip stream (RFC 1952 2.3) has been read to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GzipHead {
    part: GzipPart,
    flags: u8,
    left: u16,
    /// Bytes of it so far.
    pub(super) len: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum GzipPart {
    #[default]
    Fixed,
    ExtraLow,
    ExtraHigh,
    Extra,
    Name,
    Comment,
    Crc,
    Body,
}

impl GzipHead {
    /// Whether all of it is read.
    pub(super) fn is_read(&self) -> bool {
        self.part == GzipPart::Body
    }

    /// Reads header bytes and returns the position after them; `None`: it is no gzip header.
    pub(super) fn skip(&mut self, data: &[u8]) -> Option<usize> {
        const FIXED_BYTES: u16 = 10;
        let mut at = 0;
        loop {
            let present = match self.part {
                GzipPart::Fixed => true,
                GzipPart::ExtraLow | GzipPart::ExtraHigh | GzipPart::Extra => self.flags & 4 != 0,
                GzipPart::Name => self.flags & 8 != 0,
                GzipPart::Comment => self.flags & 16 != 0,
                GzipPart::Crc => self.flags & 2 != 0,
                GzipPart::Body => return Some(at),
            };
            if !present || (self.part == GzipPart::Extra && self.left == 0) {
                self.next_part();
                continue;
            }
            let Some(&b) = data.get(at) else { return Some(at) };
            at += 1;
            self.len += 1;
            match self.part {
                GzipPart::Fixed => {
                    match self.left {
                        0 if b != 0x1f => return None,
                        1 if b != 0x8b => return None,
                        2 if b != 8 => return None,
                        3 => self.flags = b,
                        _ => {}
                    }
                    self.left += 1;
                    if self.left == FIXED_BYTES {
                        self.next_part();
                    }
                }
                GzipPart::ExtraLow => {
                    self.left = u16::from(b);
                    self.part = GzipPart::ExtraHigh;
                }
                GzipPart::ExtraHigh => {
                    self.left |= u16::from(b) << 8;
                    self.part = GzipPart::Extra;
                }
                GzipPart::Extra => {
                    self.left -= 1;
                    if self.left == 0 {
                        self.next_part();
                    }
                }
                GzipPart::Name | GzipPart::Comment => {
                    if b == 0 {
                        self.next_part();
                    }
                }
                GzipPart::Crc => {
                    self.left += 1;
                    if self.left == 2 {
                        self.next_part();
                    }
                }
                GzipPart::Body => {}
            }
        }
    }

    fn next_part(&mut self) {
        self.left = 0;
        self.part = match self.part {
            GzipPart::Fixed => GzipPart::ExtraLow,
            GzipPart::ExtraLow => GzipPart::ExtraHigh,
            GzipPart::ExtraHigh => GzipPart::Extra,
            GzipPart::Extra => GzipPart::Name,
            GzipPart::Name => GzipPart::Comment,
            GzipPart::Comment => GzipPart::Crc,
            GzipPart::Crc | GzipPart::Body => GzipPart::Body,
        };
    }
}
