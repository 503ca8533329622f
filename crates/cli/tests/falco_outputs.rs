//! Where `gabion falco` sends alerts of a capture, and what it leaves: receivers by HTTP, captures that alerts start,
//! files of metrics, keys without effect.

mod intake;
mod program;

use gabion_scap::{Item, Reader, Values, Writer, table, types};
use intake::Certificates;
use program::gabion;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;

/// Closes of descriptor 3, one a second.
fn capture(folder: &Path, events: u64) -> String {
    let mut writer = Writer::new(Vec::new());
    writer.section().unwrap();
    let kind = table::event_type(types::CLOSE_X).unwrap();
    let parameters = [0_i64.to_le_bytes(), 3_i64.to_le_bytes()].concat();
    for second in 0..events {
        let values = Values::new(kind, &[8, 0, 8, 0], &parameters);
        let ts_ns = (1_700_000_000 + second) * 1_000_000_000;
        let (number, raw_number, tid, cpu, flags, enter) = (0, 0, 7, 0, 0, None);
        let live = Default::default();
        let event =
            gabion_scap::Event { number, raw_number, ts_ns, tid, cpu, flags, values, enter, live };
        writer.event(&event).unwrap();
    }
    let path = folder.join("closes.scap");
    fs::write(&path, writer.finish().unwrap()).unwrap();
    path.display().to_string()
}

/// A rule that alerts on the event of this number.
fn rules(folder: &Path, number: u64, more: &str) -> String {
    let path = folder.join("rules.yaml");
    let text = format!(
        "- rule: closed\n  desc: d\n  condition: evt.type=close and evt.num={number}\n  output: closed %evt.num\n  \
         priority: NOTICE\n{more}"
    );
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn falco(capture: &str, rules: &str, options: &[String]) -> program::Ran {
    let file = format!("engine.replay.capture_file={capture}");
    let mut args = vec!["falco", "-r", rules, "-o", "engine.kind=replay", "-o", &file];
    options.iter().for_each(|option| args.extend(["-o", option.as_str()]));
    gabion(&args)
}

#[test]
fn alerts_are_posted_and_a_receiver_that_is_gone_stops_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (capture, rules) = (capture(folder.path(), 3), rules(folder.path(), 2, ""));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http_output.url=http://{}/hook", listener.local_addr().unwrap());
    let options = ["http_output.enabled=true".to_owned(), url, "json_output=true".to_owned()];
    let receiver = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut request, mut part) = (Vec::new(), [0; 4096]);
        while !request.ends_with(b"}") {
            let n = stream.read(&mut part).unwrap();
            assert!(n > 0, "{}", String::from_utf8_lossy(&request));
            request.extend_from_slice(&part[..n]);
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
        String::from_utf8(request).unwrap()
    });
    let ran = falco(&capture, &rules, &options);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let request = receiver.join().unwrap();
    assert!(request.starts_with("POST /hook HTTP/1."), "{request}");
    assert!(request.contains("Content-Type: application/json\r\n"), "{request}");
    assert!(request.contains("\"rule\":\"closed\""), "{request}");
    // Nobody listens there any more.
    let ran = falco(&capture, &rules, &options);
    assert!(ran.code == 0 && ran.out.contains("Events detected: 1"), "{} {}", ran.out, ran.err);
    let refused = "http_output: 1 alerts were not taken: Connection refused";
    assert!(ran.err.contains(refused), "{}", ran.err);
}

/// A connection that a TLS server took, with the certificate that the client showed.
fn take_over_tls(listener: &TcpListener, all: &Certificates) -> (String, bool) {
    let tls = gabion_intake::ServerTls {
        certificates: all.server.0.clone().into(),
        key: all.server.1.clone().into(),
        client_authorities: Some(all.authority.clone().into()),
        is_client_required: true,
    };
    let (stream, _) = listener.accept().unwrap();
    let connection = rustls::ServerConnection::new(tls.load().unwrap()).unwrap();
    let mut stream = rustls::StreamOwned::new(connection, stream);
    let (mut request, mut part) = (Vec::new(), [0; 4096]);
    while !request.ends_with(b"}") {
        match stream.read(&mut part) {
            Ok(n) if n > 0 => request.extend_from_slice(&part[..n]),
            _ => break,
        }
    }
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let is_shown = stream.conn.peer_certificates().is_some_and(|chain| !chain.is_empty());
    (String::from_utf8(request).unwrap(), is_shown)
}

