//! Keeps the last seconds of rows, and writes them to a recording around incidents.
//!
//! Rows wait 2 s at the least before they are written, because a gap or a grace period is known only when it ends, and
//! belongs to the row in which it began.

use crate::error::Error;
use crate::limits::{HISTORY_BYTES_MAX, reached};
use gabion_guard::recording::{
    Bucket, Column, Columns, Packer, XdpColumn, XdpColumns, XdpRow, write_bucket,
    write_bucket_columns, write_head, write_xdp, write_xdp_columns,
};
use gabion_guard::settings::BUCKET_US;
use gabion_record::budget::Budget;
use gabion_runtime::output::{Existing, OutputFile};
use std::collections::VecDeque;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Time before and after an incident that is written, in microseconds.
const AROUND_US: u64 = 10_000_000;
/// Time that rows wait at the least, in microseconds.
const WAIT_US: u64 = 2_000_000;
/// Bytes of text that are compressed and written together.
const TEXT_BYTES: usize = 64 << 10;

/// The rows of the last seconds, and the file that they go to.
pub(super) struct Recorder {
    rows: VecDeque<Bucket>,
    cpus: usize,
    budget: Budget,
    file: Option<RecordingFile>,
    /// Everything is written, not only what is around incidents.
    is_always: bool,
    /// Until when rows are written.
    until_us: u64,
    columns: Columns,
    /// Rows of the throttle's counters that wait, and their file.
    xdp: VecDeque<XdpRow>,
    xdp_file: Option<RecordingFile>,
}

struct RecordingFile {
    path: PathBuf,
    file: OutputFile,
    packer: Packer,
    text: Vec<u8>,
    packed: Vec<u8>,
}

impl Recorder {
    /// A recorder of this many CPUs, into a file if one is named.
    pub(super) fn new(cpus: usize) -> Recorder {
        Recorder {
            rows: VecDeque::new(),
            cpus: cpus.max(1),
            budget: Budget::standalone("history", HISTORY_BYTES_MAX as u64),
            file: None,
            is_always: false,
            until_us: 0,
            columns: Columns::default(),
            xdp: VecDeque::new(),
            xdp_file: None,
        }
    }

    /// Writes to a file: all rows, or those around incidents.
    pub(super) fn write_to(
        &mut self,
        path: &Path,
        head: &[(&str, &str)],
        columns: Columns,
        is_always: bool,
    ) -> Result<(), Error> {
        let mut file = RecordingFile::open(path)?;
        write_head(head, &mut file.text);
        write_bucket_columns(columns, &mut file.text);
        self.is_always = is_always;
        self.columns = columns;
        self.file = Some(file);
        Ok(())
    }

    /// Writes the throttle's counters to a second file, next to the first.
    pub(super) fn write_xdp_to(&mut self, path: &Path) -> Result<(), Error> {
        let mut file = RecordingFile::open(path)?;
        write_xdp_columns(xdp_columns(), &mut file.text);
        self.xdp_file = Some(file);
        Ok(())
    }

    /// Keeps a row of the throttle's counters.
    pub(super) fn push_xdp(&mut self, row: &XdpRow) {
        if self.xdp_file.is_some() && self.reserve(size_of::<XdpRow>()) {
            self.xdp.push_back(*row);
        }
    }

    /// Keeps a row. Rows come in order of time and CPU.
    pub(super) fn push(&mut self, row: Bucket) {
        if self.reserve(size_of::<Bucket>()) {
            self.rows.push_back(row);
        }
    }

    /// Takes bytes of the budget for a row; the oldest rows go where there are not enough.
    fn reserve(&mut self, bytes: usize) -> bool {
        while !self.budget.try_reserve(bytes as u64) {
            if self.rows.pop_front().is_none() {
                return false;
            }
            reached::HISTORY_BYTES_MAX.count();
            self.budget.release(size_of::<Bucket>() as u64);
        }
        true
    }

    /// Sets the value of the row of a moment, if it is larger than what the row has.
    pub(super) fn amend(&mut self, at_us: u64, cpu: usize, column: Column, value: u32) {
        let Some(first) = self.rows.front() else { return };
        let Some(since) = at_us.checked_sub(first.at_us) else { return };
        let Ok(buckets) = usize::try_from(since / BUCKET_US) else { return };
        let place = buckets.saturating_mul(self.cpus).saturating_add(cpu);
        if let Some(row) = self.rows.get_mut(place)
            && usize::from(row.cpu) == cpu
        {
            row.set(column, row.or_zero(column).max(value));
        }
    }

    /// Moves on to this moment: writes what has waited long enough, and drops what no incident needs.
    pub(super) fn advance(&mut self, now_us: u64, is_incident: bool) -> Result<(), Error> {
        if is_incident {
            self.until_us = now_us.saturating_add(AROUND_US);
        }
        let is_written = self.is_always || now_us < self.until_us;
        let keep_us = if is_written && self.file.is_some() { WAIT_US } else { AROUND_US };
        let before = now_us.saturating_sub(keep_us);
        while self.rows.front().is_some_and(|row| row.at_us < before) {
            let row = self.rows.pop_front();
            self.budget.release(size_of::<Bucket>() as u64);
            if let (true, Some(row), Some(file)) = (is_written, row, &mut self.file) {
                write_bucket(&row, self.columns, &mut file.text);
            }
        }
        while self.xdp.front().is_some_and(|row| row.at_us < before) {
            let row = self.xdp.pop_front();
            self.budget.release(size_of::<XdpRow>() as u64);
            if let (true, Some(row), Some(file)) = (is_written, row, &mut self.xdp_file) {
                write_xdp(&row, xdp_columns(), &mut file.text);
            }
        }
        for file in [&mut self.file, &mut self.xdp_file].into_iter().flatten() {
            if file.text.len() >= TEXT_BYTES {
                file.write()?;
            }
        }
        Ok(())
    }

