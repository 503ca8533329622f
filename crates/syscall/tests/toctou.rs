//! Whether a name can be trusted: the values of enter and exit of a call, and what a call without an enter event says.

mod made;

use gabion_record::budget::Budget;
use gabion_record::fields::{Argument, FieldId, Fields as _, Missing, Scratch, Value, ids};
use gabion_scap::table::event_type;
use gabion_scap::{Cause, Event, LiveValues, Toctou, Values, types};
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

/// What a live source knew of an open stands in the fields, and a second view has the kernel's path as the name.
#[test]
fn an_open_of_another_file_has_two_views() {
    let mut state = State::new(Options::default(), Budget::standalone("threads", 1 << 20));
    let exit: Made = open(7, 3, "/etc/mtab");
    let mut apply = |toctou, opened: &'static [u8]| {
        let live = LiveValues { toctou: Some(toctou), opened, netns: 0 };
        let event = Event { live, ..exit.event(1) };
        state.apply(&event);
        let given = state.view(&event);
        let shown = |id| {
            let text = |view: gabion_syscall::View<'_>| match view.field(
                id,
                Argument::None,
                &mut Scratch::new(),
            ) {
                Ok(Value::Text(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
                other => format!("{other:?}"),
            };
            (text(given), given.by_opened().map(text))
        };
        let key = |view: gabion_syscall::View<'_>| {
            let argument = Argument::Key("name");
            match view.field(ids::EVT_ARG, argument, &mut Scratch::new()) {
                Ok(Value::Text(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
                other => format!("{other:?}"),
            }
        };
        let arguments = (key(given), given.by_opened().map(key));
        (
            shown(ids::EVT_TOCTOU).0,
            shown(ids::EVT_OPENED_PATH).0,
            shown(ids::EVT_TOCTOU_CAUSE).0,
            [
                shown(ids::FD_NAME),
                shown(ids::FD_FILENAME),
                shown(ids::FD_DIRECTORY),
                shown(ids::FS_PATH_NAME),
                shown(ids::EVT_TRIED_NAME),
                arguments,
            ],
        )
    };
    let two = |a: &str, b: &str| (a.to_owned(), Some(b.to_owned()));
    let (toctou, path, cause, views) = apply(Toctou::Linked, b"/proc/7/mounts");
    assert_eq!((&*toctou, &*path, &*cause), ("linked", "/proc/7/mounts", "Err(NotApplicable)"));
    let wanted = [
        two("/etc/mtab", "/proc/7/mounts"),
        two("mtab", "mounts"),
        two("/etc", "/proc/7"),
        two("/etc/mtab", "/proc/7/mounts"),
        two("given", "opened"),
        two("/etc/mtab", "/proc/7/mounts"),
    ];
    assert_eq!(views, wanted);
    let (toctou, path, _, views) = apply(Toctou::Verified, b"");
    assert_eq!((&*toctou, &*path), ("verified", "/etc/mtab"));
    assert_eq!(views[0], ("/etc/mtab".to_owned(), None), "one name, one view");
    let (toctou, _, cause, _) = apply(Toctou::ExitOnly(Cause::Ia32), b"");
    assert_eq!(toctou, "exit-only");
    assert_eq!(cause, Cause::Ia32.text());
}

/// Paths that are read at the end of the call alone say so, from a live source as from a file.
#[test]
fn paths_that_are_read_at_the_end_say_so() {
    let mut state = State::new(Options::default(), Budget::standalone("threads", 1 << 20));
    let result = || 0_i64.to_le_bytes().to_vec();
    for (kind, values) in [
        (types::RENAME_X, vec![result(), text("/a"), text("/b")]),
        (types::UNLINK_2_X, vec![result(), text("/a")]),
        (types::LINK_2_X, vec![result(), text("/a"), text("/b")]),
        (types::MKDIR_2_X, vec![result(), text("/a"), u32s(0o755)]),
        (types::CHMOD_X, vec![result(), text("/a"), u32s(0o755)]),
        (types::CHDIR_X, vec![result(), text("/a")]),
        (types::MOUNT_X, vec![result(), text("d"), text("/a"), text("ext4"), u32s(0)]),
    ] {
        let made = Made::new(kind, 7, &values);
        let event = made.event(1);
        state.apply(&event);
        assert_eq!(field(&state, &event, ids::EVT_TOCTOU), Ok("exit-only".into()), "{kind}");
        let cause = field(&state, &event, ids::EVT_TOCTOU_CAUSE);
        assert_eq!(cause, Ok(gabion_scap::READ_AT_EXIT.into()), "{kind}");
    }
    let close = Made::new(types::CLOSE_X, 7, &[result(), result()]);
    let event = close.event(2);
    state.apply(&event);
    assert_eq!(field(&state, &event, ids::EVT_TOCTOU), Err(Missing::NotApplicable));
}