#[test]
fn alerts_are_posted_over_tls_with_a_certificate_of_our_own() {
    let folder = tempfile::tempdir().unwrap();
    let Some(all) = Certificates::new(folder.path()) else {
        eprintln!("alerts_are_posted_over_tls_with_a_certificate_of_our_own: skipped: no openssl");
        return;
    };
    let (capture, rules) = (capture(folder.path(), 3), rules(folder.path(), 2, ""));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut options = vec![
        "http_output.enabled=true".to_owned(),
        format!("http_output.url=https://localhost:{port}/hook"),
        "json_output=true".to_owned(),
        format!("http_output.ca_cert={}", all.authority),
    ];
    let shown = [
        "http_output.mtls=true".to_owned(),
        format!("http_output.client_cert={}", all.client.0),
        format!("http_output.client_key={}", all.client.1),
    ];
    std::thread::scope(|scope| {
        // Without a certificate the receiver takes none, and that is reported.
        let refused = scope.spawn(|| take_over_tls(&listener, &all));
        let ran = falco(&capture, &rules, &options);
        assert!(ran.code == 0 && ran.err.contains("1 alerts were not taken"), "{}", ran.err);
        assert_eq!(refused.join().unwrap(), (String::new(), false));
        options.extend(shown);
        let taken = scope.spawn(|| take_over_tls(&listener, &all));
        let ran = falco(&capture, &rules, &options);
        assert!(ran.code == 0 && !ran.err.contains("not taken"), "{}", ran.err);
        let (request, is_shown) = taken.join().unwrap();
        assert!(request.contains("\"rule\":\"closed\"") && is_shown, "{request}");
    });
}

/// The listener's certificate and key are one file, as Falco wants it.
#[test]
fn the_web_server_answers_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let Some(all) = Certificates::new(folder.path()) else {
        eprintln!("the_web_server_answers_over_tls: skipped: no openssl");
        return;
    };
    let both = folder.path().join("falco.pem");
    let text = [&all.server.0, &all.server.1].map(|path| fs::read_to_string(path).unwrap());
    fs::write(&both, text.concat()).unwrap();
    let place = intake::free_place();
    let port = place.rsplit(':').next().unwrap();
    let mut command = program::command(&["falco", "-r", &rules(folder.path(), 2, "")]);
    for option in [
        // A run without events lasts until it is ended.
        "engine.kind=nodriver".to_owned(),
        "webserver.enabled=true".to_owned(),
        "webserver.listen_address=127.0.0.1".to_owned(),
        format!("webserver.listen_port={port}"),
        "webserver.ssl_enabled=true".to_owned(),
        format!("webserver.ssl_certificate={}", both.display()),
    ] {
        command.args(["-o", &option]);
    }
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut child = command.spawn().unwrap();
    // The deadline for another process, no measure.
    #[allow(clippy::disallowed_methods)]
    let began = std::time::Instant::now();
    let stream = loop {
        match std::net::TcpStream::connect(&place) {
            Ok(stream) => break stream,
            Err(e) if began.elapsed().as_secs() >= 60 => {
                child.kill().unwrap();
                panic!("{e}");
            }
            Err(_) => std::thread::yield_now(),
        }
    };
    let tls = gabion_intake::ClientTls {
        authorities: all.authority.into(),
        shown: None,
        server_name: "localhost".to_owned(),
    };
    let (config, name) = tls.load().unwrap();
    let connection = rustls::ClientConnection::new(config, name).unwrap();
    let mut stream = rustls::StreamOwned::new(connection, stream);
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.contains("ok"), "{answer}");
}

