//! What one EVE output was configured to write.

use gabion_record::Tree;
use std::cell::Cell;
use std::sync::Arc;

/// How records name the client of a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Xff {
    /// Header that names it.
    pub header: String,
    /// Its last address counts (a reverse proxy), not its first.
    pub takes_last: bool,
    /// It replaces the client's own address.
    pub overwrites: bool,
}

impl Xff {
    /// That of a type. What the type says of it holds, also that there is none; else what the output says.
    fn of_type(output: &Tree, own: &Tree) -> Option<Xff> {
        Xff::from_config(own.child("xff").or_else(|| output.child("xff")))
    }

    fn from_config(node: Option<&Tree>) -> Option<Xff> {
        let node = node.filter(|n| n.flag("enabled") == Some(true))?;
        let is =
            |key: &str, text: &str| node.text(key).is_some_and(|t| t.eq_ignore_ascii_case(text));
        Some(Xff {
            header: node.text("header").unwrap_or("X-Forwarded-For").to_string(),
            takes_last: !is("deployment", "forward"),
            overwrites: is("mode", "overwrite"),
        })
    }
}

/// Options of alerts.
#[derive(Clone, Debug)]
pub struct AlertSettings {
    /// Base64 payload.
    pub payload: bool,
    /// Printable payload.
    pub payload_printable: bool,
    /// Payload length.
    pub payload_length: bool,
    /// Most bytes of stream payload.
    pub payload_buffer_size: usize,
    /// The frame.
    pub packet: bool,
    /// The rule as written.
    pub raw_rule: bool,
    /// Rule metadata.
    pub rule_metadata: bool,
    /// References.
    pub references: bool,
    /// Application-layer object.
    pub app_layer: bool,
    /// Flow object.
    pub flow: bool,
    /// Verdict object.
    pub verdict: bool,
    /// Tagged packets.
    pub tagged_packets: bool,
    /// The client behind a proxy.
    pub xff: Option<Xff>,
    /// Part of websocket payloads and HTTP bodies is the protocol's business; kept as configured.
    pub tree: Tree,
}

/// A type of records that is written.
#[derive(Clone, Debug)]
pub struct EveType {
    /// Its name, such as `tls`.
    pub name: String,
    /// Its node of the configuration.
    pub node: Tree,
    /// It is only named (`- tls`), which is less than a node without settings.
    pub is_only_named: bool,
}

impl EveType {
    fn named(name: &str) -> EveType {
        EveType { name: name.to_string(), node: Tree::default(), is_only_named: true }
    }
}

/// Everything one EVE output was configured to write.
#[derive(Clone, Debug)]
pub struct EveSettings {
    /// The types that are written, in order.
    pub types: Vec<EveType>,
    /// Flow bits and variables in each record.
    pub metadata: bool,
    /// Community id with its seed.
    pub community_id: Option<u16>,
    /// MAC addresses.
    pub ethernet: bool,
    /// The capture's name in each record, where the configuration says so or not.
    pub pcap_file: Option<bool>,
    /// The program's version in each record.
    pub version: bool,
    /// Host name.
    pub sensor_name: Option<String>,
    /// Options of alerts, when alerts are written.
    pub alert: Option<Arc<AlertSettings>>,
    /// How records of types name the client of a proxy, of those types that shall.
    xff: Vec<(String, Xff)>,
    /// Place among the types of the one that was asked for last.
    last: Cell<usize>,
}

impl EveSettings {
    /// Those of an output that writes files only, as an output does that says nothing else.
    pub fn files_only() -> EveSettings {
        let mut settings = EveSettings::from_config(&Tree::default(), None);
        settings.types.push(EveType { is_only_named: false, ..EveType::named("files") });
        settings
    }

    /// Those of an output that writes alerts only, with their metadata.
    pub fn alerts_only() -> EveSettings {
        let mut settings = EveSettings::from_config(&Tree::default(), None);
        settings.alert = Some(read_alert(&Tree::default()).into());
        settings.types.push(EveType { is_only_named: false, ..EveType::named("alert") });
        settings
    }