    /// Writes the rest, and ends the file.
    pub(super) fn finish(mut self) -> Result<(), Error> {
        let is_written = self.is_always || self.until_us > 0;
        if let Some(mut file) = self.file.take() {
            for row in self.rows.iter().filter(|_| is_written) {
                write_bucket(row, self.columns, &mut file.text);
            }
            file.end()?;
        }
        if let Some(mut file) = self.xdp_file.take() {
            for row in self.xdp.iter().filter(|_| is_written) {
                write_xdp(row, xdp_columns(), &mut file.text);
            }
            file.end()?;
        }
        Ok(())
    }
}

/// All columns of XDP counters.
fn xdp_columns() -> XdpColumns {
    let mut columns = XdpColumns::default();
    XdpColumn::ALL.iter().for_each(|column| columns.insert(*column));
    columns
}

impl RecordingFile {
    fn open(path: &Path) -> Result<RecordingFile, Error> {
        let failed = |source: std::io::Error| Error::File { path: path.to_owned(), source };
        let file = OutputFile::open(path, Existing::Truncate).map_err(failed)?;
        let packer = Packer::new().map_err(|e| failed(std::io::Error::other(e)))?;
        let path = path.to_path_buf();
        Ok(RecordingFile { path, file, packer, text: Vec::new(), packed: Vec::new() })
    }

    /// Compresses and writes what has come, so that the file so far can be read.
    fn write(&mut self) -> Result<(), Error> {
        let RecordingFile { packer, text, packed, .. } = self;
        packed.clear();
        let done = packer.pack(text, packed).and_then(|()| packer.flush(packed));
        text.clear();
        done.map_err(|e| self.failed(std::io::Error::other(e)))?;
        self.file.write_all(&self.packed).map_err(|e| self.failed(e))
    }

    fn end(mut self) -> Result<(), Error> {
        self.write()?;
        let RecordingFile { path, mut file, packer, mut packed, .. } = self;
        packed.clear();
        let failed = |source: std::io::Error| Error::File { path: path.clone(), source };
        packer.finish(&mut packed).map_err(|e| failed(std::io::Error::other(e)))?;
        file.write_all(&packed).map_err(failed)
    }

    fn failed(&self, source: std::io::Error) -> Error {
        Error::RecordingFile { path: self.path.clone(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_guard::recording::{Reader, Recording};

    fn columns() -> Columns {
        let mut columns = Columns::default();
        [Column::RxUs, Column::UserGapUs].into_iter().for_each(|column| columns.insert(column));
        columns
    }

    fn record(is_always: bool, incident_at: Option<u64>) -> Recording {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv.zst");
        let mut recorder = Recorder::new(2);
        recorder.write_to(&path, &[("budget_percent", "30")], columns(), is_always).unwrap();
        for n in 0..10_000u64 {
            for cpu in 0..2 {
                let mut row = Bucket::new(n * BUCKET_US, cpu);
                row.set(Column::RxUs, 7);
                recorder.push(row);
            }
            if n == 5100 {
                recorder.amend(5000 * BUCKET_US + 1, 1, Column::UserGapUs, 400_000);
            }
            recorder.advance(n * BUCKET_US, incident_at == Some(n)).unwrap();
        }
        recorder.finish().unwrap();
        let mut reader = Reader::new();
        reader.feed(&std::fs::read(path).unwrap()).unwrap();
        reader.end_file().unwrap();
        reader.finish().unwrap_or_default()
    }

    #[test]
    fn rows_around_an_incident_are_written_and_a_gap_is_in_the_row_in_which_it_began() {
        let recording = record(false, Some(5200));
        assert_eq!(recording.head_value("budget_percent"), Some("30"));
        let times: Vec<u64> = recording.buckets.iter().map(|row| row.at_us / BUCKET_US).collect();
        assert_eq!(
            times.first(),
            Some(&2699),
            "10 s before the incident, and the row that just waited"
        );
        assert!(*times.last().unwrap() >= 7199, "8 s after the incident: {:?}", times.last());
        let gaps: Vec<(u64, u16)> = recording
            .buckets
            .iter()
            .filter(|row| row.get(Column::UserGapUs) == Some(400_000))
            .map(|row| (row.at_us / BUCKET_US, row.cpu))
            .collect();
        assert_eq!(gaps, [(5000, 1)]);
    }

    #[test]
    fn all_rows_are_written_if_asked_for_and_none_without_an_incident() {
        assert_eq!(record(true, None).buckets.len(), 20_000);
        assert!(record(false, None).buckets.is_empty());
    }

    #[test]
    fn the_history_is_bounded_for_any_number_of_cpus() {
        let _ = gabion_record::limits::take();
        let mut recorder = Recorder::new(1);
        let most = HISTORY_BYTES_MAX / size_of::<Bucket>();
        for n in 0..=most as u64 {
            recorder.push(Bucket::new(n, 0));
        }
        assert_eq!(recorder.rows.len(), most);
        assert!(recorder.budget.used() <= HISTORY_BYTES_MAX as u64);
        assert_eq!(gabion_record::limits::take().of(&reached::HISTORY_BYTES_MAX), 1);
    }
}