#[test]
fn a_rule_with_capture_leaves_a_file_that_begins_before_its_alert() {
    let folder = tempfile::tempdir().unwrap();
    let input = capture(folder.path(), 20);
    let rules = rules(folder.path(), 10, "  capture: true\n  capture_duration: 3000\n");
    let prefix = folder.path().join("made");
    let options =
        ["capture.enabled=true".to_owned(), format!("capture.path_prefix={}", prefix.display())];
    let ran = falco(&input, &rules, &options);
    assert!(ran.code == 0 && ran.err.contains("capture: 1 files"), "{}", ran.err);
    let is_made = |path: &std::path::PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("made_"))
    };
    let made: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().path()).filter(is_made).collect();
    assert_eq!(made.len(), 1, "{made:?}");
    let mut reader = Reader::new(File::open(&made[0]).unwrap()).unwrap();
    let mut seconds = Vec::new();
    while let Some(item) = reader.next_item().unwrap() {
        if let Item::Event(event) = item {
            seconds.push(event.ts_ns / 1_000_000_000 - 1_700_000_000);
        }
    }
    // The alert is about the tenth event, at second 9.
    assert_eq!(seconds, (0..=12).collect::<Vec<u64>>());
}

#[test]
fn metrics_go_into_their_file_and_keys_without_effect_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let (capture, rules) = (capture(folder.path(), 10), rules(folder.path(), 2, ""));
    let file = folder.path().join("metrics.json");
    let options = [
        "metrics.enabled=true".to_owned(),
        "metrics.interval=2s".to_owned(),
        format!("metrics.output_file={}", file.display()),
        "buffered_outputs=true".to_owned(),
    ];
    let ran = falco(&capture, &rules, &options);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let lines = ran.err.lines().filter(|line| line.contains("buffered_outputs"));
    assert_eq!(lines.count(), 1, "{}", ran.err);
    let text = fs::read_to_string(&file).unwrap();
    let samples: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(samples.len() >= 3, "{text}");
    assert_eq!(
        (&samples[1]["sample"], &samples[1]["output_fields"]["falco.rules.closed"]),
        (&2.into(), &1.into())
    );
    // What the program and its host use, memory in MiB.
    let number = |name: &str| samples[1]["output_fields"][name].as_f64().unwrap_or(-1.0);
    assert!((1.0..4096.0).contains(&number("falco.memory_rss_mb")), "{text}");
    assert!(number("falco.host_num_cpus") >= 1.0 && number("falco.host_memory_used_mb") > 1.0);
    assert!((0.0..=100.0).contains(&number("falco.host_cpu_usage_perc")), "{text}");
    // One event a second of one thread, which nothing describes.
    assert_eq!(number("falco.evts_rate_sec"), 1.0, "{text}");
    assert!((0.0..=1.0).contains(&number("scap.n_threads")), "{text}");
    assert!(number("falco.host_boot_ts") > 1e18 && number("falco.num_evts_prev") >= 1.0, "{text}");
    let fields = &samples[1]["output_fields"];
    assert_eq!(fields["scap.engine_name"], "savefile");
    assert!(fields["falco.version"].is_string() && fields["falco.kernel_release"].is_string());
}

