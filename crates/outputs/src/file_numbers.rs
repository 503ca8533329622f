//! Numbers of stored files (`file_id`), in the order in which records name them, from 1.
//!
//! Only the writer of all records in packet order can know them, so formats leave them open
//! ([`gabion_record::json::Json::number_later`]) and they are put in on the way to the destination.

use crate::limits::reached;
use crate::output::{Destination, Piece, PieceKind};
use gabion_record::eve::FileKey;
use gabion_record::json::Later;
use std::collections::HashMap;

/// Numbers of stored files.
#[derive(Debug, Default)]
pub(crate) struct FileNumbers {
    known: HashMap<FileKey, u64>,
    last: u64,
    line: Vec<u8>,
}

impl FileNumbers {
    /// The number of a file: the next one, where it has none yet.
    pub(crate) fn number_of(&mut self, key: FileKey) -> u64 {
        if !reached::FILE_NUMBERS_MAX.has_room(self.known.len()) {
            self.known.clear();
        }
        *self.known.entry(key).or_insert_with(|| {
            self.last += 1;
            self.last
        })
    }

    /// Hands a piece on with its numbers put in.
    #[inline]
    pub(crate) fn hand_on(&mut self, piece: &Piece<'_>, to: &mut dyn Destination) {
        let kind = match piece.kind {
            PieceKind::FileRecord(mut head) => {
                head.number = self.number_of(head.file);
                PieceKind::FileRecord(head)
            }
            PieceKind::Line
            | PieceKind::Finding(_)
            | PieceKind::FlowRecord(_)
            | PieceKind::Frame(_)
            | PieceKind::StreamBytes(_)
            | PieceKind::Certificates(_) => piece.kind,
        };
        if piece.later.is_empty() {
            to.write(&Piece { kind, ..*piece });
        } else {
            let bytes = self.fill(piece.bytes, piece.later);
            to.write(&Piece { kind, bytes, later: &[] });
        }
    }

    /// The text with numbers in the places that were left open.
    fn fill(&mut self, text: &[u8], later: &[Later]) -> &[u8] {
        let mut out = std::mem::take(&mut self.line);
        out.clear();
        let mut from = 0;
        for open in later {
            out.extend_from_slice(text.get(from..open.at).unwrap_or_default());
            let number = self.number_of(FileKey::from_later(*open));
            out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
            // Over the digit that has kept the place.
            from = open.at + 1;
        }
        out.extend_from_slice(text.get(from..).unwrap_or_default());
        self.line = out;
        &self.line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_record::json::Json;

    #[test]
    fn numbers_that_are_forgotten_are_counted() {
        let mut numbers = FileNumbers::default();
        let key = |n: u64| FileKey::from_later(Later { at: 0, key: n });
        for n in 0..crate::limits::FILE_NUMBERS_MAX as u64 + 1 {
            numbers.number_of(key(n));
        }
        assert_eq!(
            gabion_record::limits::take_reached().times_reached(&reached::FILE_NUMBERS_MAX),
            1
        );
    }

    /// Keeps what it is given.
    #[derive(Default)]
    struct Kept(Vec<String>);

    impl Destination for Kept {
        fn write(&mut self, piece: &Piece<'_>) {
            assert!(piece.later.is_empty());
            self.0.push(String::from_utf8(piece.bytes.to_vec()).unwrap());
        }
    }

    #[test]
    fn files_are_numbered_in_the_order_they_are_named() {
        let (a, b, c) = (71, 72, 91);
        let (mut numbers, mut kept) = (FileNumbers::default(), Kept::default());
        for (keys, want) in [
            (&[b][..], r#"{"id":1}"#),
            (&[], "{}"),
            (&[a, b, c], r#"{"id":2,"id":1,"id":3}"#),
            (&[c, c], r#"{"id":3,"id":3}"#),
        ] {
            let mut j = Json::new();
            j.open();
            keys.iter().for_each(|key| j.number_later("id", *key));
            j.close();
            let piece = Piece { kind: PieceKind::Line, bytes: j.bytes(), later: j.later() };
            numbers.hand_on(&piece, &mut kept);
            assert_eq!(kept.0.pop().unwrap(), want);
        }
    }
}
