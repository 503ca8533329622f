//! Fields of containers and pods, from control groups and from what runtimes reported; and fields about trust.

use gabion_record::fields::{Argument, FieldId, Fields as _, Missing, Scratch, Value, ids};
use gabion_scap::{Toctou, types};

use super::{Field, View, text};
use crate::container::{last_hex_run, pod_uid};
use crate::decode::Raw;
use crate::state::enter_open;

impl View<'_> {
    /// Writes the identifier of the thread's container, `host` if it is in none.
    pub(super) fn container_id(&self, to: &mut Vec<u8>) -> Result<(), Missing> {
        let thread = self.thread()?;
        let id = if self.state.options.container_stand_in {
            last_hex_run(thread.cgroups.bytes())
        } else {
            thread.container().map(|container| container.id())
        };
        to.extend_from_slice(id.unwrap_or(b"host"));
        Ok(())
    }

    /// Fields of containers.
    pub(super) fn container_field<'a>(
        &'a self,
        field: FieldId,
        argument: Argument<'_>,
        scratch: &'a mut Scratch,
    ) -> Field<'a> {
        let thread = self.thread()?;
        if field == ids::CONTAINER_ID {
            self.container_id(scratch.text())?;
            return Ok(scratch.as_text());
        }
        if self.state.options.container_stand_in {
            return Err(Missing::LookupFailed);
        }
        let cgroups = thread.cgroups.bytes();
        let Some(container) = thread.container() else {
            return match field {
                ids::CONTAINER_NAME => Ok(Value::Text(b"host")),
                _ => Err(Missing::NotApplicable),
            };
        };
        match field {
            ids::CONTAINER_FULL_ID => Ok(Value::Text(container.full_id)),
            ids::CONTAINER_TYPE => Ok(Value::Text(container.runtime.name().as_bytes())),
            ids::CONTAINER_START_TS if thread.pidns_start_ns != 0 => {
                Ok(Value::Time(thread.pidns_start_ns))
            }
            ids::CONTAINER_DURATION if thread.pidns_start_ns != 0 => {
                Ok(Value::Duration(self.event.ts_ns.saturating_sub(thread.pidns_start_ns)))
            }
            ids::K8S_POD_UID | ids::K8S_POD_ID if pod_uid(cgroups, scratch.text()) => {
                Ok(scratch.as_text())
            }
            _ => self.state.containers.field(container.id(), field, argument, scratch),
        }
    }

    /// Our own fields: why something is missing, and whether a name can be trusted.
    pub(super) fn trust_field<'a>(
        &'a self,
        field: FieldId,
        argument: Argument<'_>,
        scratch: &'a mut Scratch,
    ) -> Field<'a> {
        match field {
            ids::EVT_MISSING => {
                let missing = match argument {
                    Argument::Key(name) => {
                        let (of, argument) = named_field(name);
                        let of = of.filter(|of| *of != ids::EVT_MISSING);
                        let of = of.ok_or(Missing::NotApplicable)?;
                        self.field(of, argument, scratch).err()
                    }
                    Argument::None | Argument::Index(_) => self.missing_context(),
                };
                let missing = missing.ok_or(Missing::NotApplicable)?;
                Ok(Value::Text(missing.name().as_bytes()))
            }
            ids::EVT_TOCTOU => {
                let is_covered = gabion_scap::is_checked(self.event.kind().number);
                match (is_covered, self.event.live.toctou, self.event.enter) {
                    (false, ..) if gabion_scap::is_read_at_exit(self.event.kind().number) => {
                        Ok(Value::Text(b"exit-only"))
                    }
                    (false, ..) => Err(Missing::NotApplicable),
                    (true, Some(toctou), _) => Ok(Value::Text(toctou.name().as_bytes())),
                    (true, None, None) => Ok(Value::Text(b"exit-only")),
                    (true, None, Some(_)) if self.is_mismatch() => Ok(Value::Text(b"mismatch")),
                    // A file of another program holds no name of the kernel's own: two reads that agree prove nothing.
                    (true, None, Some(_)) => Err(Missing::NeverSeen),
                }
            }
            ids::EVT_TOCTOU_CAUSE => match (self.event.live.toctou, self.event.enter) {
                (Some(Toctou::ExitOnly(cause)), _) => Ok(Value::Text(cause.text().as_bytes())),
                (None, None) if gabion_scap::is_checked(self.event.kind().number) => {
                    Ok(Value::Text(b"the file has no enter event of the call"))
                }
                _ if gabion_scap::is_read_at_exit(self.event.kind().number) => {
                    Ok(Value::Text(gabion_scap::READ_AT_EXIT.as_bytes()))
                }
                _ => Err(Missing::NotApplicable),
            },
            ids::EVT_OPENED_PATH => self.opened_path(),
            ids::EVT_TRIED_NAME if self.is_by_opened() => Ok(Value::Text(b"opened")),
            ids::EVT_TRIED_NAME => Ok(Value::Text(b"given")),
            ids::EVT_TOCTOU_ENTER if self.is_mismatch() => {
                if let Some(enter) = enter_open(self.event) {
                    return Ok(Value::Text(enter.name));
                }
                let address = self.event.enter.and_then(|enter| enter.param(1));
                match address {
                    Some(gabion_scap::Param::Address(address)) => text(scratch, |to| {
                        super::arguments::put_address(to, &address);
                    }),
                    _ => Err(Missing::NeverSeen),
                }
            }
            _ => Err(Missing::NotApplicable),
        }
    }

    /// The path of the file that the kernel opened.
    fn opened_path(&self) -> Field<'_> {
        let opened = self.event.live.opened;
        if !opened.is_empty() {
            return Ok(Value::Text(opened));
        }
        let is_open = gabion_scap::is_checked(self.event.kind().number)
            && self.event.kind().number != types::CONNECT_X
            && self.state.is_fd_in_table();
        match self.event.live.toctou {
            _ if !is_open => Err(Missing::NotApplicable),
            // A file keeps no second copy of a name that the kernel confirmed.
            Some(Toctou::Verified) => self.fd_field_name(),
            _ => Err(Missing::NeverSeen),
        }
    }

    /// Whether the values of enter and exit differ.
    fn is_mismatch(&self) -> bool {
        if self.event.kind().number != types::CONNECT_X {
            return self.state.current.is_mismatch;
        }
        let enter = self.event.enter.map(|enter| Raw::of_values(&enter));
        let enter = enter.as_ref().and_then(|args| args.raw(1));
        let exit = self.event.raw(3).filter(|raw| !raw.is_empty());
        enter.zip(exit).is_some_and(|(enter, exit)| enter != exit)
    }

    /// Why the context of the event, its process, is missing.
    fn missing_context(&self) -> Option<Missing> {
        match self.thread() {
            Ok(thread) if thread.is_look_up_failed => Some(Missing::LookupFailed),
            Ok(thread) if thread.is_unseen() => Some(Missing::NeverSeen),
            Ok(_) => None,
            Err(Missing::NotApplicable) => None,
            Err(missing) => Some(missing),
        }
    }
}

/// A field with its argument as rules write it: `proc.aname[2]`, `evt.arg.name`, `proc.env[HOME]`.
fn named_field(name: &str) -> (Option<FieldId>, Argument<'_>) {
    let (base, argument) = match name.strip_suffix(']').and_then(|name| name.split_once('[')) {
        Some((base, argument)) => (base, argument),
        None if FieldId::by_name(name).is_some() => {
            return (FieldId::by_name(name), Argument::None);
        }
        None => match name.rsplit_once('.') {
            Some((base, argument)) => (base, argument),
            None => return (None, Argument::None),
        },
    };
    let argument = argument.parse().map_or(Argument::Key(argument), Argument::Index);
    (FieldId::by_name(base), argument)
}
