//! Outputs through the crate's public surface: a flow, an alert, files of several workers, rotation, a full disk.

use gabion_outputs::{Destination, LineBatch, OutputError, Outputs, Piece, PieceKind, eve};
use gabion_record::eve::{
    AlertRecord, AlertSignature, AppProtoNames, AppRecord, FileChunk, FileFacts, FileKey,
    FileRecord, FlowRecord, FlowSummary, Header, NetSink, WriteObject,
};
use gabion_record::files::{FileOpener, OpenMode};
use gabion_record::flow_state::{EndReason, FlowState};
use gabion_record::json::Json;
use gabion_record::{Addr, Direction, IpProto, Tree};
use gabion_runtime::output::Existing;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

const TS: u64 = 1_720_520_130_123_456_000;

fn header(flow: u64) -> Header<'static> {
    Header {
        ts_ns: TS + flow * 1000,
        flow_id: Some(flow),
        parent_id: None,
        pcap_cnt: Some(flow),
        device: 0,
        vlan: &[],
        ip_version: 4,
        src: Addr::v4([192, 0, 2, 1]),
        dst: Addr::v4([198, 51, 100, 7]),
        ports: Some((40000, 443)),
        ip_proto: IpProto::TCP,
        icmp: None,
        spi: None,
        pkt_src: Some(gabion_record::PacketSource::Wire),
        metadata: None,
        ether: None,
    }
}

fn summary() -> FlowSummary {
    FlowSummary {
        pkts: [3, 2],
        bytes: [300, 200],
        start_ns: TS,
        client: Addr::v4([192, 0, 2, 1]),
        server: Addr::v4([198, 51, 100, 7]),
        ports: Some((40000, 443)),
        ip_version: 4,
    }
}

fn flow(id: u64) -> FlowRecord<'static> {
    FlowRecord {
        header: header(id),
        app_proto: AppProtoNames { app_proto: Some("tls"), ..AppProtoNames::default() },
        summary: summary(),
        end_ns: TS + 2_000_000_000,
        state: FlowState::Closed,
        reason: EndReason::Timeout,
        is_alerted: false,
        is_alert_asked: false,
        action: None,
        tx_count: Some(1),
        exception_policies: &[],
        tcp: None,
        icmp_response: None,
        ttl: [(64, 64), (57, 57)],
        macs: (&[], &[]),
    }
}

fn alert(id: u64) -> AlertRecord<'static> {
    AlertRecord {
        header: header(id),
        signature: AlertSignature {
            gid: 1,
            sid: 9_000_001,
            rev: 2,
            msg: "TEST one",
            has_msg: true,
            category: "",
            severity: 3,
            metadata_json: b"",
            confidence: b"",
            references_json: b"",
            rule: "",
            engine: None,
        },
        firewall: None,
        is_blocked: false,
        is_reject: false,
        drop_mark: None,
        source_target: None,
        context_json: b"",
        tx_id: None,
        is_tx_guessed: false,
        progress: None,
        app: None,
        files: None,
        app_proto: AppProtoNames::default(),
        direction: None,
        flow: Some(summary()),
        payload: b"",
        is_stream: false,
        payload_len: 0,
        packet: b"",
        link: 1,
        tunnel: None,
        frame_json: b"",
        verdict: None,
        forwarded_for: None,
        loss: None,
        question: None,
    }
}

fn file(flow: u64, number: u32) -> FileRecord<'static> {
    FileRecord {
        header: header(flow),
        app: None,
        app_proto: AppProtoNames::default(),
        file: FileFacts {
            name: b"a.bin",
            sids: &[],
            has_gaps: false,
            state: "CLOSED",
            md5: None,
            sha1: None,
            sha256: Some([number as u8; 32]),
            is_stored: true,
            is_storing: false,
            file_id: Some(FileKey::new(flow, number)),
            size: 3,
            range: None,
            tx_id: 0,
            magic: None,
        },
        forwarded_for: None,
    }
}

