//! Settings of HTTP/1, as Suricata's configuration has them under `app-layer.protocols.http.libhtp`.
//!
//! There is a default set and any number of further ones that hold for servers at certain
//! addresses. Keys, defaults and units are Suricata's (8.0.7); what is not set in a file has the
//! value Suricata gives it, which for the body limits is far less than what its shipped file says.
//! Randomized inspection sizes are read and not done: the same input must give the same findings.

use super::decode::{Decoding, InvalidEscape};
use crate::Endpoints;
use crate::settings_error::SettingsError;
use gabion_record::Tree;
use gabion_record::config::truth;
use std::net::IpAddr;
use std::sync::Arc;

/// How much of a body is kept and when it is examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BodyLimits {
    /// Bytes that are inspected and stored; 0: all.
    pub(crate) limit: u64,
    /// Bytes to wait for before the first inspection.
    pub(crate) inspect_min: u64,
    /// Bytes of a further inspection.
    pub(crate) window: u64,
    /// Every piece is inspected as it comes; `None`: when the engine works inline.
    pub(crate) inline: Option<bool>,
}

/// Which servers' reading of requests to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Personality {
    Minimal,
    Generic,
    Ids,
    Iis51,
    Iis6,
    Iis7,
    Apache2,
}

/// Settings for a server.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) personality: Personality,
    pub(crate) uri: Decoding,
    pub(crate) request: BodyLimits,
    pub(crate) response: BodyLimits,
    /// Bytes of one line or header field.
    pub(crate) field_limit: usize,
    pub(crate) headers_limit: usize,
    pub(crate) max_tx: usize,
    /// Encodings undone one after the other; `None`: no limit.
    pub(crate) layers_max: Option<u32>,
    pub(crate) lzma_layers_max: Option<u32>,
    /// Bytes of an lzma dictionary; 0: no lzma.
    pub(crate) lzma_memlimit: usize,
    pub(crate) bomb_limit: u64,
    pub(crate) bombs_max: u8,
    pub(crate) swf: Option<SwfDepths>,
}

/// Decompression of Flash files in response bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SwfDepths {
    pub(crate) deflate: bool,
    pub(crate) lzma: bool,
    /// Bytes read of the compressed file; 0: all.
    pub(crate) compressed: u64,
    /// Bytes made of it; 0: as many as the file says.
    pub(crate) decompressed: u64,
}

impl Default for Config {
    fn default() -> Config {
        let body =
            BodyLimits { limit: 4096, inspect_min: 32768, window: 4096, inline: Some(false) };
        Config {
            personality: Personality::Minimal,
            uri: Decoding::default(),
            request: body,
            response: body,
            field_limit: 18000,
            headers_limit: 1024,
            max_tx: 512,
            layers_max: Some(2),
            lzma_layers_max: Some(1),
            lzma_memlimit: 1 << 20,
            bomb_limit: 1 << 20,
            bombs_max: 3,
            swf: None,
        }
    }
}

impl Config {
    fn set_personality(&mut self, personality: Personality) {
        self.personality = personality;
        let u = &mut self.uri;
        match personality {
            Personality::Minimal => {}
            Personality::Generic | Personality::Iis51 => {
                u.backslash_is_separator = true;
                u.decode_separators = true;
                u.compress_separators = true;
                u.u_escapes &= personality == Personality::Generic;
            }
            Personality::Ids => {
                u.backslash_is_separator = true;
                u.decode_separators = true;
                u.compress_separators = true;
                u.utf8_best_fit = true;
                u.u_escapes = true;
            }
            Personality::Iis6 | Personality::Iis7 => {
                u.backslash_is_separator = true;
                u.decode_separators = true;
                u.compress_separators = true;
                u.u_escapes = true;
            }
            Personality::Apache2 => {
                u.backslash_is_separator = false;
                u.decode_separators = false;
                u.compress_separators = true;
                u.u_escapes = false;
            }
        }
    }

    /// Reads one set of keys over these settings.
    fn read_node(&mut self, node: &Tree) -> Result<(), SettingsError> {
        for (key, child) in &node.children {
            let Some(value) = child.value.as_deref() else {
                if key == "swf-decompression" {
                    self.swf = read_swf(child)?;
                }
                continue;
            };
            self.read_key(key, value)?;
        }
        Ok(())
    }