#[test]
fn without_a_configuration_alerts_go_to_standard_output() {
    if Path::new("/etc/falco/falco.yaml").exists() {
        eprintln!(
            "skipped: without_a_configuration_alerts_go_to_standard_output: Falco is installed"
        );
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (capture, rules) = (capture(folder.path(), 3), rules(folder.path(), 2, ""));
    let ran = falco(&capture, &rules, &[]);
    assert!(ran.code == 0 && ran.out.contains(": Notice closed 2\n"), "{} {}", ran.out, ran.err);
    let ran = falco(&capture, &rules, &["stdout_output.enabled=false".to_owned()]);
    assert!(!ran.out.contains("Notice closed"), "{}", ran.out);
}

#[test]
fn alerts_that_can_not_be_written_end_a_run_with_1() {
    let folder = tempfile::tempdir().unwrap();
    let (capture, rules) = (capture(folder.path(), 3), rules(folder.path(), 2, ""));
    let options = ["file_output.enabled=true", "file_output.filename=/dev/full"].map(str::to_owned);
    let ran = falco(&capture, &rules, &options);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert_eq!(ran.err.lines().filter(|line| line.contains("/dev/full")).count(), 1, "{}", ran.err);
}

#[test]
fn sources_are_selected_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let rules = rules(folder.path(), 2, "");
    for (options, words) in [
        (&["--disable-source", "syscall"][..], "at least one event source"),
        (&["--enable-source", "aws"], "unknown event source 'aws'"),
        (&["--enable-source", "syscall", "--disable-source", "syscall"], "Can not mix"),
    ] {
        let mut args = vec!["falco", "-r", &rules, "--dry-run"];
        args.extend(options);
        let ran = gabion(&args);
        assert!(ran.code == 1 && ran.err.contains(words), "{} {}", ran.code, ran.err);
    }
    assert_eq!(gabion(&["falco", "-r", &rules, "--dry-run", "--enable-source", "syscall"]).code, 0);
}

/// A program that takes nothing stops nothing: the other outputs have every alert, one line says why, and the code is 1.
#[test]
fn a_dead_output_program_is_reported_once() {
    let folder = tempfile::tempdir().unwrap();
    let input = capture(folder.path(), 200);
    let path = folder.path().join("rules.yaml");
    let text = "- rule: closed\n  desc: d\n  condition: evt.type=close\n  output: closed %evt.num\n  priority: NOTICE\n";
    fs::write(&path, text).unwrap();
    let file = folder.path().join("alerts.txt");
    for keep_alive in [true, false] {
        let _ = fs::remove_file(&file);
        let options = [
            "program_output.enabled=true".to_owned(),
            format!("program_output.keep_alive={keep_alive}"),
            "program_output.program=exec 0<&-; exit 3".to_owned(),
            "file_output.enabled=true".to_owned(),
            format!("file_output.filename={}", file.display()),
        ];
        let ran = falco(&input, &path.display().to_string(), &options);
        let lines = ran.err.lines().filter(|line| line.contains("exec 0<&-"));
        assert_eq!((ran.code, lines.count()), (1, 1), "keep_alive {keep_alive}: {}", ran.err);
        assert!(ran.err.contains("exit status: 3"), "{}", ran.err);
        let alerts = fs::read_to_string(&file).unwrap();
        assert_eq!(alerts.lines().count(), 200, "what was written stays whole");
        assert!(alerts.lines().all(|line| line.contains(": Notice closed ")), "{alerts}");
    }
}

#[test]
fn a_system_log_that_is_not_there_is_named_once() {
    let name = "a_system_log_that_is_not_there_is_named_once";
    if Path::new("/dev/log").exists() {
        eprintln!("skipped: {name}: this machine has /dev/log, which a test must not write to");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (capture, rules) = (capture(folder.path(), 3), rules(folder.path(), 2, ""));
    let options =
        ["syslog_output.enabled=true".to_owned(), "stdout_output.enabled=true".to_owned()];
    let ran = falco(&capture, &rules, &options);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert_eq!(ran.err.lines().filter(|line| line.contains("/dev/log")).count(), 1, "{}", ran.err);
    assert!(ran.out.contains("Notice closed 2"), "{}", ran.out);
}

#[test]
fn rules_that_name_enter_events_are_rewritten_and_kept_as_old() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.yaml");
    let name = path.display().to_string();
    let old = "# a comment\n- rule: r\n  desc: d\n  condition: evt.type=open and evt.dir=< and fd.num>=0 # why\n  \
               output: o\n  priority: INFO\n";
    fs::write(&path, old).unwrap();
    let ran = gabion(&["falco", "migrate-rules", &name]);
    assert!(ran.code == 0 && ran.out.contains("1 conditions rewritten"), "{} {}", ran.out, ran.err);
    let new = fs::read_to_string(&path).unwrap();
    assert!(
        !new.contains("evt.dir") && new.contains("# a comment") && new.contains("# why"),
        "{new}"
    );
    assert_eq!(fs::read_to_string(folder.path().join("rules.yaml.old")).unwrap(), old);
    assert_eq!(gabion(&["falco", "-V", &name]).code, 0);
    // A second time there is nothing to do, and the old text stays what it was.
    assert_eq!(gabion(&["falco", "migrate-rules", &name]).code, 0);
    assert_eq!(fs::read_to_string(&path).unwrap(), new);
    assert_eq!(fs::read_to_string(folder.path().join("rules.yaml.old")).unwrap(), old);
    // What it can't rewrite is named with its line, and the code says so.
    let left = "- rule: r\n  desc: d\n  condition: evt.type=open and evt.dir in (<, >)\n  output: o %evt.dir\n  priority: INFO\n";
    fs::write(&path, left).unwrap();
    let ran = gabion(&["falco", "migrate-rules", &name]);
    assert!(ran.code == 1 && ran.out.contains("rules.yaml:3: still names"), "{}", ran.out);
    for args in [&["falco", "migrate-rules"][..], &["falco", "migrate-rules", "/nowhere.yaml"]] {
        let ran = gabion(args);
        assert!(ran.code == 1 && ran.err.lines().count() == 1, "{} {}", ran.code, ran.err);
    }
}

