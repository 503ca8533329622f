//! Bits that rules set and clear, of a flow or of a transaction.

use gabion_rules::compiled::actions::BitCommand;
use smallvec::SmallVec;

/// Bits that rules set and clear.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bits(SmallVec<[u32; 4]>);

impl Bits {
    /// Those that are set.
    pub(crate) fn as_slice(&self) -> &[u32] {
        &self.0
    }

    pub(crate) fn has(&self, bit: u32) -> bool {
        self.0.contains(&bit)
    }

    pub(crate) fn apply(&mut self, bit: u32, command: BitCommand) {
        let at = self.0.iter().position(|b| *b == bit);
        match (command, at) {
            (BitCommand::Set | BitCommand::Toggle, None) => self.0.push(bit),
            (BitCommand::Unset | BitCommand::Toggle, Some(at)) => {
                self.0.remove(at);
            }
            (BitCommand::Set, Some(_)) | (BitCommand::Unset, None) => {}
        }
    }
}