/// `fast.log`, `eve.json` with alerts, flows and files, and a file store.
fn config() -> Tree {
    let mut config = Tree::default();
    config.set("outputs.0.fast.enabled", "yes");
    config.set("outputs.1.eve-log.enabled", "yes");
    for (n, event_type) in ["alert", "flow", "files"].into_iter().enumerate() {
        config.set(&format!("outputs.1.eve-log.types.{n}"), event_type);
    }
    config.set("outputs.2.file-store.enabled", "yes");
    config.set("outputs.2.file-store.version", "2");
    config.set("outputs.2.file-store.write-fileinfo", "yes");
    config
}

fn open(config: &Tree, folder: &Path) -> Result<Outputs, OutputError> {
    let files = gabion_runtime::files::direct_opener();
    Outputs::open(&files, config, folder, Some(Existing::Truncate), &mut |_, _| {
        panic!("no packet log is configured")
    })
}

fn read(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap()
}

#[test]
fn a_flow_and_an_alert_are_lines_of_eve_and_fast_log() {
    let folder = tempfile::tempdir().unwrap();
    let mut outputs = open(&config(), folder.path()).unwrap();
    let wants = outputs.wants();
    assert!(wants.alerts && wants.flows && wants.files && wants.file_store && !wants.wire);
    outputs.alert(&alert(7));
    outputs.flow(&flow(7));
    outputs.flush().unwrap();
    // The form of Suricata 8.0's fast.log.
    let fast = read(folder.path(), "fast.log");
    let end = "  [**] [1:9000001:2] TEST one [**] [Classification: (null)] [Priority: 3] {TCP} \
               192.0.2.1:40000 -> 198.51.100.7:443\n";
    assert!(fast.ends_with(end), "{fast}");
    let eve = read(folder.path(), "eve.json");
    let lines: Vec<&str> = eve.lines().collect();
    assert_eq!(lines.len(), 2);
    for part in ["\"event_type\":\"alert\"", "\"signature_id\":9000001", "\"src_port\":40000"] {
        assert!(lines[0].contains(part), "{part} in {}", lines[0]);
    }
    for part in ["\"event_type\":\"flow\"", "\"pkts_toserver\":3", "\"reason\":\"timeout\""] {
        assert!(lines[1].contains(part), "{part} in {}", lines[1]);
    }
    let counts = outputs.tally();
    assert_eq!((counts.alerts[0].sid, counts.alerts[0].count), (9_000_001, 1));
    assert_eq!(counts.records, [("alert".to_owned(), 1), ("flow".to_owned(), 1)]);
    for (path, ledger) in outputs.files() {
        ledger.balance().unwrap();
        assert!(ledger.is_complete(), "{}", path.display());
    }
}

/// Records of these flows, each at the frame of its number.
fn run(outputs: &mut dyn NetSink, id: u64) {
    outputs.alert(&alert(id));
    let stored = file(id, id as u32);
    outputs.file(&stored);
    outputs.file_chunk(&FileChunk { record: stored, key: (id, 0), bytes: b"abc", is_last: true });
    outputs.flow(&flow(id));
}

#[test]
fn workers_write_what_one_alone_writes() {
    let (one, several) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut outputs = open(&config(), one.path()).unwrap();
    (1..=20).for_each(|id| run(&mut outputs, id));
    outputs.flush().unwrap();

    let mut outputs = open(&config(), several.path()).unwrap();
    let mut workers = [outputs.for_worker(), outputs.for_worker(), outputs.for_worker()];
    for batch in [1..=10, 11..=20] {
        for id in batch {
            // The last worker has the first frames.
            let worker = &mut workers[(20 - id as usize) % 3];
            worker.at_frame(id);
            run(worker, id);
        }
        let mut batches = workers.each_mut().map(|worker| worker.swap_batch(LineBatch::default()));
        outputs.write(&mut batches, &mut |_| true);
    }
    workers.iter().for_each(|worker| outputs.add_tally(&worker.tally()));
    outputs.flush().unwrap();

    for name in ["eve.json", "fast.log"] {
        assert_eq!(read(one.path(), name), read(several.path(), name), "{name}");
    }
    assert!(read(one.path(), "eve.json").contains("\"file_id\":20,"));
    let sum = outputs.sum();
    assert_eq!((sum.alerts[0].count, sum.store.passed().items), (20, 20));
    // The record of a stored file has the number that EVE gives it.
    let name = "07".repeat(32);
    let record = format!("filestore/07/{name}.{}.7.json", TS / 1_000_000_000);
    assert_eq!(read(one.path(), &record), read(several.path(), &record));
    assert!(read(one.path(), &record).contains("\"file_id\":7,"));
}

