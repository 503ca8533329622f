//! Address and port variables (`$HOME_NET`), as the configuration defines them.

use crate::address::AddressSet;
use crate::diagnostic::Refusal;
use crate::port::PortSet;
use gabion_record::Tree;

/// Variables that rule headers may name.
#[derive(Clone, Debug, Default)]
pub struct RuleVars {
    /// Addresses: name without `$`, text.
    pub addresses: Vec<(String, String)>,
    /// Ports: name without `$`, text.
    pub ports: Vec<(String, String)>,
}

/// A variable whose value can't be read: whatever rule names it would be refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VarFault {
    /// `address` or `port`.
    pub kind: &'static str,
    /// Name without `$`.
    pub name: String,
    /// Its text.
    pub value: String,
    /// The part of Suricata that says what is wrong.
    pub subsystem: &'static str,
    /// What is wrong.
    pub why: String,
}

impl VarFault {
    /// Where the variable stands in the configuration.
    pub fn key(&self) -> String {
        format!("vars.{}-groups.{}", self.kind, self.name)
    }
}

impl RuleVars {
    /// Variables whose values can't be read. One without a value is as if it were not there.
    pub fn faults(&self) -> Vec<VarFault> {
        let addresses = self.addresses.iter().map(|(name, value)| {
            ("address", name, value, AddressSet::parse(&format!("${name}"), self).err())
        });
        let ports = self.ports.iter().map(|(name, value)| {
            ("port", name, value, PortSet::parse(&format!("${name}"), self).err())
        });
        addresses
            .chain(ports)
            .filter(|(_, _, value, _)| !value.trim().is_empty())
            .filter_map(|(kind, name, value, refusal)| {
                let Refusal { subsystem, message, reason, .. } = refusal?;
                Some(VarFault {
                    kind,
                    name: name.clone(),
                    value: value.clone(),
                    subsystem,
                    why: if message.is_empty() { reason.unwrap_or_default() } else { message },
                })
            })
            .collect()
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    /// Those that Suricata 8.0.7 ends with ("basic address vars test failed"), and one that it takes.
    #[test]
    fn values_that_cannot_be_read_are_found_before_any_rule() {
        let list = |all: &[(&str, &str)]| {
            all.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect::<Vec<_>>()
        };
        let vars = RuleVars {
            addresses: list(&[
                ("HOME_NET", "any"),
                ("EXTERNAL_NET", "!$HOME_NET"),
                ("A", "banana"),
                ("B", "$NOPE"),
                ("C", ""),
                ("D", "[10.0.0.0/8,!10.1.0.0/16]"),
            ]),
            ports: list(&[("P", "banana"), ("Q", "99999"), ("R", "[80,8080:8090]")]),
        };
        let keys: Vec<String> = vars.faults().iter().map(VarFault::key).collect();
        let addresses = ["EXTERNAL_NET", "A", "B"].map(|n| format!("vars.address-groups.{n}"));
        let ports = ["P", "Q"].map(|n| format!("vars.port-groups.{n}"));
        assert_eq!(keys, [&addresses[..], &ports[..]].concat());
    }
}
