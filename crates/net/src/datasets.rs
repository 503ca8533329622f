//! Datasets: sets of values that rules ask and write.
//!
//! Sets that no rule writes are read by all workers at any time; the others are state across flows,
//! which several workers use in packet order (`order`).

use foldhash::fast::RandomState;
use gabion_record::json::base64_into;
use gabion_rules::Ruleset;
use gabion_rules::content::{BufferCondition, DatarepTest, DatasetCommand, DatasetTest};
use gabion_rules::ruleset::{DatasetDef, DatasetType};
use hashbrown::HashMap;
use std::sync::RwLock;

/// Values of one set at most, unless its rule says otherwise.
const VALUES_MAX: usize = 1 << 20;

/// One value's entry.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    /// Reputation.
    pub(crate) score: u16,
    /// Members that a match adds to the alert's `context`.
    pub(crate) context_json: Box<[u8]>,
}

/// One set.
#[derive(Debug)]
struct Set {
    def: DatasetDef,
    is_written: bool,
    values: RwLock<HashMap<Box<[u8]>, Entry, RandomState>>,
}

/// All datasets of a rule set.
#[derive(Debug, Default)]
pub struct Datasets {
    sets: Vec<Set>,
}

impl Datasets {
    /// Loads the sets. The text of a set's file comes from `read`, errors name the set.
    pub fn load(
        defs: &[DatasetDef],
        read: &dyn Fn(&str) -> Result<Vec<u8>, String>,
    ) -> Result<Datasets, String> {
        let mut sets = Vec::new();
        for def in defs {
            let mut values = HashMap::default();
            if let Some(path) = &def.load {
                // A state file need not be there at the first run.
                let is_state = def.save.as_ref() == Some(path);
                let text = match read(path) {
                    Ok(text) => text,
                    Err(_) if is_state => Vec::new(),
                    Err(e) => return Err(e),
                };
                crate::dataset_file::parse(def, &text, &mut |value, entry| {
                    if values.len() < VALUES_MAX {
                        values.insert(value, entry);
                    }
                })
                .map_err(|e| format!("dataset: {} {e} ({path})", def.name))?;
            }
            sets.push(Set { def: def.clone(), is_written: false, values: RwLock::new(values) });
        }
        Ok(Datasets { sets })
    }

    /// Notes which sets these rules write.
    pub(crate) fn note_writers(&mut self, rules: &Ruleset) {
        let conditions =
            rules.signatures.iter().flat_map(|s| &s.buffers).flat_map(|b| &b.conditions);
        for c in conditions {
            if let BufferCondition::Dataset(t) = c
                && matches!(t.command, DatasetCommand::Set | DatasetCommand::Unset)
                && let Some(set) = self.sets.get_mut(t.dataset as usize)
            {
                set.is_written = true;
            }
        }
    }

    /// Whether rules write this set, so that who asks it when matters.
    pub(crate) fn is_written(&self, dataset: u32) -> bool {
        self.sets.get(dataset as usize).is_some_and(|s| s.is_written)
    }

    /// Value of a buffer as the set keeps it: hashes and addresses are of fixed length.
    fn fits(def: &DatasetDef, value: &[u8]) -> bool {
        match def.kind {
            DatasetType::String => !value.is_empty(),
            DatasetType::Md5 => value.len() == 16,
            DatasetType::Sha256 => value.len() == 32,
            DatasetType::Ipv4 => value.len() == 4,
            DatasetType::Ip => matches!(value.len(), 4 | 16),
        }
    }

    pub(crate) fn test(&self, t: DatasetTest, value: &[u8], context: &mut Vec<u8>) -> bool {
        let Some(set) = self.sets.get(t.dataset as usize) else { return false };
        if !Self::fits(&set.def, value) {
            return false;
        }
        let Ok(values) = set.values.read() else { return false };
        let found = values.get(value);
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
                values.len() < VALUES_MAX && values.insert(value.into(), Entry::default()).is_none()
            }
            DatasetCommand::Unset => {
                if found.is_none() {
                    return false;
                }
                drop(values);
                set.values.write().is_ok_and(|mut v| v.remove(value).is_some())
            }
        }
    }

    pub(crate) fn reputation(&self, t: DatarepTest, value: &[u8]) -> bool {
        let Some(set) = self.sets.get(t.dataset as usize) else { return false };
        let Ok(values) = set.values.read() else { return false };
        values.get(value).is_some_and(|e| t.condition.matches(u64::from(e.score)))
    }

    /// Text of each set that is to be saved, with its path: sorted, so that it is the same each time.
    pub fn saves(&self) -> Vec<(String, Vec<u8>)> {
        let mut out = Vec::new();
        for set in &self.sets {
            let Some(path) = &set.def.save else { continue };
            let Ok(values) = set.values.read() else { continue };
            let mut lines: Vec<Vec<u8>> =
                values.iter().map(|(v, e)| line(&set.def, v, e)).collect();
            lines.sort();
            out.push((path.clone(), lines.concat()));
        }
        out
    }
}

fn line(def: &DatasetDef, value: &[u8], entry: &Entry) -> Vec<u8> {
    let mut out = Vec::new();
    match def.kind {
        DatasetType::String => base64_into(value, &mut out),
        DatasetType::Md5 | DatasetType::Sha256 => {
            for b in value {
                out.extend_from_slice(format!("{b:02x}").as_bytes());
            }
        }
        DatasetType::Ipv4 | DatasetType::Ip => {
            let text = match (<[u8; 4]>::try_from(value), <[u8; 16]>::try_from(value)) {
                (Ok(v4), _) => std::net::Ipv4Addr::from(v4).to_string(),
                (_, Ok(v6)) => std::net::Ipv6Addr::from(v6).to_string(),
                _ => String::new(),
            };
            out.extend_from_slice(text.as_bytes());
        }
    }
    if def.has_reputation {
        out.extend_from_slice(format!(",{}", entry.score).as_bytes());
    }
    out.push(b'\n');
    out
}
