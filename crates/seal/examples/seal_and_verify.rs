//! Seals three messages in a folder and verifies the log, without a key and with one.
//!
//!     cargo run -p gabion-seal --example seal_and_verify
#![allow(clippy::print_stdout, reason = "its results are for a terminal")]

use gabion_seal::storage::Files;
use gabion_seal::verify::{Anchor, Options, Verdict, verify};
use gabion_seal::{
    Flags, Init, Kind, Policy, Record, SecretKey, Source, Transport, Writer, checkpoints,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("gabion-seal-{}", std::process::id()));
    let (log_folder, state_folder) = (folder.join("log"), folder.join("log.state"));
    std::fs::create_dir_all(&folder)?;
    // The caller has the clock: nanoseconds since 1970.
    let now_ns = 1_700_000_000_000_000_000;

    // The reader of the log. A host that only writes needs the recipient alone.
    let secret = SecretKey::generate()?;
    let recipients = vec![secret.recipient().clone()];

    // Folders are opened with the rights of this process.
    let files = gabion_runtime::files::direct_opener();
    let mut log = Files::create_folder(&files, &log_folder)?;
    let state = Files::create_folder(&files, &state_folder)?;
    Init::new("host.example/log", now_ns).create(&mut log, state)?;

    let (log, state) = (Files::open(&files, &log_folder)?, Files::open(&files, &state_folder)?);
    let (mut writer, _) = Writer::open(log, state, recipients, Policy::default(), now_ns)?;
    let source = Source::new(Transport::Udp, 1, "192.0.2.1:514", "");
    for bytes in [&b"<13>one"[..], b"<13>two", b"<13>three"] {
        let record =
            Record { time_ns: now_ns, kind: Kind::Message, flags: Flags::default(), bytes };
        let ticket = writer.append(&record, &source)?;
        // Before a message is acknowledged: sealed, written, synced.
        writer.commit(now_ns)?;
        assert!(ticket < writer.durable());
    }
    writer.close(now_ns)?;

    // A checkpoint that left the host says that nothing was cut off the end.
    let log = Files::open(&files, &log_folder)?;
    let last = checkpoints::tail(&log)?.and_then(|tail| tail.last).ok_or("no checkpoint")?;
    let anchors = || Anchor::parse_file("anchor", last.note.to_string().as_bytes());
    for keys in [&[][..], std::slice::from_ref(&secret)] {
        let options = Options { keys, anchors: anchors()?, jobs: 1, ..Options::default() };
        let report = verify(&log, &options, &mut |_, _| {})?;
        let (keys, opened) = (keys.len(), report.opened_records);
        println!("{} with {keys} keys: {opened} records opened", report.verdict().name());
        assert_eq!(report.verdict(), Verdict::Ok);
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
