//! Variables whose values can't be read, found before any rule names them.

use crate::address::AddressSet;
use crate::diagnostic::Refusal;
use crate::port::PortSet;
use crate::vars::RuleVars;

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
    /// Where the variable is in the configuration.
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
