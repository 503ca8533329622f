//! What is kept of senders: templates and sequence numbers, bounded by sender.
//!
//! Anybody can send a datagram, from any address. So each address has a room of its own for its templates
//! and its domains, and only when all rooms together are too large an address has to go: the one that was
//! used least. A use is a set of records that was read by its templates, so who merely sends templates never
//! evicts senders of flows.

use super::fields::Field;
use crate::limits::{
    DOMAINS_PER_ADDRESS, EXPORTERS_MAX, FIELDS_MAX, FIELDS_PER_ADDRESS, TEMPLATE_USES_MAX, reached,
};
use foldhash::fast::FixedState;
use gabion_record::Ip;
use hashbrown::HashMap;
use std::collections::VecDeque;
use std::hash::Hash;
use std::sync::Arc;

/// What records are read by.
#[derive(Debug)]
pub(super) struct Template {
    pub(super) fields: Vec<Field>,
    /// Least bytes of a record.
    pub(super) least: usize,
    /// Of options, not of flows.
    pub(super) is_options: bool,
}

/// What should come next of a domain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Next {
    /// The sequence number.
    pub(super) number: u32,
    /// Bytes of sets in the last message that had no template: a gap of this many records or fewer is theirs.
    pub(super) unread: u32,
    /// How many records were counted for those sets, one each.
    pub(super) unread_sets: u32,
}

impl Next {
    /// The number alone.
    pub(super) const fn from_number(number: u32) -> Next {
        Next { number, unread: 0, unread_sets: 0 }
    }
}

/// Entries of which the least used is evicted first: each use counts up to a bound, and an entry that is looked at
/// for eviction has one use less afterwards. So each look is paid for by a use or by an evicted entry.
#[derive(Debug)]
struct Clock<K, V> {
    entries: HashMap<K, (V, u8), FixedState>,
    order: VecDeque<K>,
}

impl<K, V> Default for Clock<K, V> {
    fn default() -> Clock<K, V> {
        Clock { entries: HashMap::default(), order: VecDeque::new() }
    }
}

impl<K: Clone + Eq + Hash, V> Clock<K, V> {
    /// An entry, which is used by this.
    fn used(&mut self, key: &K) -> Option<&mut V> {
        let (value, uses) = self.entries.get_mut(key)?;
        *uses = uses.saturating_add(1).min(TEMPLATE_USES_MAX);
        Some(value)
    }

    fn get(&mut self, key: &K) -> Option<&mut V> {
        self.entries.get_mut(key).map(|(value, _)| value)
    }

    /// Puts an entry in; gives the one that was there. Its uses stay.
    fn put(&mut self, key: K, value: V) -> Option<V> {
        match self.entries.get_mut(&key) {
            Some((there, _)) => Some(std::mem::replace(there, value)),
            None => {
                self.order.push_back(key.clone());
                self.entries.insert(key, (value, 0));
                None
            }
        }
    }

    /// Lets the least used go, but not this one; `looks` counts those looked at.
    fn let_go(&mut self, spared: &K, looks: &mut u64) -> Option<V> {
        if self.order.len() < 2 {
            return None;
        }
        loop {
            let key = self.order.pop_front()?;
            *looks += 1;
            let uses = self.entries.get_mut(&key).map(|(_, uses)| uses)?;
            if key != *spared && *uses == 0 {
                return self.entries.remove(&key).map(|(value, _)| value);
            }
            *uses = uses.saturating_sub(1);
            self.order.push_back(key);
        }
    }

    fn len(&self) -> usize {
        self.entries.len()
    }
}

/// What is kept of an address.
#[derive(Debug, Default)]
struct Sender {
    /// By domain and id; `None` for one that was withdrawn.
    templates: Clock<(u32, u16), Option<Arc<Template>>>,
    domains: Clock<u32, Next>,
    fields: usize,
}

/// What is kept of all.
#[derive(Debug, Default)]
pub(super) struct Kept {
    senders: Clock<Ip, Sender>,
    fields: usize,
    /// Templates evicted from a full table.
    pub(super) templates_dropped: u64,
    /// Domains whose sequence numbers were evicted from a full table: a gap of each may be missed.
    pub(super) domains_dropped: u64,
    /// Entries looked at to find one to evict.
    pub(super) looks: u64,
}

