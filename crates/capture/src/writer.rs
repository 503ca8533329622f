//! Writes pcap files: the capture of one alert's flow, and the rotating packet log.
//!
//! Both are bounded: a writer by the bytes of its file, the rotation by the number of files. A
//! frame that does not fit is refused and the caller counts it; nothing waits.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use gabion_record::files::{FileOpener, OpenMode};

use crate::packed::{PackedFile, Packing};
use crate::pcap::{FILE_HEADER, MAGIC_NS, MAGIC_US, RECORD_HEADER};

/// The resolution of a pcap file's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// Microseconds: every reader knows it.
    Micro,
    /// Nanoseconds.
    Nano,
}

/// The outcome for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Written {
    /// It was written.
    Whole,
    /// It was written, cut to the snap length.
    Cut,
    /// The file would exceed its limit.
    Full,
    /// Its link type is not the file's: pcap has one for all frames.
    OtherLink,
}

/// Writes one pcap file, little endian.
#[derive(Debug)]
pub struct PcapWriter<W: Write> {
    out: W,
    resolution: Resolution,
    link: u16,
    snaplen: u32,
    bytes_written: u64,
    bytes_max: u64,
}

impl<W: Write> PcapWriter<W> {
    /// Writes the header. `snaplen` 0 means 262,144; `bytes_max` bounds the file, header
    /// included.
    ///
    /// # Errors
    /// The error of the output.
    pub fn new(
        mut out: W,
        link: u16,
        resolution: Resolution,
        snaplen: u32,
        bytes_max: u64,
    ) -> io::Result<PcapWriter<W>> {
        let snaplen = if snaplen == 0 { crate::limits::CAPLEN_MAX } else { snaplen };
        let magic = match resolution {
            Resolution::Micro => MAGIC_US,
            Resolution::Nano => MAGIC_NS,
        };
        // Version 2.4; time zone and accuracy are always 0.
        let words = [magic, 2 | 4 << 16, 0, 0, snaplen, u32::from(link)];
        let mut header = [0; FILE_HEADER];
        fill_words(&mut header, &words);
        out.write_all(&header)?;
        let bytes_written = FILE_HEADER as u64;
        Ok(PcapWriter { out, resolution, link, snaplen, bytes_written, bytes_max })
    }

    /// Writes one frame with its time in nanoseconds since the epoch.
    ///
    /// # Errors
    /// The error of the output; the file may then end inside a record.
    pub fn write(
        &mut self,
        ts_ns: u64,
        link: u16,
        wire_len: u32,
        data: &[u8],
    ) -> io::Result<Written> {
        if link != self.link {
            return Ok(Written::OtherLink);
        }
        let kept = data.get(..self.snaplen as usize).unwrap_or(data);
        let len = (RECORD_HEADER + kept.len()) as u64;
        if self.bytes_written.saturating_add(len) > self.bytes_max {
            return Ok(Written::Full);
        }
        let fraction = match self.resolution {
            Resolution::Micro => ts_ns % 1_000_000_000 / 1000,
            Resolution::Nano => ts_ns % 1_000_000_000,
        };
        let caplen = kept.len() as u32;
        let wire_len = wire_len.max(u32::try_from(data.len()).unwrap_or(u32::MAX));
        // Seconds are 32 bits in this format: they wrap in 2106.
        let words = [(ts_ns / 1_000_000_000) as u32, fraction as u32, caplen, wire_len];
        let mut header = [0; RECORD_HEADER];
        fill_words(&mut header, &words);
        self.out.write_all(&header)?;
        self.out.write_all(kept)?;
        self.bytes_written += len;
        Ok(if kept.len() < data.len() { Written::Cut } else { Written::Whole })
    }

    /// The output.
    pub fn out(&self) -> &W {
        &self.out
    }

    /// Bytes written so far, the header included.
    pub fn bytes_written(&self) -> u64 {
        self.bytes_written
    }

    /// Flushes the output's buffer.
    ///
    /// # Errors
    /// The error of the output.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Flushes and returns the output.
    ///
    /// # Errors
    /// The error of the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

fn fill_words(out: &mut [u8], words: &[u32]) {
    for (slot, word) in out.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *slot = word.to_le_bytes();
    }
}

/// Names of the files of a packet log, from the time of their first frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileNames {
    name: String,
    with_micros: bool,
}

impl FileNames {
    /// `NAME.SECONDS`, or `NAME.SECONDS.MICROSECONDS`. In a name with `%` the time replaces `%t`,
    /// and the number of the writer, 1, replaces `%n` and `%i`.
    pub fn new(name: &str, with_micros: bool) -> FileNames {
        FileNames { name: name.to_owned(), with_micros }
    }

    fn at(&self, ts_ns: u64) -> String {
        let seconds = ts_ns / 1_000_000_000;
        let time = if self.with_micros {
            format!("{seconds}.{:06}", ts_ns % 1_000_000_000 / 1000)
        } else {
            seconds.to_string()
        };
        if self.name.contains('%') {
            self.name.replace("%n", "1").replace("%i", "1").replace("%t", &time)
        } else {
            format!("{}.{time}", self.name)
        }
    }
}

