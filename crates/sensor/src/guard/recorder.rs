//! Keeps the last seconds of rows, and writes them to a recording around incidents.
//!
//! Rows wait 2 s at the least before they are written, because a gap or a grace period is known only when it ends, and
//! belongs to the row in which it began.

use super::writer::Writer;
use crate::error::Error;
use crate::limits::{GUARD_ROWS_MAX, HISTORY_BYTES_MAX, reached};
use gabion_guard::recording::{
    Bucket, Column, Columns, Packer, XdpColumn, XdpColumns, XdpRow, write_bucket,
    write_bucket_columns, write_head, write_xdp, write_xdp_columns,
};
use gabion_guard::settings::BUCKET_US;
use gabion_record::budget::Budget;
use gabion_record::files::FileOpener;
use gabion_record::ledger::Ledger;
use gabion_runtime::channel::{Capacity, Edge, Load, Receiver};
use gabion_runtime::output::{Existing, OutputFile};
use std::collections::VecDeque;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Time before and after an incident that is written, in microseconds.
const AROUND_US: u64 = 10_000_000;
/// Time that rows wait at the least, in microseconds.
const WAIT_US: u64 = 2_000_000;
/// Bytes of text that are compressed and written together.
const TEXT_BYTES: usize = 64 << 10;
/// Rows that go to the thread of the files together.
const BATCH_ROWS: usize = 256;

/// The rows of the last seconds, and the thread that writes them.
pub(super) struct Recorder {
    rows: VecDeque<Bucket>,
    cpus: usize,
    budget: Budget,
    /// Rows of the throttle's counters that wait.
    xdp: VecDeque<XdpRow>,
    has_xdp: bool,
    to: Option<Writer<Rows>>,
    /// What goes to the thread next.
    batch: Rows,
    /// Everything is written, not only what is around incidents.
    is_always: bool,
    /// Rows before this moment are written.
    until_us: u64,
}

/// What is recorded, and where.
pub(super) struct RecordInto<'a> {
    pub(super) files: &'a FileOpener,
    pub(super) path: &'a Path,
    pub(super) head: &'a [(&'a str, &'a str)],
    pub(super) columns: Columns,
    /// The file of the throttle's counters, where there is one.
    pub(super) xdp_path: Option<PathBuf>,
    /// All rows, not only those around incidents.
    pub(super) is_always: bool,
}

/// Rows on their way to the files.
#[derive(Default)]
struct Rows {
    buckets: Vec<Bucket>,
    xdp: Vec<XdpRow>,
}

impl Rows {
    fn len(&self) -> usize {
        self.buckets.len() + self.xdp.len()
    }
}

impl Load for Rows {
    fn items(&self) -> u64 {
        self.len() as u64
    }

    fn bytes(&self) -> u64 {
        (size_of_val(self.buckets.as_slice()) + size_of_val(self.xdp.as_slice())) as u64
    }
}

/// The files of a recording, which belong to the thread.
struct Files {
    rows: RecordingFile,
    columns: Columns,
    xdp: Option<RecordingFile>,
}

struct RecordingFile {
    path: PathBuf,
    file: OutputFile,
    packer: Packer,
    text: Vec<u8>,
    packed: Vec<u8>,
}

impl Recorder {
    /// A recorder of this many CPUs, which writes nothing yet.
    pub(super) fn new(cpus: usize) -> Recorder {
        Recorder {
            rows: VecDeque::new(),
            cpus: cpus.max(1),
            budget: Budget::standalone("history", HISTORY_BYTES_MAX as u64),
            xdp: VecDeque::new(),
            has_xdp: false,
            to: None,
            batch: Rows::default(),
            is_always: false,
            until_us: 0,
        }
    }

    /// Opens the files, and starts the thread that writes them.
    pub(super) fn write_to(&mut self, o: RecordInto<'_>) -> Result<(), Error> {
        let mut rows = RecordingFile::open(o.files, o.path)?;
        write_head(o.head, &mut rows.text);
        write_bucket_columns(o.columns, &mut rows.text);
        let open = |path| RecordingFile::open(o.files, path);
        let mut xdp = o.xdp_path.as_deref().map(open).transpose()?;
        if let Some(file) = &mut xdp {
            write_xdp_columns(xdp_columns(), &mut file.text);
        }
        self.is_always = o.is_always;
        self.has_xdp = xdp.is_some();
        let files = Files { rows, columns: o.columns, xdp };
        let capacity = Capacity { items: GUARD_ROWS_MAX, bytes: u64::MAX };
        self.to =
            Some(Writer::start("guard recording", capacity, move |from| files.write_all(from))?);
        Ok(())
    }

    /// The stage of the rows that are written.
    pub(super) fn edge(&self) -> Option<&Arc<Edge>> {
        self.to.as_ref().map(Writer::edge)
    }

