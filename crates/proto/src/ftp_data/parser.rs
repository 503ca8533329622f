//! A data connection that a control connection announced: one transaction, one file.

use super::tables::buffer;
use crate::files::{File, FileList, FileState, FileWants, Windows};
use crate::ftp::command::Transfer;
use crate::tx_list::TxTable;
use crate::{Buffer, Input, Inspect, LogOptions, Outcome, ParseContext, Parser, Transaction};
use gabion_record::Direction::{self, ToClient, ToServer};
use gabion_record::json::Json;
use std::any::Any;

/// When file data is due: Suricata has no settings for these connections.
const WINDOWS: Windows = Windows { content_limit: 100_000, min_size: 32_768, window: 4_096 };

/// Name of a file that the server names itself (Suricata's word).
const UNNAMED: &[u8] = b"<stou>";

/// What the control connection announces about a connection to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Announcement {
    pub(crate) transfer: Transfer,
    /// Direction of the data in the announced connection.
    pub(crate) direction: Direction,
    /// File name, may be empty.
    pub(crate) name: Vec<u8>,
}

impl Announcement {
    /// As [`crate::Expectation::payload`] carries it.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let transfer = Transfer::ALL.iter().position(|t| *t == self.transfer).unwrap_or(0) as u8;
        let direction = u8::from(self.direction == ToClient);
        [&[transfer, direction], self.name.as_slice()].concat()
    }

    fn decode(bytes: &[u8]) -> Option<Announcement> {
        let (head, name) = bytes.split_at_checked(2)?;
        Some(Announcement {
            transfer: *Transfer::ALL.get(usize::from(head[0]))?,
            direction: if head[1] == 0 { ToServer } else { ToClient },
            name: name.to_vec(),
        })
    }
}

/// The transaction of a data connection.
#[derive(Debug, Default)]
pub struct FtpDataTx {
    announced: Option<Announcement>,
    /// Data came in the direction announced.
    has_begun: bool,
    is_over: bool,
    files: FileList,
}

impl FtpDataTx {
    fn about(&self) -> Option<&Announcement> {
        self.announced.as_ref().filter(|_| self.has_begun)
    }

    /// The command that announced the connection, once data came as announced.
    pub fn command(&self) -> Option<Transfer> {
        self.about().map(|a| a.transfer)
    }

    fn name(&self) -> Option<&[u8]> {
        let a = self.about().filter(|a| a.transfer.is_file())?;
        Some(if a.name.is_empty() { UNNAMED } else { &a.name })
    }

    fn is_of(&self, direction: Direction) -> bool {
        self.announced.as_ref().is_some_and(|a| a.direction == direction)
    }
}

impl Transaction for FtpDataTx {
    fn id(&self) -> u64 {
        0
    }

    fn progress(&self, direction: Direction) -> u8 {
        u8::from(self.is_over || (self.has_begun && !self.is_of(direction)))
    }

