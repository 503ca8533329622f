//! Where records begin again after lost bytes: the first place with the mark of a record and a message that goes the right
//! way, as in Suricata 8.0.7, wherever segments begin.

use super::parser::{HEAD_BYTES, MESSAGE_BYTES_MIN, is_right_way};
use super::rpc::{self, MARK_BYTES, NFS_PROGRAM};
use gabion_record::Direction;

/// Version of remote procedure calls (RFC 5531 9).
const RPC_VERSION: u32 = 2;

/// Bytes of a mark and of the words after it that are the same in all calls, or in all replies.
const WORDS_BYTES: usize = MARK_BYTES + 16;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A record begins here.
    At(usize),
    /// One may begin here, of which that many bytes are needed.
    Needs { at: usize, needed: usize },
    /// None begins, nor may one in the last bytes.
    Nothing,
}

/// Finds the first record that goes in that direction.
pub(super) fn find_record(bytes: &[u8], direction: Direction) -> Found {
    for at in 0..bytes.len() {
        let rest = bytes.get(at..).unwrap_or_default();
        // The mark of a record's last fragment begins with a bit that few bytes have.
        if rest.first().is_none_or(|first| first & 0x80 == 0) {
            continue;
        }
        let Some((_, len)) = rpc::parse_mark(rest) else {
            return Found::Needs { at, needed: MARK_BYTES };
        };
        if len < MESSAGE_BYTES_MIN {
            continue;
        }
        let Some(words) = rest.get(MARK_BYTES..WORDS_BYTES) else {
            return Found::Needs { at, needed: WORDS_BYTES };
        };
        if !is_begin_of_message(words, direction) {
            continue;
        }
        let head_end = MARK_BYTES + len.min(HEAD_BYTES);
        let Some(head) = rest.get(MARK_BYTES..head_end) else {
            return Found::Needs { at, needed: head_end };
        };
        if rpc::parse_message(head).is_some_and(|message| is_right_way(&message, direction)) {
            return Found::At(at);
        }
    }
    Found::Nothing
}

/// Whether a message's first four words are those of a call of NFS, or of a reply to an accepted call (RFC 5531 9).
fn is_begin_of_message(words: &[u8], direction: Direction) -> bool {
    let word = |n: usize| words.get(4 * n..4 * n + 4).and_then(|w| w.first_chunk::<4>());
    let is = |n: usize, value: u32| word(n) == Some(&value.to_be_bytes());
    match direction {
        Direction::ToServer => is(1, 0) && is(2, RPC_VERSION) && is(3, NFS_PROGRAM),
        // The fourth word is the flavor of the verifier, of which the numbers are small.
        Direction::ToClient => is(1, 1) && is(2, 0) && word(3).is_some_and(|w| w[..3] == [0; 3]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Direction::{ToClient, ToServer};

    fn words(all: &[u32]) -> Vec<u8> {
        all.iter().flat_map(|n| n.to_be_bytes()).collect()
    }

    /// What comes before a record is left out, whatever it is, and each cut leaves the record to be waited for.
    #[test]
    fn records_are_found_behind_anything() {
        let call = words(&[1 << 31 | 40, 7, 0, 2, NFS_PROGRAM, 3, 0, 0, 0, 0, 0]);
        let reply = words(&[1 << 31 | 24, 7, 1, 0, 0, 0, 0]);
        let befores: [&[u8]; 6] = [
            b"",
            b"no record",
            b"\x80",
            b"\x80\0\0\x28",
            b"\x80\0\0\x10\0\0\0\x07\0\0\0\0\0\0\0\x02",
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        ];
        for before in befores {
            for (record, other, d) in [(&call, &reply, ToServer), (&reply, &call, ToClient)] {
                let all = [before, record, b"more"].concat();
                assert_eq!(find_record(&all, d), Found::At(before.len()), "{before:x?}");
                for end in before.len() + 1..before.len() + record.len() {
                    let found = find_record(&all[..end], d);
                    let Found::Needs { at, needed } = found else {
                        panic!("{found:?} {before:x?}")
                    };
                    assert!(at <= before.len() && at + needed > end, "{found:?} {before:x?}");
                }
                // One that goes the other way is none.
                let both = [other.as_slice(), record].concat();
                assert_eq!(find_record(&both, d), Found::At(other.len()));
            }
        }
    }
}
