//! Address and port variables (`$HOME_NET`), as the configuration defines them.

use gabion_record::Tree;

/// Variables that rule headers may name.
#[derive(Clone, Debug, Default)]
pub struct RuleVars {
    /// Addresses: name without `$`, text.
    pub addresses: Vec<(String, String)>,
    /// Ports: name without `$`, text.
    pub ports: Vec<(String, String)>,
}

impl RuleVars {
    /// From `vars.address-groups` and `vars.port-groups` of the configuration.
    pub fn from_config(config: &Tree) -> RuleVars {
        let read = |path: &str| {
            let children = config.get(path).map_or(&[][..], |t| &t.children);
            children.iter().map(|(n, t)| (n.clone(), value(t))).collect()
        };
        RuleVars { addresses: read("vars.address-groups"), ports: read("vars.port-groups") }
    }

    pub(crate) fn address(&self, name: &str) -> Option<&str> {
        self.addresses.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    pub(crate) fn port(&self, name: &str) -> Option<&str> {
        self.ports.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }
}

/// A scalar, or the items of a sequence as a list in brackets.
fn value(t: &Tree) -> String {
    if t.is_sequence {
        let items: Vec<String> = t.children.iter().map(|(_, c)| value(c)).collect();
        return format!("[{}]", items.join(","));
    }
    t.value.clone().unwrap_or_default()
}
