//! Lua scripts of rules.

use gabion_proto::Transaction;
use gabion_record::Direction;

/// The scripts of one worker.
#[derive(Default)]
pub(crate) struct Scripts {}

impl Scripts {
    pub(crate) fn run_on_buffer(
        &mut self,
        _script: u32,
        _buffer: &[u8],
        _pos: usize,
    ) -> Option<bool> {
        None
    }

    pub(crate) fn run_on_tx(
        &mut self,
        _script: u32,
        _tx: &dyn Transaction,
        _direction: Direction,
    ) -> Option<bool> {
        None
    }

    pub(crate) fn transform(
        &mut self,
        _script: u32,
        _input: &[u8],
        _arguments: &[Box<str>],
    ) -> Option<Vec<u8>> {
        None
    }
}
