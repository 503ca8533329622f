//! What the tests of this crate share: a catalog as Suricata's own tables describe it, the default
//! variables, and where the corpus is.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

use gabion_record::Direction;
use gabion_record::applayer::{
    BufferDef, Catalog, ConditionDef, ConditionError, EventDef, Hook, LiteralForm, OwnOutputs,
    ProtoTable, Transport, TxCondition,
};
use gabion_rules::{LoadOptions, RuleVars};
use std::any::Any;
use std::sync::{Arc, OnceLock};

/// Variables of Suricata's default configuration.
pub fn vars() -> RuleVars {
    let home = "$HOME_NET";
    let address = |n: &str, v: &str| (n.to_string(), v.to_string());
    RuleVars {
        addresses: vec![
            address("HOME_NET", "[192.168.0.0/16,10.0.0.0/8,172.16.0.0/12]"),
            address("EXTERNAL_NET", "!$HOME_NET"),
            address("HTTP_SERVERS", home),
            address("SMTP_SERVERS", home),
            address("SQL_SERVERS", home),
            address("DNS_SERVERS", home),
            address("TELNET_SERVERS", home),
            address("AIM_SERVERS", "$EXTERNAL_NET"),
            address("DC_SERVERS", home),
            address("DNP3_SERVER", home),
            address("DNP3_CLIENT", home),
            address("MODBUS_CLIENT", home),
            address("MODBUS_SERVER", home),
            address("ENIP_CLIENT", home),
            address("ENIP_SERVER", home),
        ],
        ports: vec![
            address("HTTP_PORTS", "80"),
            address("SHELLCODE_PORTS", "!80"),
            address("ORACLE_PORTS", "1521"),
            address("SSH_PORTS", "22"),
            address("DNP3_PORTS", "20000"),
            address("MODBUS_PORTS", "502"),
            address("FILE_DATA_PORTS", "[$HTTP_PORTS,110,143]"),
            address("FTP_PORTS", "21"),
            address("GENEVE_PORTS", "6081"),
            address("VXLAN_PORTS", "4789"),
            address("TEREDO_PORTS", "3544"),
            address("SIP_PORTS", "[5060, 5061]"),
        ],
    }
}

/// Options without classes and files.
pub fn options() -> LoadOptions<'static> {
    LoadOptions::default()
}

#[derive(Debug)]
struct Whatever;

impl TxCondition for Whatever {
    fn matches(&self, _: &dyn Any, _: Direction) -> bool {
        true
    }
}

fn accept(_: Option<&str>) -> Result<Arc<dyn TxCondition>, ConditionError> {
    Ok(Arc::new(Whatever))
}

/// The catalog of `catalog.tsv`.
pub fn catalog() -> &'static Catalog {
    static CATALOG: OnceLock<Catalog> = OnceLock::new();
    CATALOG.get_or_init(|| Catalog::new(&tables()))
}

fn leak<T>(items: Vec<T>) -> &'static [T] {
    items.leak()
}

fn words(text: &'static str) -> &'static [&'static str] {
    leak(text.split(',').filter(|w| !w.is_empty()).collect())
}

/// The hooks of a list of all protocols' that are this one's.
fn hooks_of(proto: &str, text: &'static str) -> &'static [Hook] {
    leak(
        text.split(' ').filter(|h| !h.is_empty()).filter_map(|text| hook_of(proto, text)).collect(),
    )
}

fn hook_of(proto: &str, text: &'static str) -> Option<Hook> {
    let at = text.find(['<', '>']).expect("a hook has a direction");
    let direction =
        if text.as_bytes()[at] == b'>' { Direction::ToServer } else { Direction::ToClient };
    let progress = text[at + 1..].parse().expect("a progress");
    (&text[..at] == proto).then(|| Hook::new(direction, progress, 0))
}

fn tables() -> Vec<ProtoTable> {
    let rows: Vec<Vec<&'static str>> = include_str!("catalog.tsv")
        .lines()
        .filter(|l| !l.starts_with('#'))
        .map(|l| l.split('\t').collect())
        .collect();
    let of = |kind: &'static str| rows.iter().filter(move |r| r[0] == kind);
    of("proto")
        .map(|r| {
            let name = r[1];
            let mine = |text: &'static str| hooks_of(name, text);
            ProtoTable {
                name,
                eve_name: r[2],
                rule_names: words(r[3]),
                is_counted_by_transport: false,
                has_uncounted_txs: false,
                events_from: [0; 2],
                transports: match r[4] {
                    "t" => &[Transport::Tcp],
                    "u" => &[Transport::Udp],
                    _ => &[Transport::Tcp, Transport::Udp],
                },
                states_to_server: words(r[5]),
                states_to_client: words(r[6]),
                buffers: leak(
                    of("buffer")
                        .map(|b| (b, mine(b[10])))
                        .filter(|(_, hooks)| !hooks.is_empty())
                        .map(|(b, hooks)| buffer(b, name, hooks))
                        .collect(),
                ),
                integers: &[],
                conditions: leak(
                    of("condition")
                        .map(|c| (c, mine(c[2])))
                        .filter(|(_, hooks)| !hooks.is_empty())
                        .map(|(c, hooks)| ConditionDef {
                            name: c[1],
                            aliases: &[],
                            parse: accept,
                            hooks,
                        })
                        .collect(),
                ),
                events: leak(
                    (0u16..)
                        .zip(of("event").filter(|e| e[1] == name))
                        .map(|(code, e)| EventDef { name: e[2], code })
                        .collect(),
                ),
                events_in_capitals: false,
                frames: &[],
                any_version: (name == "http1").then_some("http_any"),
                own_outputs: OwnOutputs::NONE,
                advises_modifiers: matches!(name, "http1" | "http2"),
                has_memory_counters: false,
                refuses_file_names: false,
                other_keywords: match name {
                    "tls" => &["tls_store"],
                    "smb" | "dcerpc" => &["dce"],
                    _ => &[],
                },
            }
        })
        .collect()
}

fn buffer(b: &[&'static str], proto: &str, hooks: &'static [Hook]) -> BufferDef {
    let legacy = proto == "http1";
    BufferDef {
        name: b[1],
        internal: b[2],
        description: b[3],
        aliases: &[],
        modifier: (legacy && !b[4].is_empty()).then_some(b[4]),
        pcre_flag: b[5].bytes().next().filter(|_| legacy),
        priority: b[6].parse().expect("a priority"),
        multi: b[7] == "multi",
        streaming: matches!(b[2], "http_client_body" | "file_data"),
        lower_case: b[8] == "lower",
        form: match b[9] {
            "md5" => LiteralForm::Md5,
            "fingerprint" => LiteralForm::Fingerprint,
            "serial" => LiteralForm::Serial,
            _ => LiteralForm::Any,
        },
        hooks,
        ..BufferDef::PLAIN
    }
}
