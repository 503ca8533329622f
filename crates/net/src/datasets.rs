//! Datasets: sets of values that rules look up and change.
//!
//! Sets that no rule changes are read by all workers at any time; the others are state across flows,
//! which several workers use in packet order (`ordered`).

use crate::dataset_file::{DatasetFault, DatasetNote, Entry, Reading, decode_line};
use crate::dataset_save;
use crate::limits::{DATASET_VALUES_MAX, reached};
use foldhash::fast::RandomState;
use gabion_rules::Ruleset;
use gabion_rules::compiled::buffer::{BufferCondition, DatarepTest, DatasetCommand, DatasetTest};
use gabion_rules::compiled::{DatasetDef, DatasetType};
use hashbrown::HashMap;
use std::sync::{Arc, RwLock};

/// Rows of Suricata's table unless the rule sets another number.
const ROWS: u32 = 4096;
/// Bytes that Suricata counts for a row.
const ROW_BYTES: u64 = 64;
/// Values that Suricata's table reserves space for at its start.
const ROOM: u64 = 1000;

/// Why a set's `memcap` is too small, in Suricata's words.
#[derive(Clone, Copy, Debug, thiserror::Error)]
enum MemcapTooSmall {
    #[error(
        "allocating hash failed: max hash memcap is smaller than projected hash size. \
         Memcap: {cap}, Hash table size {rows}. Calculate total hash size by multiplying \
         \"hash-size\" with {ROW_BYTES}, which is the hash bucket size."
    )]
    Table { cap: u64, rows: u64 },
    #[error("preallocating data failed: max thash memcap reached. Memcap {cap}, Memuse {used}.")]
    Values { cap: u64, used: u64 },
}

/// Values with the memory that Suricata would count for them, so that a rule's `memcap` means the same.
#[derive(Debug)]
struct Values {
    map: HashMap<Box<[u8]>, Entry, RandomState>,
    /// Bytes counted so far; 0 if `cap` is 0.
    used: u64,
    /// `memcap`; 0: none.
    cap: u64,
    /// Bytes of one value, without a string's text.
    each: u64,
}

impl Values {
    /// An empty set. The error has Suricata's message about a `memcap` that is too small.
    fn new(def: &DatasetDef) -> Result<Values, MemcapTooSmall> {
        let each = match def.kind {
            DatasetType::String | DatasetType::Md5 | DatasetType::Ip => 104,
            DatasetType::Sha256 => 120,
            DatasetType::Ipv4 => 96,
        };
        let rows = u64::from(rows(def)) * ROW_BYTES;
        let cap = def.memcap;
        if cap > 0 && rows > cap {
            return Err(MemcapTooSmall::Table { cap, rows });
        }
        let used = rows + ROOM * each;
        if cap > 0 && used > cap {
            let at = rows + ((cap - rows) / each + 1) * each;
            return Err(MemcapTooSmall::Values { cap, used: at });
        }
        Ok(Values { map: HashMap::default(), used, cap, each })
    }

    /// Adds a value that the set does not have yet. The error is the memory that it would have needed.
    fn add(&mut self, value: Box<[u8]>, entry: Entry, is_string: bool) -> Result<bool, u64> {
        if self.map.contains_key(&value) {
            return Ok(false);
        }
        if self.cap > 0 {
            let text = if is_string { value.len() as u64 } else { 0 };
            let item = if self.map.len() as u64 >= ROOM { self.each } else { 0 };
            if self.used + text + item > self.cap {
                return Err(self.used + text);
            }
            self.used += text + item;
        } else if self.map.len() >= DATASET_VALUES_MAX {
            reached::DATASET_VALUES_MAX.count();
            return Ok(false);
        }
        self.map.insert(value, entry);
        Ok(true)
    }

