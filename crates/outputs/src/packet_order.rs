//! Pieces of several workers in packet order.
//!
//! Each worker formats its own records and keeps the pieces with the place of the frame at hand. When
//! all workers are through with a batch of frames, their pieces are merged by that place: what one
//! worker alone would have written, in the same order. Flows that end with a frame come before the
//! records of the frame itself, by worker.

use crate::dispatch::{Dispatcher, Take};
use crate::event_counts::{AlertTally, EventCounts};
use crate::order::{Place, When};
use crate::output::{Format, Piece, PieceKind, Pieces, Record};
use gabion_record::Tree;
use gabion_record::applayer::LineLog;
use gabion_record::eve::Question;
use gabion_record::json::Later;
use gabion_runtime::fanout;

/// What a batch holds.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A line of this output.
    Line(u16),
    /// A piece of this output whose kind is the next one kept.
    Piece(u16),
    /// The question of this number is asked.
    Ask(u32),
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: Place,
    step: Step,
    len: u32,
    /// Numbers left open in it.
    later: u32,
    when: When,
}

/// A question about the pieces that follow it.
#[derive(Clone, Debug)]
struct Asked {
    question: Question,
    alert: AlertTally,
    answer: bool,
}

/// How much of a batch a merge has handed on.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    entries: usize,
    bytes: usize,
    kinds: usize,
    later: usize,
}

/// Pieces of one worker for one batch of frames.
#[derive(Clone, Debug)]
pub struct LineBatch {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    /// Kinds of the pieces that are no lines.
    kinds: Vec<PieceKind>,
    /// Numbers left open in texts.
    later: Vec<Later>,
    asked: Vec<Asked>,
    at: Place,
    when: When,
    taken: Taken,
}

impl Default for LineBatch {
    fn default() -> Self {
        LineBatch {
            bytes: Vec::new(),
            entries: Vec::new(),
            kinds: Vec::new(),
            later: Vec::new(),
            asked: Vec::new(),
            at: (0, 0),
            when: When::Always,
            taken: Taken::default(),
        }
    }
}

impl LineBatch {
    /// Pieces in it.
    pub fn lines(&self) -> usize {
        self.entries.len()
    }

    /// Their bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes it can hold without growing.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Empties it for the next batch; its memory stays.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
        self.kinds.clear();
        self.later.clear();
        self.asked.clear();
        self.taken = Taken::default();
    }

    fn push(&mut self, output: usize, piece: &Piece<'_>) {
        let (Ok(output), Ok(len)) = (u16::try_from(output), u32::try_from(piece.bytes.len()))
        else {
            return;
        };
        self.bytes.extend_from_slice(piece.bytes);
        let step = match piece.kind {
            PieceKind::Line => Step::Line(output),
            kind @ (PieceKind::Finding(_)
            | PieceKind::FlowRecord(_)
            | PieceKind::Frame(_)
            | PieceKind::FileRecord(_)
            | PieceKind::StreamBytes(_)
            | PieceKind::Certificates(_)) => {
                self.kinds.push(kind);
                Step::Piece(output)
            }
        };
        self.later.extend_from_slice(piece.later);
        // A text has fewer open numbers than bytes.
        let later = piece.later.len() as u32;
        self.entries.push(Entry { at: self.at, step, len, later, when: self.when });
    }

    fn ask(&mut self, question: &Question, alert: AlertTally) {
        let Ok(n) = u32::try_from(self.asked.len()) else { return };
        self.when = When::Asked(n);
        let (at, when) = (self.at, self.when);
        self.entries.push(Entry { at, step: Step::Ask(n), len: 0, later: 0, when });
        self.asked.push(Asked { question: *question, alert, answer: false });
    }
}

/// Takes the pieces of one format.
struct Keeping<'a> {
    batch: &'a mut LineBatch,
    output: usize,
}

impl Pieces for Keeping<'_> {
    fn put(&mut self, piece: Piece<'_>) {
        self.batch.push(self.output, &piece);
    }
}