/// How much a packet log may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RotationLimits {
    /// Bytes of one file.
    pub file_bytes: u64,
    /// Files; at least one.
    pub files: usize,
}

/// A packet log: `PREFIX.SECONDS` files (the time of their first frame). A new file begins when the
/// current one is full or a frame has another link type; the oldest is removed beyond the limit.
#[derive(Debug)]
pub struct RotatingPcap {
    opener: FileOpener,
    folder: PathBuf,
    names: FileNames,
    resolution: Resolution,
    snaplen: u32,
    limits: RotationLimits,
    packing: Packing,
    current: Option<PcapWriter<PackedFile>>,
    files: VecDeque<PathBuf>,
    /// Time for the name of the next file, if not that of its first frame.
    seen_ns: Option<u64>,
}

impl RotatingPcap {
    /// A packet log in an existing folder, whose files `opener` creates; none is created before the first frame.
    pub fn new(
        opener: FileOpener,
        folder: &Path,
        names: FileNames,
        resolution: Resolution,
        snaplen: u32,
        limits: RotationLimits,
    ) -> RotatingPcap {
        RotatingPcap {
            opener,
            folder: folder.to_path_buf(),
            names,
            resolution,
            snaplen,
            limits,
            packing: Packing::None,
            current: None,
            files: VecDeque::new(),
            seen_ns: None,
        }
    }

    /// The same with packed files. The limit of their size applies before they are packed.
    pub fn packed(self, packing: Packing) -> RotatingPcap {
        RotatingPcap { packing, ..self }
    }

    /// Notes a frame, written or not: a file that does not exist yet is named after the first one.
    pub fn note_frame(&mut self, ts_ns: u64) {
        if self.current.is_none() {
            self.seen_ns.get_or_insert(ts_ns);
        }
    }

    /// Writes one frame and begins a new file if needed. Returns `Full` only for a frame that is
    /// too large for any file.
    ///
    /// # Errors
    /// The error of the file system; the next frame tries a new file.
    pub fn write(
        &mut self,
        ts_ns: u64,
        link: u16,
        wire_len: u32,
        data: &[u8],
    ) -> io::Result<Written> {
        if let Some(current) = &mut self.current {
            match current.write(ts_ns, link, wire_len, data) {
                Ok(written @ (Written::Whole | Written::Cut)) => return Ok(written),
                Ok(Written::Full | Written::OtherLink) => {}
                Err(error) => {
                    self.current = None;
                    return Err(error);
                }
            }
        }
        let kept =
            data.len().min(if self.snaplen == 0 { usize::MAX } else { self.snaplen as usize });
        if (FILE_HEADER + RECORD_HEADER + kept) as u64 > self.limits.file_bytes {
            return Ok(Written::Full);
        }
        self.begin_file(ts_ns, link)?;
        match &mut self.current {
            Some(current) => current.write(ts_ns, link, wire_len, data),
            None => Ok(Written::Full),
        }
    }

    /// The written files that were not removed, oldest first.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(PathBuf::as_path)
    }

    /// Writes the buffered bytes.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn flush(&mut self) -> io::Result<()> {
        self.current.as_mut().map_or(Ok(()), PcapWriter::flush)
    }

    /// Ends the current file if it was moved away; the next frame begins another.
    ///
    /// # Errors
    /// The error of the file system for the last frames of the moved file.
    pub fn reopen(&mut self) -> io::Result<()> {
        if self.files.back().is_none_or(|path| path.exists()) {
            return Ok(());
        }
        self.files.pop_back();
        self.current.take().map_or(Ok(()), |moved| moved.finish().map(|_| ()))
    }

    fn begin_file(&mut self, ts_ns: u64, link: u16) -> io::Result<()> {
        if let Some(full) = self.current.take() {
            full.finish()?;
        }
        while self.files.len() >= self.limits.files.max(1) {
            if let Some(oldest) = self.files.pop_front() {
                match fs::remove_file(&oldest) {
                    // Another program may have removed it.
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    Ok(()) | Err(_) => {}
                }
            }
        }
        let (path, file) = self.create(self.seen_ns.unwrap_or(ts_ns))?;
        self.seen_ns = None;
        self.files.push_back(path);
        let out = PackedFile::new(file, self.packing);
        let file_bytes = self.limits.file_bytes;
        self.current = Some(PcapWriter::new(out, link, self.resolution, self.snaplen, file_bytes)?);
        Ok(())
    }

    /// Creates a file that did not exist: further names of one second get a number.
    fn create(&self, ts_ns: u64) -> io::Result<(PathBuf, File)> {
        let mut number = 0_u32;
        let (first, suffix) = (self.names.at(ts_ns), self.packing.suffix());
        loop {
            let name = match number {
                0 => format!("{first}{suffix}"),
                n => format!("{first}.{n}{suffix}"),
            };
            let path = self.folder.join(name);
            match self.opener.open(&path, OpenMode::CreateNew) {
                Ok(file) => return Ok((path, file)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 10_000 => {
                    number += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }
}