    fn buffer(
        &self,
        local: u16,
        direction: Direction,
        index: usize,
        how: Inspect,
    ) -> Option<Buffer<'_>> {
        let file = self.files.files.get(index).filter(|_| self.is_of(direction))?;
        if local == buffer::FILE_NAME {
            return Some(Buffer::whole(&file.name));
        }
        if local == buffer::FILE_MAGIC {
            return file.magic_window(how);
        }
        let (data, start) = file.window(how.inspected, how.at_end || how.inline, WINDOWS)?;
        let is_complete = file.state != FileState::Open || how.at_end;
        Some(Buffer { data, start, is_complete })
    }

    fn events(&self) -> &[u16] {
        &[]
    }

    fn files(&self, direction: Direction) -> Option<&FileList> {
        self.is_of(direction).then_some(&self.files)
    }

    fn files_mut(&mut self, direction: Direction) -> Option<&mut FileList> {
        self.is_of(direction).then_some(&mut self.files)
    }

    fn log(&self, json: &mut Json, _: LogOptions<'_>) -> bool {
        if let Some(name) = self.name() {
            json.field("filename", name);
        }
        if let Some(command) = self.command() {
            json.field_plain("command", command.name());
        }
        true
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Parser of a data connection.
#[derive(Debug, Default)]
pub struct FtpData {
    announced: Option<Announcement>,
    tx: Option<FtpDataTx>,
    has_opened: bool,
}

impl FtpData {
    fn begin(&mut self, cx: &ParseContext<'_>) -> Option<&mut FtpDataTx> {
        if !self.has_opened {
            self.has_opened = true;
            self.tx = Some(FtpDataTx { announced: self.announced.clone(), ..Default::default() });
        }
        let tx = self.tx.as_mut()?;
        if tx.is_of(cx.direction) && !tx.has_begun {
            tx.has_begun = true;
            if let Some(name) = tx.name() {
                let wants = FileWants::from(cx.requirements);
                let file = File::open(1, name, cx.direction, wants);
                tx.files.files.push(file);
            }
        }
        Some(tx)
    }
}

impl TxTable for FtpData {
    fn first_id(&self) -> u64 {
        u64::from(self.has_opened && self.tx.is_none())
    }

    fn next_id(&self) -> u64 {
        u64::from(self.has_opened)
    }

    fn at(&self, id: u64) -> Option<&dyn Transaction> {
        self.tx.as_ref().filter(|_| id == 0).map(|tx| tx as &dyn Transaction)
    }

    fn at_mut(&mut self, id: u64) -> Option<&mut dyn Transaction> {
        self.tx.as_mut().filter(|_| id == 0).map(|tx| tx as &mut dyn Transaction)
    }

    fn give_up(&mut self, id: u64) {
        if id == 0 {
            self.tx = None;
        }
    }
}

impl Parser for FtpData {
    fn parse(&mut self, cx: &mut ParseContext<'_>, input: Input<'_>) -> Outcome {
        let (bytes, gap, eof) = match input {
            Input::Data { bytes, eof } => (bytes, 0, eof),
            Input::Gap { len } => (&[][..], len, false),
        };
        let tx = if bytes.is_empty() && gap == 0 { self.tx.as_mut() } else { self.begin(cx) };
        let Some(tx) = tx.filter(|tx| tx.is_of(cx.direction)) else { return Outcome::Done };
        if let Some(file) = tx.files.current() {
            file.append(bytes);
            if gap > 0 {
                file.gap(gap);
            }
            if eof {
                let has_gaps = file.has_gaps;
                file.close(if has_gaps { FileState::Truncated } else { FileState::Closed });
            }
        }
        tx.is_over |= eof;
        Outcome::Done
    }

    fn txs(&self) -> &dyn TxTable {
        self
    }

    fn txs_mut(&mut self) -> &mut dyn TxTable {
        self
    }

    fn finish(&mut self, direction: Direction) {
        if let Some(tx) = &mut self.tx
            && (tx.is_of(direction) || !tx.has_begun)
        {
            tx.is_over = true;
        }
    }

    fn bytes_held(&self) -> usize {
        let announced = self.announced.as_ref().map_or(0, |a| a.name.capacity());
        size_of::<FtpData>()
            + 2 * announced
            + self.tx.as_ref().map_or(0, |tx| tx.files.bytes_held())
    }

    fn expect(&mut self, payload: &[u8]) {
        self.announced = Announcement::decode(payload);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Endpoints;

    fn run(announced: Announcement, input: &[(Direction, &[u8])]) -> FtpData {
        let ends = Endpoints::default();
        let mut p = FtpData::default();
        p.expect(&announced.encode());
        for (direction, bytes) in input {
            let mut cx = ParseContext::new(0, *direction, &ends);
            cx.requirements.file_data = true;
            p.parse(&mut cx, Input::Data { bytes, eof: false });
        }
        for direction in Direction::BOTH {
            let mut cx = ParseContext::new(0, direction, &ends);
            p.parse(&mut cx, Input::Data { bytes: &[], eof: true });
        }
        p
    }

    fn record(p: &FtpData) -> String {
        let mut json = Json::new();
        json.open();
        p.tx(0).unwrap().log(&mut json, LogOptions::default());
        json.close();
        String::from_utf8(json.take_bytes()).unwrap()
    }

    #[test]
    fn a_file_as_announced() {
        // Objects as Suricata 8.0.7 wrote them.
        for (transfer, name, object) in [
            (Transfer::Retr, "f", r#"{"filename":"f","command":"RETR"}"#),
            (Transfer::Stou, "", r#"{"filename":"<stou>","command":"STOU"}"#),
            (Transfer::List, "", r#"{"command":"LIST"}"#),
        ] {
            let a = Announcement { transfer, direction: ToClient, name: name.into() };
            let p = run(a, &[(ToServer, b"no"), (ToClient, b"he"), (ToClient, b"llo")]);
            assert_eq!(record(&p), object);
            let tx = p.tx(0).unwrap();
            assert_eq!((tx.progress(ToServer), tx.progress(ToClient)), (1, 1));
            let files = &tx.files(ToClient).unwrap().files;
            if transfer.is_file() {
                assert_eq!((files[0].size, files[0].state), (5, FileState::Closed));
                assert_eq!(files[0].content(), (&b"hello"[..], 0));
            } else {
                assert!(files.is_empty());
            }
        }
    }

    #[test]
    fn data_the_other_way_is_no_file() {
        let a = Announcement { transfer: Transfer::Retr, direction: ToClient, name: b"f".into() };
        let p = run(a, &[(ToServer, b"no")]);
        assert_eq!(record(&p), "{}");
        assert!(p.tx(0).unwrap().files(ToClient).unwrap().files.is_empty());
    }
}
