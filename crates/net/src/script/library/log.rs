//! `suricata.log`: messages among the engine's own.

use super::{Library, member};
use crate::script::Severity;
use crate::script::call::{Answer, Call, Member};

pub(super) const LIBRARY: Library =
    Library { name: "log", class: "suricata:log", functions: FUNCTIONS, methods: &[] };

const FUNCTIONS: &[Member] = &[
    member("error", |c| say(c, Severity::Error)),
    member("warning", |c| say(c, Severity::Warning)),
    member("notice", |c| say(c, Severity::Notice)),
    member("info", |c| say(c, Severity::Info)),
    member("perf", |c| say(c, Severity::Debug)),
    member("config", |c| say(c, Severity::Debug)),
    member("debug", |c| say(c, Severity::Debug)),
];

fn say(c: &mut Call<'_, '_>, severity: Severity) -> Answer {
    let text = c.name(0)?;
    c.setup.voice.send_message(severity, "lua-log", &text);
    c.give(())
}
