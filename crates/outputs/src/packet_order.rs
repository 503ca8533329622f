//! Lines of several workers in packet order.
//!
//! Each worker formats its own records and keeps the lines with the place of the frame at hand. When
//! all workers are through with a batch of frames, their lines are merged by that place: what one
//! worker alone would have written, in the same order. Flows that end with a frame come before the
//! records of the frame itself, by worker.

use crate::event_counts::{AlertTally, EventCounts};
use crate::format::{Format, Formatter, Take, When, sink_by_formatter};
use gabion_record::Tree;
use gabion_record::eve::*;

/// A place in the order of lines: twice the number of the frame and one more at the frame itself;
/// then the first packet of a flow that ends.
pub(crate) type Place = (u64, u64);

#[derive(Clone, Copy, Debug)]
struct Line {
    at: Place,
    /// [`ASKS`]: no line, the question is asked here.
    output: u16,
    /// It may hold marks of stored files.
    is_marked: bool,
    len: u32,
    when: When,
}

/// No output's number.
const ASKS: u16 = u16::MAX;

/// A question about the lines that follow it.
#[derive(Clone, Debug)]
struct Asked {
    question: Question,
    alert: AlertTally,
    answer: bool,
}

/// Lines of one worker for one batch of frames.
#[derive(Clone, Debug)]
pub struct LineBatch {
    bytes: Vec<u8>,
    lines: Vec<Line>,
    asked: Vec<Asked>,
    at: Place,
    when: When,
    /// Taken by a merge: lines, bytes.
    taken: (usize, usize),
}

impl Default for LineBatch {
    fn default() -> Self {
        LineBatch {
            bytes: Vec::new(),
            lines: Vec::new(),
            asked: Vec::new(),
            at: (0, 0),
            when: When::Always,
            taken: (0, 0),
        }
    }
}

impl LineBatch {
    /// Lines in it.
    pub fn lines(&self) -> usize {
        self.lines.len()
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
        self.lines.clear();
        self.asked.clear();
        self.taken = (0, 0);
    }
}

impl LineBatch {
    fn push(&mut self, output: usize, line: &[u8], is_marked: bool) {
        let (Ok(output), Ok(len)) = (u16::try_from(output), u32::try_from(line.len())) else {
            return;
        };
        self.bytes.extend_from_slice(line);
        self.lines.push(Line { at: self.at, output, is_marked, len, when: self.when });
    }
}

impl Take for LineBatch {
    fn line(&mut self, output: usize, line: &[u8]) {
        self.push(output, line, false);
    }

    fn marked(&mut self, output: usize, line: &[u8]) {
        self.push(output, line, true);
    }

    fn when(&mut self, when: When) {
        self.when = when;
    }

    fn ask(&mut self, question: &Question, alert: AlertTally) {
        let Ok(n) = u32::try_from(self.asked.len()) else { return };
        self.when = When::Asked(n);
        let (at, when) = (self.at, self.when);
        self.lines.push(Line { at, output: ASKS, is_marked: false, len: 0, when });
        self.asked.push(Asked { question: *question, alert, answer: false });
    }
}

/// The outputs of one of several workers.
pub struct WorkerOutputs {
    formatter: Formatter<LineBatch>,
}

impl WorkerOutputs {
    pub(crate) fn new(formats: Vec<Format>) -> WorkerOutputs {
        WorkerOutputs { formatter: Formatter::new(formats, LineBatch::default()) }
    }

    /// What comes now belongs to flows that end before frame `number`.
    #[inline]
    pub fn before_frame(&mut self, number: u64) {
        self.go_to((number << 1, 0));
    }

    /// What comes now belongs to frame `number`.
    #[inline]
    pub fn at_frame(&mut self, number: u64) {
        self.go_to(((number << 1) | 1, 0));
    }

    fn go_to(&mut self, at: Place) {
        self.formatter.at = at;
        self.formatter.to.at = at;
    }

    /// Names the capture read from now on.
    pub fn set_capture(&mut self, name: &str) {
        self.formatter.set_capture(name);
    }

    /// Takes the lines so far out, leaving `empty` in their place.
    pub fn take(&mut self, empty: LineBatch) -> LineBatch {
        std::mem::replace(&mut self.formatter.to, empty)
    }

