//! Changes inputs at random to get new ones for the plain runner. It does not measure coverage;
//! libFuzzer does that better where it can be built.

/// A small random number generator (splitmix64), so that a run can be repeated by its seed.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// A generator that always returns the same numbers for the same seed.
    #[must_use]
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end` (0 when `end` is 0).
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % (end.max(1) as u64)) as usize
    }

    /// A byte.
    pub fn byte(&mut self) -> u8 {
        self.next() as u8
    }
}

/// Bytes that parsers treat specially.
const TURNS: &[u8] =
    &[0, 1, 0x7f, 0x80, 0xff, b'\r', b'\n', b' ', b'"', b'%', b':', b';', b'(', b'{'];

/// A new input from one (and parts of another), at most `len_max` long.
pub fn mutate(dice: &mut Dice, from: &[u8], other: &[u8], len_max: usize) -> Vec<u8> {
    let mut data = from.to_vec();
    for _ in 0..=dice.below(6) {
        step(dice, &mut data, other);
    }
    data.truncate(len_max);
    data
}

fn step(dice: &mut Dice, data: &mut Vec<u8>, other: &[u8]) {
    let at = dice.below(data.len());
    let scale = dice.below(8);
    let len = 1 + dice.below(1 << scale);
    let end = (at + len).min(data.len());
    match dice.below(9) {
        0 => change(data, at, |b| b ^ (1 << (len % 8))),
        1 => {
            let turn = TURNS.get(dice.below(TURNS.len())).copied().unwrap_or(0);
            change(data, at, |_| turn);
        }
        2 => {
            let by = dice.below(70) as u8;
            change(data, at, |b| b.wrapping_add(by).wrapping_sub(35));
        }
        3 => drop(data.drain(at..end)),
        4 => {
            let again: Vec<u8> = data.get(at..end).unwrap_or_default().to_vec();
            let to = dice.below(data.len());
            data.splice(to..to, again);
        }
        5 => {
            let fill = dice.byte();
            data.splice(at..at, std::iter::repeat_n(fill, len));
        }
        6 => {
            let from = dice.below(other.len());
            let piece = other.get(from..(from + len).min(other.len())).unwrap_or_default();
            data.splice(at..end, piece.iter().copied());
        }
        7 => {
            let from = dice.below(other.len());
            data.truncate(at);
            data.extend_from_slice(other.get(from..).unwrap_or_default());
        }
        _ => {
            let value = dice.byte();
            change(data, at, |_| value);
            change(data, at + 1, |b| b.wrapping_add(value));
        }
    }
}

fn change(data: &mut [u8], at: usize, how: impl Fn(u8) -> u8) {
    if let Some(byte) = data.get_mut(at) {
        *byte = how(*byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_repeatable_and_bounded() {
        let run = |seed| {
            let mut dice = Dice::new(seed);
            let mut data = b"GET / HTTP/1.1\r\n\r\n".to_vec();
            for _ in 0..500 {
                data = mutate(&mut dice, &data, b"another input", 64);
                assert!(data.len() <= 64);
            }
            data
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
        assert!(
            mutate(&mut Dice::new(0), &[], &[], 8).len() <= 8,
            "an empty input can be changed too"
        );
    }
}
