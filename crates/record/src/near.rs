//! The word that was meant, by how few letters differ.

/// Letters beyond which a word is not compared: names are shorter, and the work grows with the square.
const LETTERS_COMPARED: usize = 64;

/// The candidate that is written most like a word: at most a third of its letters (at least one) left out,
/// added, changed or swapped with the next, whatever their case. Of several the first. `None` where none
/// is that near.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters: Vec<char> = word.to_lowercase().chars().take(LETTERS_COMPARED + 1).collect();
    if letters.is_empty() || letters.len() > LETTERS_COMPARED {
        return None;
    }
    let most = (letters.len() / 3).max(1);
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        let other: Vec<char> = candidate.to_lowercase().chars().collect();
        if other.len().abs_diff(letters.len()) > most || other.len() > LETTERS_COMPARED {
            continue;
        }
        let steps = distance(&letters, &other);
        // A word of one or two letters is as near to any other.
        if steps <= most && steps < other.len() && best.is_none_or(|(least, _)| steps < least) {
            best = Some((steps, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Letters to leave out, add, change, or swap with the next, each letter in one step at most (optimal string
/// alignment).
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let at = |row: &[usize], n: usize| row.get(n).copied().unwrap_or(usize::MAX / 2);
            let mut least =
                (at(&last, j) + usize::from(x != y)).min(at(&last, j + 1) + 1).min(at(&row, j) + 1);
            let is_swapped = i > 0 && j > 0 && a.get(i - 1) == Some(y) && b.get(j - 1) == Some(x);
            if is_swapped {
                least = least.min(at(&before, j - 1) + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_counted() {
        for (a, b, wanted) in [
            ("", "", 0),
            ("abc", "abc", 0),
            ("abc", "", 3),
            ("contnet", "content", 1),
            ("kitten", "sitting", 3),
            ("flowbit", "flowbits", 1),
        ] {
            let [a, b] = [a, b].map(|t| t.chars().collect::<Vec<_>>());
            assert_eq!(distance(&a, &b), wanted, "{a:?} {b:?}");
            assert_eq!(distance(&b, &a), wanted, "{a:?} {b:?}");
        }
    }

    #[test]
    fn the_nearest_word_is_named_and_none_that_is_far() {
        let words = ["content", "http.uri", "flowbits", "flow", "msg", "sid"];
        for (word, wanted) in [
            ("contnet", Some("content")),
            ("Content", Some("content")),
            ("http_uri", Some("http.uri")),
            ("flowbit", Some("flowbits")),
            ("mgs", Some("msg")),
            ("banana", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, words), wanted, "{word}");
        }
        assert_eq!(nearest(&"a".repeat(1 << 20), words), None);
    }
}
