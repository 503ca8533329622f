//! Reads the files of datasets: one value a line (strings in base64, hashes in hex, addresses as
//! text), perhaps with a reputation after a comma; or JSON documents.

use gabion_record::json::Json;
use gabion_rules::compiled::{DatasetDef, DatasetFormat, DatasetType};
use serde_json::Value;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How much a finding about a dataset's file matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatasetFault {
    /// A value is left out; a run that demands rules without fault ends here.
    Value,
    /// What the file holds is not taken, the set stays.
    File,
    /// The set, and with it the rule, is refused.
    Set,
}

/// A message about a dataset's file, in Suricata's words (8.0.7, observed).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetNote {
    /// The part of Suricata that prints it.
    pub subsystem: &'static str,
    /// Its words.
    pub message: String,
    /// How much it matters.
    pub fault: DatasetFault,
}

impl DatasetNote {
    pub(crate) fn new(fault: DatasetFault, subsystem: &'static str, message: String) -> Self {
        DatasetNote { subsystem, message, fault }
    }
}

/// One value's entry.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    /// Reputation.
    pub(crate) score: u16,
    /// Members that a match adds to the alert's `context`.
    pub(crate) context_json: Box<[u8]>,
}

impl Entry {
    /// An entry that adds this JSON to alerts, under the set's key; none where it is no JSON.
    pub(crate) fn with_context(def: &DatasetDef, context: &str) -> Option<Entry> {
        let value: Value = serde_json::from_str(context).ok()?;
        Some(Entry::of_value(def, &value))
    }

    fn of_value(def: &DatasetDef, value: &Value) -> Entry {
        let mut j = Json::new();
        let name = def.context_key.as_deref().unwrap_or(&def.name);
        j.key_text(name.as_bytes());
        j.push(value.to_string().as_bytes());
        Entry { score: 0, context_json: j.take_bytes().into() }
    }
}

/// Who takes values; false when no more are wanted.
pub(crate) type Add<'a> = &'a mut dyn FnMut(Box<[u8]>, Entry) -> bool;

/// A file being read.
pub(crate) struct Reading<'a> {
    pub(crate) def: &'a DatasetDef,
    /// The file's name, as messages show it.
    pub(crate) path: &'a str,
    pub(crate) add: Add<'a>,
    pub(crate) notes: &'a mut Vec<DatasetNote>,
}

/// The part of Suricata that prints what is wrong with JSON datasets.
const JSON: &str = "datasets-context-json";

