//! Writes the table of trigram frequencies with which the gram filter is built
//! (`src/gram/frequency.bin`), from the corpus's bench capture, a mix of about 1,000 public
//! captures: `cargo run --release -p gabion-matcher --example trigram_frequency > frequency.bin`.

#[path = "../benches/corpus/mod.rs"]
#[allow(dead_code, missing_docs, unreachable_pub, reason = "the benches use more of it")]
mod corpus;

use gabion_matcher::frequency::{LEVELS, level_of, slot_of};
use std::io::Write;

fn main() {
    let Some(buffers) = corpus::buffers() else {
        eprintln!("the corpus is absent: set GABION_CORPUS");
        std::process::exit(3);
    };
    let mut counts = vec![0u32; 1 << 24];
    for payload in ["tcp", "udp"].iter().filter_map(|kind| buffers.get(kind)).flatten() {
        for gram in payload.windows(3) {
            counts[gabion_matcher::frequency::folded(gram) as usize] += 1;
        }
    }
    let mut table = vec![0u8; LEVELS / 2];
    for (gram, &count) in counts.iter().enumerate() {
        let (slot, level) = (slot_of(gram as u32), level_of(count));
        let shift = slot % 2 * 4;
        let old = table[slot / 2] >> shift & 15;
        table[slot / 2] ^= (old ^ old.max(level)) << shift;
    }
    std::io::stdout().write_all(&table).expect("standard output");
}