/// Fields that a template or a domain takes in addition to its own.
const APART: usize = 8;

/// Fields of a template, and what else it takes.
fn weight(template: Option<&Arc<Template>>) -> usize {
    template.map_or(0, |t| t.fields.len()) + APART
}

impl Kept {
    /// The template of a set of records that is to be read now.
    pub(super) fn template(
        &mut self,
        (from, domain): super::Exporter,
        id: u16,
    ) -> Option<Arc<Template>> {
        let sender = self.senders.get(&from)?;
        let found = sender.templates.used(&(domain, id))?.clone()?;
        let _ = self.senders.used(&from);
        Some(found)
    }

    /// Keeps a template, or forgets one that was withdrawn.
    pub(super) fn put(
        &mut self,
        (from, domain): super::Exporter,
        id: u16,
        template: Option<Template>,
    ) {
        if template.is_none() && self.senders.get(&from).is_none() {
            return;
        }
        let sender = self.room_for(from);
        let Some(sender) = sender else { return };
        let template = template.map(Arc::new);
        let before = sender.fields;
        sender.fields += weight(template.as_ref());
        let key = (domain, id);
        if let Some(old) = sender.templates.put(key, template) {
            sender.fields -= weight(old.as_ref());
        }
        let (mut dropped, mut looks) = (0, 0);
        while sender.fields > FIELDS_PER_ADDRESS {
            let Some(gone) = sender.templates.let_go(&key, &mut looks) else { break };
            sender.fields -= weight(gone.as_ref());
            dropped += u64::from(gone.is_some());
        }
        let after = sender.fields;
        self.fields = self.fields + after - before;
        reached::FIELDS_PER_ADDRESS.count_times(dropped);
        self.templates_dropped += dropped;
        self.looks += looks;
        self.shrink(from);
    }

    /// Remembers what should come next of a domain; gives what was to come now.
    pub(super) fn next(&mut self, (from, domain): super::Exporter, next: Next) -> Option<Next> {
        let sender = self.room_for(from)?;
        let expected = sender.domains.put(domain, next);
        let is_one_more = expected.is_none() && sender.domains.len() <= DOMAINS_PER_ADDRESS;
        sender.fields += if is_one_more { APART } else { 0 };
        self.fields += if is_one_more { APART } else { 0 };
        let sender = self.senders.get(&from)?;
        if sender.domains.len() > DOMAINS_PER_ADDRESS {
            let mut looks = 0;
            let gone = sender.domains.let_go(&domain, &mut looks).is_some();
            self.looks += looks;
            reached::DOMAINS_PER_ADDRESS.count_times(u64::from(gone));
            self.domains_dropped += u64::from(gone);
        } else if expected.is_some() {
            let _ = sender.domains.used(&domain);
        }
        self.shrink(from);
        expected
    }

    fn room_for(&mut self, from: Ip) -> Option<&mut Sender> {
        if self.senders.get(&from).is_none() {
            self.senders.put(from, Sender::default());
        }
        self.senders.get(&from)
    }

    /// Lets addresses go until all rooms together are as small as they have to be.
    fn shrink(&mut self, spared: Ip) {
        while self.senders.len() > EXPORTERS_MAX || self.fields > FIELDS_MAX {
            let limit = if self.senders.len() > EXPORTERS_MAX {
                &reached::EXPORTERS_MAX
            } else {
                &reached::FIELDS_MAX
            };
            let Some(gone) = self.senders.let_go(&spared, &mut self.looks) else { return };
            self.fields -= gone.fields;
            let templates = gone.templates.entries.values().filter(|(t, _)| t.is_some());
            let (templates, domains) = (templates.count() as u64, gone.domains.len() as u64);
            limit.count_times(templates + domains);
            self.templates_dropped += templates;
            self.domains_dropped += domains;
        }
    }

    /// Templates kept now.
    pub(super) fn templates(&self) -> usize {
        let of =
            |(s, _): &(Sender, u8)| s.templates.entries.values().filter(|t| t.0.is_some()).count();
        self.senders.entries.values().map(of).sum()
    }
}
