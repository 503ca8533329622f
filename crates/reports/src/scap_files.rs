//! Captures of system calls: what is in one, what was made of its events, what rewriting it did.

use crate::limits;
use gabion_record::budget::ByteSize;
use gabion_record::json::Json;
use gabion_record::ledger::Ledger;
use gabion_record::thousands::thousands;
use gabion_sensor::syscalls::{Rewritten, ScapAccount, Summary};
use std::fmt::Write as _;

/// A report on one capture of system calls.
#[derive(Clone, Copy, Debug)]
pub struct ScapReport<'r> {
    account: &'r ScapAccount,
    summary: Option<&'r Summary>,
    rewritten: Option<&'r Rewritten>,
}

impl<'r> ScapReport<'r> {
    /// A report on events that were printed.
    pub const fn of_events(account: &'r ScapAccount) -> ScapReport<'r> {
        ScapReport { account, summary: None, rewritten: None }
    }

    /// A report on what is in a capture.
    pub const fn of_summary(summary: &'r Summary) -> ScapReport<'r> {
        ScapReport { account: &summary.account, summary: Some(summary), rewritten: None }
    }

    /// A report on a capture that was rewritten.
    pub const fn of_rewriting(rewritten: &'r Rewritten) -> ScapReport<'r> {
        ScapReport { account: &rewritten.account, summary: None, rewritten: Some(rewritten) }
    }

    /// Lines for people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if let Some(summary) = self.summary {
            let _ = writeln!(text, "{}: system calls", summary.path.display());
        }
        write_account(&mut text, self.account);
        if let Some(summary) = self.summary {
            write_summary(&mut text, summary);
        }
        if let Some(rewritten) = self.rewritten {
            write_rewritten(&mut text, rewritten);
        }
        text
    }

    /// One JSON object, with its line end.
    pub fn json(&self) -> String {
        let mut json = Json::new();
        self.write_json(&mut json);
        json.into_line()
    }

    /// The same as an object in another one's array.
    pub(crate) fn write_json(&self, json: &mut Json) {
        json.open();
        if let Some(summary) = self.summary {
            summary_members(json, summary);
        }
        if let Some(Rewritten { written, bytes, .. }) = self.rewritten {
            json.number("written", written.events);
            json.number("bytes", *bytes);
            json.number("differing", written.differing);
            json.number("completed", written.completed);
        }
        account_members(json, self.account);
        json.close();
    }
}

/// The size of a file, and the outcome of its events.
fn write_account(text: &mut String, account: &ScapAccount) {
    let read = &account.read;
    let bytes = read.events.received().bytes + read.lists.received().bytes;
    let _ = writeln!(
        text,
        "{} events, {} entries of lists, {}",
        thousands(read.events.received().items),
        thousands(read.lists.received().items),
        ByteSize(bytes)
    );
    let merged = account.merged.as_ref();
    let _ = write!(text, "passed {}", thousands(account.passed()));
    if let Some(merged) = merged {
        let _ = write!(text, ", merged {} into their exit events", thousands(merged.merged));
    }
    let none = Ledger::new();
    let mut sheds: Vec<_> = read.events.sheds().collect();
    sheds.extend(merged.map_or(&none, |m| &m.ledger).sheds());
    let shed: u64 = sheds.iter().map(|(_, tally)| tally.items).sum();
    let _ = write!(text, ", shed {}", thousands(shed));
    for (n, (reason, tally)) in sheds.iter().enumerate() {
        let sign = if n == 0 { ':' } else { ',' };
        let _ = write!(text, "{sign} {} {}", reason.name(), thousands(tally.items));
    }
    text.push('\n');
    if let Some(merged) = merged.filter(|m| m.without_place > 0) {
        let _ = writeln!(
            text,
            "{} of the merged have values that their exit event has no place for (execveat: folder and path)",
            thousands(merged.without_place)
        );
    }
}

fn write_summary(text: &mut String, summary: &Summary) {
    if let Some((first, last)) = summary.span {
        let _ = writeln!(text, "{} to {}", first.iso(), last.iso());
    }
    let _ = writeln!(text, "{} threads at the end", thousands(summary.threads));
    for (name, count) in summary.calls.iter().take(limits::CALLS_SHOWN_MAX) {
        let _ = writeln!(text, "{:>12}  {name}", thousands(*count));
    }
    let further = summary.calls.len().saturating_sub(limits::CALLS_SHOWN_MAX);
    if further > 0 {
        let _ = writeln!(text, "{further} further calls: gabion events prints every event");
    }
}

fn write_rewritten(text: &mut String, rewritten: &Rewritten) {
    let written = &rewritten.written;
    let _ =
        writeln!(text, "wrote {} events, {}", thousands(written.events), ByteSize(rewritten.bytes));
    if written.differing > 0 {
        let _ = writeln!(
            text,
            "{} events have values of their enter event where it differed, as Falco prefers them",
            thousands(written.differing)
        );
    }
    if written.completed > 0 {
        let _ = writeln!(
            text,
            "{} events have values of their enter event that they lacked",
            thousands(written.completed)
        );
    }
}

fn summary_members(json: &mut Json, summary: &Summary) {
    json.field("file", summary.path.to_string_lossy().as_bytes());
    json.number("threads", summary.threads);
    if let Some((first, last)) = summary.span {
        json.moment("first", first);
        json.moment("last", last);
    }
    json.open_key("calls");
    for (name, count) in &summary.calls {
        json.number(name, *count);
    }
    json.close();
}

fn account_members(json: &mut Json, account: &ScapAccount) {
    json.number("passed", account.passed());
    if let Some(merged) = &account.merged {
        json.number("merged", merged.merged);
        json.number("without_place", merged.without_place);
    }
    json.open_key("unknown_types");
    for (kind, count) in account.read.unknown_types.by_type() {
        json.number(&kind.to_string(), *count);
    }
    json.close();
    json.open_key("stages");
    for stage in account.ledgers().by_stage() {
        json.open_key(&stage.stage);
        let mut fields = Vec::new();
        stage.ledger.write_json_fields(&mut fields);
        json.members(&fields);
        json.close();
    }
    json.close();
    json.open_array_key("notes");
    for note in account.notes() {
        json.item(note);
    }
    json.close_array();
}