    /// Keeps a row of the throttle's counters.
    pub(super) fn push_xdp(&mut self, row: &XdpRow) {
        if self.has_xdp && self.reserve(size_of::<XdpRow>()) {
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

    /// Moves on to this moment: passes on what has waited long enough, and drops what no incident needs. What finds no
    /// place on its way to a slow disk stays in the history.
    pub(super) fn advance(&mut self, now_us: u64, is_incident: bool) -> Result<(), Error> {
        if is_incident {
            self.until_us = now_us.saturating_add(AROUND_US);
        }
        let keep_us = if self.is_written(now_us) { WAIT_US } else { AROUND_US };
        let before = now_us.saturating_sub(keep_us);
        while let Some(row) = self.rows.front().copied().filter(|row| row.at_us < before) {
            if self.is_written(row.at_us) {
                if !self.make_place()? {
                    break;
                }
                self.batch.buckets.push(row);
            }
            self.rows.pop_front();
            self.budget.release(size_of::<Bucket>() as u64);
        }
        while let Some(row) = self.xdp.front().copied().filter(|row| row.at_us < before) {
            if self.is_written(row.at_us) {
                if !self.make_place()? {
                    break;
                }
                self.batch.xdp.push(row);
            }
            self.xdp.pop_front();
            self.budget.release(size_of::<XdpRow>() as u64);
        }
        Ok(())
    }

    /// Whether the row of a moment is written.
    fn is_written(&self, at_us: u64) -> bool {
        self.to.is_some() && (self.is_always || at_us < self.until_us)
    }

    /// Makes place for one more row in the batch, which goes to the thread when it is full. False where it can't yet.
    fn make_place(&mut self) -> Result<bool, Error> {
        let Some(to) = self.to.as_mut().filter(|_| self.batch.len() >= BATCH_ROWS) else {
            return Ok(true);
        };
        if !to.has_room(self.batch.items(), self.batch.bytes()) {
            return Ok(false);
        }
        to.send(std::mem::take(&mut self.batch))
    }

    /// Writes the rest, and ends the files. The stage of the rows that were written.
    pub(super) fn finish(mut self) -> Result<Option<(&'static str, Ledger)>, Error> {
        let is_always = self.is_always;
        let is_written = |at_us: u64| is_always || at_us < self.until_us;
        let Some(mut to) = self.to.take() else { return Ok(None) };
        let mut rest = std::mem::take(&mut self.batch);
        rest.buckets.extend(self.rows.iter().filter(|row| is_written(row.at_us)));
        rest.xdp.extend(self.xdp.iter().filter(|row| is_written(row.at_us)));
        to.send_waiting(rest)?;
        to.finish().map(Some)
    }
}

impl Files {
    fn write_all(mut self, from: &Receiver<Rows>) -> Result<(), Error> {
        while let Some(Rows { buckets, xdp }) = from.recv() {
            for row in &buckets {
                write_bucket(row, self.columns, &mut self.rows.text);
            }
            if let Some(file) = &mut self.xdp {
                xdp.iter().for_each(|row| write_xdp(row, xdp_columns(), &mut file.text));
            }
            for file in [Some(&mut self.rows), self.xdp.as_mut()].into_iter().flatten() {
                if file.text.len() >= TEXT_BYTES {
                    file.write()?;
                }
            }
        }
        self.rows.end()?;
        self.xdp.map_or(Ok(()), RecordingFile::end)
    }
}

/// All columns of XDP counters.
fn xdp_columns() -> XdpColumns {
    let mut columns = XdpColumns::default();
    XdpColumn::ALL.iter().for_each(|column| columns.insert(*column));
    columns
}

impl RecordingFile {
    fn open(files: &FileOpener, path: &Path) -> Result<RecordingFile, Error> {
        let failed = |source: std::io::Error| Error::File { path: path.to_owned(), source };
        let file = OutputFile::open(files, path, Existing::Truncate).map_err(failed)?;
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
        let into = RecordInto {
            files: &gabion_runtime::files::direct_opener(),
            path: &path,
            head: &[("budget_percent", "30")],
            columns: columns(),
            xdp_path: None,
            is_always,
        };
        recorder.write_to(into).unwrap();
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
        let (_, ledger) = recorder.finish().unwrap().unwrap();
        assert!(ledger.balance().is_ok() && ledger.shed_total().items == 0);
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
        assert_eq!(times.last(), Some(&7699), "10 s after the incident");
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
        let _ = gabion_record::limits::take_reached();
        let mut recorder = Recorder::new(1);
        let most = HISTORY_BYTES_MAX / size_of::<Bucket>();
        for n in 0..=most as u64 {
            recorder.push(Bucket::new(n, 0));
        }
        assert_eq!(recorder.rows.len(), most);
        assert!(recorder.budget.used() <= HISTORY_BYTES_MAX as u64);
        assert_eq!(
            gabion_record::limits::take_reached().times_reached(&reached::HISTORY_BYTES_MAX),
            1
        );
    }
}