/// The formats of one of several workers, and what they made.
pub struct Kept {
    formats: Vec<Box<dyn Format>>,
    batch: LineBatch,
}

impl Take for Kept {
    const KEEPS_ORDER: bool = true;

    #[inline]
    fn take_record(&mut self, record: &Record<'_>) -> bool {
        let mut is_counted = false;
        for (output, format) in self.formats.iter_mut().enumerate() {
            is_counted |=
                format.write_record(record, &mut Keeping { batch: &mut self.batch, output });
        }
        is_counted
    }

    fn formats(&mut self) -> impl Iterator<Item = &mut dyn Format> {
        self.formats.iter_mut().map(|format| &mut **format as &mut dyn Format)
    }

    fn logs_transactions(&self, event_type: &str, line_log: Option<LineLog>) -> bool {
        self.formats.iter().any(|format| format.logs_transactions(event_type, line_log))
    }

    fn type_config(&self, event_type: &str) -> Option<&Tree> {
        self.formats.iter().find_map(|format| format.type_config(event_type))
    }

    fn set_when(&mut self, when: When) {
        self.batch.when = when;
    }

    fn ask(&mut self, question: &Question, alert: AlertTally) {
        self.batch.ask(question, alert);
    }

    fn set_place(&mut self, place: Place) {
        self.batch.at = place;
    }
}

/// The outputs of one of several workers.
pub type WorkerOutputs = Dispatcher<Kept>;

impl WorkerOutputs {
    pub(crate) fn new(formats: Vec<Box<dyn Format>>) -> WorkerOutputs {
        Dispatcher::to(Kept { formats, batch: LineBatch::default() })
    }

    /// What comes now belongs to flows that end before frame `number`.
    #[inline]
    pub fn before_frame(&mut self, number: u64) {
        self.set_place((number << 1, 0));
    }

    /// What comes now belongs to frame `number`.
    #[inline]
    pub fn at_frame(&mut self, number: u64) {
        self.set_place(((number << 1) | 1, 0));
    }

    /// Takes the pieces so far out, leaving `empty` in their place.
    pub fn swap_batch(&mut self, empty: LineBatch) -> LineBatch {
        std::mem::replace(&mut self.to.batch, empty)
    }

    /// What was counted.
    pub fn tally(&self) -> EventCounts {
        let mut counts = self.counts.clone();
        self.to.formats.iter().for_each(|format| format.add_counts(&mut counts));
        counts
    }
}

/// What a merge asks or hands on, in packet order.
pub(crate) enum InOrder<'a> {
    /// Whether an alert is written.
    Ask(&'a Question, &'a AlertTally),
    /// Whether an alert of this flow that was asked for was written.
    IsAlerted {
        /// The flow.
        flow: u64,
        /// Nobody asks again.
        is_last: bool,
    },
    /// A piece that is written, of this output.
    Write(usize, &'a Piece<'a>),
}

/// Answers questions and takes pieces; the answer to a piece does not matter.
pub(crate) type TakeInOrder<'a> = dyn FnMut(InOrder<'_>) -> bool + 'a;

impl LineBatch {
    /// Hands on the pieces of the place that is next.
    fn hand_on(&mut self, at: Place, to: &mut TakeInOrder<'_>) {
        while let Some(next) = self.entries.get(self.taken.entries).filter(|l| l.at == at) {
            let from = self.taken;
            self.taken.entries += 1;
            self.taken.bytes += next.len as usize;
            self.taken.later += next.later as usize;
            let (output, kind) = match next.step {
                Step::Line(output) => (output, PieceKind::Line),
                Step::Piece(output) => {
                    self.taken.kinds += 1;
                    let Some(kind) = self.kinds.get(from.kinds) else { continue };
                    (output, *kind)
                }
                Step::Ask(n) => {
                    if let Some(a) = self.asked.get_mut(n as usize) {
                        a.answer = to(InOrder::Ask(&a.question, &a.alert));
                    }
                    continue;
                }
            };
            let is_written = match next.when {
                When::Always => true,
                When::Asked(n) => self.asked.get(n as usize).is_some_and(|a| a.answer),
                When::Alerted(flow, is_last) => to(InOrder::IsAlerted { flow, is_last }) == is_last,
            };
            if is_written {
                let bytes = self.bytes.get(from.bytes..self.taken.bytes).unwrap_or_default();
                let later = self.later.get(from.later..self.taken.later).unwrap_or_default();
                to(InOrder::Write(usize::from(output), &Piece { kind, bytes, later }));
            }
        }
    }
}

