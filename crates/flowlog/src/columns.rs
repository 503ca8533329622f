//! Logs whose header names columns: where each column that is read stands, and the texts of a line at these places.
//!
//! Formats of that sort (Argus, nfdump's CSV) share this: a format says which name is which column, and makes a record
//! of the texts.

use crate::limits::{COLUMNS_MAX, reached};
use gabion_record::saved;

/// The columns of a header, as far as they are looked at.
pub(crate) fn columns<'a>(mut all: impl Iterator<Item = &'a [u8]>) -> Vec<&'a [u8]> {
    let columns = all.by_ref().take(COLUMNS_MAX).collect();
    reached::COLUMNS_MAX.count_times(all.count() as u64);
    columns
}

/// Which column each place of a line is, by the format's numbers of columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Columns {
    separator: u8,
    at: Vec<Option<u8>>,
}

saved! { Columns { separator, at } }

impl Columns {
    /// Of a header; `number_of` gives a column's number by its name in lower case, and is shown those before it.
    pub(crate) fn from_header(
        line: &[u8],
        separator: u8,
        number_of: impl Fn(&[u8], &[Option<u8>]) -> Option<u8>,
    ) -> Columns {
        let mut at = Vec::new();
        for name in columns(line.split(|b| *b == separator)) {
            let number = number_of(&name.trim_ascii().to_ascii_lowercase(), &at);
            at.push(number);
        }
        Columns { separator, at }
    }

    /// Whether the header has a column.
    pub(crate) fn has(&self, number: u8) -> bool {
        self.at.contains(&Some(number))
    }

    /// The text of the first column of that number.
    pub(crate) fn text<'a>(&self, line: &'a [u8], number: u8) -> Option<&'a [u8]> {
        let place = self.at.iter().position(|n| *n == Some(number))?;
        line.split(|b| *b == self.separator).nth(place)
    }

    /// The texts of a line by the numbers of their columns.
    #[inline]
    pub(crate) fn texts<'a, const N: usize>(&self, line: &'a [u8]) -> [&'a [u8]; N] {
        let mut texts: [&'a [u8]; N] = [&[]; N];
        for (text, number) in line.split(|b| *b == self.separator).zip(&self.at) {
            if let Some(place) = number.and_then(|n| texts.get_mut(usize::from(n))) {
                *place = text.trim_ascii();
            }
        }
        texts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_beyond_those_looked_at_are_counted() {
        let header = vec!["ts"; COLUMNS_MAX + 44].join(",");
        assert_eq!(columns(header.as_bytes().split(|b| *b == b',')).len(), COLUMNS_MAX);
        assert_eq!(gabion_record::limits::take_reached().times_reached(&reached::COLUMNS_MAX), 44);
        assert_eq!(columns(b"a,b".split(|b| *b == b',')), [b"a", b"b"]);
        assert!(gabion_record::limits::take_reached().is_empty());
    }

    #[test]
    fn texts_stand_at_the_numbers_of_their_columns() {
        let number = |name: &[u8], _: &[Option<u8>]| match name {
            b"b" => Some(0),
            b"c" => Some(2),
            _ => None,
        };
        let columns = Columns::from_header(b"A,B, c ,d", b',', number);
        assert!(columns.has(0) && columns.has(2) && !columns.has(1));
        let texts: [&[u8]; 3] = columns.texts(b"1, 2 ,3,4,5");
        assert_eq!(texts, [&b"2"[..], b"", b"3"]);
        assert_eq!(columns.text(b"1,2,3", 2), Some(&b"3"[..]));
        assert_eq!(columns.text(b"1", 2), None);
    }
}