impl Reading<'_> {
    /// Gives each value of the file to `add`.
    pub(crate) fn read_text(mut self, text: &[u8]) {
        match self.def.format {
            DatasetFormat::Csv => self.lines(text),
            DatasetFormat::Json => self.document(text),
            DatasetFormat::NdJson => self.documents(text),
        }
    }

    fn note(&mut self, fault: DatasetFault, subsystem: &'static str, message: String) {
        self.notes.push(DatasetNote::new(fault, subsystem, message));
    }

    /// Of lines with more than two parts nothing is taken. All lines have reputations or none.
    fn lines(&mut self, text: &[u8]) {
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        if text.is_empty() {
            return;
        }
        let name = &self.def.name;
        let mut has_scores = None;
        for line in text.split(|b| *b == b'\n') {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let mut parts = line.split(|b| *b == b',');
            let (value, score) = (parts.next().unwrap_or(&[]), parts.next());
            if parts.next().is_some() {
                continue;
            }
            if *has_scores.get_or_insert(score.is_some()) != score.is_some() {
                let said = format!(
                    "Cannot mix dataset and datarep values for set {name} in {}",
                    self.path
                );
                self.note(DatasetFault::File, "datasets", said);
                let said = format!("dataset {name} could not be processed");
                self.note(DatasetFault::Value, "datasets", said);
                return;
            }
            let score = match score {
                None => 0,
                Some(s) => match std::str::from_utf8(s).ok().and_then(|s| s.parse().ok()) {
                    Some(score) => score,
                    None => {
                        let said = format!("invalid datarep value {name} in {}", self.path);
                        self.note(DatasetFault::Value, "debug", said);
                        continue;
                    }
                },
            };
            match decode_line(self.def.kind, value) {
                Some(value) if value.is_empty() => {}
                Some(value) => {
                    if !(self.add)(value, Entry { score, context_json: Box::default() }) {
                        return;
                    }
                }
                None => {
                    let what = match self.def.kind {
                        DatasetType::String => "bad base64 encoding",
                        DatasetType::Ipv4 => "invalid Ipv4 value",
                        DatasetType::Ip => "invalid Ipv6 value",
                        // passed over in silence
                        DatasetType::Md5 | DatasetType::Sha256 => continue,
                    };
                    let said = format!("{what} {name} in {}", self.path);
                    self.note(DatasetFault::Value, "debug", said);
                }
            }
        }
    }

    fn document(&mut self, text: &[u8]) {
        let all: Value = match serde_json::from_slice(text) {
            Ok(v) => v,
            Err(e) => {
                let said = format!("can't load JSON, error on line {}: {e}", e.line());
                self.note(DatasetFault::Value, JSON, said);
                return self.not_parsed();
            }
        };
        let list = match self.def.array_key.as_deref().filter(|k| !k.is_empty()) {
            Some(key) => at_path(&all, key),
            None => Some(&all),
        };
        let Some(list) = list else {
            let key = self.def.array_key.as_deref().unwrap_or_default();
            let said = format!("dataset: {} failed to get key '{key}'", self.path);
            self.note(DatasetFault::File, JSON, said);
            return self.not_parsed();
        };
        let Some(items) = list.as_array() else {
            let said = format!("dataset: {} is not an array", self.path);
            self.note(DatasetFault::File, JSON, said);
            return self.not_parsed();
        };
        self.elements(items.iter());
    }

    fn documents(&mut self, text: &[u8]) {
        let mut items = Vec::new();
        for line in text.split(|b| *b == b'\n').filter(|l| !l.trim_ascii().is_empty()) {
            match serde_json::from_slice::<Value>(line) {
                Ok(item) => items.push(item),
                Err(e) => {
                    let said = format!("can't load JSON, error on line {}: {e}", e.line());
                    self.note(DatasetFault::Value, JSON, said);
                    return self.not_parsed();
                }
            }
        }
        self.elements(items.iter());
    }

    fn not_parsed(&mut self) {
        let said = format!("dataset: {} failed to parse from '{}'", self.def.name, self.path);
        self.note(DatasetFault::File, JSON, said);
    }

    fn elements<'v>(&mut self, items: impl Iterator<Item = &'v Value>) {
        let key = self.def.value_key.as_deref().unwrap_or_default();
        let mut found = false;
        for item in items {
            let Some(value) = at_path(item, key) else { continue };
            found = true;
            match value.as_str() {
                Some(text) => {
                    if !self.element(item, key, text) {
                        return;
                    }
                }
                None => {
                    let said = format!(
                        "dataset: {} failed to get value because it is not a string",
                        self.def.name
                    );
                    self.note(DatasetFault::Value, JSON, said);
                }
            }
        }
        if !found {
            let said =
                format!("No valid entries for key '{key}' found in the file '{}'", self.path);
            self.note(DatasetFault::Value, JSON, said);
        }
    }

    /// Takes one entry: its value, and what it adds to alerts.
    fn element(&mut self, item: &Value, key: &str, text: &str) -> bool {
        let Some(value) = decode_json(self.def.kind, text) else {
            let (name, path) = (&self.def.name, self.path);
            let said = match self.def.kind {
                DatasetType::Ipv4 => format!("datajson IPv4 parse failed {name}/{path}: {text}"),
                DatasetType::Ip => format!("dataset data parse failed {name}/{path}: {text}"),
                DatasetType::String | DatasetType::Md5 | DatasetType::Sha256 => {
                    "Not correct length for a hash".to_string()
                }
            };
            self.note(DatasetFault::Value, JSON, said);
            return true;
        };
        if value.is_empty() {
            return true;
        }
        let mut shown = item.clone();
        if self.def.remove_key
            && let Some(map) = shown.as_object_mut()
        {
            // The whole key, never a path: one inside stays.
            map.shift_remove(key);
        }
        (self.add)(value, Entry::of_value(self.def, &shown))
    }
}

/// The node at a dotted path.
fn at_path<'v>(v: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(v, |v, key| v.get(key))
}

/// A value as a line of a file has it.
/// A value as it stands in a file; none where it is no value of this type.
pub(crate) fn decode_line(kind: DatasetType, text: &[u8]) -> Option<Box<[u8]>> {
    match kind {
        DatasetType::String => {
            let mut out = Vec::new();
            crate::detect::base64::decode_strict(text, true, &mut out).then(|| out.into())
        }
        DatasetType::Ip => {
            std::str::from_utf8(text).ok()?.parse().ok().map(|a: Ipv6Addr| address(IpAddr::V6(a)))
        }
        kind => decode_json(kind, std::str::from_utf8(text).ok()?),
    }
}

/// A value as a JSON text has it.
fn decode_json(kind: DatasetType, text: &str) -> Option<Box<[u8]>> {
    match kind {
        DatasetType::String => Some(text.as_bytes().into()),
        DatasetType::Md5 => hex(text.as_bytes(), 16),
        DatasetType::Sha256 => hex(text.as_bytes(), 32),
        DatasetType::Ipv4 => text.parse().ok().map(|a: Ipv4Addr| address(IpAddr::V4(a))),
        DatasetType::Ip => text.parse().ok().map(address),
    }
}

/// IPv4 in IPv6 is kept as IPv4.
fn address(a: IpAddr) -> Box<[u8]> {
    match a.to_canonical() {
        IpAddr::V4(a) => a.octets().into(),
        IpAddr::V6(a) => a.octets().into(),
    }
}

fn hex(text: &[u8], n: usize) -> Option<Box<[u8]>> {
    if text.len() != 2 * n {
        return None;
    }
    let digit = |b: u8| char::from(b).to_digit(16);
    text.as_chunks::<2>()
        .0
        .iter()
        .map(|[a, b]| u8::try_from(digit(*a)? << 4 | digit(*b)?).ok())
        .collect::<Option<Vec<u8>>>()
        .map(Into::into)
}
