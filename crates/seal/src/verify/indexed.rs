//! Whether the index at a segment's end says what the chunks before it say. Nothing rests on an index
//! but speed, so a wrong one is a warning; yet a reader that asks for one source trusts it to say where
//! not to look, and who can open the log can forge one.

use super::facts::{ChunkFacts, IndexFacts, SegmentFacts};
use super::judge::Judge;
use crate::format::chunk::Header;
use crate::format::index::{self, Entry};
use crate::limits::INDEX_MAX;

impl Judge<'_> {
    /// Remembers a chunk for the index of its segment.
    pub(super) fn keep_head(
        &mut self,
        segment: &SegmentFacts,
        at: u64,
        header: &Header,
        facts: &ChunkFacts,
    ) {
        if segment.keys.is_some() && index::len(self.position.heads.len()) <= INDEX_MAX {
            let entry = Entry::new(at, header, facts.sources.unwrap_or_default());
            self.position.heads.push((entry, facts.sources.is_some()));
        }
    }

    /// The index of the current segment.
    pub(super) fn index(&mut self, segment: &SegmentFacts, at: u64, len: u64, facts: &IndexFacts) {
        self.index_seen(&segment.name, at);
        let what = match facts {
            // What it says is hidden, but not how much.
            IndexFacts::Closed if !self.is_index_len(len) => "is of other chunks".to_owned(),
            IndexFacts::Closed => return,
            IndexFacts::Malformed => "is damaged".to_owned(),
            IndexFacts::Forged => "is not the writer's: it does not open".to_owned(),
            IndexFacts::Open(entries) => {
                let says = |(said, (head, has_sources)): &(&Entry, &(Entry, bool))| {
                    let sources = if *has_sources { head.sources } else { said.sources };
                    **said == Entry { sources, ..*head }
                };
                let agreed = entries.iter().zip(&self.position.heads).take_while(says).count();
                if agreed == entries.len() && agreed == self.position.heads.len() {
                    return;
                }
                let first = self.position.current.as_ref().map_or(0, |c| c.first_chunk);
                format!("is wrong from chunk {} on", first.saturating_add(agreed as u64))
            }
        };
        let name = &segment.name;
        self.report.warn(format!(
            "{name} at byte {at}: the index {what}; what `show` finds by time or source may lack records, the log itself does not"
        ));
    }
}
