//! Log intake: the framing of streams, RELP, slog's envelopes, the fields of syslog messages.

use crate::seeds::Seeds;
use gabion_logs::envelope::{self, EnvelopeKey};
use gabion_logs::framing::{Frame, Framer, Framing, FramingCounts};
use gabion_logs::journal::{Entries, Entry, put_field};
use gabion_logs::limits::JOURNAL_ENTRY_MAX;
use gabion_logs::relp::{RelpServer, Violation};
use gabion_logs::replay::ReplayWindow;
use gabion_logs::syslog::{Received, elements, parse, unpacked};
use gabion_record::base64::{from_base64, to_base64};
use gabion_record::hex::from_hex;
use std::sync::OnceLock;
use std::time::Duration;

type Kept = (Vec<u8>, u64, bool, bool);

fn cut(framing: Framing, input: &[u8], step: usize) -> (Vec<Kept>, FramingCounts) {
    let mut framer = Framer::new(framing);
    let mut frames = Vec::new();
    let mut take = |f: Frame<'_>| {
        assert!(f.bytes.len() <= framing.message_bytes_max, "a message is longer than its limit");
        assert!(f.len_sent >= f.bytes.len() as u64, "more bytes were kept than sent");
        frames.push((f.bytes.to_vec(), f.len_sent, f.is_incomplete, f.is_frame_error));
    };
    for piece in input.chunks(step.max(1)) {
        framer.feed(piece, &mut take);
        assert!(
            framer.held_bytes() <= framing.message_bytes_max + 16,
            "more bytes are held than the limit allows"
        );
    }
    framer.finish(&mut take);
    (frames, framer.counts())
}

/// The first byte selects the framing; any split returns the same messages.
pub fn framing(data: &[u8]) {
    let Some((&how, input)) = data.split_first() else { return };
    let message_bytes_max = if how & 2 == 0 { 64 } else { 64 * 1024 };
    let framing = Framing { message_bytes_max, nul_ends_line: how & 1 == 1 };
    let whole = cut(framing, input, usize::MAX);
    for step in [1, 2, 7, 64] {
        assert_eq!(cut(framing, input, step), whole, "{step} bytes at a time");
    }
}

/// Streams as in the output of senders.
pub fn framing_seeds(_: &Seeds) -> Vec<Vec<u8>> {
    [
        &b"\0<13>Oct 11 22:14:15 h a: one\n<13>Oct 11 22:14:15 h a: two\r\n"[..],
        b"\x0028 <13>Oct 11 22:14:15 h a: one28 <13>Oct 11 22:14:15 h a: two\n",
        b"\x00<13>a\n2020 was a year\n0 x\n028 <13>Oct 11 22:14:15 h a: one",
        b"\x01<13>a\0<13>b\0 <13>c\n\n",
        b"\x024294967296 <13>x\n1048576 <13>y\n100 <13>cut",
    ]
    .iter()
    .map(|s| s.to_vec())
    .collect()
}

fn session(input: &[u8], step: usize) -> (Vec<Vec<u8>>, Vec<u8>, Option<Violation>) {
    let mut server = RelpServer::new();
    let mut messages = Vec::new();
    for piece in input.chunks(step.max(1)) {
        if let Err(e) = server.feed(piece, &mut |m| messages.push(m.to_vec())) {
            return (messages, Vec::new(), Some(e));
        }
        assert!(
            server.held_bytes() <= 128 * 1024 + 64 + piece.len(),
            "more bytes are held than the limit allows"
        );
    }
    // No response to a message before it is durable.
    let early = server.replies().windows(6).filter(|w| w == b"200 OK").count();
    assert!(early <= 1, "answered before it was durable");
    server.durable(messages.len() as u64);
    let replies = server.replies().clone();
    (messages, replies, None)
}

/// The client's side of a session; any split has the same result.
pub fn relp(data: &[u8]) {
    let whole = session(data, usize::MAX);
    for step in [1, 3, 50] {
        assert_eq!(session(data, step), whole, "{step} bytes at a time");
    }
}

/// Valid and broken sessions.
pub fn relp_seeds(_: &Seeds) -> Vec<Vec<u8>> {
    let open = b"1 open 53 relp_version=0\nrelp_software=librelp\ncommands=syslog,x\n";
    let mut all = vec![open.to_vec()];
    for tail in [
        &b"2 syslog 3 one\n3 syslog 4 two\n\n4 close 0\n"[..],
        b"2 eventlog 1 x\n3 syslog 0\n",
        b"5 syslog 3 one\n",
        b"2 syslog 100 abc",
        b"2 open 999999999 x",
    ] {
        all.push([open.as_slice(), tail].concat());
    }
    all
}

/// A stream of the journal's entries: any split has the same result, no entry is too large, and
/// fields that are written again are the same.
pub fn journal(data: &[u8]) {
    let read = |step: usize| {
        let mut entries = Entries::default();
        let mut found: Vec<(Vec<u8>, u32)> = Vec::new();
        let mut each = |entry: &[u8], left_out: u32| -> Result<(), ()> {
            found.push((entry.to_vec(), left_out));
            Ok(())
        };
        let parts = data.chunks(step.min(data.len().max(1)));
        let mut ended = parts.map(|part| entries.push(part, &mut each)).find(Result::is_err);
        if ended.is_none() {
            ended = Some(entries.finish(&mut each));
        }
        (found, ended)
    };
    let whole = read(usize::MAX);
    for step in [1, 3, 50] {
        assert_eq!(read(step), whole, "{step} bytes at a time");
    }
    for (entry, _) in &whole.0 {
        assert!(entry.len() <= JOURNAL_ENTRY_MAX);
        let fields: Vec<_> = Entry(entry).fields().collect();
        let mut again = Vec::new();
        for (name, value) in &fields {
            put_field(std::str::from_utf8(name).unwrap(), value, &mut again);
        }
        assert!(Entry(&again).fields().eq(fields), "{entry:?}");
    }
}

