//! EVE records of SNMP.

use super::SnmpTx;
use super::tables::{PDU_NAMES, TRAP_NAMES};
use crate::ber::oid_text;
use gabion_record::json::Json;

/// Writes the record.
pub(super) fn write(tx: &SnmpTx, json: &mut Json) {
    json.number("version", tx.version);
    match tx.pdu {
        // Suricata says no more of these, not even the user.
        None => return json.field_plain("pdu_type", "encrypted"),
        Some(pdu) => match PDU_NAMES.get(usize::from(pdu)) {
            Some(name) => json.field_plain("pdu_type", name),
            None => json.field_plain("pdu_type", &format!("Unknown(0x{pdu:x})")),
        },
    }
    if let Some(trap) = &tx.trap {
        let found = TRAP_NAMES.iter().find(|(_, n)| *n == u64::from(trap.kind));
        match found {
            Some((name, _)) => json.field_plain("trap_type", name),
            None => json.field_plain("trap_type", &format!("Unknown({})", trap.kind)),
        }
        json.field_plain("trap_oid", &oid_text(&trap.oid));
        if let Some([a, b, c, d]) = trap.address {
            json.field_plain("trap_address", &format!("{a}.{b}.{c}.{d}"));
        }
    }
    if !tx.variables.is_empty() {
        json.open_array_key("vars");
        tx.variables.iter().for_each(|v| json.item(oid_text(v)));
        json.close_array();
    }
    if let Some(community) = &tx.community {
        json.field("community", community);
    }
    if let Some(user) = &tx.user {
        json.field("usm", user);
    }
}