/// Hands the pieces of all batches on in packet order.
pub(crate) fn merge(batches: &mut [LineBatch], to: &mut TakeInOrder<'_>) {
    let place = |batch: &LineBatch| batch.entries.get(batch.taken.entries).map(|next| next.at);
    fanout::merge(batches, place, |batch, at| batch.hand_on(at, to));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(lines: &[(Place, &str)]) -> LineBatch {
        let mut b = LineBatch::default();
        for (at, text) in lines {
            b.at = *at;
            b.push(0, &Piece::line(text.as_bytes()));
        }
        b
    }

    #[test]
    fn lines_come_in_packet_order() {
        let mut batches = [
            batch(&[
                ((2, 1), "first flow"),
                ((2, 5), "third flow"),
                ((3, 0), "frame 1"),
                ((3, 0), "frame 1 again"),
                ((8, 7), "flow"),
            ]),
            batch(&[]),
            batch(&[((2, 4), "second flow"), ((5, 0), "frame 2"), ((7, 0), "frame 3")]),
        ];
        let mut seen = Seen::default();
        merge(&mut batches, &mut |step| seen.take_step(step));
        assert_eq!(
            seen.lines,
            [
                "first flow",
                "second flow",
                "third flow",
                "frame 1",
                "frame 1 again",
                "frame 2",
                "frame 3",
                "flow"
            ]
        );
        merge(&mut batches, &mut |step| seen.take_step(step));
        assert_eq!(seen.lines.len(), 8);
    }

    /// Writes every second alert.
    #[derive(Default)]
    struct Seen {
        lines: Vec<String>,
        asked: u32,
        alerted: Vec<u64>,
    }

    impl Seen {
        fn take_step(&mut self, step: InOrder<'_>) -> bool {
            match step {
                InOrder::Ask(q, _) => {
                    self.asked += 1;
                    let yes = self.asked % 2 == 1;
                    self.alerted.extend(q.flow.filter(|_| yes));
                    yes
                }
                InOrder::IsAlerted { flow, .. } => self.alerted.contains(&flow),
                InOrder::Write(_, piece) => {
                    self.lines.push(String::from_utf8(piece.bytes.to_vec()).unwrap());
                    true
                }
            }
        }
    }

    #[test]
    fn questions_are_asked_in_packet_order() {
        let asks = |frame: u64, flow: u64| {
            let mut b = LineBatch { at: (frame, 0), ..LineBatch::default() };
            let alert = AlertTally::default();
            b.ask(&Question { flow: Some(flow), ..Question::default() }, alert);
            b.push(0, &Piece::line(format!("alert {flow}").as_bytes()));
            for yes in [false, true] {
                b.when = When::Alerted(flow, yes);
                b.push(0, &Piece::line(format!("flow {flow} {yes}").as_bytes()));
            }
            b.when = When::Always;
            b.push(0, &Piece::line(b"end"));
            b
        };
        let mut seen = Seen::default();
        merge(&mut [asks(9, 3), asks(5, 2), asks(3, 1)], &mut |step| seen.take_step(step));
        assert_eq!(
            seen.lines,
            [
                "alert 1",
                "flow 1 true",
                "end",
                "flow 2 false",
                "end",
                "alert 3",
                "flow 3 true",
                "end"
            ]
        );
    }
}