/// Valid and broken streams.
pub fn journal_seeds(_: &Seeds) -> Vec<Vec<u8>> {
    let binary = b"MESSAGE\n\x03\0\0\0\0\0\0\0a\nb\n_PID=2\n\n";
    [
        &b"__CURSOR=s=1;i=2\nMESSAGE=a=b\nPRIORITY=6\n\n\nA=\n"[..],
        binary,
        &binary[..20],
        b"=x\n\n",
        b"a=1\n",
        b"A\n\xff\xff\xff\xff\xff\xff\xff\xffx",
    ]
    .map(<[u8]>::to_vec)
    .to_vec()
}

/// The fields of any message lie within it.
pub fn syslog(data: &[u8]) {
    let received = Received { time_ns: 1_795_212_000_000_000_000, zone_seconds: 3_600 };
    let bytes = unpacked(data);
    let message = parse(&bytes, &received);
    assert!(message.pri <= 191 && message.facility() <= 23 && message.severity() <= 7);
    let within = bytes.as_ptr_range();
    let fields = [message.host, message.app, message.pid, message.msgid, message.sd];
    for field in fields.into_iter().flatten().filter(|f| !f.is_empty()) {
        let field = field.as_ptr_range();
        assert!(
            within.start <= field.start && field.end <= within.end,
            "a field outside of the message"
        );
    }
    if let Some(sd) = message.sd {
        let params: usize = elements(sd).map(|e| e.params().count()).sum();
        assert!(params <= sd.len());
    }
    let _ = message.sequence_id();
    assert!(message.time.is_none_or(|t| t.nanos < 1_000_000_000));
}

/// Messages of both standards and of real devices.
pub fn syslog_seeds(seeds: &Seeds) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = [
        &b"<34>1 2003-10-11T22:14:15.003Z mymachine su - ID47 - \xef\xbb\xbf'su root' failed"[..],
        b"<165>1 2003-10-11T22:14:15.003Z h evntslog 8710 ID47 [e@32473 iut=\"3\" a=\"\\\"\\]\"][meta sequenceId=\"7\"] An entry",
        b"<34>Oct 11 22:14:15 mymachine su[12]: 'su root' failed for lonvick",
        b"<189>123: *Oct 11 22:14:15.123: %SYS-5-CONFIG_I: Configured from console",
        b"<13>Oct 11 22:14:15 2019 fe80::1 Message forwarded from h: a",
        b"<13>2020-01-01 00:00:00 h a: @cee: {\"a\": 1}",
        b"{\"json\": 1}",
    ]
    .iter()
    .map(|s| s.to_vec())
    .collect();
    if let Some(corpus) = &seeds.corpus {
        let text = std::fs::read_to_string(corpus.join("sealed/messages/messages.jsonl"));
        for line in text.unwrap_or_default().lines() {
            let coded = line.split("\"raw_b64\": \"").nth(1).and_then(|r| r.split('"').next());
            all.extend(coded.and_then(|c| from_base64(c.as_bytes())));
        }
    }
    all
}

static KEY: OnceLock<Option<EnvelopeKey>> = OnceLock::new();

/// An envelope from the network: it opens completely or fails with a reason. A blob is tried with a
/// known password too, so that the code after the RSA decryption is reached.
pub fn envelope(data: &[u8]) {
    let key = KEY.get_or_init(|| {
        let corpus = gabion_corpus::root();
        let pem = std::fs::read(corpus.join("sealed/slog/comms_rsa.slogpem")).ok()?;
        EnvelopeKey::from_pem(&pem).ok()
    });
    if let Some(key) = key
        && let Ok(opened) = key.open(data)
    {
        envelope::inner(&opened.inner).expect("an opened envelope has its fields");
        let first = ReplayWindow::default().first_seen(&opened.id, 0, Duration::ZERO);
        assert_eq!(first, None);
    }
    let _ = envelope::inner(data);
    let _ = EnvelopeKey::from_pem(data);
    let blob = from_hex(data).unwrap_or_else(|| data.to_vec());
    if let Some(inside) = gabion_seal::slog::open_blob(&blob, b"my-fancy-password") {
        let _ = envelope::inner(&inside);
    }
    if let Some(bytes) = from_base64(data) {
        let again = from_base64(to_base64(&bytes).as_bytes());
        assert_eq!(again, Some(bytes), "base64 does not round-trip");
    }
}

/// slog's own test blob, and the corpus's envelopes.
pub fn envelope_seeds(seeds: &Seeds) -> Vec<Vec<u8>> {
    let mut all = vec![
        b"f38d3b88846d6a392ae897eb736dcc0cb10c7c377bf1e13980a2fd13445d3b7c4399e417a65969596fde".to_vec(),
        b"2021-01-15T20:22:07.538+01,h,/f,e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855,".to_vec(),
        b"0011,AA==".to_vec(),
    ];
    if let Some(corpus) = &seeds.corpus {
        let text = std::fs::read_to_string(corpus.join("sealed/slog/envelopes.json"));
        for part in text.unwrap_or_default().split("\"wire_b64\": \"").skip(1) {
            let coded = part.split('"').next().unwrap_or_default();
            all.extend(from_base64(coded.as_bytes()));
        }
    }
    all
}
