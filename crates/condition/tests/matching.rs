//! Rules are tried only on events of the types that they name, in the order of the files, and equal parts cost once.

mod made;

use gabion_condition::compile::Filter;
use gabion_condition::rules::{Loader, Match, Matching, RuleMatcher, RuleSet, Selection, Settings};
use gabion_record::fields::{Missing, ids};
use made::{Made, MadeEvent};

/// The exits of openat and close in Falco's event table.
const OPENAT: u16 = 307;
const CLOSE: u16 = 5;

fn rules() -> RuleSet {
    let rule = |name: &str, condition: &str| {
        format!(
            "- rule: {name}\n  desc: d\n  condition: {condition}\n  output: o\n  priority: INFO\n  tags: [{name}]\n"
        )
    };
    let file = [
        rule("first", "evt.type = openat and proc.name = cat"),
        rule("second", "evt.type in (open, openat) and proc.name = cat and fd.num > 2"),
        rule("third", "evt.type = connect and proc.name = cat"),
    ];
    let mut loader = Loader::new(Settings::default());
    assert!(loader.load("rules.yaml", &file.concat()).is_successful());
    loader.into_rules()
}

fn event(event_type: u16) -> MadeEvent {
    let values = [("proc.name", Made::Text("cat")), ("fd.num", Made::Signed(3))];
    MadeEvent { event_type, ..MadeEvent::new(&values) }
}

#[test]
fn no_rule_is_tried_on_a_type_that_it_does_not_name() {
    let rules = rules();
    let (mut matcher, mut matched) = (RuleMatcher::new(&rules), Vec::new());
    for _ in 0..100 {
        matcher.matches(&rules, &event(CLOSE), Matching::All, &mut matched);
        assert!(matched.is_empty());
    }
    assert_eq!((matcher.tried(), matcher.comparisons()), (0, 0));
    matcher.matches(&rules, &event(OPENAT), Matching::All, &mut matched);
    assert_eq!(matched, [0, 1]);
    // Two comparisons of evt.type, one of proc.name that both rules share, one of fd.num.
    assert_eq!((matcher.tried(), matcher.comparisons()), (2, 4));
}

#[test]
fn the_first_rule_of_the_files_wins_unless_all_are_asked_for() {
    let mut rules = rules();
    let (mut matcher, mut matched) = (RuleMatcher::new(&rules), Vec::new());
    matcher.matches(&rules, &event(OPENAT), Matching::First, &mut matched);
    assert_eq!(matched, [0]);
    rules.select(&[Selection::Rule("fir*".into(), false)]);
    assert_eq!(rules.enabled(), 2);
    matcher.matches(&rules, &event(OPENAT), Matching::First, &mut matched);
    assert_eq!(matched, [1]);
    rules.select(&[Selection::Rule("*".into(), false), Selection::Tag("third".into(), true)]);
    matcher.matches(&rules, &event(OPENAT), Matching::First, &mut matched);
    assert!(matched.is_empty() && rules.enabled() == 1);
}

/// A rule on a file fires for an open of it by whatever name, and once.
#[test]
fn a_rule_that_matches_by_either_view_is_written_once() {
    let rules = rules();
    let (mut matcher, mut matched) = (RuleMatcher::new(&rules), Vec::new());
    let named =
        |name| MadeEvent::new(&[("proc.name", Made::Text(name)), ("fd.num", Made::Signed(3))]);
    let (cat, dog) = (named("cat"), named("dog"));
    let by = |rule, is_by_second| Match { rule, is_by_second };
    matcher.matches_either(&rules, (&cat, Some(&dog)), Matching::All, &mut matched);
    assert_eq!(matched, [by(0, false), by(1, false)]);
    matcher.matches_either(&rules, (&dog, Some(&cat)), Matching::All, &mut matched);
    assert_eq!(matched, [by(0, true), by(1, true)]);
    matcher.matches_either(&rules, (&dog, Some(&cat)), Matching::First, &mut matched);
    assert_eq!(matched, [by(0, true)]);
    matcher.matches_either(&rules, (&dog, None), Matching::All, &mut matched);
    assert_eq!(matched, []);
    matcher.matches_either(&rules, (&cat, Some(&cat)), Matching::All, &mut matched);
    assert_eq!(matched, [by(0, false), by(1, false)]);
}

/// What a rule asked for and did not get is listed with its reason, unless the event has no such thing.
#[test]
fn missing_values_that_a_rule_asked_for_are_listed() {
    let file = "- rule: r\n  desc: d\n  condition: evt.type = openat and (fd.name = /a or proc.name = cat)\n  \
                output: o %user.name %fd.name %proc.pname %fd.sip\n  priority: INFO\n";
    let mut loader = Loader::new(Settings::default());
    assert!(loader.load("rules.yaml", file).is_successful());
    let rules = loader.into_rules();
    let event = MadeEvent::new(&[
        ("proc.name", Made::Text("cat")),
        ("fd.name", Made::Missing(Missing::Shed)),
        ("proc.pname", Made::Missing(Missing::NeverSeen)),
        ("user.name", Made::Missing(Missing::LookupFailed)),
    ]);
    let (mut matcher, mut missing) = (RuleMatcher::new(&rules), Vec::new());
    matcher.missing(&rules, 0, &event, &mut missing);
    let wanted = [
        (ids::FD_NAME, Missing::Shed),
        (ids::USER_NAME, Missing::LookupFailed),
        (ids::PROC_PNAME, Missing::NeverSeen),
    ];
    assert_eq!(missing, wanted, "fd.sip does not apply to a file");
    let whole = MadeEvent::new(&[
        ("proc.name", Made::Text("cat")),
        ("fd.name", Made::Text("/b")),
        ("proc.pname", Made::Text("sh")),
        ("user.name", Made::Text("root")),
    ]);
    matcher.missing(&rules, 0, &whole, &mut missing);
    assert_eq!(missing, []);
}

/// Falco's `in` wants all values of a list, its `intersects` one.
#[test]
fn all_values_of_a_list_are_in_a_set_and_one_is_common() {
    let event = MadeEvent::new(&[("fd.types", Made::List(vec!["file", "ipv4"]))]);
    let holds = |text: &str| Filter::new(text).unwrap().matches(&event);
    assert!(holds("fd.types in (file, ipv4, pipe)") && !holds("fd.types in (file, pipe)"));
    assert!(holds("fd.types intersects (file, pipe)") && !holds("fd.types intersects (pipe)"));
    let many = "(a, b, c, d, e, ipv4)";
    assert!(
        holds(&format!("fd.types intersects {many}")) && !holds(&format!("fd.types in {many}"))
    );
}
