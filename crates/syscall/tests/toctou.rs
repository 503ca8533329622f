//! Whether a name can be trusted: the values of enter and exit of a call, and what a call without an enter event says.

mod made;

use gabion_record::budget::Budget;
use gabion_record::fields::{Argument, FieldId, Fields as _, Missing, Scratch, Value, ids};
use gabion_scap::table::event_type;
use gabion_scap::{Event, Values, types};
use gabion_syscall::{Options, State};
use made::{Made, open, text, u32s};

/// The value of a field as text.
fn field(state: &State, event: &Event<'_>, field: FieldId) -> Result<String, Missing> {
    match state.view(event).field(field, Argument::None, &mut Scratch::new())? {
        Value::Text(bytes) => Ok(String::from_utf8_lossy(bytes).into_owned()),
        other => Ok(format!("{other:?}")),
    }
}

/// Applies an open of a name whose enter event said another name and other flags.
fn open_after(enter: Option<(&str, u32)>) -> Vec<Result<String, Missing>> {
    let mut state = State::new(Options::default(), Budget::standalone("threads", 1 << 20));
    let enter = enter.map(|(name, flags)| [text(name), u32s(flags), u32s(0)]);
    let lengths: Vec<u8> = enter
        .iter()
        .flatten()
        .flat_map(|parameter| (parameter.len() as u16).to_le_bytes())
        .collect();
    let bytes = enter.iter().flatten().flatten().copied().collect::<Vec<u8>>();
    let exit: Made = open(7, 3, "/etc/passwd");
    let values = Values::new(event_type(types::OPEN_E).unwrap(), &lengths, &bytes);
    let event = Event { enter: enter.is_some().then_some(values), ..exit.event(1) };
    state.apply(&event);
    [ids::EVT_TOCTOU, ids::EVT_TOCTOU_ENTER, ids::FD_NAME]
        .into_iter()
        .map(|id| field(&state, &event, id))
        .collect()
}

#[test]
fn values_that_differ_are_both_shown() {
    let (mismatch, enter, name) = (Ok("mismatch".into()), Ok("/tmp/a".into()), Ok("/tmp/a".into()));
    assert_eq!(open_after(Some(("/tmp/a", 1))), [mismatch, enter, name], "another name");
    let flags = open_after(Some(("/etc/passwd", 2)));
    assert_eq!(flags[0], Ok("mismatch".into()), "other flags");
}

#[test]
fn values_that_agree_prove_nothing_and_a_missing_enter_event_says_so() {
    assert_eq!(
        open_after(Some(("/etc/passwd", 1)))[..2],
        [Err(Missing::NeverSeen), Err(Missing::NotApplicable)]
    );
    assert_eq!(open_after(None)[0], Ok("exit-only".into()));
}