    fn read_key(&mut self, key: &str, value: &str) -> Result<(), SettingsError> {
        let bad = || SettingsError::Value { key: key.to_owned(), value: value.to_owned() };
        let flag = || truth(value).unwrap_or(false);
        let size = || gabion_record::config::parse_size(value).ok_or_else(bad);
        let number = || value.trim().parse::<u32>().map_err(|_| bad());
        match key {
            "personality" => match value.to_ascii_lowercase().as_str() {
                "minimal" => self.set_personality(Personality::Minimal),
                "generic" => self.set_personality(Personality::Generic),
                "ids" => self.set_personality(Personality::Ids),
                "iis_5_1" => self.set_personality(Personality::Iis51),
                "iis_6_0" => self.set_personality(Personality::Iis6),
                "iis_7_0" | "iis_7_5" => self.set_personality(Personality::Iis7),
                "apache_2" | "apache" => self.set_personality(Personality::Apache2),
                // Suricata has no rules for the rest either: they leave things as they are.
                _ => {}
            },
            "request-body-limit" => self.request.limit = size()?,
            "response-body-limit" => self.response.limit = size()?,
            "request-body-minimal-inspect-size" => self.request.inspect_min = size()?,
            "request-body-inspect-window" => self.request.window = size()?,
            "response-body-minimal-inspect-size" => self.response.inspect_min = size()?,
            "response-body-inspect-window" => self.response.window = size()?,
            "response-body-decompress-layer-limit" => {
                self.layers_max = Some(number()?).filter(|n| *n > 0);
            }
            "double-decode-path" => self.uri.double_decode_path = flag(),
            "double-decode-query" => self.uri.double_decode_query = flag(),
            "path-convert-backslash-separators" => self.uri.backslash_is_separator = flag(),
            "path-bestfit-replacement-char" => {
                self.uri.replacement = *value.as_bytes().first().ok_or_else(bad)?;
            }
            "path-convert-lowercase" => self.uri.lower_case = flag(),
            "path-nul-encoded-terminates" => self.uri.encoded_nul_terminates = flag(),
            "path-nul-raw-terminates" => self.uri.raw_nul_terminates = flag(),
            "path-separators-compress" => self.uri.compress_separators = flag(),
            "path-separators-decode" => self.uri.decode_separators = flag(),
            "path-u-encoding-decode" => self.uri.u_escapes = flag(),
            "path-url-encoding-invalid-handling" => {
                self.uri.invalid_escape = match value.to_ascii_lowercase().as_str() {
                    "preserve_percent" => InvalidEscape::Keep,
                    "remove_percent" => InvalidEscape::Drop,
                    "decode_invalid" => InvalidEscape::Process,
                    _ => return Err(bad()),
                };
            }
            "path-utf8-convert-bestfit" => self.uri.utf8_best_fit = flag(),
            "uri-include-all" => self.uri.include_all = flag(),
            "query-plusspace-decode" => self.uri.plus_is_space = flag(),
            "meta-field-limit" => {
                self.field_limit = usize::try_from(size()?).map_err(|_| bad())?.max(1);
            }
            "lzma-enabled" => match truth(value) {
                Some(true) => self.lzma_layers_max = Some(1),
                // "no" changes nothing in Suricata (measured), a number is a count of layers.
                Some(false) => {}
                None => self.lzma_layers_max = Some(number()?).filter(|n| *n > 0),
            },
            "lzma-memlimit" => self.lzma_memlimit = usize::try_from(size()?).map_err(|_| bad())?,
            "compression-bomb-limit" => self.bomb_limit = size()?.max(1),
            "compression-bomb-count" => self.bombs_max = number()?.clamp(1, 255) as u8,
            "max-tx" => self.max_tx = number()?.max(1) as usize,
            "headers-limit" => self.headers_limit = number()?.max(1) as usize,
            "http-body-inline" => {
                let inline = match value.to_ascii_lowercase().as_str() {
                    "auto" => None,
                    _ => Some(flag()),
                };
                self.request.inline = inline;
                self.response.inline = inline;
            }
            // Sizes aren't randomized and work is bounded by bytes, not by the clock, so that the
            // same input gives the same findings.
            _ => {}
        }
        Ok(())
    }
}

fn read_swf(node: &Tree) -> Result<Option<SwfDepths>, SettingsError> {
    if node.flag("enabled") != Some(true) {
        return Ok(None);
    }
    let kind = node.text("type").unwrap_or("both").to_ascii_lowercase();
    if !matches!(kind.as_str(), "deflate" | "lzma" | "both") {
        let key = "swf-decompression.type".to_owned();
        return Err(SettingsError::Value { key, value: kind });
    }
    Ok(Some(SwfDepths {
        deflate: kind != "lzma",
        lzma: kind != "deflate",
        compressed: node.size("compress-depth").unwrap_or(0),
        decompressed: node.size("decompress-depth").unwrap_or(0),
    }))
}

/// An address or network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    version: u8,
    first: u128,
    mask: u128,
}

