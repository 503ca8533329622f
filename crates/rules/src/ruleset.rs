//! A compiled rule set: signatures in internal order and all they share.

use crate::address::AddressSet;
use crate::file::HashList;
use crate::names::Names;
use crate::port::PortSet;
use crate::signature::Signature;
use crate::text::{Text, TextArena};
use crate::transform::Transform;
use gabion_record::applayer::ProtoId;
use std::sync::Arc;

/// Signatures and what they share. Read-only once loaded; workers share it.
#[derive(Clone, Debug, Default)]
pub struct Ruleset {
    /// The signatures, in internal order.
    pub signatures: Vec<Signature>,
    /// All texts.
    pub texts: TextArena,
    /// Names of the rule files.
    pub files: Vec<String>,
    /// Address sets; number 0 is any.
    pub addresses: Vec<AddressSet>,
    /// Port sets; number 0 is any.
    pub ports: Vec<PortSet>,
    /// Chains of transforms; number 0 is empty.
    pub chains: Vec<Box<[Transform]>>,
    /// Names of flowbits.
    pub flowbits: Names,
    /// Names of flow integers.
    pub flowints: Names,
    /// Names of xbits.
    pub xbits: Names,
    /// Names of hostbits.
    pub hostbits: Names,
    /// Names of captured variables.
    pub variables: Names,
    /// Short names of reputation categories.
    pub categories: Names,
    /// Frames that rules name.
    pub frames: Vec<FrameRef>,
    /// Datasets that rules name.
    pub datasets: Vec<DatasetDef>,
    /// Lua scripts that rules name.
    pub scripts: Vec<ScriptRef>,
    /// Hash lists that rules name.
    pub hash_lists: Vec<HashList>,
    /// Classes.
    pub classes: Vec<Classification>,
    /// Reference systems: short name, and what an address of that system begins with.
    pub reference_systems: Vec<(String, String)>,
    /// The outcomes of the rules.
    pub counts: Counts,
    /// Rules whose `requires` is not met, the first of many.
    pub skipped: Vec<SkippedRule>,
}

/// A rule whose `requires` is not met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedRule {
    /// Its file's place in [`Ruleset::files`].
    pub file: u16,
    /// Its line.
    pub line: u32,
    /// Its text.
    pub text: String,
    /// What is not met, and the value of `requires`, in Suricata's words.
    pub unmet: String,
}

/// The outcomes of the rules of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rule files read.
    pub files: u32,
    /// Rules loaded (a rule with `<>` counts once).
    pub loaded: u32,
    /// Rules refused.
    pub failed: u32,
    /// Rules whose `requires` is not met.
    pub skipped: u32,
    /// Loaded rules that can never match here.
    pub inert: u32,
}

/// A frame: part of a protocol's stream that rules inspect (`tls.pdu`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameRef {
    /// Protocol; `None` when this sensor does not have it.
    pub proto: Option<ProtoId>,
    /// Whole name as written, resolved (`tls.pdu`, `http1.request`).
    pub name: String,
}

/// Type of a dataset's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DatasetType {
    /// Any bytes.
    String,
    /// MD5.
    Md5,
    /// SHA-256.
    Sha256,
    /// IPv4 address.
    Ipv4,
    /// IPv6 address or mapped IPv4 address.
    Ip,
}

/// Format of a dataset's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum DatasetFormat {
    /// One value a line, perhaps with a reputation.
    #[default]
    Csv,
    /// A JSON document.
    Json,
    /// One JSON document a line.
    NdJson,
}

impl DatasetType {
    /// The type of a name in rules and configuration.
    pub fn from_name(name: &str) -> Option<DatasetType> {
        Some(match name {
            "string" => DatasetType::String,
            "md5" => DatasetType::Md5,
            "sha256" => DatasetType::Sha256,
            "ipv4" => DatasetType::Ipv4,
            "ip" | "ipv6" => DatasetType::Ip,
            _ => return None,
        })
    }
}

impl DatasetDef {
    /// A set of texts of that name, in no file.
    pub fn new(name: &str) -> DatasetDef {
        DatasetDef {
            name: name.to_string(),
            kind: DatasetType::String,
            load: None,
            save: None,
            rule_folder: String::new(),
            has_reputation: false,
            memcap: 0,
            hashsize: 0,
            format: DatasetFormat::Csv,
            value_key: None,
            array_key: None,
            context_key: None,
            remove_key: false,
        }
    }
}