    /// Reads the node of an `eve-log` output. `sensor_name` is at the top of the configuration.
    pub fn from_config(node: &Tree, sensor_name: Option<&str>) -> EveSettings {
        let mut types = Vec::new();
        if let Some(list) = node.child("types") {
            for (_, item) in &list.children {
                if let Some(name) = &item.value {
                    types.push(EveType::named(name));
                } else if let Some((name, tree)) = item.children.first()
                    && tree.flag("enabled") != Some(false)
                {
                    let (name, node) = (name.clone(), tree.clone());
                    types.push(EveType { name, node, is_only_named: false });
                }
            }
        }
        let alert = types.iter().find(|t| t.name == "alert").map(|t| {
            let mut alert = read_alert(&t.node);
            alert.xff = Xff::of_type(node, &t.node);
            Arc::new(alert)
        });
        let xff_of = |t: &EveType| Some((t.name.clone(), Xff::of_type(node, &t.node)?));
        let xff = types.iter().filter_map(xff_of).collect();
        EveSettings {
            metadata: node.flag("metadata").unwrap_or(true),
            community_id: (node.flag("community-id") == Some(true))
                .then(|| u16::try_from(node.number("community-id-seed").unwrap_or(0)).unwrap_or(0)),
            ethernet: node.flag("ethernet").unwrap_or(false),
            pcap_file: node.flag("pcap-file"),
            version: node.flag("suricata-version").unwrap_or(false),
            sensor_name: node.text("sensor-name").or(sensor_name).map(str::to_string),
            types,
            alert,
            xff,
            last: Cell::new(0),
        }
    }

    /// How records of a type name the client of a proxy.
    pub(super) fn type_xff(&self, name: &str) -> Option<&Xff> {
        self.xff.iter().find(|(n, _)| n == name).map(|(_, xff)| xff)
    }

    /// Settings of a type, when it has a node of its own.
    pub fn type_settings(&self, name: &str) -> Option<&Tree> {
        self.written_type(name).filter(|t| !t.is_only_named).map(|t| &t.node)
    }

    /// The node of a type, when the type is written.
    pub fn type_node(&self, name: &str) -> Option<&Tree> {
        self.written_type(name).map(|t| &t.node)
    }

    /// The type of that name, when it is written.
    fn written_type(&self, name: &str) -> Option<&EveType> {
        let is_it = |t: &&EveType| t.name == name;
        // Records of a packet are mostly of one type.
        if let Some(last) = self.types.get(self.last.get()).filter(is_it) {
            return Some(last);
        }
        let (at, found) = self.types.iter().enumerate().find(|(_, t)| is_it(t))?;
        self.last.set(at);
        Some(found)
    }
}

fn read_alert(t: &Tree) -> AlertSettings {
    let flag = |path: &str, default: bool| t.flag(path).unwrap_or(default);
    // `metadata: no` switches all parts off, `metadata: yes` is the default set.
    let all = t.text("metadata").and_then(gabion_record::config::truth).unwrap_or(true);
    AlertSettings {
        payload: flag("payload", false),
        payload_printable: flag("payload-printable", false),
        payload_length: flag("payload-length", false),
        payload_buffer_size: t
            .size("payload-buffer-size")
            .and_then(|n| usize::try_from(n).ok())
            .unwrap_or(4096),
        packet: flag("packet", false),
        raw_rule: flag("metadata.rule.raw", false),
        rule_metadata: flag("metadata.rule.metadata", all),
        references: flag("metadata.rule.reference", false),
        app_layer: flag("metadata.app-layer", all),
        flow: flag("metadata.flow", all),
        verdict: flag("verdict", false),
        tagged_packets: flag("tagged-packets", true),
        xff: None,
        tree: t.clone(),
    }
}
