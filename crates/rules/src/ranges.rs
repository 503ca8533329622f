//! Sets of numbers as sorted, disjoint, inclusive ranges: what addresses and ports are made of.

/// A number a set may hold.
pub(crate) trait Number: Copy + Ord {
    /// The number after it, unless it is the last one.
    fn next(self) -> Option<Self>;
    /// The number before it, unless it is the first one.
    fn previous(self) -> Option<Self>;
}

macro_rules! number {
    ($($t:ty),*) => {$(
        impl Number for $t {
            fn next(self) -> Option<Self> {
                self.checked_add(1)
            }
            fn previous(self) -> Option<Self> {
                self.checked_sub(1)
            }
        }
    )*};
}
number!(u16, u32, u128);

/// Sorts and joins ranges that overlap or touch.
pub(crate) fn normalize<T: Number>(mut ranges: Vec<(T, T)>) -> Vec<(T, T)> {
    ranges.sort_unstable();
    let mut out: Vec<(T, T)> = Vec::with_capacity(ranges.len());
    for (from, to) in ranges {
        match out.last_mut() {
            Some(last) if from <= last.1 || last.1.next() == Some(from) => {
                last.1 = last.1.max(to);
            }
            _ => out.push((from, to)),
        }
    }
    out
}

/// What is in `a` and not in `b`; both normalized, so is the result.
pub(crate) fn subtract<T: Number>(a: &[(T, T)], b: &[(T, T)]) -> Vec<(T, T)> {
    let mut out = Vec::with_capacity(a.len());
    for &(from, to) in a {
        let mut from = Some(from);
        for &(cut_from, cut_to) in b {
            let Some(f) = from else { break };
            if cut_to < f {
                continue;
            }
            if cut_from > to {
                break;
            }
            if cut_from > f
                && let Some(end) = cut_from.previous()
            {
                out.push((f, end));
            }
            from = cut_to.next().filter(|n| *n <= to);
        }
        if let Some(f) = from {
            out.push((f, to));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn union_and_difference() {
        let a = normalize(vec![(5u16, 9), (1, 2), (3, 4), (20, 30), (25, 40)]);
        assert_eq!(a, [(1, 9), (20, 40)]);
        assert_eq!(subtract(&a, &[(0, 1), (4, 6), (40, 65535)]), [(2, 3), (7, 9), (20, 39)]);
        assert_eq!(subtract(&[(0u16, 65535)], &[(0, 65535)]), []);
        assert_eq!(subtract(&[(0u16, 65535)], &[(65535, 65535)]), [(0, 65534)]);
    }
}