    fn remove(&mut self, value: &[u8], is_string: bool) -> bool {
        let is_removed = self.map.remove(value).is_some();
        if is_removed && self.cap > 0 {
            let text = if is_string { value.len() as u64 } else { 0 };
            let item = if self.map.len() as u64 >= ROOM { self.each } else { 0 };
            self.used = self.used.saturating_sub(text + item);
        }
        is_removed
    }
}

fn rows(def: &DatasetDef) -> u32 {
    if def.hashsize == 0 { ROWS } else { def.hashsize }
}

/// One set.
#[derive(Debug)]
struct Set {
    def: DatasetDef,
    is_written: bool,
    values: Arc<RwLock<Values>>,
}

impl Set {
    /// Whether its values are of a run rather than of a file: they stay when rules are loaded again.
    fn is_kept(&self) -> bool {
        self.def.save.is_some() || self.def.load.is_none()
    }
}

/// All datasets of a rule set.
#[derive(Debug, Default)]
pub struct Datasets {
    sets: Vec<Set>,
}

impl Datasets {
    /// Adds a set with the content of its file: the file's name as messages show it, and its text.
    /// Faults are added to `notes`; false if the set is refused and not added.
    pub fn open(
        &mut self,
        def: &DatasetDef,
        file: Option<(&str, &[u8])>,
        notes: &mut Vec<DatasetNote>,
    ) -> bool {
        let mut values = match Values::new(def) {
            Ok(v) => v,
            Err(said) => {
                notes.push(DatasetNote::new(DatasetFault::Set, "thash", said.to_string()));
                return false;
            }
        };
        let mut too_much = None;
        if let Some((path, text)) = file {
            let is_string = def.kind == DatasetType::String;
            let mut add = |value: Box<[u8]>, entry| match values.add(value, entry, is_string) {
                Ok(_) => true,
                Err(used) => {
                    too_much = Some(used);
                    false
                }
            };
            Reading { def, path, add: &mut add, notes }.read_text(text);
        }
        if let Some(used) = too_much {
            let mut say = |who, what| notes.push(DatasetNote::new(DatasetFault::Set, who, what));
            let cap = def.memcap;
            say("thash", format!("Adding data will exceed memcap: {cap}, current memuse: {used}"));
            say("datasets", "dataset too large for set memcap".to_string());
            say("datasets", format!("dataset {} append failed", def.name));
            return false;
        }
        self.sets.push(Set {
            def: def.clone(),
            is_written: false,
            values: Arc::new(RwLock::new(values)),
        });
        true
    }

    /// Continues with the values of sets of the same name and type that rules or the operator have changed; sets that are
    /// only read from a file have what the file holds now.
    pub fn continue_from(&mut self, before: &Datasets) {
        for set in self.sets.iter_mut().filter(|set| set.is_kept()) {
            let same = |old: &&Set| old.def.name == set.def.name && old.def.kind == set.def.kind;
            if let Some(old) = before.sets.iter().find(same) {
                set.values = Arc::clone(&old.values);
            }
        }
    }

    /// Notes which sets these rules write.
    pub(crate) fn note_writers(&mut self, rules: &Ruleset) {
        let conditions =
            rules.signatures.iter().flat_map(|s| s.buffers.iter()).flat_map(|b| &b.conditions);
        for c in conditions {
            if let BufferCondition::Dataset(t) = c
                && matches!(t.command, DatasetCommand::Set | DatasetCommand::Unset)
                && let Some(set) = self.sets.get_mut(t.dataset as usize)
            {
                set.is_written = true;
            }
        }
    }

    /// Whether rules write this set, so that the order of lookups matters.
    pub(crate) fn is_written(&self, dataset: u32) -> bool {
        self.sets.get(dataset as usize).is_some_and(|s| s.is_written)
    }

    /// The value of a buffer as the set stores it: hashes and addresses are of fixed length.
    fn fits(def: &DatasetDef, value: &[u8]) -> bool {
        match def.kind {
            DatasetType::String => !value.is_empty(),
            DatasetType::Md5 => value.len() == 16,
            DatasetType::Sha256 => value.len() == 32,
            DatasetType::Ipv4 => value.len() == 4,
            DatasetType::Ip => matches!(value.len(), 4 | 16),
        }
    }

