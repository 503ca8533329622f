//! Settings of the decoders: which UDP ports carry tunnels, and how many layers are decoded.

use crate::limits::{MAX_LAYERS, MAX_TUNNEL_PORTS, reached};
use gabion_record::Tree;

/// The UDP ports on which one kind of tunnel is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelPorts {
    ports: [u16; MAX_TUNNEL_PORTS],
    count: u8,
    any: bool,
}

impl TunnelPorts {
    /// No port: the tunnel is not decoded.
    pub const NONE: TunnelPorts =
        TunnelPorts { ports: [0; MAX_TUNNEL_PORTS], count: 0, any: false };
    /// Every port.
    pub const ANY: TunnelPorts = TunnelPorts { ports: [0; MAX_TUNNEL_PORTS], count: 0, any: true };

    /// These ports; those beyond [`MAX_TUNNEL_PORTS`] are left out.
    pub const fn from_list(list: &[u16]) -> TunnelPorts {
        let mut ports = TunnelPorts::NONE;
        while (ports.count as usize) < MAX_TUNNEL_PORTS && (ports.count as usize) < list.len() {
            ports.ports[ports.count as usize] = list[ports.count as usize];
            ports.count += 1;
        }
        ports
    }

    /// Parses a port list as in rules: `3544`, `[3544, 1234]`, `any`. Negated entries, ranges and
    /// entries that cannot be parsed are left out.
    pub fn parse(text: &str) -> TunnelPorts {
        let text = text.trim();
        if text == "any" {
            return TunnelPorts::ANY;
        }
        let mut list = [0; MAX_TUNNEL_PORTS];
        let mut count = 0;
        let inside = text.trim_start_matches('[').trim_end_matches(']');
        for port in inside.split(',').filter_map(|word| word.trim().parse::<u16>().ok()) {
            if reached::MAX_TUNNEL_PORTS.has_room(count)
                && let Some(place) = list.get_mut(count)
            {
                *place = port;
                count += 1;
            }
        }
        TunnelPorts::from_list(list.get(..count).unwrap_or(&[]))
    }

    /// Whether the tunnel is decoded on this port.
    #[inline]
    pub fn has(&self, port: u16) -> bool {
        if self.any {
            return true;
        }
        self.ports.iter().take(usize::from(self.count)).any(|own| *own == port)
    }
}

/// Settings of the decoders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeConfig {
    /// VXLAN: the destination port counts.
    pub vxlan: TunnelPorts,
    /// Geneve: either port counts.
    pub geneve: TunnelPorts,
    /// Teredo: either port counts.
    pub teredo: TunnelPorts,
    /// Layers before decoding stops.
    pub max_layers: u8,
}

impl DecodeConfig {
    /// Suricata's defaults: VXLAN 4789, Geneve 6081, Teredo 3544, 16 layers.
    pub const DEFAULT: DecodeConfig = DecodeConfig {
        vxlan: TunnelPorts::from_list(&[4789]),
        geneve: TunnelPorts::from_list(&[6081]),
        teredo: TunnelPorts::from_list(&[3544]),
        max_layers: MAX_LAYERS,
    };

    /// From the resolved configuration: `decoder.{vxlan,geneve,teredo}.{enabled,ports}`, where
    /// ports are a list or a name of `vars.port-groups`, and `decoder.max-layers`. An absent key
    /// keeps its default; Teredo without configured ports is decoded on every port, as in Suricata.
    pub fn from_tree(tree: &Tree) -> DecodeConfig {
        let ports = |kind: &str, default: TunnelPorts| {
            if tree.flag(&format!("decoder.{kind}.enabled")) == Some(false) {
                return TunnelPorts::NONE;
            }
            let Some(text) = tree.text(&format!("decoder.{kind}.ports")) else {
                return default;
            };
            match text.strip_prefix('$') {
                Some(name) => match tree.text(&format!("vars.port-groups.{name}")) {
                    Some(text) => TunnelPorts::parse(text),
                    None => default,
                },
                None => TunnelPorts::parse(text),
            }
        };
        let layers = tree.number("decoder.max-layers").unwrap_or(u64::from(MAX_LAYERS));
        DecodeConfig {
            vxlan: ports("vxlan", DecodeConfig::DEFAULT.vxlan),
            geneve: ports("geneve", DecodeConfig::DEFAULT.geneve),
            teredo: ports("teredo", TunnelPorts::ANY),
            max_layers: u8::try_from(layers).unwrap_or(MAX_LAYERS).clamp(1, MAX_LAYERS),
        }
    }
}

impl Default for DecodeConfig {
    fn default() -> DecodeConfig {
        DecodeConfig::DEFAULT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_lists_are_read_as_rules_write_them() {
        assert_eq!(TunnelPorts::parse("4789"), TunnelPorts::from_list(&[4789]));
        assert_eq!(TunnelPorts::parse("[8472, 4789]"), TunnelPorts::from_list(&[8472, 4789]));
        assert_eq!(TunnelPorts::parse("[!3544]"), TunnelPorts::NONE);
        assert!(TunnelPorts::parse("any").has(1));
        assert!(!TunnelPorts::NONE.has(0));
        let many = TunnelPorts::parse("1,2,3,4,5,6,7,8,9");
        assert!(many.has(8) && !many.has(9));
        assert_eq!(
            gabion_record::limits::take_reached().times_reached(&reached::MAX_TUNNEL_PORTS),
            1
        );
    }

    #[test]
    fn the_tree_overrides_the_defaults() {
        let mut tree = Tree::default();
        // Without a configured port Teredo is decoded on every port.
        let by_default = DecodeConfig { teredo: TunnelPorts::ANY, ..DecodeConfig::DEFAULT };
        assert_eq!(DecodeConfig::from_tree(&tree), by_default);
        tree.set("decoder.teredo.ports", "3544");
        assert_eq!(DecodeConfig::from_tree(&tree), DecodeConfig::DEFAULT);
        tree.set("decoder.vxlan.ports", "$VXLAN_PORTS");
        tree.set("vars.port-groups.VXLAN_PORTS", "[8472, 4789]");
        tree.set("decoder.teredo.enabled", "false");
        tree.set("decoder.max-layers", "4");
        let config = DecodeConfig::from_tree(&tree);
        assert!(config.vxlan.has(8472) && config.vxlan.has(4789));
        assert_eq!(config.teredo, TunnelPorts::NONE);
        assert_eq!(config.max_layers, 4);
    }
}
