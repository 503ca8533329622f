//! A log server that takes TCP syslog into a sealed log: `log_server FOLDER ADDRESS [SECONDS]`.
//!
//! The log is made where there is none, with a reader's key in FOLDER.key. It ends after that many seconds, or when the
//! log can't be written any more.

use gabion_intake::{Endpoint, Notice, Place, Report, SealedLog, Server, ServerSettings, bind};
use gabion_logs::dialect::Dialect;
use gabion_runtime::StopFlag;
use gabion_seal::durable::{LogFolder, OnFull};
use gabion_seal::storage::Files;
use gabion_seal::{Init, Policy, SecretKey};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let log = PathBuf::from(arguments.next().ok_or("name a folder for the log")?);
    let address = arguments.next().ok_or("name an address to listen on")?.parse()?;
    let seconds = arguments.next().map(|seconds| seconds.parse()).transpose()?;
    let stop = StopFlag::new();
    if let Some(seconds) = seconds {
        let flag = stop.clone();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_secs(seconds));
            flag.set();
        });
    }
    let report: Report = Arc::new(|notice: &Notice| eprintln!("{notice}"));
    let folder = log_folder(&log)?;
    let sink = SealedLog::open(folder, None, OnFull::Block, stop.clone(), &report)?;
    let dialect = Dialect::named("tcp").ok_or("no such dialect")?;
    let sockets = bind(&[Endpoint { dialect, place: Place::Address(address) }])?;
    Server::new(ServerSettings::default(), sockets, None, sink, report)?.run(&stop)?;
    Ok(())
}

/// The log, made where there is none.
fn log_folder(log: &Path) -> Result<LogFolder, Box<dyn Error>> {
    let (state, key) = (log.with_extension("state"), log.with_extension("key"));
    let files = gabion_runtime::files::direct_opener();
    if !log.exists() {
        let secret = SecretKey::generate()?;
        let text = secret.to_text().ok_or("a key that has no text")?;
        std::fs::write(&key, text.as_bytes())?;
        let now = gabion_runtime::clock::epoch_ns();
        let (mut made, signer) =
            (Files::create_folder(&files, log)?, Files::create_folder(&files, &state)?);
        Init::new("example/log", now).create(&mut made, signer)?;
    }
    let keys = SecretKey::parse_file(&std::fs::read_to_string(&key)?)?;
    let recipients = vec![keys.recipient().clone()];
    Ok(LogFolder { files, log: log.to_owned(), state, recipients, policy: Policy::default() })
}
