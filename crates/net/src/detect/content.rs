//! Inspection of one buffer: contents, expressions and byte arithmetic, left to right, relative to
//! each other.
//!
//! The state is a position, the end of the last match, and the rule's byte variables. A keyword
//! answers *match*, *no match* (an earlier keyword may try its next occurrence) or *discontinue* (no
//! other occurrence of anything can help: the buffer fails). Each try costs one step of a limit, so
//! that traffic made to match halfway costs a bounded amount. Every detail means what it means in
//! Suricata 8.0.x (`detect-engine-content-inspection`, as its rule documentation describes it and
//! as observed).

use super::resources::Resources;
use super::{literal, number};
use crate::limits::{CONTENT_STEPS_MAX, DATA_AT_MAX, reached};
use gabion_rules::compiled::buffer::*;
use gabion_rules::{Ruleset, Signature};

/// Outcome of one keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Match,
    NoMatch,
    Discontinue,
}

/// What a capture group of a matching expression left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Captured {
    pub(crate) target: CaptureTarget,
    pub(crate) name: u32,
    pub(crate) value: Vec<u8>,
}

/// What a dataset with JSON adds to the alert, and other results that matches leave.
#[derive(Debug, Default)]
pub(crate) struct MatchNotes {
    pub(crate) captured: Vec<Captured>,
    pub(crate) context_json: Vec<u8>,
    /// Scripts still to be run, with their `!`.
    pub(crate) scripts: Vec<(u32, bool)>,
    /// Entropies that were computed, whether or not they matched.
    pub(crate) entropies: Vec<f64>,
    /// Values that a `dataset:set` or `unset` would write once the rule has matched wholly.
    pub(crate) steps: u64,
}

/// Byte variables of the current rule; they live as long as the rule's inspection.
pub(crate) type ByteVariables = [u64; 32];

/// The bytes under inspection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece<'a> {
    /// The bytes.
    pub(crate) bytes: &'a [u8],
    /// Position of the first one in the whole buffer.
    pub(crate) start: u64,
    /// The buffer ends with these bytes.
    pub(crate) is_last: bool,
    /// Order of multi-byte numbers for `dce`.
    pub(crate) dce_little: bool,
}

impl<'a> Piece<'a> {
    /// A whole buffer.
    pub(crate) fn whole(bytes: &'a [u8]) -> Piece<'a> {
        Piece { bytes, start: 0, is_last: true, dce_little: true }
    }
}

/// Whether the buffer meets all conditions.
#[expect(
    clippy::too_many_arguments,
    reason = "a struct of borrowed parts would be built for each buffer"
)]
pub(crate) fn inspect(
    set: &Ruleset,
    sig: &Signature,
    conditions: &[BufferCondition],
    piece: Piece<'_>,
    variables: &mut ByteVariables,
    resources: &mut Resources<'_>,
    notes: &mut MatchNotes,
) -> bool {
    let captured = notes.captured.len();
    let mut run = Run { set, sig, piece, pos: 0, steps: 0, variables, resources, notes };
    let matched = run.from(conditions) == Step::Match;
    let steps = u64::from(run.steps);
    notes.steps += steps;
    if !matched {
        notes.captured.truncate(captured);
    }
    matched
}

struct Run<'r, 'a, 'x> {
    set: &'r Ruleset,
    sig: &'r Signature,
    piece: Piece<'a>,
    pos: usize,
    steps: u32,
    variables: &'r mut ByteVariables,
    resources: &'r mut Resources<'x>,
    notes: &'r mut MatchNotes,
}

