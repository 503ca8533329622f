//! What an alert says of its context: the process of its event, and the ancestors of this process.

use crate::limits::ANCESTORS_MAX;
use gabion_record::fields::{Argument, Fields, Scratch, Value, ids};
use gabion_record::syscall::ProcessLine;

/// The process of an event and its ancestors, the nearest first.
pub(super) fn processes(fields: &dyn Fields, scratch: &mut Scratch, to: &mut Vec<ProcessLine>) {
    to.clear();
    for distance in 0..ANCESTORS_MAX {
        let argument = if distance == 0 { Argument::None } else { Argument::Index(distance) };
        let [pid, name, command] = if distance == 0 {
            [ids::PROC_PID, ids::PROC_NAME, ids::PROC_CMDLINE]
        } else {
            [ids::PROC_APID, ids::PROC_ANAME, ids::PROC_ACMDLINE]
        };
        let pid = match fields.field(pid, argument, scratch) {
            Ok(Value::Signed(pid)) => pid,
            Ok(Value::Text(digits)) => std::str::from_utf8(digits)
                .ok()
                .and_then(|digits| digits.parse().ok())
                .unwrap_or(-1),
            _ => break,
        };
        let mut text = |field| match fields.field(field, argument, scratch) {
            Ok(Value::Text(text)) => text.to_vec(),
            _ => Vec::new(),
        };
        let line = ProcessLine { pid, name: text(name), command: text(command) };
        if line.name.is_empty() && line.command.is_empty() {
            break;
        }
        to.push(line);
    }
}