/// The lines of `eve.json` with these settings of the output and of the type `alert`.
fn eve_lines(settings: &[(&str, &str)], records: impl Fn(&mut Outputs)) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let mut config = Tree::default();
    config.set("outputs.0.eve-log.enabled", "yes");
    config.set("outputs.0.eve-log.types.0.alert.metadata", "yes");
    config.set("outputs.0.eve-log.types.1.http.extended", "yes");
    config.set("outputs.0.eve-log.types.2.files.force-magic", "no");
    for (key, value) in settings {
        config.set(&format!("outputs.0.eve-log.{key}"), value);
    }
    let mut outputs = open(&config, folder.path()).unwrap();
    records(&mut outputs);
    outputs.flush().unwrap();
    read(folder.path(), "eve.json").lines().map(str::to_owned).collect()
}

/// The client that a proxy of these tests forwards for. Its flow is of IPv4.
const CLIENT: std::net::IpAddr =
    std::net::IpAddr::V6(std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2));

/// An alert to the client, a transaction from the client and a file to the client, of HTTP behind a proxy.
fn forwarded(outputs: &mut Outputs) {
    let find = |header: &str, last: bool| (header == "X-Real-IP" && last).then_some(CLIENT);
    let mut to_client = header(7);
    (to_client.src, to_client.dst) = (to_client.dst, to_client.src);
    to_client.ports = to_client.ports.map(|(src, dst)| (dst, src));
    let ends = [(to_client.src, 443), (to_client.dst, 40000)];
    outputs.alert(&AlertRecord {
        header: to_client,
        direction: Some(Direction::ToClient),
        source_target: Some((ends[0], ends[1])),
        forwarded_for: Some(&find),
        ..alert(7)
    });
    outputs.app(&AppRecord {
        header: header(7),
        event_type: "http",
        type_name: "http",
        tx_id: 0,
        tx_id_on_top: true,
        object: &Host,
        app_proto: AppProtoNames::default(),
        is_never_empty: true,
        line_log: None,
        forwarded_for: Some((Direction::ToServer, &find)),
    });
    outputs.file(&FileRecord {
        header: to_client,
        app_proto: AppProtoNames { app_proto: Some("http"), ..AppProtoNames::default() },
        forwarded_for: Some((Direction::ToClient, &find)),
        ..file(7, 1)
    });
}

/// The object of a transaction.
struct Host;

impl WriteObject for Host {
    fn write(&self, json: &mut Json, _: Option<&Tree>, _: bool) -> bool {
        json.field("hostname", "a.example");
        true
    }
}

/// The fields that name addresses, as Suricata 8.0.7 writes them: with `mode: overwrite` the client replaces the address
/// of its proxy at each end that shows it, while the other end, ports, version and community id stay those of the flow.
#[test]
fn a_client_behind_a_proxy_replaces_the_address_of_the_proxy_and_no_other() {
    let proxy = [("xff.enabled", "yes"), ("xff.header", "X-Real-IP"), ("community-id", "yes")];
    let plain = eve_lines(&proxy[2..], forwarded);
    let overwritten = eve_lines(&[&proxy[..], &[("xff.mode", "overwrite")]].concat(), forwarded);
    assert_eq!((plain.len(), overwritten.len()), (3, 3));
    let (end, end_xff) = ("\"port\":40000}", "\"port\":40000},\"xff\":\"2001:db8::2\"");
    for (plain, found) in plain.iter().zip(&overwritten) {
        assert!(plain.contains("\"ip_v\":4") && plain.contains("\"community_id\":"), "{plain}");
        let expected = plain.replace("192.0.2.1", "2001:db8::2");
        assert_eq!(*found, expected.replace(end, end_xff));
    }
    let added = eve_lines(&[&proxy[..], &[("xff.mode", "extra-data")]].concat(), forwarded);
    assert_eq!(added[0], plain[0].replace(end, end_xff));
    for (plain, found) in plain.iter().zip(&added).skip(1) {
        assert_eq!(*found, plain.trim_end_matches('}').to_owned() + "},\"xff\":\"2001:db8::2\"}");
    }
}

