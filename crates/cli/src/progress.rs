//! How far a run is, in one line on a terminal, which is cut to its width and never wraps.

use gabion_record::budget::ByteSize;
use gabion_runtime::clock;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::{Duration, Instant};

/// How often the line changes.
const EVERY: Duration = Duration::from_millis(100);

/// The line, on standard error.
pub(crate) struct Progress {
    bar: ProgressBar,
    said: Option<Instant>,
}

impl Progress {
    /// Over that many bytes, or not known yet how many.
    pub(crate) fn new(total: Option<u64>) -> Progress {
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
        // `wide_msg` is cut to the columns that are there, however few.
        if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
            bar.set_style(style);
        }
        Progress { bar, said: None }
    }

    /// `done` bytes are read, of `total`.
    pub(crate) fn at(&mut self, done: u64, total: Option<u64>) {
        if let Some(total) = total {
            self.bar.set_length(total);
        }
        self.bar.set_position(done);
        let now = clock::now();
        if self.said.is_some_and(|said| now.duration_since(said) < EVERY) {
            return;
        }
        self.said = Some(now);
        self.bar.set_message(line(done, self.bar.length(), self.bar.per_sec(), self.bar.eta()));
    }

    /// Shows only that it is alive.
    pub(crate) fn tick(&self) {
        self.bar.tick();
    }

    /// Takes the line away.
    pub(crate) fn end(self) {
        self.bar.finish_and_clear();
    }
}

/// The most important part comes first: the rest may be cut.
fn line(done: u64, total: Option<u64>, per_second: f64, left: Duration) -> String {
    let done_text = ByteSize(done);
    let per_second = ByteSize(per_second.max(0.0) as u64);
    match total.filter(|total| *total > 0) {
        Some(total) => {
            let percent = u128::from(done.min(total)) * 100 / u128::from(total);
            let (total, left) = (ByteSize(total), left.as_secs());
            format!("{percent} %, {done_text} of {total}, {per_second}/s, {left} s left")
        }
        None => format!("{done_text}, {per_second}/s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_begins_with_what_matters() {
        let left = Duration::from_secs(7);
        let said = line(512 << 20, Some(1 << 30), 64e6, left);
        assert_eq!(said, "50 %, 512 MiB of 1 GiB, 61.0 MiB/s, 7 s left");
        assert_eq!(line(3, Some(0), 0.0, left), "3 B, 0 B/s");
        assert_eq!(
            line(3 << 10, Some(2 << 10), 0.0, left),
            "100 %, 3 KiB of 2 KiB, 0 B/s, 7 s left"
        );
    }
}
