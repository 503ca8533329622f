//! A transaction: an envelope and its mail.

use super::mime::Mime;
use super::settings::Settings;
use super::tables::{Local, progress};
use super::{limits, log};
use crate::files::FileList;
use crate::transaction::EventList;
use crate::{Buffer, Inspect, LogOptions, Transaction};
use gabion_record::Direction::{self, ToClient, ToServer};
use gabion_record::json::Json;
use std::any::Any;
use std::sync::Arc;

/// The commands and replies between two greetings, resets or mails.
#[derive(Debug)]
pub struct SmtpTx {
    /// Number in its flow.
    pub id: u64,
    /// What the client called itself, in this transaction or before.
    pub helo: Option<Arc<[u8]>>,
    /// Sender, as given after `MAIL FROM:`.
    pub mail_from: Option<Vec<u8>>,
    /// Recipients, as given after `RCPT TO:`.
    pub rcpt_to: Vec<Vec<u8>>,
    /// The mail.
    pub mime: Option<Box<Mime>>,
    /// Attachments, or the mail's raw text.
    pub files: FileList,
    pub(super) events: EventList,
    pub(super) settings: Arc<Settings>,
    pub(super) progress: [u8; 2],
    /// DATA was sent and not refused.
    pub(super) is_data: bool,
}

impl SmtpTx {
    pub(super) fn new(id: u64, helo: Option<Arc<[u8]>>, settings: Arc<Settings>) -> SmtpTx {
        SmtpTx {
            id,
            helo,
            mail_from: None,
            rcpt_to: Vec::new(),
            mime: None,
            files: FileList::default(),
            events: EventList::default(),
            settings,
            progress: [progress::STARTED; 2],
            is_data: false,
        }
    }

    pub(super) fn reach(&mut self, direction: Direction, progress: u8) {
        let slot = &mut self.progress[direction.index()];
        *slot = (*slot).max(progress);
    }

    pub(super) fn complete(&mut self) {
        self.progress = [progress::COMPLETE; 2];
    }

    /// Ended in both directions.
    pub fn is_done(&self) -> bool {
        self.progress == [progress::COMPLETE; 2]
    }

    pub(super) fn add_recipient(&mut self, name: &[u8]) {
        if limits::reached::RECIPIENTS_MAX.has_room(self.rcpt_to.len()) {
            self.rcpt_to.push(name.to_vec());
        }
    }

    /// Bytes held.
    pub fn bytes_held(&self) -> usize {
        size_of::<SmtpTx>()
            + self.mail_from.as_ref().map_or(0, Vec::capacity)
            + self.rcpt_to.iter().map(|r| r.capacity() + size_of::<Vec<u8>>()).sum::<usize>()
            + self.mime.as_ref().map_or(0, |m| size_of::<Mime>() + m.bytes_held())
            + self.files.bytes_held()
    }
}

impl Transaction for SmtpTx {
    fn id(&self) -> u64 {
        self.id
    }

    fn progress(&self, direction: Direction) -> u8 {
        self.progress[direction.index()]
    }

    fn buffer(
        &self,
        local: u16,
        direction: Direction,
        index: usize,
        how: Inspect,
    ) -> Option<Buffer<'_>> {
        let local = Local::from_number(local).filter(|_| direction == ToServer)?;
        let file = || self.files.files.get(index);
        let mime = self.mime.as_deref();
        let first = |name| if index == 0 { mime?.header(name) } else { None };
        let data = match local {
            Local::Helo => self.helo.as_deref().filter(|_| index == 0),
            Local::MailFrom => self.mail_from.as_deref().filter(|_| index == 0),
            Local::RcptTo => self.rcpt_to.get(index).map(Vec::as_slice),
            Local::From => first("from"),
            Local::Subject => first("subject"),
            Local::To => first("to"),
            Local::Cc => first("cc"),
            Local::Date => first("date"),
            Local::MessageId => first("message-id"),
            Local::XMailer => first("x-mailer"),
            Local::Url => mime?.urls().get(index),
            Local::Received => mime?.all_headers("received").nth(index),
            Local::FileName => Some(file()?.name.as_slice()),
            Local::FileMagic => return file()?.magic_window(how),
            Local::FileData => {
                let file = file()?;
                let (data, start) =
                    file.window(how.inspected, how.at_end || how.inline, self.settings.windows)?;
                let is_complete = file.state != crate::files::FileState::Open || how.at_end;
                return Some(Buffer { data, start, is_complete });
            }
        };
        data.map(Buffer::whole)
    }

    fn streams(&self, local: u16, direction: Direction) -> usize {
        match Local::from_number(local) {
            Some(Local::FileMagic | Local::FileData) if direction == ToServer => {
                self.files.files.len()
            }
            _ => 1,
        }
    }

    fn events(&self) -> &[u16] {
        self.events.codes()
    }

    fn files(&self, direction: Direction) -> Option<&FileList> {
        (direction == ToServer).then_some(&self.files)
    }

    fn files_mut(&mut self, direction: Direction) -> Option<&mut FileList> {
        (direction != ToClient).then_some(&mut self.files)
    }

    fn log(&self, json: &mut Json, _: LogOptions<'_>) -> bool {
        log::write(self, json);
        true
    }

    fn companion(&self) -> Option<&'static str> {
        Some("email")
    }

    fn log_companion(&self, json: &mut Json, how: LogOptions<'_>) -> bool {
        self.mime.as_deref().is_some_and(|m| log::write_email(m, json, how))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