/// What a type says of `xff` holds, also that there is none (a run of Suricata 8.0.7).
#[test]
fn a_type_decides_about_its_clients_behind_proxies() {
    let output = [("xff.enabled", "yes"), ("xff.header", "X-Real-IP")];
    let types = ["types.0.alert", "types.1.http", "types.2.files"];
    for (n, own) in types.iter().enumerate() {
        let key = format!("{own}.xff.enabled");
        let lines = eve_lines(&[&output[..], &[(key.as_str(), "no")]].concat(), forwarded);
        let has_client = |line: &String| line.contains("2001:db8::2");
        assert_eq!(lines.iter().position(|line| !has_client(line)), Some(n));
        assert_eq!(lines.iter().filter(|line| has_client(line)).count(), 2);
        let header = format!("{own}.xff.header");
        let lines = eve_lines(&[(key.as_str(), "yes"), (header.as_str(), "X-Real-IP")], forwarded);
        assert_eq!(lines.iter().position(has_client), Some(n));
        assert_eq!(lines.iter().filter(|line| has_client(line)).count(), 1);
    }
}

/// Runs of Suricata 8.0.7 with `payload-buffer-size: 100`: a packet of 300 bytes is shown whole, of stream data 99 bytes.
#[test]
fn the_payload_buffer_is_for_stream_data_alone() {
    let settings = ["payload-printable", "payload-length"].map(|k| format!("types.0.alert.{k}"));
    for (is_stream, len, shown) in
        [(false, 300, 300), (true, 300, 99), (true, 100, 99), (true, 99, 99), (true, 98, 98)]
    {
        let lines = eve_lines(
            &[
                (settings[0].as_str(), "yes"),
                (settings[1].as_str(), "yes"),
                ("types.0.alert.payload-buffer-size", "100"),
            ],
            |outputs| {
                let payload = vec![b'C'; len];
                outputs.alert(&AlertRecord { payload: &payload, is_stream, ..alert(1) });
            },
        );
        let printed = format!("\"payload_printable\":\"{}\"", "C".repeat(shown));
        let counted = format!("\"payload_length\":{shown}");
        assert!(lines[0].contains(&printed) && lines[0].contains(&counted), "{}", lines[0]);
    }
}

/// Suricata 8.0.7 makes the folders of its store, and those above it that are not there, with these rights.
#[test]
fn stored_files_are_not_for_everybody() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config();
    config.set("outputs.2.file-store.dir", "above/filestore");
    config.set("outputs.3.tls-store.enabled", "yes");
    config.set("outputs.3.tls-store.certs-log-dir", "certs");
    let mut outputs = open(&config, folder.path()).unwrap();
    run(&mut outputs, 7);
    outputs.flush().unwrap();
    let mode = |name: &str| {
        let path = folder.path().join(name);
        path.metadata().unwrap().permissions().mode() & 0o777
    };
    for name in ["above", "above/filestore", "above/filestore/07", "certs"] {
        assert_eq!(mode(name) & !0o750, 0, "{name}: {:o}", mode(name));
    }
}

#[test]
fn lines_after_a_rotation_go_into_a_new_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut outputs = open(&config(), folder.path()).unwrap();
    outputs.alert(&alert(1));
    std::fs::rename(folder.path().join("fast.log"), folder.path().join("fast.log.1")).unwrap();
    outputs.reopen();
    outputs.alert(&alert(2));
    outputs.flush().unwrap();
    for name in ["fast.log", "fast.log.1"] {
        assert_eq!(read(folder.path(), name).lines().count(), 1, "{name}");
    }
    assert_eq!(read(folder.path(), "eve.json").lines().count(), 2);
}

