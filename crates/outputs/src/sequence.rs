//! Lines of several workers in packet order.
//!
//! Each worker formats its own records and keeps the lines with the place of the frame at hand. When
//! all workers are through with a batch of frames, their lines are merged by that place: what one
//! worker alone would have written, in the same order. Flows that end with a frame come before the
//! records of the frame itself, by worker.

use crate::format::{Format, Formatter, Take};
use crate::tally::Tally;
use gabion_record::Tree;
use gabion_record::eve::*;

/// A place in the order of lines: twice the number of the frame and one more at the frame itself;
/// then the first packet of a flow that ends.
pub(crate) type Place = (u64, u64);

#[derive(Clone, Copy, Debug)]
struct Line {
    at: Place,
    output: u16,
    len: u32,
}

/// Lines of one worker for one batch of frames.
#[derive(Clone, Debug, Default)]
pub struct LineBatch {
    bytes: Vec<u8>,
    lines: Vec<Line>,
    at: Place,
    /// Taken by a merge: lines, bytes.
    taken: (usize, usize),
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

    /// Empties it for the next batch; its memory stays.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.lines.clear();
        self.taken = (0, 0);
    }
}

impl Take for LineBatch {
    fn line(&mut self, output: usize, line: &[u8]) {
        let (Ok(output), Ok(len)) = (u16::try_from(output), u32::try_from(line.len())) else {
            return;
        };
        self.bytes.extend_from_slice(line);
        self.lines.push(Line { at: self.at, output, len });
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
    pub fn tally(&self) -> Tally {
        self.formatter.sum()
    }
}

/// Hands the lines of all batches on in packet order.
pub(crate) fn merge(batches: &mut [LineBatch], line: &mut dyn FnMut(usize, &[u8])) {
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
        let b = &mut batches[n];
        while let Some(next) = b.lines.get(b.taken.0).filter(|l| l.at == at) {
            let end = b.taken.1 + next.len as usize;
            line(usize::from(next.output), b.bytes.get(b.taken.1..end).unwrap_or(&[]));
            b.taken = (b.taken.0 + 1, end);
        }
    }
}

impl NetSink for WorkerOutputs {
    fn alert(&mut self, r: &AlertRecord<'_>) {
        self.formatter.alert(r);
    }
    fn app(&mut self, r: &AppRecord<'_>) {
        self.formatter.app(r);
    }
    fn file(&mut self, r: &FileRecord<'_>) {
        self.formatter.file(r);
    }
    fn file_chunk(&mut self, r: &FileChunk<'_>) {
        self.formatter.file_chunk(r);
    }
    fn flow(&mut self, r: &FlowRecord<'_>) {
        self.formatter.flow(r);
    }
    fn anomaly(&mut self, r: &AnomalyRecord<'_>) {
        self.formatter.anomaly(r);
    }
    fn dropped(&mut self, r: &DropRecord<'_>) {
        self.formatter.dropped(r);
    }
    fn packet(&mut self, r: &PacketRecord<'_>) {
        self.formatter.packet(r);
    }
    fn frame(&mut self, r: &FrameRecord<'_>) {
        self.formatter.frame(r);
    }
    fn certificates(&mut self, r: &CertificateRecord<'_>) {
        self.formatter.certificates(r);
    }
    fn metadata(&mut self, h: &Header<'_>) {
        self.formatter.metadata(h);
    }
    fn wire(&mut self, r: &WireRecord<'_>) {
        self.formatter.wire(r);
    }
    fn arp(&mut self, h: &Header<'_>, object: &dyn WriteObject) {
        self.formatter.arp(h, object);
    }
    fn ending(&mut self, first_number: u64) {
        self.go_to((self.formatter.at.0, first_number));
    }
    fn type_config(&self, event_type: &str) -> Option<&Tree> {
        self.formatter.type_config(event_type)
    }
}

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
        let mut seen = Vec::new();
        merge(&mut batches, &mut |_, line| seen.push(String::from_utf8(line.to_vec()).unwrap()));
        assert_eq!(
            seen,
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
        let mut more = 0;
        merge(&mut batches, &mut |_, _| more += 1);
        assert_eq!(more, 0);
    }
}
