//! EVE records of NFS: an object of the remote procedure call, and one of the procedure.

use super::procedure::{procedure_name, state_name};
use super::rpc::Credentials;
use super::tx::NfsTx;
use gabion_record::json::Json;

/// Writes the members of `rpc`.
pub(super) fn write_rpc(tx: &NfsTx, json: &mut Json) {
    json.number("xid", tx.xid);
    json.field_plain("status", "ACCEPTED");
    match &tx.credentials {
        Credentials::None => json.field_plain("auth_type", "NULL"),
        Credentials::Unix { .. } => json.field_plain("auth_type", "UNIX"),
        Credentials::Gss => json.field_plain("auth_type", "GSS"),
        Credentials::Other(2) => json.field_plain("auth_type", "SHORT"),
        Credentials::Other(flavor) => json.field_plain("auth_type", &flavor.to_string()),
    }
    if let Credentials::Unix { machine, uid, gid } = &tx.credentials {
        json.open_key("creds");
        json.field("machine_name", String::from_utf8_lossy(machine).as_ref());
        json.number("uid", *uid);
        json.number("gid", *gid);
        json.close();
    }
}

/// Writes the members of `nfs`.
pub(super) fn write_nfs(tx: &NfsTx, json: &mut Json) {
    json.number("version", tx.version);
    json.field_plain("procedure", &procedure_name(tx.version, tx.procedure));
    json.field("filename", String::from_utf8_lossy(&tx.name).as_ref());
    if !tx.handle.is_empty() {
        let mut crc = flate2::Crc::new();
        crc.update(&tx.handle);
        json.field_plain("hhash", &format!("{:x}", crc.sum()));
    }
    json.number("id", tx.id.saturating_add(1));
    json.boolean("file_tx", tx.transfer.is_some());
    json.field_plain("type", "response");
    json.field_plain("status", &state_name(tx.state));
    let key = match tx.procedure {
        super::procedure::v3::READ => Some("read"),
        super::procedure::v3::WRITE => Some("write"),
        _ => None,
    };
    if let Some(key) = key {
        json.open_key(key);
        json.boolean("first", tx.transfer.is_some());
        json.boolean("last", tx.transfer.as_ref().is_some_and(|t| t.is_last));
        if let Some(transfer) = &tx.transfer {
            json.number("last_xid", transfer.last_xid);
            json.number("chunks", transfer.chunks);
        }
        json.close();
    }
    if let Some(new_name) = &tx.new_name {
        json.open_key("rename");
        json.field("from", String::from_utf8_lossy(&tx.name).as_ref());
        json.field("to", String::from_utf8_lossy(new_name).as_ref());
        json.close();
    }
}