impl Network {
    fn parse(text: &str) -> Option<Network> {
        let (address, bits) = match text.trim().split_once('/') {
            Some((a, b)) => (a, Some(b.parse::<u32>().ok()?)),
            None => (text.trim(), None),
        };
        let address: IpAddr = address.parse().ok()?;
        let (version, width) = if address.is_ipv4() { (4, 32) } else { (6, 128) };
        let bits = bits.unwrap_or(width);
        if bits > width {
            return None;
        }
        let mask = if bits == 0 { 0 } else { u128::MAX << (128 - bits) };
        Some(Network {
            version,
            first: gabion_record::Addr::from_ip(address).as_u128() & mask,
            mask,
        })
    }
}

/// All settings: the default and those of certain servers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    default: Arc<Config>,
    servers: Vec<(Vec<Network>, Arc<Config>)>,
}

impl Settings {
    /// Reads the node of the protocol (`app-layer.protocols.http`).
    pub(crate) fn from_node(node: Option<&Tree>) -> Result<Settings, SettingsError> {
        let Some(libhtp) = node.and_then(|n| n.get("libhtp")) else {
            return Ok(Settings::default());
        };
        let mut default = Config::default();
        if let Some(set) = libhtp.child("default-config") {
            default.read_node(set).map_err(|e| e.below("libhtp.default-config"))?;
        }
        let mut servers = Vec::new();
        let list = libhtp.child("server-config").map_or(&[][..], |l| &l.children);
        for (name, item) in list {
            // An item is a mapping of one key, the set's name; some files leave the name out.
            let set = match item.children.as_slice() {
                [(_, only)] if item.child("address").is_none() => only,
                _ => item,
            };
            let mut config = Config::default();
            config.read_node(set).map_err(|e| e.below(format!("libhtp.server-config.{name}")))?;
            let Some(addresses) = set.child("address") else { continue };
            let mut texts: Vec<&str> = addresses.value.iter().map(String::as_str).collect();
            texts.extend(addresses.children.iter().filter_map(|(_, t)| t.value.as_deref()));
            let networks = texts.iter().map(|t| {
                Network::parse(t).ok_or_else(|| {
                    let fault = SettingsError::Address { text: (*t).to_owned() };
                    fault.below(format!("libhtp.server-config.{name}"))
                })
            });
            servers.push((networks.collect::<Result<_, _>>()?, Arc::new(config)));
        }
        Ok(Settings { default: Arc::new(default), servers })
    }

    /// The settings for a flow: those of its server, the narrowest network first.
    pub(crate) fn for_server(&self, endpoints: &Endpoints) -> Arc<Config> {
        let address = endpoints.server.as_u128();
        let mut best: Option<(u32, &Arc<Config>)> = None;
        for (networks, config) in &self.servers {
            for n in networks {
                let matches = n.version == endpoints.ip_version && address & n.mask == n.first;
                let bits = n.mask.leading_ones();
                if matches && best.is_none_or(|(b, _)| bits > b) {
                    best = Some((bits, config));
                }
            }
        }
        Arc::clone(best.map_or(&self.default, |(_, c)| c))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_record::Addr;

    #[test]
    fn settings_are_read_and_chosen_by_server() {
        let mut t = Tree::default();
        t.set("libhtp.default-config.personality", "IDS");
        t.set("libhtp.default-config.response-body-limit", "100 KiB");
        t.set("libhtp.default-config.response-body-decompress-layer-limit", "0");
        t.set("libhtp.server-config.0.apache.address.0", "192.168.1.0/24");
        t.set("libhtp.server-config.0.apache.address.1", "::1");
        t.set("libhtp.server-config.0.apache.personality", "Apache_2");
        let s = Settings::from_node(Some(&t)).unwrap();
        let server = |a| Endpoints { ip_version: 4, server: Addr::v4(a), ..Endpoints::default() };
        let other = s.for_server(&server([10, 0, 0, 1]));
        assert_eq!(other.personality, Personality::Ids);
        assert_eq!((other.response.limit, other.layers_max), (102_400, None));
        assert_eq!(other.request.limit, 4096);
        assert!(!other.uri.lower_case && other.uri.u_escapes);
        let apache = s.for_server(&server([192, 168, 1, 9]));
        assert_eq!(apache.personality, Personality::Apache2);
    }

    #[test]
    fn wrong_values_are_named() {
        let mut t = Tree::default();
        t.set("libhtp.default-config.max-tx", "many");
        let e = Settings::from_node(Some(&t)).unwrap_err();
        assert_eq!(e.to_string(), "libhtp.default-config: invalid value for max-tx: \"many\"");
    }
}
