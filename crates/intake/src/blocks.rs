//! Input that is read by a thread of its own, so that timers run while the caller waits for input.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, sync_channel};

/// Bytes read at once.
const BLOCK: usize = 1 << 18;
/// Blocks that wait for the reader.
const WAITING: usize = 8;

/// What comes from an input, block by block: an empty one at its end. Nothing follows that, or a failure.
pub(crate) fn blocks(mut from: impl Read + Send + 'static) -> Receiver<io::Result<Vec<u8>>> {
    let (to, blocks) = sync_channel(WAITING);
    std::thread::spawn(move || {
        loop {
            let mut block = vec![0; BLOCK];
            let read = from.read(&mut block).map(|n| {
                block.truncate(n);
                block
            });
            let is_end = !matches!(&read, Ok(b) if !b.is_empty());
            if to.send(read).is_err() || is_end {
                return;
            }
        }
    });
    blocks
}
