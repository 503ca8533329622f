//! The examples run: calls of a file are counted, and a process with its descendants is cut out of it.

use gabion_corpus::examples;

#[test]
fn calls_are_counted_and_a_subtree_is_smaller_than_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let (demo, part) = (examples::demo("demo.scap"), folder.path().join("part.scap"));
    let Some(all) = examples::run("calls", &[&demo]) else { return };
    assert!(all.out.contains("raw events: received 269, passed 269, shed 0"), "{all:?}");
    let arguments = [demo.as_os_str(), part.as_os_str(), "cat".as_ref()];
    let Some(cut) = examples::run("subtree", &arguments) else { return };
    let events: u64 = cut.out.split(' ').next().and_then(|n| n.parse().ok()).unwrap();
    let Some(again) = examples::run("calls", &[&part]) else { return };
    assert!(events > 0 && events < 247, "{cut:?}");
    let (raw, merged) =
        (number_after(&again.out, "received "), number_after(&again.out, "merged: "));
    // An enter event that the file needs is written as its exit event's first half.
    assert_eq!(raw - merged, events, "{cut:?} {again:?}");
}

/// The number after a word.
fn number_after(text: &str, word: &str) -> u64 {
    let rest = text.split(word).nth(1).expect("the word");
    rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
}
