//! How much memory a rule set holds, for the accounts of a run.

use crate::content::BufferCondition;
use crate::file::FileCondition;
use crate::packet::PacketCondition;
use crate::post::PostMatch;
use crate::ruleset::Ruleset;
use crate::signature::{Engine, Signature, TxTest};
use std::collections::HashSet;
use std::sync::Arc;

impl Ruleset {
    /// Bytes that the signatures hold, with all their conditions; without texts, addresses and ports. What rules share is
    /// counted once, what two sets share in each.
    pub fn signature_bytes(&self) -> usize {
        let (mut engines, mut packets) = (HashSet::new(), HashSet::new());
        let held = self.signatures.iter().map(|s| {
            let mut held = held_by(s);
            if engines.insert(Arc::as_ptr(&s.engines).cast::<Engine>()) {
                held += size_of_val(&*s.engines);
            }
            if packets.insert(Arc::as_ptr(&s.packet).cast::<PacketCondition>()) {
                held += size_of_val(&*s.packet);
            }
            held
        });
        held.sum::<usize>() + self.signatures.capacity() * size_of::<Signature>()
    }
}

/// Bytes that a signature holds outside itself.
fn held_by(s: &Signature) -> usize {
    let conditions = |all: &[BufferCondition]| {
        size_of_val(all) + all.iter().map(held_by_condition).sum::<usize>()
    };
    let buffers = s.buffers.iter().map(|b| conditions(&b.conditions));
    let tests = s.tx.iter().map(|t| {
        let TxTest::Files(files) = &t.test else { return 0 };
        size_of_val(&**files) + files.iter().map(held_by_file).sum::<usize>()
    });
    let actions = s
        .post_match
        .iter()
        .map(|action| if let PostMatch::Replace { bytes, .. } = action { bytes.len() } else { 0 });
    let lists = [
        size_of_val(&*s.references),
        size_of_val(&*s.metadata),
        size_of_val(&*s.header.apps),
        size_of_val(&*s.buffers),
        size_of_val(&*s.tx),
        size_of_val(&*s.post_match),
        size_of_val(&*s.suppressions),
        s.firewall.as_ref().map_or(0, |part| size_of_val(&**part)),
        conditions(&s.base64_data),
    ];
    lists.into_iter().chain(buffers).chain(tests).chain(actions).sum()
}

fn held_by_condition(condition: &BufferCondition) -> usize {
    match condition {
        BufferCondition::Content(content) => content.bytes.len(),
        BufferCondition::Pcre(p) => size_of_val(&**p) + size_of_val(&*p.captures),
        BufferCondition::ByteTest(test) => size_of_val(&**test),
        BufferCondition::ByteJump(jump) => size_of_val(&**jump),
        BufferCondition::ByteExtract(extract) => size_of_val(&**extract),
        BufferCondition::ByteMath(math) => size_of_val(&**math),
        BufferCondition::Entropy(test) => size_of_val(&**test),
        BufferCondition::Asn1(test) => size_of_val(&**test),
        BufferCondition::IsDataAt(_)
        | BufferCondition::Bsize(_)
        | BufferCondition::Urilen(_)
        | BufferCondition::Dataset(_)
        | BufferCondition::Datarep(_)
        | BufferCondition::Absent { .. }
        | BufferCondition::Base64Decode(_)
        | BufferCondition::Lua { .. }
        | BufferCondition::Inert(_) => 0,
    }
}

fn held_by_file(condition: &FileCondition) -> usize {
    let (FileCondition::Name { bytes, .. }
    | FileCondition::Extension { bytes, .. }
    | FileCondition::Magic { bytes, .. }) = condition
    else {
        return 0;
    };
    bytes.len()
}