#[test]
fn rule_files_that_are_no_text_are_refused_in_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let capture = capture(folder.path(), 3);
    let path = folder.path().join("binary.yaml");
    fs::write(&path, [0, 159, 146, 150, 255, 0]).unwrap();
    let ran = falco(&capture, &path.display().to_string(), &[]);
    assert!(ran.code == 1 && ran.err.contains("binary.yaml"), "{} {}", ran.code, ran.err);
    let lines = ran.err.lines().filter(|line| line.starts_with("Error: ")).count();
    assert_eq!(lines, 1, "{}", ran.err);
}

#[test]
fn statistics_and_recordings_are_for_the_calls_of_this_host() {
    let folder = tempfile::tempdir().unwrap();
    let (capture, rules) = (capture(folder.path(), 3), rules(folder.path(), 2, ""));
    let file = format!("engine.replay.capture_file={capture}");
    let record = folder.path().join("new.scap").display().to_string();
    for more in [&["--stats"][..], &["-w", &record]] {
        let mut args = vec!["falco", "-r", &rules, "-o", "engine.kind=replay", "-o", &file];
        args.extend(more);
        let ran = gabion(&args);
        assert!(ran.code == 1 && ran.err.contains(more[0]), "{} {}", ran.code, ran.err);
    }
    assert!(!Path::new(&record).exists());
}

/// One thread of a clone, as the child reports it.
fn clone_of(tid: i64, comm: &str) -> Vec<Vec<u8>> {
    let number = |n: i64| n.to_le_bytes().to_vec();
    let word = || 0_u32.to_le_bytes().to_vec();
    let text = |t: &str| format!("{t}\0").into_bytes();
    let mut values =
        vec![number(0), text("/bin/sh"), Vec::new(), number(tid), number(tid), number(1)];
    values.extend([text("/"), number(1024), number(0), number(0), word(), word(), word()]);
    values.extend([text(comm), b"cpu=/\0".to_vec(), word(), word(), word()]);
    values.extend([number(tid), number(tid), number(0)]);
    values
}

