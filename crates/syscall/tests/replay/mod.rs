//! What the tests of this crate share: the corpus, and files applied to a state event by event.

use std::path::{Path, PathBuf};

use gabion_scap::{Event, Item, Merger, Reader};
use gabion_syscall::State;

/// The folder with scap files, or none after a line that names the test.
pub(crate) fn corpus(test: &str) -> Option<PathBuf> {
    gabion_corpus::find(test, "scap")
}

/// Calls `then` with everything that a file lists and all events that are left after merging.
pub(crate) fn each_item(path: &Path, mut then: impl FnMut(Item<'_>)) {
    let mut reader = Reader::new(std::fs::File::open(path).unwrap()).unwrap();
    let mut merger = Merger::new();
    while let Some(item) = reader.next_item().unwrap() {
        match item {
            Item::Event(event) => {
                if let Some(event) = merger.merge(&event) {
                    then(Item::Event(event));
                }
            }
            item => then(item),
        }
    }
}

/// Applies all events of a file to a state and calls `then` after each.
pub(crate) fn run(path: &Path, state: &mut State, mut then: impl FnMut(&State, &Event<'_>)) {
    each_item(path, |item| match item {
        Item::Event(event) => {
            state.apply(&event);
            then(state, &event);
        }
        item => state.add(item),
    });
}