/// An output opens no file of lines by itself: what the caller hands in does, also after a rotation. Here it opens them in
/// another folder, as a process with more rights may.
#[test]
fn files_are_opened_by_what_the_caller_hands_in() {
    let (named, real) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (direct, folder) = (gabion_runtime::files::direct_opener(), real.path().to_owned());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let files = FileOpener::new(move |path, mode| {
        let name = path.file_name().unwrap();
        seen.lock().unwrap().push((name.to_str().unwrap().to_owned(), mode));
        direct.open(&folder.join(name), mode)
    });
    let mut config = Tree::default();
    config.set("outputs.0.fast.enabled", "yes");
    let open = |files: &FileOpener| {
        Outputs::open(files, &config, named.path(), Some(Existing::Truncate), &mut |_, _| {
            panic!("no packet log is configured")
        })
    };
    let mut outputs = open(&files).unwrap();
    outputs.alert(&alert(1));
    outputs.reopen(); // under its name there is no file: another is opened
    outputs.alert(&alert(2));
    outputs.flush().unwrap();
    assert_eq!(std::fs::read_dir(named.path()).unwrap().count(), 0);
    assert_eq!(read(real.path(), "fast.log").lines().count(), 2);
    let modes = [OpenMode::Truncate, OpenMode::Append].map(|mode| ("fast.log".to_owned(), mode));
    assert_eq!(*asked.lock().unwrap(), modes);
    // What it refuses is reported as before.
    let refused = FileOpener::new(|_, _| Err(std::io::ErrorKind::PermissionDenied.into()));
    let fault = open(&refused).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(fault.contains("fast.log") && fault.contains("permission denied"), "{fault}");
    assert_eq!(std::fs::read_dir(named.path()).unwrap().count(), 0);
}

#[test]
fn a_full_disk_is_reported_and_counted() {
    if !Path::new("/dev/full").exists() {
        eprintln!("skipped: /dev/full is not there");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut config = config();
    config.set("outputs.0.fast.filename", "/dev/full");
    let mut outputs = open(&config, folder.path()).unwrap();
    outputs.alert(&alert(1));
    let error = outputs.flush().unwrap_err();
    assert!(matches!(error, OutputError::Lost { .. }), "{error:?}");
    assert!(error.to_string().starts_with("/dev/full: cannot be written: "), "{error}");
    // The other output is whole.
    assert_eq!(read(folder.path(), "eve.json").lines().count(), 1);
    let files = outputs.files();
    let (_, ledger) = files.iter().find(|(path, _)| path.ends_with("full")).unwrap();
    ledger.balance().unwrap();
    assert_eq!((ledger.received().items, ledger.shed_total().items), (1, 1));
}

#[test]
fn what_cannot_be_opened_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let fails = |key: &str, value: &str| {
        let mut config = config();
        config.set(key, value);
        open(&config, folder.path()).err().unwrap().to_string()
    };
    let error = fails("outputs.0.fast.filename", "gone/fast.log");
    assert!(error.contains("gone/fast.log: cannot be written: "), "{error}");
    let error = fails("outputs.0.fast.filemode", "9");
    assert!(error.ends_with("fast: filemode 9: not an octal number"), "{error}");
    let error = fails("outputs.2.file-store.version", "1");
    assert!(error.ends_with("version 1 no longer exists: write version: 2"), "{error}");
}

/// Lines of an output that is not a file.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Destination for Lines {
    fn write(&mut self, piece: &Piece<'_>) {
        assert_eq!(piece.kind, PieceKind::Line);
        self.0.lock().unwrap().push(String::from_utf8(piece.bytes.to_vec()).unwrap());
    }
}

#[test]
fn alerts_reach_a_destination_of_ones_own() {
    let lines = Lines::default();
    let mut outputs = Outputs::default();
    outputs.add(eve::alerts_output(lines.clone()));
    assert!(outputs.wants().alerts && !outputs.wants().flows);
    outputs.alert(&alert(1));
    outputs.flow(&flow(1));
    let lines = lines.0.lock().unwrap();
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert!(line.contains("\"event_type\":\"alert\"") && line.ends_with("}\n"), "{line}");
}
