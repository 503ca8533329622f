//! Attacks by anybody who can send.

use super::Threat;
use super::host::{GABION, Host};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::UdpSocket;
use std::process::Command;
use std::time::{Duration, Instant};

pub(crate) fn rows() -> Vec<Threat> {
    vec![
        Threat {
            number: 43,
            attack: "slog envelopes: a flipped bit, another's key, a nonce too short, no comma, invalid base64",
            by: "N",
            verdict: "kept as they came, each with its reason; the next good one is opened",
            place: "reason",
            exit: "0",
            residual: "",
            run: bad_envelopes,
        },
        Threat {
            number: 44,
            attack: "send a slog envelope again",
            by: "N",
            verdict: "kept once more, marked as replayed, with a finding",
            place: "sender, time and record of the first",
            exit: "0",
            residual: "one older than a day or a million envelopes",
            run: replayed,
        },
        Threat {
            number: 45,
            attack: "a forged sender of UDP, line ends and terminal escapes in a message",
            by: "N",
            verdict: "kept as it came; JSON escapes it, `--text` writes `\\xhh`; the source is not vouched for",
            place: "transport, no identity",
            exit: "0",
            residual: "UDP has no sender",
            run: escapes,
        },
        Threat {
            number: 46,
            attack: "a flood, to push other messages out",
            by: "N",
            verdict: "sent = stored + counted; losses are sealed by source and second; another sender is heard",
            place: "sender, second, reason",
            exit: "0",
            residual: "what was lost",
            run: flood,
        },
    ]
}

/// Public test keys of the corpus: private, public.
fn keys() -> Result<(String, Vec<u8>), &'static str> {
    let root = gabion_corpus::root();
    let at = |name: &str| root.join("sealed/slog").join(name);
    let public = std::fs::read(at("comms_rsa.pub")).map_err(|_| "no corpus")?;
    let private = std::fs::canonicalize(at("comms_rsa.slogpem")).map_err(|_| "no corpus")?;
    Ok((private.display().to_string(), public))
}

fn seal(public: &[u8], line: &str) -> String {
    let sealer = gabion_logs::envelope::EnvelopeSealer::from_pem(public).expect("a key");
    let sealed = sealer.seal("2021-01-15T20:22:07.538+01", "client", "/var/log/a", line.as_bytes());
    String::from_utf8(sealed.expect("sealed")).expect("text")
}

/// Sends one envelope over each transport and waits for the answer of the one that gives any.
fn both(host: &Host, envelope: &str) {
    let mut tcp = host.tcp("slog-tcp");
    tcp.write_all(envelope.as_bytes()).expect("sent");
    tcp.shutdown(std::net::Shutdown::Write).expect("an end");
    let mut answer = String::new();
    let _ = tcp.read_to_string(&mut answer);
    let udp = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    udp.send_to(envelope.as_bytes(), host.address("slog-udp")).expect("sent");
}

fn envelope_host(private: &str) -> Host {
    Host::start(&["--slog-udp", "127.0.0.1:0", "--slog-tcp", "127.0.0.1:0", "--slog-key", private])
}

fn bad_envelopes() -> Result<(), &'static str> {
    let (private, public) = keys()?;
    let mut host = envelope_host(&private);
    let (good, other) = (seal(&public, "good"), seal(&public, "other"));
    let (blob, wrap) = good.split_once(',').expect("two fields");
    let (_, other_wrap) = other.split_once(',').expect("two fields");
    let flipped = if blob.ends_with('0') { '1' } else { '0' };
    let cases = [
        (format!("{}{flipped},{wrap}", &blob[..blob.len() - 1]), "open"),
        (format!("{blob},{other_wrap}"), "open"),
        (format!("{},{wrap}", &blob[..20]), "short-blob"),
        (blob.to_owned(), "fields"),
        (format!("{blob},{}", "!".repeat(wrap.len())), "base64"),
        (format!("{blob},{}", wrap.replace(['A', 'B', 'C', 'D'], "E")), "unwrap"),
        (format!("zz{blob},{wrap}"), "hex"),
    ];
    for (envelope, _) in &cases {
        both(&host, envelope);
    }
    both(&host, &good);
    assert!(host.is_running(), "the listener lives");
    let (code, said) = host.stop();
    assert_eq!(code, Some(0), "{said}");
    let kept = host.records("log", "message");
    for (envelope, reason) in &cases {
        let same: Vec<&Value> = kept.iter().filter(|r| r["msg"] == **envelope).collect();
        assert_eq!(same.len(), 2, "{reason}: over TCP and UDP: {said}");
        assert!(same.iter().all(|r| r["suspicious"] == *reason), "{reason}: {same:?}");
    }
    let opened =
        kept.iter().filter(|r| r["msg"] == "good" && *r["raw"].as_str().unwrap_or("") != *"");
    assert_eq!(opened.count(), 2, "{kept:?}");
    assert_eq!(host.log(&["verify", "log", "--key", "reader"]).0, Some(10));
    Ok(())
}

