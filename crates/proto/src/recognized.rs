//! The parser of a protocol that is recognized but not parsed: it takes everything and has no
//! transactions.

use crate::tx_list::TxTable;
use crate::{Input, Outcome, ParseContext, Parser};

/// A parser that takes everything and has no transactions.
#[derive(Debug, Default)]
pub(crate) struct Recognized {
    none: (),
}

impl Parser for Recognized {
    fn parse(&mut self, _cx: &mut ParseContext<'_>, _input: Input<'_>) -> Outcome {
        Outcome::Done
    }

    fn txs(&self) -> &dyn TxTable {
        &self.none
    }

    fn txs_mut(&mut self) -> &mut dyn TxTable {
        &mut self.none
    }

    fn bytes_held(&self) -> usize {
        0
    }

    fn follows(&self) -> bool {
        false
    }
}
