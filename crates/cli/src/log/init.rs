//! `gabion log init`: makes a log.

use super::options::{Init, NewLogOptions};
use super::times::now_ns;
use super::{Ended, LogFault, folders};
use crate::exit::Message;
use crate::{direct_opener, standard_output};
use gabion_record::hex::to_hex;
use gabion_record::json::Json;
use gabion_seal::Recipient;
use gabion_seal::{CreateError, Created, NewLog};
use std::path::Path;

/// Makes a log in folders that are made too, with those above them; where that fails, nothing of it stays.
pub(crate) fn make(
    folders: (&Path, &Path),
    origin: &str,
    recipients: &[Recipient],
    new: &NewLogOptions,
) -> Result<Created, LogFault> {
    let (log, state) = folders;
    let new_log = NewLog {
        files: &direct_opener(),
        log,
        state,
        origin,
        recipients,
        checkpoint_chunks: new.checkpoint_chunks,
        checkpoint_seconds: new.checkpoint_seconds,
        allows_network: new.allow_network_fs,
        now_ns: now_ns(),
    };
    new_log.create(&mut |warning| eprintln!("gabion: {warning}")).map_err(fault)
}

/// The fault that goes with an error of a log that is made, or of its readers.
pub(super) fn fault(e: CreateError) -> LogFault {
    let text = Message::from(&e);
    match e {
        CreateError::Network { .. } => {
            LogFault::environment(format!("{}: use a local disk, or --allow-network-fs", text.text))
        }
        CreateError::Key(e) => LogFault::from(e),
        CreateError::Log { path, source } => LogFault::from(source).about(&path),
        CreateError::UnreadableSeed { .. } | CreateError::NoSeed { .. } => LogFault::input(text),
        _ => LogFault::environment(text),
    }
}

pub(super) fn run(options: &Init) -> Ended {
    let recipients = folders::recipients(&options.recipients)?;
    let state_path = folders::state_of(&options.folder.log, options.folder.state.as_deref());
    let folders = (options.folder.log.as_path(), state_path.as_path());
    let identity = make(folders, &options.origin, &recipients, &options.new)?.identity;
    let vkey = identity.vkey.to_string();
    if options.output.json {
        let mut json = Json::new();
        json.open();
        json.field("origin", &identity.origin);
        json.field("vkey", &vkey);
        json.field("log_id", to_hex(&identity.log_id()));
        json.open_array_key("recipients");
        recipients.iter().for_each(|r| json.item(to_hex(&r.id())));
        json.close_array();
        json.close();
        standard_output::line(String::from_utf8_lossy(json.bytes()));
    } else {
        standard_output::line(vkey);
        eprintln!("gabion: keep this public key off the host: it is what `verify --vkey` pins");
    }
    Ok(0)
}