impl Run<'_, '_, '_> {
    /// Takes a step; true if the limit is reached, so that the rule is not inspected any further.
    #[inline]
    fn is_tired(&mut self) -> bool {
        self.steps += 1;
        if self.steps == CONTENT_STEPS_MAX + 1 {
            reached::CONTENT_STEPS_MAX.count();
        }
        self.steps > CONTENT_STEPS_MAX
    }

    fn from(&mut self, conditions: &[BufferCondition]) -> Step {
        if self.is_tired() {
            return Step::Discontinue;
        }
        let Some((first, rest)) = conditions.split_first() else { return Step::Match };
        if let BufferCondition::Content(c) = first {
            return self.content(c, rest);
        }
        if let BufferCondition::Pcre(p) = first {
            return self.pcre(p, rest);
        }
        if let BufferCondition::Base64Decode(b) = first {
            return self.base64(b);
        }
        if let BufferCondition::Lua { script, negated } = first {
            // It does not see the buffer: it runs if the rest holds.
            self.notes.scripts.push((*script, *negated));
            let step = self.from(rest);
            if step != Step::Match {
                self.notes.scripts.pop();
            }
            return step;
        }
        match self.simple(first) {
            Step::Match => self.from(rest),
            other => other,
        }
    }

    fn number32(&self, operand: Operand<i32>) -> i64 {
        match operand {
            Operand::Number(n) => i64::from(n),
            Operand::Variable(v) => self.variable(v) as u32 as i32 as i64,
        }
    }

    fn variable(&self, v: u8) -> u64 {
        self.variables.get(usize::from(v)).copied().unwrap_or(0)
    }

    /// Bounds of the search for a content: offset and depth within the piece; `None` when it can't
    /// be found at all. Suricata 8.0.7 computes with 32 bits: a variable below zero is a very large number,
    /// and a depth of zero by a variable leaves nothing to search in.
    fn window(&self, c: &Content, base: usize) -> Option<(usize, usize)> {
        let len = u32::try_from(self.piece.bytes.len()).unwrap_or(u32::MAX);
        let stream_start = u32::try_from(self.piece.start).unwrap_or(u32::MAX);
        let is_variable = |o: Option<Operand<i32>>| matches!(o, Some(Operand::Variable(_)));
        // Depths count from the start of the stream.
        let in_piece = |depth: u32| {
            if depth <= stream_start {
                None
            } else if depth < stream_start.saturating_add(len) {
                Some(depth - stream_start)
            } else {
                Some(depth)
            }
        };
        let (mut offset, mut depth);
        if c.is_relative() {
            let base = u32::try_from(base).unwrap_or(u32::MAX);
            let distance = c.distance.map_or(0, |d| self.number32(d)) as i32;
            depth = len;
            offset = if distance < 0 {
                base.saturating_sub(distance.unsigned_abs())
            } else {
                base.wrapping_add(distance as u32)
            };
            if let Some(within) = c.within {
                let within = self.number32(within) as u32;
                let end = base.wrapping_add(within).wrapping_add(distance as u32);
                if (depth as i32) > end as i32 {
                    depth = end;
                }
                if stream_start != 0 && base == 0 {
                    depth = in_piece(depth)?;
                }
            }
            if let Some(Operand::Number(n)) = c.depth
                && n != 0
            {
                depth = depth.min(base.saturating_add(n as u32));
            }
            if let Some(Operand::Number(n)) = c.offset {
                offset = offset.max(n as u32);
            }
        } else {
            depth = match c.depth {
                None | Some(Operand::Number(0)) => len,
                Some(d) => self.number32(d) as u32,
            };
            if stream_start != 0 && c.depth.is_some() {
                depth = in_piece(depth)?;
            }
            offset = c.offset.map_or(0, |o| self.number32(o) as u32);
            if is_variable(c.offset) || is_variable(c.depth) {
                depth = depth.wrapping_add(offset);
            }
        }
        depth = depth.min(len);
        (offset <= depth && depth > 0).then_some((offset as usize, depth as usize))
    }

    fn content(&mut self, c: &Content, rest: &[BufferCondition]) -> Step {
        let base = self.pos;
        let bytes = self.piece.bytes;
        let negated = c.is_negated();
        let window = self.window(c, base);
        let mut resume = None;
        loop {
            let found = window.and_then(|(offset, depth)| {
                let from = resume.unwrap_or(offset);
                if c.ends_with() && negated {
                    // Suricata 8.0.7 looks at the first place only, and never sees one behind an offset as the end.
                    let at = literal::find(&bytes[..depth], &c.bytes, c.is_nocase(), from)?;
                    let is_end = at + c.bytes.len() == bytes.len() && self.piece.is_last;
                    return (is_end && offset == 0).then_some(at);
                }
                if c.ends_with() {
                    // Only the end of the whole buffer counts.
                    if depth < bytes.len() || !self.piece.is_last {
                        return None;
                    }
                    let at = depth.checked_sub(c.bytes.len())?;
                    return (at >= from && literal::stands_at(bytes, &c.bytes, c.is_nocase(), at))
                        .then_some(at);
                }
                literal::find(&bytes[..depth], &c.bytes, c.is_nocase(), from)
            });
            let Some(at) = found else {
                return if negated {
                    self.from(rest)
                } else if c.is_relative() {
                    Step::NoMatch
                } else {
                    Step::Discontinue
                };
            };
            if negated {
                let alone = !c.is_relative() && !c.has_relative_next();
                return if alone { Step::Discontinue } else { Step::NoMatch };
            }
            self.pos = at + c.bytes.len();
            match self.from(rest) {
                Step::Match => return Step::Match,
                Step::Discontinue => return Step::Discontinue,
                Step::NoMatch if !c.has_relative_next() => {
                    return if c.is_relative() { Step::NoMatch } else { Step::Discontinue };
                }
                Step::NoMatch => {
                    if self.is_tired() {
                        return Step::Discontinue;
                    }
                    resume = Some(at + 1);
                    self.pos = base;
                }
            }
        }
    }

    fn pcre(&mut self, p: &Pcre, rest: &[BufferCondition]) -> Step {
        let base = self.pos;
        let bytes = self.piece.bytes;
        let mut from = if p.relative { base } else { 0 };
        loop {
            let Some(hay) = bytes.get(from..) else {
                return if p.negated { self.from(rest) } else { Step::NoMatch };
            };
            let found = self.resources.find(self.set, p, hay);
            let Some((start, end)) = found else {
                return if p.negated { self.from(rest) } else { Step::NoMatch };
            };
            if p.negated {
                return Step::NoMatch;
            }
            for c in &p.captures {
                if let Some(range) = self.resources.group(u32::from(c.group))
                    && let Some(value) = hay.get(range.0..range.1)
                {
                    let value = value.to_vec();
                    self.notes.captured.push(Captured { target: c.target, name: c.name, value });
                }
            }
            self.pos = from + end;
            match self.from(rest) {
                Step::NoMatch if p.relative_next => {
                    if self.is_tired() {
                        return Step::Discontinue;
                    }
                    from += start + 1;
                    self.pos = base;
                }
                other => return other,
            }
        }
    }

    /// Keywords that have one outcome for one position.
    fn simple(&mut self, condition: &BufferCondition) -> Step {
        let yes = |b: bool| if b { Step::Match } else { Step::NoMatch };
        let or_end = |b: bool| if b { Step::Match } else { Step::Discontinue };
        match condition {
            BufferCondition::ByteTest(t) => yes(self.byte_test(t)),
            BufferCondition::ByteJump(j) => yes(self.byte_jump(j)),
            BufferCondition::ByteExtract(e) => yes(self.byte_extract(e)),
            BufferCondition::ByteMath(m) => yes(self.byte_math(m)),
            BufferCondition::IsDataAt(d) => self.is_data_at(d),
            BufferCondition::Bsize(m) => {
                let size = self.piece.start + self.piece.bytes.len() as u64;
                if !self.piece.is_last && !grows_past(*m) {
                    return Step::Discontinue;
                }
                or_end(m.matches(size))
            }
            BufferCondition::Urilen(m) => {
                or_end(m.matches((self.piece.bytes.len() as u64).min(65_535)))
            }
            BufferCondition::Dataset(d) => {
                let hit = self.resources.dataset(*d, self.piece.bytes, self.notes);
                or_end(hit)
            }
            BufferCondition::Datarep(d) => {
                let hit = self.resources.datarep(*d, self.piece.bytes);
                or_end(hit)
            }
            // The buffer is there, so `absent` alone fails, and `or_else` passes on.
            BufferCondition::Absent { or_else } => or_end(*or_else),
            BufferCondition::Entropy(e) => yes(self.entropy(e)),
            BufferCondition::Asn1(a) => yes(super::asn1::matches(a, self.piece.bytes, self.pos)),
            BufferCondition::Inert(_)
            | BufferCondition::Content(_)
            | BufferCondition::Pcre(_)
            | BufferCondition::Base64Decode(_)
            | BufferCondition::Lua { .. } => Step::Discontinue,
        }
    }

    /// Absolute position of `offset`, counted from the last match or from the start.
    fn place(&self, relative: bool, offset: i64) -> Option<usize> {
        let base = if relative { self.pos as i64 } else { 0 };
        usize::try_from(base.checked_add(offset)?).ok().filter(|p| *p <= self.piece.bytes.len())
    }

    fn byte_test(&self, t: &ByteTest) -> bool {
        let n = match t.nbytes {
            Operand::Number(n) => usize::from(n),
            Operand::Variable(v) => self.variable(v) as usize,
        };
        let Some(at) = self.place(t.relative, self.number32(t.offset)) else { return false };
        let read =
            number::parse_number(self.piece.bytes, at, n, t.order, t.text, self.piece.dce_little);
        let Some(v) = read.map(|v| number::masked(v, t.bitmask)) else { return false };
        let wanted = match t.value {
            Operand::Number(w) => w,
            Operand::Variable(w) => self.variable(w),
        };
        let holds = match t.op {
            ByteOp::Less => v < wanted,
            ByteOp::Greater => v > wanted,
            ByteOp::Equal => v == wanted,
            ByteOp::And => v & wanted != 0,
            ByteOp::Xor => v ^ wanted != 0,
            ByteOp::GreaterOrEqual => v >= wanted,
            ByteOp::LessOrEqual => v <= wanted,
        };
        holds != t.negated
    }

    fn byte_jump(&mut self, j: &ByteJump) -> bool {
        let n = match j.nbytes {
            Operand::Number(n) => usize::from(n),
            Operand::Variable(v) => self.variable(v) as usize,
        };
        let Some(at) = self.place(j.relative, self.number32(j.offset)) else { return false };
        let mut v = 0;
        if n != 0 {
            let read = number::parse_number(
                self.piece.bytes,
                at,
                n,
                j.order,
                j.text,
                self.piece.dce_little,
            );
            let Some(r) = read else { return false };
            v = r;
        }
        v = v.wrapping_mul(u64::from(j.multiplier.max(1)));
        if j.align {
            v = v.saturating_add(3) & !3;
        }
        let Ok(v) = i64::try_from(v) else { return false };
        let len = self.piece.bytes.len();
        let base = match j.from {
            JumpFrom::Current => (at + n) as i64,
            JumpFrom::Beginning => 0,
            JumpFrom::End => len as i64,
        };
        let target = base.checked_add(v).and_then(|t| t.checked_add(i64::from(j.post_offset)));
        // A jump to before the beginning ends there (Suricata 8.0.7), one past the end fails.
        match target.and_then(|t| usize::try_from(t.max(0)).ok()) {
            Some(t) if t <= len => {
                self.pos = t;
                true
            }
            _ => false,
        }
    }

    fn set(&mut self, variable: u8, value: u64) -> bool {
        if let Some(slot) = self.variables.get_mut(usize::from(variable)) {
            *slot = value;
        }
        true
    }

    fn byte_extract(&mut self, e: &ByteExtract) -> bool {
        let Some(at) = self.place(e.relative, i64::from(e.offset)) else { return false };
        let n = usize::from(e.nbytes);
        let bytes = self.piece.bytes;
        // No bytes are zero (Suricata 8.0.7).
        let read = if n == 0 && e.text.is_none() {
            Some(0)
        } else {
            number::parse_number(bytes, at, n, e.order, e.text, self.piece.dce_little)
        };
        let Some(v) = read else { return false };
        let mut v = v.wrapping_mul(u64::from(e.multiplier.max(1)));
        if e.align > 1 {
            let a = u64::from(e.align);
            v = v.div_ceil(a).saturating_mul(a);
        }
        self.pos = at + n;
        self.set(e.variable, v)
    }

    fn byte_math(&mut self, m: &ByteMath) -> bool {
        let n = match m.nbytes {
            Operand::Number(n) => usize::from(n),
            Operand::Variable(v) => self.variable(v) as usize,
        };
        let Some(at) = self.place(m.relative, i64::from(m.offset)) else { return false };
        let read =
            number::parse_number(self.piece.bytes, at, n, m.order, m.text, self.piece.dce_little);
        let Some(v) = read else { return false };
        let r = match m.rvalue {
            Operand::Number(r) => u64::from(r),
            Operand::Variable(r) => self.variable(r),
        };
        let result = match m.op {
            MathOp::Add => Some(v.wrapping_add(r)),
            MathOp::Subtract => Some(v.wrapping_sub(r)),
            MathOp::Multiply => Some(v.wrapping_mul(r)),
            MathOp::Divide => v.checked_div(r),
            MathOp::ShiftLeft => u32::try_from(r).ok().and_then(|r| v.checked_shl(r)),
            MathOp::ShiftRight => u32::try_from(r).ok().and_then(|r| v.checked_shr(r)),
        };
        let Some(result) = result else { return false };
        self.pos = at + n;
        self.set(m.variable, number::masked(result, m.bitmask))
    }

    fn is_data_at(&self, d: &IsDataAt) -> Step {
        let len = self.piece.bytes.len() as u64;
        let n = match d.position {
            Operand::Number(n) => u64::from(n),
            Operand::Variable(v) => self.variable(v),
        };
        let is_fixed = matches!(d.position, Operand::Number(_));
        let there =
            n < DATA_AT_MAX && if d.relative { self.pos as u64 + n <= len } else { n < len };
        if there != d.negated {
            Step::Match
        } else if is_fixed && !d.relative {
            Step::Discontinue
        } else {
            Step::NoMatch
        }
    }

    /// The end of the conditions of its buffer, as in Suricata 8.0.7: what follows is not asked, and nothing before it is
    /// looked for at its next place.
    fn base64(&mut self, b: &Base64Decode) -> Step {
        let conditions = &self.sig.base64_data;
        let from = (b.offset as usize).saturating_add(if b.relative { self.pos } else { 0 });
        let text = self.piece.bytes.get(from..).filter(|_| !conditions.is_empty());
        let Some(mut text) = text else { return Step::Discontinue };
        if b.bytes != 0 {
            text = &text[..text.len().min(b.bytes as usize)];
        }
        let mut decoded = Vec::new();
        if !super::base64::decode(text, Base64Mode::Rfc4648, &mut decoded) {
            return Step::Discontinue;
        }
        let mut run = Run {
            set: self.set,
            sig: self.sig,
            piece: Piece::whole(&decoded),
            pos: 0,
            steps: self.steps,
            variables: self.variables,
            resources: self.resources,
            notes: self.notes,
        };
        let outcome = run.from(conditions);
        self.steps = run.steps;
        match outcome {
            Step::Match => Step::Match,
            Step::NoMatch | Step::Discontinue => Step::Discontinue,
        }
    }

    fn entropy(&mut self, e: &EntropyTest) -> bool {
        let Some(mut bytes) = self.piece.bytes.get(e.offset as usize..) else { return false };
        if e.bytes != 0 {
            let Some(wanted) = bytes.get(..e.bytes as usize) else { return false };
            bytes = wanted;
        }
        let mut counts = [0u32; 256];
        for b in bytes {
            counts[usize::from(*b)] += 1;
        }
        let n = bytes.len() as f64;
        let h: f64 = counts
            .iter()
            .filter(|c| **c > 0)
            .map(|c| f64::from(*c) / n)
            .map(|p| -p * p.log2())
            .sum();
        self.notes.entropies.push(h);
        match e.op {
            EntropyOp::Equal(x) => (h - x).abs() < f64::EPSILON,
            EntropyOp::Differs(x) => (h - x).abs() >= f64::EPSILON,
            EntropyOp::Less(x) => h < x,
            EntropyOp::LessOrEqual(x) => h <= x,
            EntropyOp::Greater(x) => h > x,
            EntropyOp::GreaterOrEqual(x) => h >= x,
            EntropyOp::Between(a, b) => h > a && h < b,
            EntropyOp::Outside(a, b) => h <= a || h >= b,
        }
    }
}

/// A size test that a growing buffer can decide before its end.
fn grows_past(m: gabion_rules::compiled::buffer::IntegerMatch) -> bool {
    use gabion_rules::compiled::buffer::IntegerMatch::*;
    matches!(m, Greater(_) | GreaterOrEqual(_))
}