    /// What was counted.
    pub fn tally(&self) -> EventCounts {
        self.formatter.sum()
    }
}

/// Who takes lines in packet order and answers what they hang on.
pub(crate) trait Judge {
    /// Whether an alert is written.
    fn ask(&mut self, question: &Question, alert: &AlertTally) -> bool;
    /// Whether one of those asked for of this flow was; the last look at it, if so said.
    fn is_alerted(&mut self, flow: u64, is_last: bool) -> bool;
    /// A line that is written; whether it may hold marks of stored files.
    fn line(&mut self, output: usize, line: &[u8], is_marked: bool);
}

impl LineBatch {
    /// Hands on the lines of the place that is next.
    fn hand_on(&mut self, at: Place, to: &mut dyn Judge) {
        while let Some(next) = self.lines.get(self.taken.0).filter(|l| l.at == at) {
            let end = self.taken.1 + next.len as usize;
            let line = self.bytes.get(self.taken.1..end).unwrap_or(&[]);
            self.taken = (self.taken.0 + 1, end);
            let is_written = match next.when {
                When::Always => true,
                When::Asked(n) => match self.asked.get_mut(n as usize) {
                    Some(a) if next.output == ASKS => {
                        a.answer = to.ask(&a.question, &a.alert);
                        false
                    }
                    Some(a) => a.answer,
                    None => false,
                },
                When::Alerted(flow, if_so) => to.is_alerted(flow, if_so) == if_so,
            };
            if is_written {
                to.line(usize::from(next.output), line, next.is_marked);
            }
        }
    }
}

/// Hands the lines of all batches on in packet order.
pub(crate) fn merge(batches: &mut [LineBatch], to: &mut dyn Judge) {
    loop {
        let mut least: Option<(Place, usize)> = None;
        for (n, b) in batches.iter().enumerate() {
            if let Some(next) = b.lines.get(b.taken.0)
                && least.is_none_or(|(at, _)| next.at < at)
            {
                least = Some((next.at, n));
            }
        }
        let Some((at, n)) = least else { return };
        batches[n].hand_on(at, to);
    }
}

sink_by_formatter!(WorkerOutputs {
    fn ending(&mut self, first_number: u64) {
        self.go_to((self.formatter.at.0, first_number));
    }
});

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(lines: &[(Place, &str)]) -> LineBatch {
        let mut b = LineBatch::default();
        for (at, text) in lines {
            b.at = *at;
            b.line(0, text.as_bytes());
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
        merge(&mut batches, &mut seen);
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
        merge(&mut batches, &mut seen);
        assert_eq!(seen.lines.len(), 8);
    }

    /// Writes every second alert.
    #[derive(Default)]
    struct Seen {
        lines: Vec<String>,
        asked: u32,
        alerted: Vec<u64>,
    }

    impl Judge for Seen {
        fn ask(&mut self, q: &Question, _: &AlertTally) -> bool {
            self.asked += 1;
            let yes = self.asked % 2 == 1;
            self.alerted.extend(q.flow.filter(|_| yes));
            yes
        }
        fn is_alerted(&mut self, flow: u64, _: bool) -> bool {
            self.alerted.contains(&flow)
        }
        fn line(&mut self, _: usize, line: &[u8], _: bool) {
            self.lines.push(String::from_utf8(line.to_vec()).unwrap());
        }
    }

    #[test]
    fn questions_are_asked_in_packet_order() {
        let asks = |frame: u64, flow: u64| {
            let mut b = LineBatch { at: (frame, 0), ..LineBatch::default() };
            let alert = AlertTally::default();
            b.ask(&Question { flow: Some(flow), ..Question::default() }, alert);
            b.line(0, format!("alert {flow}").as_bytes());
            for yes in [false, true] {
                b.when(When::Alerted(flow, yes));
                b.line(0, format!("flow {flow} {yes}").as_bytes());
            }
            b.when(When::Always);
            b.line(0, b"end");
            b
        };
        let mut seen = Seen::default();
        merge(&mut [asks(9, 3), asks(5, 2), asks(3, 1)], &mut seen);
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