/// A dataset as its rules describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetDef {
    /// Name.
    pub name: String,
    /// Type.
    pub kind: DatasetType,
    /// File read at start, as written.
    pub load: Option<String>,
    /// File written at the end.
    pub save: Option<String>,
    /// Folder of the rule file: what `load` is relative to, when it is there.
    pub rule_folder: String,
    /// Values have reputations (`datarep`).
    pub has_reputation: bool,
    /// Bytes at most (0: default).
    pub memcap: u64,
    /// Size of the table (0: default).
    pub hashsize: u32,
    /// Format of the file.
    pub format: DatasetFormat,
    /// JSON: key of the value.
    pub value_key: Option<String>,
    /// JSON: path of the array.
    pub array_key: Option<String>,
    /// JSON: name under which the entry is added to the alert.
    pub context_key: Option<String>,
    /// JSON: take the value's own key out of what is added.
    pub remove_key: bool,
}

/// A Lua script as one keyword of one rule uses it: each use has globals of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptRef {
    /// Path, resolved against the rule file.
    pub path: String,
    /// It is a transform (`luaxform`).
    pub is_transform: bool,
    /// What it holds and registers.
    pub facts: ScriptFacts,
    /// Number of each of its byte variables in the rule.
    pub byte_variables: Vec<u8>,
    /// Number of each of its flow variables in [`Ruleset::variables`].
    pub flow_variables: Vec<u32>,
    /// Number of each of its flow integers in [`Ruleset::flowints`].
    pub flow_integers: Vec<u32>,
}

/// A class of rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classification {
    /// Short name (`trojan-activity`).
    pub name: String,
    /// Text that alerts carry.
    pub text: String,
    /// Priority of its rules.
    pub priority: u32,
}

impl Ruleset {
    /// A text of a signature.
    #[inline]
    pub fn text(&self, t: Text) -> &str {
        self.texts.get(t)
    }

    /// The message, empty when the rule has none.
    pub fn msg(&self, s: &Signature) -> &str {
        s.msg.map_or("", |m| self.texts.get(m))
    }

    /// The file of a rule and its line, as messages name them.
    pub fn place(&self, s: &Signature) -> String {
        let file = self.files.get(usize::from(s.file)).map_or("?", |f| f.as_str());
        format!("{file}:{}", s.line)
    }

    /// The protocol as the rule writes it: its second word.
    pub fn header_protocol(&self, s: &Signature) -> &str {
        self.text(s.raw).split_whitespace().nth(1).unwrap_or("")
    }

    /// The text of the rule's class, empty when it has none.
    pub fn category(&self, s: &Signature) -> &str {
        s.class.and_then(|c| self.classes.get(usize::from(c))).map_or("", |c| &c.text)
    }

    /// The addresses of a signature's references: those with a scheme as they are, others after the prefix of their
    /// system, which is `undefined` if it is not known (Suricata 8.0.7).
    pub fn references<'a>(&'a self, s: &'a Signature) -> impl Iterator<Item = String> + 'a {
        s.references.iter().map(|reference| {
            let (system, text) = (self.texts.get(reference.system), self.texts.get(reference.text));
            if text.contains("://") {
                return text.to_string();
            }
            let known =
                self.reference_systems.iter().find(|(name, _)| name.eq_ignore_ascii_case(system));
            format!("{}{text}", known.map_or("undefined", |(_, prefix)| prefix))
        })
    }

    /// Key and value of each metadata entry, in the order written. An entry without a value is
    /// left out, as Suricata does.
    pub fn metadata<'a>(&'a self, s: &'a Signature) -> impl Iterator<Item = (&'a str, &'a str)> {
        s.metadata.iter().flat_map(|t| self.texts.get(*t).split(',')).filter_map(|entry| {
            let (key, value) = entry.trim().split_once(char::is_whitespace)?;
            Some((key, value.trim()))
        })
    }
}

/// What a Lua script says of itself when its `init` is run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptFacts {
    /// Its text.
    pub source: Arc<[u8]>,
    /// It is run on packets with payload only (`needs["payload"]`).
    pub needs_payload: bool,
    /// It may keep something from one run to the next, so that the order of its runs matters.
    pub keeps_state: bool,
    /// Names of the rule's byte variables that it reads.
    pub byte_variables: Vec<String>,
    /// Names of flow variables that it reads and writes.
    pub flow_variables: Vec<String>,
    /// Names of flow integers that it reads and writes.
    pub flow_integers: Vec<String>,
    /// It reads JA3.
    pub ja3: bool,
    /// It reads hassh.
    pub hassh: bool,
}
