//! The record of a transaction.

use super::ids::FileId;
use super::names;
use super::status::Status;
use super::tx::{Create, Kind, Negotiate, SessionSetup, SmbTx, TreeConnect};
use super::wire::id_text;
use crate::LogOptions;
use gabion_record::json::Json;

/// The record's type in `outputs.eve-log.types.smb.types`.
fn type_name(kind: &Kind) -> &'static str {
    match kind {
        Kind::Generic => "generic",
        Kind::Negotiate(_) => "negotiate",
        Kind::SessionSetup(_) => "session_setup",
        Kind::TreeConnect(_) => "tree_connect",
        Kind::Create(_) => "create",
        Kind::File(_) => "file",
        Kind::Rename(_) => "rename",
        Kind::SetDisposition(_) => "set_file_path_info",
        Kind::Ioctl { .. } => "ioctl",
        Kind::Rpc(_) => "dcerpc",
    }
}

/// Whether the configuration asks for records of this type.
fn is_wanted(kind: &Kind, how: LogOptions<'_>) -> bool {
    let types = how.config.and_then(|config| config.child("types"));
    let Some(types) = types.filter(|_| !how.in_alert) else { return true };
    types.children.iter().any(|(_, item)| item.value.as_deref() == Some(type_name(kind)))
}

/// Writes the members of the object.
pub(super) fn write(tx: &SmbTx, json: &mut Json, how: LogOptions<'_>) -> bool {
    if !is_wanted(&tx.kind, how) {
        return false;
    }
    json.number("id", tx.id + 1);
    json.field("dialect", tx.dialect.text());
    json.field("command", names::command_text(tx.version, tx.command));
    match tx.status {
        None => {}
        Some(Status::Nt(code)) => {
            json.field("status", Status::Nt(code).name().as_bytes());
            json.field("status_code", format!("0x{code:x}"));
        }
        Some(status @ Status::Dos { code, .. }) => {
            json.field("status", status.name().as_bytes());
            json.field("status_code", format!("0x{code:04x}"));
        }
    }
    json.number("session_id", tx.ids.session);
    json.number("tree_id", tx.ids.tree);
    match &tx.kind {
        Kind::Generic => {}
        Kind::Negotiate(negotiate) => write_negotiate(negotiate, json),
        Kind::SessionSetup(setup) => write_session_setup(setup, json),
        Kind::TreeConnect(tree) => write_tree(tree, json),
        Kind::Create(create) => write_create(create, json),
        Kind::File(file) => {
            json.field("filename", readable(&file.name));
            json.field("share", readable(&file.share));
            write_file_id(Some(file.file), json);
        }
        Kind::Rename(rename) => {
            json.open_key("rename");
            json.field("from", readable(&rename.from));
            json.field("to", readable(&rename.to));
            json.close();
            if rename.has_info {
                json.open_key("set_info");
                json.field_plain("class", "FILE_INFO");
                json.field_plain("info_level", "SMB2_FILE_RENAME_INFO");
                json.close();
            }
            write_file_id(rename.file, json);
        }
        Kind::SetDisposition(set) => {
            json.field("filename", readable(&set.name));
            if let Some(sub_command) = set.sub_command {
                json.field_plain("subcmd", sub_command);
                json.field_plain("level_of_interest", "Set Disposition Information");
            }
            json.field_plain("access", names::access_text(set.is_deleted));
            write_file_id(set.file, json);
        }
        Kind::Ioctl { function } => {
            json.field("function", names::function_text(*function).as_bytes())
        }
        Kind::Rpc(call) => call.write(json),
    }
    true
}

fn write_negotiate(negotiate: &Negotiate, json: &mut Json) {
    json.open_array_key("client_dialects");
    for name in &negotiate.dialect_names {
        json.item(readable(name));
    }
    for number in &negotiate.dialect_numbers {
        json.item(names::number_text(*number));
    }
    json.close_array();
    if let Some(guid) = &negotiate.client_guid {
        json.field("client_guid", id_text(guid));
    }
    json.field("server_guid", negotiate.server_guid.as_ref().map(id_text).unwrap_or_default());
    if let Some((read, write)) = negotiate.sizes_max {
        json.number("max_read_size", read);
        json.number("max_write_size", write);
    }
}

fn write_session_setup(setup: &SessionSetup, json: &mut Json) {
    if let Some(kerberos) = &setup.kerberos {
        json.open_key("kerberos");
        json.field("realm", readable(&kerberos.realm));
        json.open_array_key("snames");
        for name in &kerberos.service_names {
            json.item(readable(name));
        }
        json.close_array();
        json.close();
    }
    if let Some(ntlmssp) = &setup.ntlmssp {
        json.open_key("ntlmssp");
        json.field("domain", readable(&ntlmssp.domain));
        json.field("user", readable(&ntlmssp.user));
        json.field("host", readable(&ntlmssp.host));
        if let Some(version) = ntlmssp.version_text() {
            json.field("version", version);
        }
        json.close();
    }
    for (key, systems) in
        [("request", &setup.request_systems), ("response", &setup.response_systems)]
    {
        if let Some((native_os, native_lm)) = systems {
            json.open_key(key);
            json.field("native_os", readable(native_os));
            json.field("native_lm", readable(native_lm));
            json.close();
        }
    }
}

fn write_tree(tree: &TreeConnect, json: &mut Json) {
    json.field(if tree.is_pipe { "named_pipe" } else { "share" }, readable(&tree.name));
    match &tree.service {
        Some((asked, found)) => {
            json.open_key("service");
            json.field("request", readable(asked));
            if let Some(found) = found {
                json.field("response", readable(found));
            }
            json.close();
        }
        None => json.field_plain("share_type", names::share_type_text(tree.share_type)),
    }
}

fn write_create(create: &Create, json: &mut Json) {
    json.field(if create.is_directory { "directory" } else { "filename" }, readable(&create.name));
    json.field("disposition", names::disposition_text(create.disposition));
    json.field_plain("access", names::access_text(create.is_deleted_on_close));
    for (key, at) in ["created", "accessed", "modified", "changed"].into_iter().zip(create.times) {
        json.number(key, at);
    }
    json.number("size", create.size);
    write_file_id(create.file, json);
}

/// An identifier of SMB 1 is written as a number, one of SMB 2 in the order of the wire.
fn write_file_id(file: Option<FileId>, json: &mut Json) {
    let text = match file {
        None => String::new(),
        Some(FileId::Short(id)) => format!("{id:04x}"),
        Some(FileId::Long(id)) => id_text(&id),
    };
    json.field("fuid", text);
}

/// A text in which what is no UTF-8 is the replacement character, as Suricata 8.0.7 writes it here.
fn readable(text: &[u8]) -> Vec<u8> {
    String::from_utf8_lossy(text).into_owned().into_bytes()
}
