//! Validates EVE records against Suricata's JSON schema, and checks what a schema can't express:
//! that no key occurs twice.

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
    /// Paths of members that the schema does not have and that are right all the same.
    own: Vec<Vec<String>>,
}

/// The results for the checked files.
#[derive(Debug, Default)]
pub struct Findings {
    /// Files read.
    pub files: u64,
    /// Records read.
    pub records: u64,
    /// Records that violate the schema or have a key twice.
    pub broken: u64,
    /// Each violation (without indices), with its count and first place (file, line).
    pub kinds: BTreeMap<String, (u64, PathBuf, u64)>,
}

impl Schema {
    /// Compiles the schema in `path`. `own` are members that stand in records though the schema does
    /// not have them: dotted paths, lists as `[]`. `protocols` are those that Gabion has; of those that
    /// the schema lacks, their records' object and their counters are right.
    ///
    /// # Errors
    /// It can't be read or is no schema.
    pub fn read(path: &Path, own: &[String], protocols: &[String]) -> Result<Schema> {
        let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        let text: Value = serde_json::from_reader(BufReader::new(file))
            .with_context(|| format!("{} is no JSON", path.display()))?;
        let mut own: Vec<Vec<String>> =
            own.iter().map(|path| path.split('.').map(str::to_owned).collect()).collect();
        own.extend(protocols.iter().flat_map(|name| members_of_protocol(&text, name)));
        let mut schemas = Schemas::new();
        let mut compiler = Compiler::new();
        let name = "eve.json";
        compiler.add_resource(name, text).map_err(|e| anyhow!("{}: {e}", path.display()))?;
        let root = compiler
            .compile(name, &mut schemas)
            .map_err(|e| anyhow!("{}: {e:#}", path.display()))?;
        Ok(Schema { schemas, root, own })
    }

    /// The fault of a record; `None` if it is valid.
    #[must_use]
    pub fn fault(&self, line: &[u8]) -> Option<String> {
        let mut value = match serde_json::from_slice::<Unique>(line) {
            Ok(Unique(value)) => value,
            Err(fault) => return Some(without_place(&fault.to_string())),
        };
        for path in &self.own {
            take_out(&mut value, path);
        }
        self.schemas.validate(&value, self.root).err().map(|fault| innermost(&fault))
    }

    /// Checks every line of a file.
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

/// Members of records that a protocol has, none when the schema knows the protocol: its object under
/// its own name, and its counters.
fn members_of_protocol(schema: &Value, name: &str) -> Vec<Vec<String>> {
    let counters = &schema["properties"]["stats"]["properties"]["app_layer"]["properties"];
    let is_known = |kind: &str| {
        let known = |name: &str| counters[kind]["properties"].get(name).is_some();
        known(name) || known(&format!("{name}_tcp"))
    };
    if is_known("flow") || schema["properties"].get(name).is_some() {
        return Vec::new();
    }
    let ends = [name.to_owned(), format!("{name}_tcp"), format!("{name}_udp")];
    let counters = ["flow", "tx", "error"].into_iter().flat_map(|kind| {
        ends.iter().map(move |end| ["stats", "app_layer", kind, end].map(str::to_owned).to_vec())
    });
    counters.chain([vec![name.replace('-', "_")]]).collect()
}

/// Takes the member at a path out of a record.
fn take_out(value: &mut Value, path: &[String]) {
    match path {
        [] => {}
        [last] => {
            if let Value::Object(members) = value {
                members.remove(last);
            }
        }
        [first, rest @ ..] => match value {
            Value::Array(items) if first == "[]" => {
                items.iter_mut().for_each(|item| take_out(item, rest));
            }
            Value::Object(members) => {
                if let Some(below) = members.get_mut(first) {
                    take_out(below, rest);
                }
            }
            _ => {}
        },
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

/// A JSON value whose objects have no key twice.
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
                return Err(A::Error::custom(format!("key {key} occurs twice in one object")));
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
            "list":{"type":"array","items":{"type":"object","additionalProperties":false}},
            "stats":{"type":"object","properties":{"app_layer":{"type":"object","properties":{
            "flow":{"type":"object","additionalProperties":false,
            "properties":{"tls":{},"dns_tcp":{}}}}}}}}}"#;
        std::fs::write(&path, text).unwrap();
        let own = ["list.[].ours".to_owned(), "more".to_owned()];
        Schema::read(&path, &own, &["tls", "dns", "echo"].map(str::to_owned)).unwrap()
    }

    #[test]
    fn members_of_ours_and_of_protocols_of_ours_are_right() {
        let schema = schema();
        for (line, want) in [
            (r#"{"a":1,"more":{},"list":[{"ours":1},{"ours":{}}]}"#, None),
            (r#"{"a":1,"ours":1}"#, Some(": unknown member ours")),
            (r#"{"a":1,"echo":{"x":1},"stats":{"app_layer":{"flow":{"echo":1,"tls":1}}}}"#, None),
            (r#"{"a":1,"tls":{}}"#, Some(": unknown member tls")),
            (
                r#"{"a":1,"stats":{"app_layer":{"flow":{"dns":1}}}}"#,
                Some("stats.app_layer.flow: unknown member dns"),
            ),
        ] {
            assert_eq!(schema.fault(line.as_bytes()).as_deref(), want, "{line}");
        }
    }

    #[test]
    fn records_are_judged_with_the_place_of_the_fault() {
        let schema = schema();
        for (line, want) in [
            (r#"{"a":1}"#, None),
            (r#"{"a":1,"list":[{}]}"#, None),
            (r#"{"a":1,"list":[{},{"x":1}]}"#, Some("list.[]: unknown member x")),
            (r#"{"a":1,"b":2}"#, Some(": unknown member b")),
            (r#"{"a":1,"a":2}"#, Some("key a occurs twice in one object")),
            (r#"{"a":1"#, Some("EOF while parsing an object")),
        ] {
            assert_eq!(schema.fault(line.as_bytes()).as_deref(), want, "{line}");
        }
        assert!(schema.fault(b"{}").is_some() && schema.fault(br#"{"a":"x"}"#).is_some());
    }
}