    /// Whether there is a set of that name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.sets.iter().any(|s| s.def.name == name)
    }

    /// Adds a value; true when it is new, `None` when there is no such set.
    pub(crate) fn add(&self, name: &str, value: &[u8]) -> Option<bool> {
        let number = self.sets.iter().position(|s| s.def.name == name)?;
        let dataset = u32::try_from(number).ok()?;
        let t = DatasetTest { dataset, command: DatasetCommand::Set };
        Some(self.test(t, value, &mut Vec::new()))
    }

    pub(crate) fn test(&self, t: DatasetTest, value: &[u8], context: &mut Vec<u8>) -> bool {
        let Some(set) = self.sets.get(t.dataset as usize) else { return false };
        if !Self::fits(&set.def, value) {
            // What can be no value of a set of hashes or addresses is not in it; nothing is asked of empty text.
            return t.command == DatasetCommand::IsNotSet && set.def.kind != DatasetType::String;
        }
        let Ok(values) = set.values.read() else { return false };
        let found = values.map.get(value);
        let is_string = set.def.kind == DatasetType::String;
        match t.command {
            DatasetCommand::IsSet => {
                if let Some(e) = found
                    && !e.context_json.is_empty()
                {
                    if !context.is_empty() {
                        context.push(b',');
                    }
                    context.extend_from_slice(&e.context_json);
                }
                found.is_some()
            }
            DatasetCommand::IsNotSet => found.is_none(),
            DatasetCommand::Set => {
                if found.is_some() {
                    return false;
                }
                drop(values);
                let Ok(mut values) = set.values.write() else { return false };
                let added = values.add(value.into(), Entry::default(), is_string);
                if added.is_err() {
                    reached::DATASET_VALUES_MAX.count();
                }
                added == Ok(true)
            }
            DatasetCommand::Unset => {
                if found.is_none() {
                    return false;
                }
                drop(values);
                set.values.write().is_ok_and(|mut v| v.remove(value, is_string))
            }
        }
    }

    /// Removes all values of a set; whether there is one of this name and type.
    pub fn clear(&self, name: &str, kind: DatasetType) -> bool {
        let is = |set: &&Set| set.def.name == name && set.def.kind == kind;
        let Some(set) = self.sets.iter().find(is) else { return false };
        // A set of this definition was made before.
        let Ok(empty) = Values::new(&set.def) else { return false };
        set.values.write().is_ok_and(|mut values| {
            *values = empty;
            true
        })
    }

    /// Does with a set of this name and type what an operator asks for, with a value as files write it. Whether it had an
    /// effect, or the condition holds.
    ///
    /// # Errors
    /// `Set`: there is none; `Value`: the text is no value of this type, or there is no room for it.
    pub fn operate(
        &self,
        (name, kind): (&str, DatasetType),
        value: &str,
        command: DatasetCommand,
    ) -> Result<bool, DatasetFault> {
        let is = |set: &&Set| set.def.name == name && set.def.kind == kind;
        let set = self.sets.iter().find(is).ok_or(DatasetFault::Set)?;
        let value = decode_line(kind, value.as_bytes()).filter(|value| !value.is_empty());
        let value = value.ok_or(DatasetFault::Value)?;
        let is_string = kind == DatasetType::String;
        let mut values = set.values.write().map_err(|_| DatasetFault::Set)?;
        let is_there = values.map.contains_key(&value);
        match command {
            DatasetCommand::IsSet => Ok(is_there),
            DatasetCommand::IsNotSet => Ok(!is_there),
            DatasetCommand::Unset => Ok(values.remove(&value, is_string)),
            DatasetCommand::Set => {
                values.add(value, Entry::default(), is_string).map_err(|_| DatasetFault::Value)
            }
        }
    }

    /// Adds a value to a set of this name and type, as [`Datasets::operate`] does, with JSON that a match adds to the
    /// alert's `context`. A value that is there keeps what it has.
    ///
    /// # Errors
    /// `Set`: there is none; `Value`: the text is no value of this type or no JSON, or there is no room for it.
    pub fn add_with_context(
        &self,
        (name, kind): (&str, DatasetType),
        value: &str,
        context: &str,
    ) -> Result<bool, DatasetFault> {
        let is = |set: &&Set| set.def.name == name && set.def.kind == kind;
        let set = self.sets.iter().find(is).ok_or(DatasetFault::Set)?;
        let value = decode_line(kind, value.as_bytes()).filter(|value| !value.is_empty());
        let value = value.ok_or(DatasetFault::Value)?;
        let entry = Entry::with_context(&set.def, context).ok_or(DatasetFault::Value)?;
        let mut values = set.values.write().map_err(|_| DatasetFault::Set)?;
        let is_string = kind == DatasetType::String;
        values.add(value, entry, is_string).map_err(|_| DatasetFault::Value)
    }

    pub(crate) fn reputation(&self, t: DatarepTest, value: &[u8]) -> bool {
        let Some(set) = self.sets.get(t.dataset as usize) else { return false };
        let Ok(values) = set.values.read() else { return false };
        values.map.get(value).is_some_and(|e| t.condition.matches(u64::from(e.score)))
    }

    /// Text of each set that is to be saved, with its path.
    pub fn saves(&self) -> Vec<(String, Vec<u8>)> {
        let mut out = Vec::new();
        for set in &self.sets {
            let Some(path) = &set.def.save else { continue };
            let Ok(values) = set.values.read() else { continue };
            let all = values.map.iter().map(|(v, e)| (&**v, e));
            out.push((path.clone(), dataset_save::text(&set.def, rows(&set.def), all)));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_rules::compiled::DatasetFormat;

    fn definition(name: &str, kind: DatasetType) -> DatasetDef {
        DatasetDef {
            name: name.to_owned(),
            kind,
            load: None,
            save: None,
            rule_folder: String::new(),
            has_reputation: false,
            memcap: 400_000,
            hashsize: 16,
            format: DatasetFormat::Csv,
            value_key: None,
            array_key: None,
            context_key: None,
            remove_key: false,
        }
    }

    /// Suricata 8.0.7 alerts in the same way (`docs/semantics.md`, "Contents").
    #[test]
    fn what_a_set_can_not_hold_is_not_in_it() {
        let mut sets = Datasets::default();
        assert!(sets.open(&definition("hashes", DatasetType::Md5), None, &mut Vec::new()));
        assert!(sets.open(&definition("texts", DatasetType::String), None, &mut Vec::new()));
        let asks = |dataset, command, value: &[u8]| {
            sets.test(DatasetTest { dataset, command }, value, &mut Vec::new())
        };
        assert!(asks(0, DatasetCommand::IsNotSet, b"abc"));
        assert!(!asks(0, DatasetCommand::IsSet, b"abc") && !asks(0, DatasetCommand::Set, b"abc"));
        assert!(asks(0, DatasetCommand::Set, &[7; 16]));
        assert!(!asks(0, DatasetCommand::IsNotSet, &[7; 16]));
        assert!(
            asks(1, DatasetCommand::IsNotSet, b"abc") && !asks(1, DatasetCommand::IsNotSet, b"")
        );
    }

    #[test]
    fn values_without_room_are_counted() {
        let mut sets = Datasets::default();
        assert!(sets.open(&definition("seen", DatasetType::String), None, &mut Vec::new()));
        let added =
            (0..5_000).filter(|n| sets.add("seen", format!("{n:0100}").as_bytes()) == Some(true));
        let added = added.count() as u64;
        assert!(added > 100, "{added}");
        let refused =
            gabion_record::limits::take_reached().times_reached(&reached::DATASET_VALUES_MAX);
        assert_eq!(added + refused, 5_000);
    }
}
