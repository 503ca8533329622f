//! Files of rules with selections, and what suricata-update makes of them.

use super::*;

const RULES: &str = "\
alert ip any any -> any any (msg:\"one\"; sid:1; rev:1;)
# alert ip any any -> any any (msg:\"two\"; sid:2; rev:1;)
# a remark
alert ip any any -> any any (msg:\"three\"; \\
  flowbits:isset,seen; \\
  sid:3; rev:1;)
alert ip any any -> any any (msg:\"four\"; flowbits:set,seen; metadata:tag Heart; sid:4; rev:1;)\r
alert ip any any -> any any (msg:\"five\"; gid:3; sid:5; rev:1;)";

fn selected(files: &[(Kind, &str)], path: &str) -> (String, Selected) {
    let mut selection = Selection::default();
    for (kind, text) in files {
        assert_eq!(selection.add(*kind, text, kind.name()), []);
    }
    let mut text = RULES.to_owned();
    let selected = selection.apply(&mut [(path, &mut text)]);
    (text, selected)
}

/// Ids of rules that are on, by the lexer of rules, and the lines they are at.
fn on(text: &str) -> Vec<(u32, u32)> {
    let rules = crate::lexer::rules(text).map(|rule| {
        let read = RuleLine::parse(&rule.text).unwrap();
        (read.sid, rule.line)
    });
    rules.collect()
}

#[test]
fn rules_are_turned_off_and_on_at_their_lines() {
    let (text, found) = selected(&[], "a.rules");
    assert_eq!((text.as_str(), found), (RULES, Selected::default()));

    let off = (Kind::Disable, "# none\n1 # not this\n3:5\n\n");
    let (text, found) = selected(&[off, (Kind::Enable, "2")], "a.rules");
    assert_eq!(on(&text), [(2, 2), (3, 4), (4, 7)]);
    assert_eq!((found.disabled, found.enabled, found.modified, found.for_flowbits), (2, 1, 0, 0));
    assert!(found.said.is_empty());
    assert_eq!(text.lines().count(), RULES.lines().count());
    assert_eq!(text.matches('\r').count(), 1);
}

/// What a line of `disable.conf` turns off another of `enable.conf` turns on.
#[test]
fn enabling_comes_behind_disabling() {
    for which in ["*", "re:msg:\"ONE", "group:a", "group:a.rules", "a.rules", "filename:/x/*.rules"]
    {
        let (text, found) =
            selected(&[(Kind::Disable, which), (Kind::Enable, "3:5")], "/x/a.rules");
        let is_all = !which.starts_with("re:");
        assert!(!on(&text).iter().any(|(sid, _)| *sid == 1), "{which}");
        assert_eq!(found.disabled, if is_all { 3 } else { 1 }, "{which}: {text}");
        assert!(on(&text).iter().any(|(sid, _)| *sid == 5), "{which}");
    }
    let (_, found) = selected(&[(Kind::Disable, "metadata: TAG heart")], "/x/a.rules.zst");
    // Rule 3 asks for its flowbit.
    assert_eq!((found.disabled, found.for_flowbits), (0, 1));
}

/// A rule that is off and sets what another asks for is on again, without alert.
#[test]
fn who_sets_a_flowbit_that_is_asked_for_stays_on_in_silence() {
    let (text, found) = selected(&[(Kind::Disable, "4")], "a.rules");
    assert!(text.contains("metadata:tag Heart; noalert; sid:4;"), "{text}");
    assert_eq!((found.disabled, found.for_flowbits), (0, 1));
    let (text, found) = selected(&[(Kind::Disable, "3,4")], "a.rules");
    assert_eq!(on(&text), [(1, 1), (5, 8)]);
    assert_eq!((found.disabled, found.for_flowbits), (2, 0));
}

#[test]
fn rules_are_changed_and_lines_without_effect_are_named() {
    let modify = (
        Kind::Modify,
        "1 \"one\" \"uno\"\n3 \"three\" \"tres\"\n77 \"a\" \"b\"\n1 \"^.*$\" \"no rule\"\n",
    );
    let (text, found) = selected(&[modify, (Kind::Enable, "88, 89")], "a.rules");
    assert!(text.contains("msg:\"uno\"") && text.contains("msg:\"tres\""), "{text}");
    assert_eq!(on(&text), [(1, 1), (3, 4), (4, 7), (5, 8)]);
    assert_eq!(found.modified, 2);
    let said: Vec<_> = found.said.iter().map(|d| (&*d.file, d.line, d.message.as_str())).collect();
    assert_eq!(said.len(), 3, "{said:?}");
    assert_eq!((said[0].0, said[0].1), ("modify-conf", 4));
    assert!(said[0].2.contains("would make no rule of 1:1"), "{said:?}");
    assert_eq!((said[1].0, said[1].1), ("enable-conf", 1));
    assert_eq!((said[2].0, said[2].1), ("modify-conf", 3));
    assert!(said[2].2.contains("means no rule"), "{said:?}");
}

#[test]
fn lines_that_are_none_are_named_and_the_others_hold() {
    let mut selection = Selection::default();
    let said = selection.add(Kind::Disable, "1\nclasstype:bad\n2019401x\n3:5", "d.conf");
    assert_eq!(said.iter().map(|d| d.line).collect::<Vec<_>>(), [2, 3]);
    assert!(said.iter().all(|d| d.severity == Severity::Error && d.message.contains("say SID")));
    let mut text = RULES.to_owned();
    assert_eq!(selection.apply(&mut [("a.rules", &mut text)]).disabled, 2);
}