/// `falco_libs.thread_table_size`: a full table lets a dead thread go first, else the one that is idle longest, and fields of
/// a thread that was let go say so.
#[test]
fn the_size_of_the_thread_table_is_kept_and_the_dead_go_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.yaml");
    let text = "- rule: closed\n  desc: d\n  condition: evt.type=close\n  output: by %proc.name missing %evt.missing[proc.name]\n  \
                priority: NOTICE\n";
    fs::write(&path, text).unwrap();
    let word = |n: i64| n.to_le_bytes().to_vec();
    let end = vec![word(0), word(0), vec![0], vec![0], word(0)];
    let close = vec![word(0), word(3)];
    for (second_ends, wanted) in [(true, "by first missing"), (false, "by <NA> missing shed")] {
        let mut events = vec![
            (types::CLONE_20_X, 7, clone_of(7, "first")),
            (types::CLONE_20_X, 8, clone_of(8, "second")),
            (types::CLONE_20_X, 9, clone_of(9, "third")),
            (types::CLOSE_X, 7, close.clone()),
        ];
        if second_ends {
            events.insert(2, (types::PROCEXIT_1_E, 8, end.clone()));
        }
        let mut writer = Writer::new(Vec::new());
        writer.section().unwrap();
        for (n, (kind, tid, values)) in events.iter().enumerate() {
            let lengths: Vec<u8> =
                values.iter().flat_map(|v| u16::try_from(v.len()).unwrap().to_le_bytes()).collect();
            let bytes = values.concat();
            let values = Values::new(table::event_type(*kind).unwrap(), &lengths, &bytes);
            let ts_ns = 1_700_000_000_000_000_000 + n as u64;
            let (number, raw_number, tid, cpu, flags, enter) = (0, 0, *tid, 0, 0, None);
            let live = Default::default();
            let event = gabion_scap::Event {
                number,
                raw_number,
                ts_ns,
                tid,
                cpu,
                flags,
                values,
                enter,
                live,
            };
            writer.event(&event).unwrap();
        }
        let input = folder.path().join("threads.scap");
        fs::write(&input, writer.finish().unwrap()).unwrap();
        let (input, rules) = (input.display().to_string(), path.display().to_string());
        let mut options = vec!["falco_libs.thread_table_size=2".to_owned()];
        let ran = falco(&input, &rules, &options);
        assert!(ran.code == 0 && ran.out.contains(wanted), "{} {}", ran.out, ran.err);
        // An alert that asks for what was shed says that its context is a part of it.
        options.push("json_output=true".to_owned());
        let alert = falco(&input, &rules, &options).out;
        assert_eq!(alert.contains("\"context\":\"partial\""), !second_ends, "{alert}");
    }
}

/// A receiver that takes connections and answers none holds nothing up: the other outputs have every alert, and the end of
/// the run waits for it no longer than it says.
#[test]
fn a_receiver_that_never_answers_holds_nothing_up() {
    let folder = tempfile::tempdir().unwrap();
    let input = capture(folder.path(), 50);
    let rules = folder.path().join("rules.yaml");
    let text = "- rule: closed\n  desc: d\n  condition: evt.type=close\n  output: closed %evt.num\n  priority: NOTICE\n";
    fs::write(&rules, text).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let options = [
        "http_output.enabled=true".to_owned(),
        format!("http_output.url=http://{}/hook", listener.local_addr().unwrap()),
        "stdout_output.enabled=true".to_owned(),
    ];
    let ran = falco(&input, &rules.display().to_string(), &options);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let alerts = ran.out.lines().filter(|line| line.contains(": Notice closed ")).count();
    assert_eq!(alerts, 50, "{}", ran.out);
    let words = "http_output: further alerts were on their way at the end";
    assert_eq!(ran.err.lines().filter(|line| line.contains(words)).count(), 1, "{}", ran.err);
}

#[test]
fn outputs_that_would_destroy_what_the_run_reads_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (capture, rules) = (capture(folder.path(), 3), rules(folder.path(), 2, ""));
    let link = folder.path().join("alerts").display().to_string();
    std::os::unix::fs::symlink(&capture, &link).unwrap();
    for path in [&capture, &rules, &link] {
        let before = fs::read(path).unwrap();
        let options =
            ["file_output.enabled=true".to_owned(), format!("file_output.filename={path}")];
        let ran = falco(&capture, &rules, &options);
        assert_eq!(ran.code, 1, "{}", ran.err);
        let line = format!("Error: {path}: is read by this run: choose another place\n");
        assert_eq!(ran.err, line);
        assert_eq!(fs::read(path).unwrap(), before, "{path}");
    }
}