fn replayed() -> Result<(), &'static str> {
    let (private, public) = keys()?;
    let mut host = envelope_host(&private);
    let envelope = seal(&public, "pay 100");
    both(&host, &envelope);
    both(&host, &seal(&public, "another"));
    let (code, said) = host.stop();
    assert_eq!(code, Some(0), "{said}");
    let kept = host.records("log", "message");
    let marks: Vec<(&Value, bool)> = kept
        .iter()
        .filter(|r| r["msg"] == "pay 100")
        .map(|r| (r, r["flags"].to_string().contains("replayed")))
        .collect();
    assert!(matches!(marks[..], [(_, false), (_, true)]), "{kept:?}");
    assert_eq!(marks[1].0["first"], marks[0].0["n"], "the first record is named");
    let findings = host.records("log", "finding");
    let replays: Vec<&Value> =
        findings.iter().map(|f| &f["data"]).filter(|d| d["type"] == "replay").collect();
    // `both` sent each twice: over TCP, then over UDP.
    assert_eq!(replays.len(), 2, "{findings:?}");
    for replay in replays {
        // Two workers may open them in another order than they came in.
        let times = [&replay["first_received"], &replay["received"]].map(Value::as_u64);
        assert!(times[0].is_some() && times[0] != times[1], "{replay}");
        assert!(replay["peer"].as_str().is_some_and(|p| p.starts_with("127.0.0.1")), "{replay}");
    }
    Ok(())
}

fn escapes() -> Result<(), &'static str> {
    let mut host = Host::start(&["--udp", "127.0.0.1:0", "--tcp", "127.0.0.1:0"]);
    let udp = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    // A line that would be two, a title and a colour for the terminal, an override of direction.
    let attack = "<13>Oct 11 22:14:15 trusted-host sshd: a\n<13>Oct 11 22:14:15 trusted-host sshd: Accepted \
                  password for root\x1b]0;owned\x07\x1b[31m\u{202e}";
    udp.send_to(attack.as_bytes(), host.address("udp")).expect("sent");
    let mut tcp = host.tcp("tcp");
    write!(tcp, "{} {attack}", attack.len()).expect("sent");
    drop(tcp);
    std::thread::sleep(Duration::from_millis(300));
    let (code, said) = host.stop();
    assert_eq!(code, Some(0), "{said}");
    let kept = host.records("log", "message");
    assert_eq!(kept.len(), 2, "one record each, however many lines: {kept:?}");
    for record in &kept {
        assert_eq!(record["raw"], attack, "as it came");
        assert!(record.get("identity").is_none(), "nobody vouches for it: {record}");
    }
    let (_, text) = host.log(&["show", "log", "--key", "reader", "--kind", "message", "--text"]);
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(!text.contains(['\x1b', '\x07', '\u{202e}']) && text.contains("\\x0a<13>"), "{text:?}");
    let (_, json) = host.log(&["show", "log", "--key", "reader", "--kind", "message"]);
    assert!(json.lines().count() == 2 && !json.contains(['\x1b', '\x07']), "{json:?}");
    Ok(())
}

fn flood() -> Result<(), &'static str> {
    let mut host = Host::start(&[
        "--udp",
        "127.0.0.1:0",
        "--relp",
        "127.0.0.1:0",
        "--receive-buffer",
        "20000",
    ]);
    let to = host.address("udp").to_string();
    let mut sender = Command::new(GABION)
        .args(["send", "--udp", &to, "--count", "200000"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("the sender");
    // A well-behaved sender is answered all the while.
    let mut relp = host.relp();
    let mut heard = 0;
    let end = Instant::now() + Duration::from_secs(60);
    while sender.try_wait().expect("asked").is_none() && Instant::now() < end {
        let number = relp.send(&format!("<13>during the flood {heard}"));
        relp.answered(number);
        heard += 1;
    }
    assert!(sender.wait().expect("ended").success());
    let (code, said) = host.stop();
    assert_eq!(code, Some(0), "{said}");
    let messages = host.messages("log");
    let others = messages.iter().filter(|m| m.contains("during the flood")).count();
    assert_eq!(others, heard, "acknowledged and stored");
    let stored = (messages.len() - others) as u64;
    let losses = host.records("log", "system");
    let losses: Vec<&Value> =
        losses.iter().map(|r| &r["data"]).filter(|d| d["type"] == "loss").collect();
    let lost: u64 = losses.iter().filter_map(|l| l["messages"].as_u64()).sum();
    assert_eq!(stored + lost, 200_000, "{said}");
    assert!(losses.iter().all(|l| l["reason"].is_string() && l["second"].is_u64()));
    eprintln!(
        "  {stored} stored and {lost} counted of 200,000, {heard} of the other sender acknowledged"
    );
    Ok(())
}
