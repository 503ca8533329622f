//! EVE records against the peer's JSON schema, and what a schema can't say: that no key stands twice.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use boon::{Compiler, ErrorKind, SchemaIndex, Schemas, ValidationError};
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// The compiled schema of EVE records.
pub struct Schema {
    schemas: Schemas,
    root: SchemaIndex,
}

/// What was found in the files looked at.
#[derive(Debug, Default)]
pub struct Findings {
    /// Files read.
    pub files: u64,
    /// Records read.
    pub records: u64,
    /// Records that break the schema or hold a key twice.
    pub broken: u64,
    /// What is broken (indices left out), how often, and where first (file, line).
    pub kinds: BTreeMap<String, (u64, PathBuf, u64)>,
}

impl Schema {
    /// Compiles the schema in `path`.
    ///
    /// # Errors
    /// It can't be read or is no schema.
    pub fn read(path: &Path) -> Result<Schema> {
        let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        let text: Value = serde_json::from_reader(BufReader::new(file))
            .with_context(|| format!("{} is no JSON", path.display()))?;
        let mut schemas = Schemas::new();
        let mut compiler = Compiler::new();
        let name = "eve.json";
        compiler.add_resource(name, text).map_err(|e| anyhow!("{}: {e}", path.display()))?;
        let root = compiler
            .compile(name, &mut schemas)
            .map_err(|e| anyhow!("{}: {e:#}", path.display()))?;
        Ok(Schema { schemas, root })
    }

    /// What is wrong with one record; none: nothing.
    #[must_use]
    pub fn fault(&self, line: &[u8]) -> Option<String> {
        let value = match serde_json::from_slice::<Unique>(line) {
            Ok(Unique(value)) => value,
            Err(fault) => return Some(without_place(&fault.to_string())),
        };
        self.schemas.validate(&value, self.root).err().map(|fault| innermost(&fault))
    }

    /// Looks at every line of a file.
    ///
    /// # Errors
    /// It can't be read.
    pub fn file(&self, path: &Path, findings: &mut Findings) -> Result<()> {
        let cannot = || format!("cannot read {}", path.display());
        let reader = BufReader::new(File::open(path).with_context(cannot)?);
        findings.files += 1;
        for (place, line) in reader.split(b'\n').enumerate() {
            let line = line.with_context(cannot)?;
            findings.records += 1;
            if let Some(kind) = self.fault(&line) {
                findings.broken += 1;
                let first = (0, path.to_owned(), place as u64 + 1);
                findings.kinds.entry(kind).or_insert(first).0 += 1;
            }
        }
        Ok(())
    }
}

/// The first cause below which there is none, with its place in the record.
fn innermost(fault: &ValidationError<'_, '_>) -> String {
    let mut at = fault;
    while let Some(below) = at.causes.first() {
        at = below;
    }
    let place: Vec<String> = at
        .instance_location
        .tokens
        .iter()
        .map(|t| match t {
            boon::InstanceToken::Prop(name) => name.to_string(),
            boon::InstanceToken::Item(_) => "[]".to_owned(),
        })
        .collect();
    let what = match &at.kind {
        ErrorKind::AdditionalProperties { got } => {
            let names: Vec<&str> = got.iter().map(AsRef::as_ref).collect();
            format!("unknown member {}", names.join(", "))
        }
        other => other.to_string(),
    };
    format!("{}: {what}", place.join("."))
}

/// Messages of the reader without line and column, so that equal faults count as one.
fn without_place(message: &str) -> String {
    message.split(" at line ").next().unwrap_or(message).to_owned()
}

/// A JSON value none of whose objects holds a key twice.
struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(UniqueVisitor)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Unique;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a JSON value")
    }
    fn visit_unit<E>(self) -> Result<Unique, E> {
        Ok(Unique(Value::Null))
    }
    fn visit_bool<E>(self, v: bool) -> Result<Unique, E> {
        Ok(Unique(v.into()))
    }
    fn visit_i64<E>(self, v: i64) -> Result<Unique, E> {
        Ok(Unique(v.into()))
    }
    fn visit_u64<E>(self, v: u64) -> Result<Unique, E> {
        Ok(Unique(v.into()))
    }
    fn visit_f64<E>(self, v: f64) -> Result<Unique, E> {
        Ok(Unique(v.into()))
    }
    fn visit_str<E>(self, v: &str) -> Result<Unique, E> {
        Ok(Unique(v.into()))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Unique, A::Error> {
        let mut all = Vec::new();
        while let Some(Unique(item)) = items.next_element()? {
            all.push(item);
        }
        Ok(Unique(Value::Array(all)))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Unique, A::Error> {
        let mut all = serde_json::Map::new();
        while let Some(key) = members.next_key::<String>()? {
            let Unique(value) = members.next_value()?;
            if all.contains_key(&key) {
                return Err(A::Error::custom(format!("key {key} stands twice in one object")));
            }
            all.insert(key, value);
        }
        Ok(Unique(Value::Object(all)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Schema {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("schema.json");
        let text = r#"{"type":"object","additionalProperties":false,"required":["a"],
            "properties":{"a":{"type":"integer"},
            "list":{"type":"array","items":{"type":"object","additionalProperties":false}}}}"#;
        std::fs::write(&path, text).unwrap();
        Schema::read(&path).unwrap()
    }

    #[test]
    fn records_are_judged_with_the_place_of_the_fault() {
        let schema = schema();
        for (line, want) in [
            (r#"{"a":1}"#, None),
            (r#"{"a":1,"list":[{}]}"#, None),
            (r#"{"a":1,"list":[{},{"x":1}]}"#, Some("list.[]: unknown member x")),
            (r#"{"a":1,"b":2}"#, Some(": unknown member b")),
            (r#"{"a":1,"a":2}"#, Some("key a stands twice in one object")),
            (r#"{"a":1"#, Some("EOF while parsing an object")),
        ] {
            assert_eq!(schema.fault(line.as_bytes()).as_deref(), want, "{line}");
        }
        assert!(schema.fault(b"{}").is_some() && schema.fault(br#"{"a":"x"}"#).is_some());
    }
}
