//! The fields of an event: what Falco's rules and sysdig's filters ask for, from the state after the event.
//!
//! One file for each group of fields. Values are those of Falco's libs (schema 4.5.1); `docs/syscall-differences.md`
//! lists where they differ on purpose. Nothing is put together before it is asked for.

mod arguments;
mod container;
mod descriptor;
mod event;
mod fspath;
mod process;
mod time;
mod user;

use gabion_record::fields::{Argument, FieldId, Fields, Missing, Scratch, Value, ids};
use gabion_scap::Event;

use crate::state::{EventFd, State};
use crate::thread::Thread;

/// The value of a field, or why there is none.
type Field<'a> = Result<Value<'a>, Missing>;

/// An event with the state after it.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub(crate) state: &'a State,
    pub(crate) event: &'a Event<'a>,
    /// The name of the opened file is the path of the kernel's file, not the name that the call gave.
    is_by_opened: bool,
}

impl State {
    /// The fields of the event that was applied last.
    pub fn view<'a>(&'a self, event: &'a Event<'a>) -> View<'a> {
        View { state: self, event, is_by_opened: false }
    }
}

impl<'v> View<'v> {
    /// The same event by the path of the file that the kernel opened, if that is another one than the name that the
    /// call gave: a rule on a file is tried with both, so that neither a link nor a flip of the name hides it.
    pub fn by_opened(&self) -> Option<View<'v>> {
        let opened = self.event.live.opened;
        let is_another = !opened.is_empty()
            && self.state.event_fd().is_none_or(|fd| fd.name.bytes() != opened)
            && self.state.current.fd != EventFd::Own;
        is_another.then_some(View { is_by_opened: true, ..*self })
    }

    /// The path of the kernel's file, if this view shows it as the name.
    pub(crate) fn opened_name(&self) -> Option<&'v [u8]> {
        self.is_by_opened.then_some(self.event.live.opened)
    }

    /// Whether this view shows the path of the kernel's file as the name.
    pub(crate) const fn is_by_opened(&self) -> bool {
        self.is_by_opened
    }
}

impl<'v> View<'v> {
    /// The thread of the event, if what is known of it can be trusted.
    fn thread(&self) -> Result<&'v Thread, Missing> {
        self.checked(self.state.thread())
    }

    /// The main thread of the event's process; the thread itself if that one is not known.
    fn main_or_self(&self) -> Result<&'v Thread, Missing> {
        let own = self.thread()?;
        match self.state.main_thread() {
            Some(main) if main.is_doubtful || (main.tid != own.tid && self.is_loss_open()) => {
                Err(Missing::Shed)
            }
            Some(main) => Ok(main),
            None if self.is_any_lost() => Err(Missing::Shed),
            None => Ok(own),
        }
    }

    /// Another thread by its number, if what is known of it can be trusted.
    fn other(&self, tid: i64) -> Result<Option<&'v Thread>, Missing> {
        let thread = self.state.threads.get(tid);
        let is_doubtful = self.is_loss_open()
            || thread.is_some_and(|thread| thread.is_doubtful)
            || (thread.is_none() && self.is_any_lost());
        if is_doubtful { Err(Missing::Shed) } else { Ok(thread) }
    }

    /// Whether events were lost whose thread is not known: what depends on another thread is not given.
    fn is_loss_open(&self) -> bool {
        self.state.loss.is_open()
    }

    /// Whether any event was lost.
    fn is_any_lost(&self) -> bool {
        self.state.loss.is_any()
    }

    /// Whether session, working directory and the number of descriptors of the process may be others by now.
    fn is_rest_doubtful(&self) -> bool {
        let doubtful =
            |thread: Option<&Thread>| thread.is_none_or(|thread| thread.is_any_doubtful());
        self.is_any_lost()
            && (self.is_loss_open()
                || doubtful(self.state.thread())
                || doubtful(self.state.main_thread()))
    }

    fn checked(&self, thread: Option<&'v Thread>) -> Result<&'v Thread, Missing> {
        match thread {
            Some(thread) if thread.is_doubtful => Err(Missing::Shed),
            Some(thread) => Ok(thread),
            None => Err(self.no_thread()),
        }
    }

    /// Why the event has no thread.
    fn no_thread(&self) -> Missing {
        if self.state.threads.is_shed(self.event.tid) {
            Missing::Shed
        } else if self.event.tid > 0 && self.state.current.is_of_thread {
            Missing::NeverSeen
        } else {
            Missing::NotApplicable
        }
    }

    /// Why a thread of this number is not known.
    fn no_thread_of(&self, tid: i64) -> Missing {
        match tid {
            _ if self.state.threads.is_shed(tid) => Missing::Shed,
            0 => Missing::NotApplicable,
            _ => Missing::NeverSeen,
        }
    }
}

impl View<'_> {
    /// A field by its group.
    fn field_of_group<'a>(
        &'a self,
        field: FieldId,
        argument: Argument<'_>,
        scratch: &'a mut Scratch,
    ) -> Field<'a> {
        let index = field.index();
        if index < ids::FD_NUM.index() {
            self.event_field(field, argument, scratch)
        } else if index < ids::FS_PATH_NAME.index() {
            self.fd_field(field, argument, scratch)
        } else if index < ids::EVT_NUM.index() {
            self.path_field(field, scratch)
        } else if index < ids::GROUP_GID.index() {
            self.common_field(field, scratch)
        } else if index < ids::PROC_EXE.index() {
            self.user_field(field, scratch)
        } else if index < ids::USER_UID.index() {
            self.process_field(field, argument, scratch)
        } else if index < ids::UTIL_CNT.index() {
            self.user_field(field, scratch)
        } else if index < ids::CONTAINER_ID.index() {
            Err(Missing::NotApplicable)
        } else if index < ids::EVT_MISSING.index() {
            self.container_field(field, argument, scratch)
        } else {
            self.trust_field(field, argument, scratch)
        }
    }
}

impl Fields for View<'_> {
    fn field<'a>(
        &'a self,
        field: FieldId,
        argument: Argument<'_>,
        scratch: &'a mut Scratch,
    ) -> Result<Value<'a>, Missing> {
        match self.field_of_group(field, argument, scratch) {
            // What would describe the thread was looked for.
            Err(Missing::NeverSeen)
                if self.state.thread().is_some_and(|thread| thread.is_look_up_failed) =>
            {
                Err(Missing::LookupFailed)
            }
            value => value,
        }
    }

    fn event_type(&self) -> u16 {
        self.event.kind().number
    }

    fn event_number(&self) -> u64 {
        self.event.number
    }

    fn event_time(&self) -> u64 {
        self.event.ts_ns
    }
}

/// A text that is put together; without `write` saying so there is none.
fn text<'a>(scratch: &'a mut Scratch, write: impl FnOnce(&mut Vec<u8>)) -> Field<'a> {
    write(scratch.text());
    Ok(scratch.as_text())
}

/// Writes a number as decimal digits.
fn put_number(to: &mut Vec<u8>, number: i64) {
    use std::io::Write as _;
    // Writing to a vector never fails.
    let _ = write!(to, "{number}");
}
