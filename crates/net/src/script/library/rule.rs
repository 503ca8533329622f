//! `suricata.rule`: the rule at hand.

use super::{Library, member};
use crate::script::call::{Answer, Call, Held, Member};
use gabion_rules::{Action, Ruleset, Signature};

pub(super) const LIBRARY: Library = Library {
    name: "rule",
    class: "suricata:rule:mt",
    functions: &[member("get_rule", get_rule)],
    methods: METHODS,
};

const METHODS: &[Member] = &[
    member("action", |c| with(c, |c, _, s| c.give(action(s.action)))),
    member("class_description", |c| {
        with(c, |c, set, s| c.give(Some(set.category(s)).filter(|t| !t.is_empty())))
    }),
    member("gid", |c| with(c, |c, _, s| c.give(s.gid))),
    member("msg", |c| with(c, |c, set, s| c.give(s.msg.map(|_| set.msg(s))))),
    member("priority", |c| with(c, |c, _, s| c.give(s.priority))),
    member("rev", |c| with(c, |c, _, s| c.give(s.rev))),
    member("sid", |c| with(c, |c, _, s| c.give(s.sid))),
];

fn get_rule(c: &mut Call<'_, '_>) -> Answer {
    match c.scene.rule {
        Some(_) => c.give(c.object(Held::Nothing)?),
        None => c.nil("no rule"),
    }
}

fn with(
    c: &mut Call<'_, '_>,
    f: impl FnOnce(&Call<'_, '_>, &Ruleset, &Signature) -> Answer,
) -> Answer {
    match (c.scene.set, c.scene.rule) {
        (Some(set), Some(s)) => f(c, set, s),
        _ => c.nil("no rule"),
    }
}

fn action(a: Action) -> &'static str {
    match a {
        Action::Pass => "pass",
        Action::Drop => "drop",
        Action::RejectSource | Action::RejectDestination | Action::RejectBoth => "reject",
        Action::Alert | Action::Config | Action::Accept => "alert",
    }
}
