//! Checkpoints and epochs.

use super::{SECOND, Writer};
use crate::checkpoints;
use crate::error::{Error, Result};
use crate::note::{Checkpoint, Note};
use crate::statement::statement;
use crate::storage::Storage;
use gabion_record::base64::to_base64;

impl<S: Storage> Writer<S> {
    /// Signs a checkpoint, or changes the epoch, when it is time to.
    pub(super) fn sign_if_due(&mut self) -> Result<()> {
        let Some(current) = self.signer.current() else { return Err(Error::Stopped) };
        let chunks = self.range.size().saturating_sub(current.start);
        let age = self.now_ns.saturating_sub(current.since_ns);
        if chunks >= self.policy.epoch_chunks || (age >= self.policy.epoch_after_ns && chunks > 0) {
            return self.switch_epoch();
        }
        let behind = self.range.size().saturating_sub(self.checkpoint_size);
        let age = self.now_ns.saturating_sub(self.checkpoint_ns);
        let is_late = age >= self.identity.checkpoint_seconds.saturating_mul(SECOND);
        if behind >= self.identity.checkpoint_chunks
            || (behind > 0 && is_late)
            || self.now_ns < self.checkpoint_ns
        {
            self.checkpoint(false)?;
        }
        Ok(())
    }

    /// Signs a checkpoint over everything sealed, now. What waits in open chunks is not in it.
    pub fn sign_checkpoint(&mut self, now_ns: u64) -> Result<()> {
        self.alive()?;
        self.now_ns = now_ns;
        self.checkpoint(false)
    }

    /// Advances to a new epoch key and erases the old one.
    pub fn switch_epoch_now(&mut self, now_ns: u64) -> Result<()> {
        self.alive()?;
        self.now_ns = now_ns;
        self.seal_all()?;
        self.flush()?;
        self.switch_epoch()
    }

    /// Signs what is durable; in the middle of an epoch switch with both keys.
    pub(super) fn checkpoint(&mut self, by_both: bool) -> Result<()> {
        let is_back = self.now_ns / SECOND < self.checkpoint_ns / SECOND;
        if is_back && !by_both {
            self.state_clock()?;
        }
        self.flush()?;
        if self.range.size() == self.checkpoint_size && !by_both {
            return Ok(());
        }
        let result = self.write_checkpoint(by_both);
        self.stopping(result)
    }

    pub(super) fn write_checkpoint(&mut self, by_both: bool) -> Result<()> {
        let checkpoint = Checkpoint {
            origin: self.identity.origin.clone(),
            size: self.range.size(),
            root: self.range.root(),
        };
        let time_s = self.now_ns / SECOND;
        let signers = self.signer.keys.iter().take(if by_both { 2 } else { 1 });
        let signatures = signers.flat_map(|k| k.key.sign_checkpoint(&checkpoint, time_s)).collect();
        let note = Note { text: checkpoint.text(), signatures };
        let framed = checkpoints::frame(&note.to_string());
        self.log
            .append(checkpoints::FILE, &framed)
            .and_then(|()| self.log.sync(checkpoints::FILE))
            .map_err(|e| Error::storage(checkpoints::FILE, e))?;
        self.signer.note_head(&self.range, self.next_record, self.now_ns)?;
        self.checkpoint_size = self.range.size();
        self.checkpoint_ns = self.now_ns;
        self.tally.checkpoints += 1;
        Ok(())
    }

    /// Time went back after what was signed: says so, in a segment of its own.
    fn state_clock(&mut self) -> Result<()> {
        let (from, to) = (self.checkpoint_ns, self.now_ns);
        self.checkpoint_ns = self.now_ns;
        self.rotate()?;
        let clock = statement("clock", |json| {
            json.number("from", from);
            json.number("to", to);
        });
        self.state(&[clock], 0)
    }

    /// The order of steps is the whole point: each may be the last before a crash.
    pub(super) fn switch_epoch(&mut self) -> Result<()> {
        self.seal_all()?;
        let end = self.range.size().saturating_add(1);
        let prepared = self.signer.prepare(end, self.now_ns);
        self.stopping(prepared)?;
        let Some(next) = self.signer.keys.last() else { return Err(Error::Stopped) };
        let (number, key) = (next.key.number(), to_base64(&next.key.public()));
        let announcement = statement("epoch", |json| {
            json.number("epoch", number);
            json.field("key", &key);
            json.number("end", end);
        });
        self.state(&[announcement], 0)?;
        self.flush()?;
        self.checkpoint(true)?;
        let finished = self.signer.finish();
        self.stopping(finished)
    }
}
