//! What a flow's application layer is charged for, and what happens when the budget is used up.

use super::AppLayer;
use super::counters::{AppCounters, bump};
use crate::detect::TxDetect;
use crate::limits::{WEIGH_BYTES, WEIGH_TXS};
use gabion_proto::tx_list::TxList;
use gabion_record::applayer::Transport;
use gabion_record::budget::Budget;

/// What a flow's parser is charged for. Weighing a parser takes time in proportion to what it holds, so it
/// is done only after enough input, in bytes or in transactions, that it may hold noticeably more.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Charge {
    /// Bytes reserved.
    held: u32,
    /// Bytes taken since it was weighed.
    fed: u32,
    /// The transaction that was next when it was weighed.
    next_tx: u64,
    /// What the parser had made at that time, see [`gabion_proto::Parser::bytes_made`].
    made: u64,
    /// The budget did not allow more.
    is_refused: bool,
}

impl Charge {
    fn is_due(&self, next_tx: u64, made: u64) -> bool {
        let txs = next_tx.wrapping_sub(self.next_tx);
        let grown = u64::from(self.fed).saturating_add(made.saturating_sub(self.made));
        self.held == 0
            || grown >= WEIGH_BYTES.max(self.held / 8).into()
            || txs >= WEIGH_TXS.max(u64::from(self.held / WEIGH_BYTES))
    }
}

impl AppLayer {
    /// Charges the flow for what its parser holds after another piece of the input. False: the budget
    /// does not allow it, and the flow is not followed any further.
    pub(crate) fn charge(
        &mut self,
        fed: usize,
        budget: &Budget,
        counters: &mut AppCounters,
        transport: Transport,
    ) -> bool {
        let Some(parser) = &self.parser else {
            self.uncharge(budget);
            return !self.charge.is_refused;
        };
        let (next_tx, made) = (parser.next_tx_id(), parser.bytes_made());
        self.charge.fed = self.charge.fed.saturating_add(u32::try_from(fed).unwrap_or(u32::MAX));
        if self.charge.is_refused || self.is_all_off() || !self.charge.is_due(next_tx, made) {
            return !self.charge.is_refused;
        }
        counters.weighed += self.txs.len() as u64;
        let rules = self.txs.iter().flat_map(|t| &t.detect).map(TxDetect::bytes_held);
        let held = parser.bytes_held() + self.txs.bytes_held() + rules.sum::<usize>();
        let held = u32::try_from(held).unwrap_or(u32::MAX);
        let has_room = budget.try_resize(self.charge.held.into(), held.into());
        if has_room {
            self.charge.held = held;
        } else {
            bump(&mut counters.refused, self.proto, transport);
            self.disable();
            self.charge.is_refused = true;
        }
        self.charge.fed = 0;
        self.charge.next_tx = next_tx;
        self.charge.made = made;
        has_room
    }

    /// Charges the flow for `bytes` more; they are weighed with everything else the next time. False:
    /// the budget does not allow them.
    pub(crate) fn reserve(&mut self, bytes: usize, budget: &Budget) -> bool {
        let more = u32::try_from(bytes).ok().and_then(|bytes| self.charge.held.checked_add(bytes));
        let Some(held) = more.filter(|_| budget.try_reserve(bytes as u64)) else { return false };
        self.charge.held = held;
        true
    }

    /// What the flow is charged for.
    #[cfg(test)]
    pub(crate) fn charged(&self) -> u64 {
        self.charge.held.into()
    }

    /// Returns to the budget what the flow was charged for.
    pub(crate) fn uncharge(&mut self, budget: &Budget) {
        let Charge { held, is_refused, .. } = std::mem::take(&mut self.charge);
        self.charge.is_refused = is_refused;
        budget.release(held.into());
    }

    /// The budget did not allow what its parser holds, which is still there.
    pub(crate) fn is_to_give_up(&self) -> bool {
        self.charge.is_refused && self.parser.is_some()
    }

    /// The flow is not followed any further: its state is freed, so that nothing is held outside of the
    /// budget.
    pub(crate) fn give_up(&mut self, budget: &Budget) {
        self.parser = None;
        self.frames = None;
        self.crowd = None;
        self.txs = TxList::default();
        self.uncharge(budget);
    }
}
