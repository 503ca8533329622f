//! Whole exchanges through the parser: what transactions, buffers, files and events come out.

use super::*;
use crate::files::FileState;
use crate::{Endpoints, Input, Outcome, ParseContext, Parser, ProtocolChange};
use Direction::{ToClient, ToServer};

/// A flow under test.
struct Flow {
    parser: Box<dyn Parser>,
    change: Option<ProtocolChange>,
    outcome: Outcome,
    triggers: [usize; 2],
}

impl Flow {
    fn new() -> Flow {
        Flow::with(&[])
    }

    fn with(settings: &[(&str, &str)]) -> Flow {
        let mut tree = gabion_record::Tree::default();
        let shipped = [
            ("personality", "IDS"),
            ("request-body-limit", "100 KiB"),
            ("response-body-limit", "100 KiB"),
        ];
        for (key, value) in shipped.iter().chain(settings) {
            tree.set(&format!("libhtp.default-config.{key}"), value);
        }
        let settings = (PROTOCOL.configure)(Some(&tree)).unwrap();
        let parser = (PROTOCOL.open)(&settings, Transport::Tcp);
        Flow { parser, change: None, outcome: Outcome::Done, triggers: [0; 2] }
    }

    fn input(&mut self, direction: Direction, input: Input<'_>) -> &mut Flow {
        let endpoints = Endpoints::default();
        let mut cx = ParseContext::new(0, direction, &endpoints);
        cx.requirements.file_data = true;
        cx.requirements.sha256 = true;
        self.outcome = self.parser.parse(&mut cx, input);
        self.change = cx.change.or(self.change.take());
        for d in Direction::BOTH {
            self.triggers[d.index()] += usize::from(cx.trigger_raw[d.index()]);
        }
        self
    }

    fn client(&mut self, bytes: impl AsRef<[u8]>) -> &mut Flow {
        self.input(ToServer, Input::Data { bytes: bytes.as_ref(), eof: false })
    }

    fn server(&mut self, bytes: impl AsRef<[u8]>) -> &mut Flow {
        self.input(ToClient, Input::Data { bytes: bytes.as_ref(), eof: false })
    }

    fn end(&mut self) -> &mut Flow {
        for d in Direction::BOTH {
            self.input(d, Input::Data { bytes: &[], eof: true });
        }
        for d in Direction::BOTH {
            self.parser.finish(d);
        }
        self
    }

    fn count(&self) -> u64 {
        self.parser.next_tx_id()
    }

    fn buffer(&self, id: u64, name: &str, direction: Direction) -> Option<String> {
        let def = PROTOCOL.table.buffers.iter().find(|d| d.name == name)?;
        let hook = def.hooks.iter().find(|h| h.direction == direction)?;
        let how = Inspect { at_end: true, ..Inspect::default() };
        let b = self.parser.tx(id)?.buffer(hook.local, direction, 0, how)?;
        Some(b.data.escape_ascii().to_string())
    }

    fn events(&self, id: u64) -> Vec<&'static str> {
        let codes = self.parser.tx(id).map(|t| t.events().to_vec()).unwrap_or_default();
        codes.iter().map(|c| PROTOCOL.table.events[usize::from(*c)].name).collect()
    }

    fn progress(&self, id: u64) -> [u8; 2] {
        Direction::BOTH.map(|d| self.parser.tx(id).map_or(99, |t| t.progress(d)))
    }

    fn files(&self, id: u64, direction: Direction) -> Vec<(String, u64, FileState)> {
        let list = self.parser.tx(id).and_then(|t| t.files(direction));
        let all = list.into_iter().flat_map(|l| &l.files);
        all.map(|f| (f.name.escape_ascii().to_string(), f.size, f.state)).collect()
    }

    fn log(&self, id: u64) -> String {
        let mut json = Json::new();
        let how = LogOptions { in_alert: true, ..LogOptions::default() };
        self.parser.tx(id).unwrap().log(&mut json, how);
        String::from_utf8_lossy(json.bytes()).into_owned()
    }
}

const GET: &str = "GET /a/%2e%2e/b?x=%41 HTTP/1.1\r\nHost: Foo.COM:81\r\nUser-Agent: ua\r\n\
    Cookie: c=1\r\nX-A: 1\r\nx-a: 2\r\n\r\n";

/// Buffers as Suricata's documentation (rules/http-keywords) and measurements have them.
#[test]
fn buffers_of_an_exchange() {
    let mut f = Flow::new();
    f.client(GET).server(
        "HTTP/1.1 200 OK\r\nServer: s\r\nSet-Cookie: d=2\r\nContent-Length: 5\r\n\r\nhello",
    );
    for (name, direction, expected) in [
        ("http.uri", ToServer, "/b?x=A"),
        ("http.uri.raw", ToServer, "/a/%2e%2e/b?x=%41"),
        ("http.method", ToServer, "GET"),
        ("http.request_line", ToServer, "GET /a/%2e%2e/b?x=%41 HTTP/1.1"),
        ("http.protocol", ToServer, "HTTP/1.1"),
        ("http.host", ToServer, "foo.com"),
        ("http.host.raw", ToServer, "Foo.COM:81"),
        ("http.user_agent", ToServer, "ua"),
        ("http.cookie", ToServer, "c=1"),
        ("http.header", ToServer, "Host: Foo.COM:81\\r\\nUser-Agent: ua\\r\\nX-A: 1, 2\\r\\n"),
        (
            "http.header_names",
            ToServer,
            "\\r\\nHost\\r\\nUser-Agent\\r\\nCookie\\r\\nX-A\\r\\n\\r\\n",
        ),
        ("http.response_line", ToClient, "HTTP/1.1 200 OK\\r\\n"),
        ("http.stat_code", ToClient, "200"),
        ("http.stat_msg", ToClient, "OK"),
        ("http.server", ToClient, "s"),
        ("http.cookie", ToClient, "d=2"),
        ("http.content_len", ToClient, "5"),
        (
            "http.start",
            ToClient,
            "HTTP/1.1 200 OK\\r\\n\\r\\nServer: s\\r\\nSet-Cookie: d=2\\r\\nContent-Length: 5\\r\\n\\r\\n",
        ),
        ("file.data", ToClient, "hello"),
        ("http.response_body", ToClient, "hello"),
    ] {
        assert_eq!(f.buffer(0, name, direction).as_deref(), Some(expected), "{name}");
    }
    let raw = f.buffer(0, "http.header.raw", ToServer).unwrap();
    assert!(raw.ends_with("x-a: 2\\r\\n\\r\\n"), "{raw}");
    assert_eq!(f.buffer(0, "http.referer", ToServer), None);
    assert_eq!(f.buffer(0, "http.request_body", ToServer), None);
    assert_eq!(f.progress(0), [5, 5]);
    assert_eq!(f.triggers, [1, 1]);
    assert_eq!(f.events(0), ["request_header_repetition"]);
    assert_eq!(
        f.log(0),
        "\"hostname\":\"foo.com\",\"http_port\":81,\"url\":\"/a/%2e%2e/b?x=%41\",\
         \"http_user_agent\":\"ua\",\"http_method\":\"GET\",\"protocol\":\"HTTP/1.1\",\
         \"status\":200,\"length\":5"
    );
}

#[test]
fn progress_follows_the_bytes() {
    let mut f = Flow::new();
    f.client("POST / HTTP/1.1\r");
    assert_eq!(f.progress(0), [0, 0]);
    f.client("\nHost: a\r\n");
    assert_eq!(f.progress(0), [2, 0]);
    f.client("Transfer-Encoding: chunked\r\n\r\n4\r\nwi");
    assert_eq!(f.progress(0), [3, 0]);
    f.client("ki\r\n0\r\n");
    assert_eq!(f.progress(0), [4, 0]);
    f.client("Trailer: t\r\n\r\n");
    assert_eq!(f.progress(0), [5, 0]);
    assert_eq!(f.buffer(0, "http.request_body", ToServer).as_deref(), Some("wiki"));
    let header = f.buffer(0, "http.header", ToServer).unwrap();
    assert!(header.ends_with("Trailer: t\\r\\n"), "{header}");
    f.server("HTTP/1.1 204 No\r\n\r\n");
    assert_eq!(f.progress(0), [5, 5]);
}

#[test]
fn requests_may_be_sent_ahead_of_answers() {
    let mut f = Flow::new();
    f.client("GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
    f.server("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 A\r\nContent-Length: 1\r\n\r\nxHTTP/1.1 200 B\r\n\r\nyy");
    assert_eq!(f.count(), 2);
    assert_eq!(f.buffer(0, "http.stat_msg", ToClient).as_deref(), Some("A"));
    assert_eq!(f.buffer(1, "http.stat_msg", ToClient).as_deref(), Some("B"));
    assert_eq!(f.progress(1), [5, 3]);
    f.parser.free(0);
    assert_eq!((f.parser.first_tx_id(), f.parser.next_tx_id()), (1, 2));
    f.end();
    assert_eq!(f.files(1, ToClient), [("/2".to_string(), 2, FileState::Closed)]);
    f.parser.free(1);
    assert_eq!((f.parser.first_tx_id(), f.parser.next_tx_id()), (2, 2));
}

#[test]
fn a_response_without_request_stands_alone() {
    let mut f = Flow::new();
    f.server("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").server("\r\n");
    assert_eq!(f.count(), 1);
    assert_eq!(f.events(0), ["unable_to_match_response_to_request"]);
    assert_eq!(f.buffer(0, "http.uri", ToServer), None);
    let raw = f.buffer(0, "http.uri.raw", ToServer);
    assert_eq!(raw.as_deref(), Some("/libhtp::request_uri_not_seen"));
    f.client("GET / HTTP/1.1\r\nHost: a\r\n\r\n").server("HTTP/1.1 200 OK\r\n\r\n");
    assert_eq!(f.count(), 2);
    assert_eq!(f.buffer(1, "http.uri", ToServer).as_deref(), Some("/"));
}

#[test]
fn forms_bring_files() {
    let mut f = Flow::new();
    let body = "--b\r\nContent-Disposition: form-data; name=x\r\n\r\n1\r\n\
        --b\r\nContent-Disposition: form-data; name=f; filename=\"a.txt\"\r\n\r\nfile a\r\n\
        --b\r\nContent-Disposition: form-data; name=g; filename=b.txt\r\n\r\nfile b\r\n--b--\r\n";
    let head = format!(
        "POST /up HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=b\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    f.client(head);
    for byte in body.as_bytes() {
        f.client([*byte]);
    }
    assert_eq!(
        f.files(0, ToServer),
        [("a.txt".to_string(), 6, FileState::Closed), ("b.txt".to_string(), 6, FileState::Closed)]
    );
    assert_eq!(f.buffer(0, "file.data", ToServer).as_deref(), Some("file a"));
    assert_eq!(f.buffer(0, "file.name", ToServer).as_deref(), Some("a.txt"));
    f.client("PUT /x/y.bin HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
    assert_eq!(f.files(1, ToServer), [("/x/y.bin".to_string(), 3, FileState::Closed)]);
}

#[test]
fn body_limits_cut_files() {
    let mut f = Flow::with(&[("response-body-limit", "4")]);
    f.client("GET /f HTTP/1.0\r\n\r\n").server("HTTP/1.0 200 OK\r\n\r\nab").server("cdef");
    assert_eq!(f.files(0, ToClient), [("/f".to_string(), 4, FileState::Open)]);
    f.server("g");
    assert_eq!(f.files(0, ToClient), [("/f".to_string(), 4, FileState::Truncated)]);
    assert_eq!(f.buffer(0, "file.data", ToClient).as_deref(), Some("abcd"));
}

/// Lost bytes inside of a body count, elsewhere they are an event; either way the flow continues.
#[test]
fn gaps() {
    let mut f = Flow::new();
    f.client("GET /f HTTP/1.1\r\nHost: a\r\n\r\n");
    f.server("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nab");
    f.input(ToClient, Input::Gap { len: 6 }).server("yz");
    assert_eq!(f.files(0, ToClient), [("/f".to_string(), 10, FileState::Truncated)]);
    assert_eq!(f.progress(0), [5, 5]);
    f.client("GET /g HTTP/1.1\r\nHost: a\r\n\r\n");
    f.input(ToClient, Input::Gap { len: 6 });
    assert!(f.events(1).contains(&"invalid_gap") || f.events(0).contains(&"invalid_gap"));
    f.server("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx");
    assert_eq!(f.progress(1), [5, 5]);
}

/// Rules see what an upload had before a hole next to what came after it, also where the hole ends the upload (Suricata 8.0.7).
#[test]
fn a_file_is_inspected_around_its_holes() {
    for (after, expected) in [("", "before"), ("-after", "before-after")] {
        let mut f = Flow::new();
        let length = 6 + 10 + after.len();
        f.client(format!("PUT /f HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\nbefore"));
        f.input(ToServer, Input::Gap { len: 10 }).client(after);
        assert_eq!(f.progress(0)[0], 5);
        let file = f.parser.tx(0).and_then(|t| t.files(ToServer)?.files.first()).unwrap();
        assert_eq!((file.size, file.has_gaps), (length as u64, true));
        assert_eq!(file.content(), (expected.as_bytes(), 0));
    }
}

/// Of a body that ends with the connection nobody said the length: what is lost is not counted (Suricata 8.0.7).
#[test]
fn a_body_without_length_does_not_count_gaps() {
    let mut f = Flow::new();
    f.client("GET /f HTTP/1.1\r\nHost: a\r\n\r\n").server("HTTP/1.1 200 OK\r\n\r\nab");
    f.input(ToClient, Input::Gap { len: 6 }).server("yz").end();
    assert_eq!(f.files(0, ToClient), [("/f".to_string(), 4, FileState::Closed)]);
}

/// Bytes of packed bodies are lost, whether or not anybody wants the body: what follows can't be decoded.
#[test]
fn gaps_of_packed_bodies() {
    for encoding in ["gzip", "deflate", "br", "deflate, gzip"] {
        for length in ["Content-Length: 100\r\n", ""] {
            let mut f = Flow::new();
            f.client("GET /f HTTP/1.1\r\nHost: a\r\n\r\n");
            f.server(format!("HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\n{length}\r\n"));
            f.input(ToClient, Input::Gap { len: 60 });
            assert_eq!(f.outcome, Outcome::Done, "{encoding} {length}");
            assert_eq!(f.server("x").outcome, Outcome::Error, "{encoding} {length}");
        }
    }
}

#[test]
fn tunnels_and_upgrades_change_the_protocol() {
    let mut f = Flow::new();
    f.client("CONNECT h:443 HTTP/1.1\r\nHost: h\r\n\r\n").server("HTTP/1.1 200 OK\r\n\r\n");
    assert_eq!(f.change, Some(ProtocolChange { expected: None, port: Some(443) }));
    assert_eq!(f.progress(0), [5, 5]);

    // A refused tunnel: the next request is read although it came with the first.
    let mut f = Flow::new();
    f.client("CONNECT h:443 HTTP/1.1\r\nHost: h\r\n\r\nGET /x HTTP/1.1\r\nHost: h\r\n\r\n");
    f.server("HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(f.change, None);
    assert_eq!(f.buffer(1, "http.uri", ToServer).as_deref(), Some("/x"));

    let mut f = Flow::new();
    f.client("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\n\r\n");
    f.server("HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\n\r\n\0\0\x12");
    assert_eq!(f.change, Some(ProtocolChange { expected: Some("http2"), port: None }));
    assert_eq!(f.outcome, Outcome::Incomplete { consumed: 40, needed: 3 });
}

/// Which numbers of a request's chunk raise the event in Suricata 8.0.7; what is no number raises none.
#[test]
fn chunks_that_are_too_long_are_events() {
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (size, is_event) in [
        ("5", false),
        ("7FFFFFFF", false),
        ("80000000", true),
        ("FFFFFFFFFFFFFFFF", true),
        ("10000000000000000", false),
        ("zz", false),
        ("-5", false),
    ] {
        let mut f = Flow::new();
        f.client(format!("{head}{size}\r\n"));
        let events = f.events(0);
        assert_eq!(events.contains(&"invalid_request_chunk_len"), is_event, "{size}: {events:?}");
    }
}

/// How often Suricata 8.0.7 raises the event: with the request line twice, with the end of the request once more.
#[test]
fn a_wrong_host_of_the_target_is_raised_each_time_it_is_checked() {
    let request = |line: &str| format!("{line} HTTP/1.1\r\nHost: b\r\n\r\n");
    for host in ["a..b:443", "a:b", "a:0", "*", "{\"a\"}", ".a:443"] {
        for (line, times) in [(format!("GET http://{host}/"), 3), (format!("CONNECT {host}"), 2)] {
            let mut f = Flow::new();
            f.client(request(&line));
            f.server("HTTP/1.1 200 OK\r\n\r\n");
            let events = f.events(0);
            let raised = events.iter().filter(|e| **e == "request_uri_host_invalid").count();
            assert_eq!(raised, times, "{line}: {events:?}");
        }
    }
}

#[test]
fn oddities_are_events() {
    for (client, server, expected) in [
        ("GET / HTTP/1.1\r\n\r\n", "", "missing_host_header"),
        ("GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n", "", "host_header_ambiguous"),
        ("GET / HTTP/1.1\r\nHost: a..b\r\n\r\n", "", "request_header_host_invalid"),
        ("GET http://a:x/ HTTP/1.1\r\nHost: a\r\n\r\n", "", "request_uri_host_invalid"),
        (" GET / HTTP/1.1\r\nHost: a\r\n\r\n", "", "request_line_leading_whitespace"),
        ("GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", "", "method_delim_non_compliant"),
        ("GET / HTTP/1.1\r\nHost: a\r\nnocolon\r\n\r\n", "", "request_field_missing_colon"),
        ("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: x\r\n\r\n", "", "request_auth_unrecognized"),
        ("GET /\r\nHost: a\r\n\r\n", "", "request_line_missing_protocol"),
        (
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "HTTP/1.1 2XX OK\r\n\r\n",
            "response_line_invalid_response_status",
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "response_chunked_old_proto",
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Encoding: gzip, gzip, gzip\r\n\r\n",
            "too_many_encoding_layers",
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "HTTP/1.1 206 OK\r\nContent-Range: nonsense\r\n\r\nx",
            "range_invalid",
        ),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "",
            "duplicate_content_length_field_in_request",
        ),
    ] {
        let mut f = Flow::new();
        f.client(client);
        if !server.is_empty() {
            f.server(server);
        }
        if client.contains("Content-Length: 1") {
            f.client("x");
        }
        assert!(f.events(0).contains(&expected), "{expected}: {:?}", f.events(0));
    }
}

#[test]
fn the_forwarded_client_is_found() {
    for (value, first, last) in [
        ("10.2.2.2, 10.3.3.3", Some("10.2.2.2"), Some("10.3.3.3")),
        ("10.2.2.2:80", Some("10.2.2.2"), Some("10.2.2.2")),
        ("10.2.2.2,10.3.3.3", Some("10.2.2.2"), None),
        ("10.2.2.2 , 10.3.3.3", None, Some("10.3.3.3")),
        ("[2001:db8::1]:80", Some("2001:db8::1"), Some("2001:db8::1")),
        ("\"[2001:db8::1]:80\"", None, None),
        ("[2001:db8::1", None, None),
        ("2001:db8::1", Some("2001:db8::1"), Some("2001:db8::1")),
        ("1.2.3:80", None, None),
        ("::1", None, None),
        ("[::1]:80", Some("::1"), Some("::1")),
        ("unknown", None, None),
    ] {
        let mut f = Flow::new();
        f.client(format!("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {value}\r\n\r\n"));
        let tx = f.parser.tx(0).unwrap();
        let found =
            |take_last| tx.forwarded_for("X-Forwarded-For", take_last).map(|a| a.to_string());
        assert_eq!((found(false).as_deref(), found(true).as_deref()), (first, last), "{value}");
    }
}

/// Limits hold and end the flow instead of eating memory.
#[test]
fn limits_hold() {
    let mut f = Flow::new();
    f.client("GET / HTTP/1.1\r\nX: ");
    for _ in 0..20 {
        f.client([b'a'; 1000]);
    }
    assert_eq!(f.outcome, Outcome::Error);
    assert!(f.events(0).contains(&"request_field_too_long"));

    let mut f = Flow::new();
    f.client("GET / HTTP/1.1\r\n");
    for i in 0..1030 {
        f.client(format!("X{i}: a\r\n"));
    }
    assert_eq!(f.outcome, Outcome::Error);
    assert!(f.events(0).contains(&"request_too_many_headers"));

    let mut f = Flow::new();
    for i in 0..600 {
        f.client(format!("GET /{i} HTTP/1.1\r\nHost: a\r\n\r\n"));
    }
    assert_eq!((f.count(), f.outcome), (512, Outcome::Error));
    assert!(f.parser.bytes_held() < 2 << 20);
}

/// What is no status line is a body that ends with its segment (Suricata's behaviour, measured with a
/// server of SSH that is asked in HTTP).
#[test]
fn a_response_without_status_line_ends_with_its_segment() {
    let mut f = Flow::new();
    f.input(ToServer, Input::Data { bytes: b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", eof: false });
    f.input(ToClient, Input::Data { bytes: b"SSH-2.0-OpenSSH_9.6p1\r\n", eof: false });
    assert_eq!(f.count(), 1);
    f.input(ToClient, Input::Data { bytes: b"Invalid SSH identification string.", eof: false });
    f.input(ToClient, Input::Data { bytes: b"\r\n", eof: false });
    assert_eq!((f.count(), f.outcome), (2, Outcome::Done));
    assert!(f.log(0).contains("\"length\":23") && f.log(1).contains("\"length\":36"));
}

/// A lone LF after the first line ends a message without headers if nothing follows in the piece, else it is a field
/// without name and colon (Suricata 8.0.7).
#[test]
fn a_lone_lf_instead_of_headers() {
    let (first, second) = (&b"GET /2 HTTP/1.0\n\n"[..], &b"PUT /3 HTTP/1.0\n\n"[..]);
    let joined = [first, second].concat();
    for (pieces, count, has_event) in
        [(&[first, second][..], 2, false), (&[joined.as_slice()][..], 1, true)]
    {
        let mut f = Flow::new();
        for piece in pieces {
            f.input(ToServer, Input::Data { bytes: piece, eof: false });
        }
        let is_reported = f.events(0).contains(&"request_field_missing_colon");
        assert_eq!((f.count(), is_reported), (count, has_event));
    }
}

/// Any split of both directions gives the same transactions. (But for a line end too many after a
/// body: what comes with the end is taken for a part of it; for what is no status line, see above; and for
/// a lone LF instead of headers, see below: all as in Suricata.)
#[test]
fn any_split_gives_the_same() {
    let client = b"POST /p?q=%41 HTTP/1.1\r\nHost: h\r\nA: b\r\n c\r\nTransfer-Encoding: chunked\r\n\r\n\
        3;x\r\nabc\r\n0\r\nT: t\r\n\r\nGET /2 HTTP/1.0\r\n\r\nPUT /3 HTTP/1.1\nHost: h\nContent-Length: 2\n\nxy";
    let server = b"HTTP/1.1 100 C\r\n\r\nHTTP/1.1 200 OK\rA: 1\r\n B: 2\n\rTransfer-Encoding: chunked\r\n\r\n\
        5\r\nhello\r\nzz\r\nrest\r\n";
    let run = |cut: usize, step: usize| {
        let mut f = Flow::new();
        for (direction, bytes) in [(ToServer, &client[..]), (ToClient, &server[..])] {
            let (first, second) = bytes.split_at(cut.min(bytes.len()));
            for part in first.chunks(step).chain(second.chunks(step)) {
                f.input(direction, Input::Data { bytes: part, eof: false });
            }
        }
        f.end();
        let mut out = String::new();
        for id in 0..f.count() {
            out += &format!("{id} {} {:?} {:?}\n", f.log(id), f.events(id), f.files(id, ToClient));
            for def in PROTOCOL.table.buffers {
                for hook in def.hooks {
                    let b = f.buffer(id, def.name, hook.direction);
                    out += &format!("{} {:?} {b:?}\n", def.name, hook.direction);
                }
            }
        }
        out
    };
    let whole = run(0, usize::MAX);
    let same = |other: String, what: String| {
        let differ = other.lines().zip(whole.lines()).find(|(a, b)| a != b);
        assert!(other == whole, "{what}: {differ:?}");
    };
    assert!(whole.contains("http.request_body ToServer Some(\"abc\")"), "{whole}");
    for cut in 0..client.len().max(server.len()) {
        same(run(cut, usize::MAX), format!("cut at {cut}"));
    }
    for step in 1..20 {
        same(run(0, step), format!("pieces of {step}"));
    }
}

/// Bytes of no sense at all, in every shape: no panic, no endless loop.
#[test]
fn nonsense_is_survived() {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let words: [&[u8]; 24] = [
        b"GET ",
        b"POST /",
        b" HTTP/1.1",
        b"\r\n",
        b"\n",
        b"\r",
        b"\r\n\r\n",
        b": ",
        b" ",
        b"\0",
        b"Content-Length: 5",
        b"Transfer-Encoding: chunked",
        b"Content-Encoding: gzip",
        b"5\r\n",
        b"0\r\n",
        b"HTTP/1.1 200 OK",
        b"HTTP/1.0 101 S",
        b"Upgrade: h2c",
        b"CONNECT a:1",
        b"%u00",
        b"\x1f\x8b\x08",
        b"multipart/form-data; boundary=b",
        b"Content-Type: ",
        b"--b",
    ];
    let rounds = std::env::var("GABION_FUZZ_ROUNDS").ok().and_then(|n| n.parse().ok());
    for _ in 0..rounds.unwrap_or(3000) {
        let mut bytes = vec![next() as u8];
        for _ in 0..next() % 40 {
            let mut part = Vec::new();
            for _ in 0..next() % 4 {
                part.extend_from_slice(words[(next() % 24) as usize]);
            }
            part.truncate(63);
            bytes.push(
                (part.len() as u8) << 2 | (next() as u8 & 3) & if next() % 8 == 0 { 3 } else { 1 },
            );
            bytes.extend_from_slice(&part);
        }
        fuzz(&bytes);
    }
}

/// What a flow has unpacked is bounded by what it sent; content that would have been inspected is counted
/// when it is shed.
#[test]
fn bodies_beyond_what_a_flow_may_have_unpacked_are_counted() {
    use std::io::Write;
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packer.write_all(&vec![0; 90 << 10]).unwrap();
    let body = packer.finish().unwrap();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut f = Flow::new();
    for _ in 0..6 {
        f.client("GET / HTTP/1.1\r\nHost: a\r\n\r\n").server([head.as_bytes(), &body].concat());
    }
    let whole = (String::from("/"), 90 << 10, FileState::Closed);
    assert_eq!((f.files(0, ToClient), f.files(2, ToClient)), (vec![whole.clone()], vec![whole]));
    let counts = gabion_record::limits::take_reached();
    assert_eq!(counts.times_reached(&super::limits::reached::UNPACKED_BYTES_MAX), 3);
}

/// Layers of gzip over one another cost the bytes that each layer makes, and no more for bodies in small pieces.
#[test]
fn nested_encodings_cost_linear_steps() {
    use std::io::Write;
    let gzip = |bytes: &[u8]| {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(bytes).unwrap();
        packer.finish().unwrap()
    };
    // Bytes that can't be packed: each layer is as long as the body.
    let mut seed = 1u64;
    let body: Vec<u8> = std::iter::repeat_with(|| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 56) as u8
    })
    .take(60_000)
    .collect();
    for layers in 1..=6u64 {
        // What the layers make: all but the outermost form.
        let (mut packed, mut least) = (body.clone(), 0);
        for _ in 0..layers {
            least += packed.len() as u64;
            packed = gzip(&packed);
        }
        let names = vec!["gzip"; layers as usize].join(", ");
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Encoding: {names}\r\nContent-Length: {}\r\n\r\n",
            packed.len()
        );
        for piece in [1, 1400, packed.len()] {
            let mut f = Flow::with(&[("response-body-decompress-layer-limit", "6")]);
            f.client("GET / HTTP/1.1\r\nHost: a\r\n\r\n").server(head.as_bytes());
            let decoders = f.parser.bytes_made();
            for part in packed.chunks(piece) {
                f.server(part);
            }
            let made = f.parser.bytes_made() - decoders;
            assert!((least..least + layers * 100).contains(&made), "{layers} {piece}: {made}");
            assert_eq!(f.files(0, ToClient)[0].1, 60_000, "{layers} {piece}");
        }
    }
}

/// Where the configuration sets no limit, a field that names thousands of encodings makes no decoder for each.
#[test]
fn encodings_over_one_another_are_bounded_whatever_is_configured() {
    let mut f = Flow::with(&[("response-body-decompress-layer-limit", "0")]);
    f.client("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let names = vec!["gzip"; 2_000].join(",");
    f.server(format!(
        "HTTP/1.1 200 OK\r\nContent-Encoding: {names}\r\nContent-Length: 4\r\n\r\nbody"
    ));
    assert!(f.parser.bytes_made() < 4 << 20, "{}", f.parser.bytes_made());
    assert_eq!(f.files(0, ToClient)[0].1, 4, "what is packed in no way passes through all layers");
}

/// Bytes of header blocks examined for each byte of a request with these lines, in pieces.
fn steps_of_head(lines: &str, piece: usize) -> f64 {
    let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
    let mut f = Flow::new();
    super::headers::STEPS.set(0);
    for part in request.as_bytes().chunks(piece) {
        f.client(part);
        if f.outcome == Outcome::Error {
            break;
        }
    }
    super::headers::STEPS.get() as f64 / request.len() as f64
}

/// However many headers a block has, and over however many lines one of them is folded, what it costs
/// to read grows as the block does: there are no steps in the curve.
#[test]
fn folds_and_headers_are_read_in_a_line_of_steps() {
    let folds = |n: usize| format!("F: a\r\n{}", " b\r\n".repeat(n));
    let fields = |n: usize| (0..n).map(|n| format!("h{n}: {n}\r\n")).collect::<String>();
    let bare = |n: usize| "x\r\n".repeat(n);
    type Maker<'a> = (&'a str, &'a dyn Fn(usize) -> String, [usize; 4]);
    let makers: [Maker<'_>; 3] = [
        ("folds", &folds, [100, 12_000, 25_000, 200_000]),
        ("headers", &fields, [100, 1_020, 12_000, 25_000]),
        ("lines without a colon", &bare, [100, 12_000, 25_000, 200_000]),
    ];
    for (name, lines, counts) in makers {
        for piece in [1_400, 1 << 20] {
            let few = steps_of_head(&lines(1_000), piece);
            assert!(few <= 4.0, "1000 {name} in pieces of {piece}: {few} steps a byte");
            for count in counts {
                let each = steps_of_head(&lines(count), piece);
                assert!(
                    each <= 2.0 * few,
                    "{count} {name} in pieces of {piece}: {each} steps a byte, {few} of 1000"
                );
            }
        }
    }
}

/// A packet of a flow with many open requests changes one of them, and says so: the others are not
/// examined.
#[test]
fn of_many_open_requests_those_that_changed_are_known() {
    let mut f = Flow::new();
    for _ in 0..510 {
        f.client("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    f.client("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n");
    let mut changed = Vec::new();
    assert!(f.parser.txs().notes_changes());
    f.parser.txs_mut().take_changed(&mut changed);
    let mut looks = 0;
    for n in 0..1_000 {
        changed.clear();
        match n % 2 {
            0 => f.client("more of the body"),
            _ => f.server("HTTP/1.1 100 Continue\r\n\r\n"),
        };
        assert!(f.parser.txs_mut().take_changed(&mut changed));
        let expected = if n % 2 == 0 { 510 } else { 0 };
        assert!(changed.contains(&expected), "{n}: {changed:?}");
        looks += changed.len();
    }
    assert!(looks <= 4_000, "{looks}");
}

/// The fields of a 100 Continue are forgotten, and the response after it is read from its beginning.
#[test]
fn a_continue_with_fields_is_followed_by_the_response() {
    let wait = "HTTP/1.1 100 Continue\r\nServer: sx\r\nX-Request: 1\r\n\r\n";
    let answer = "HTTP/1.1 200 OK\r\nServer: sv\r\nContent-Length: 2\r\n\r\nhi";
    for cut in [0, 10, wait.len() - 1, wait.len(), wait.len() + 20] {
        let mut f = Flow::new();
        f.client("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody");
        let all = [wait, answer].concat();
        let (first, rest) = all.split_at(cut);
        f.server(first).server(rest);
        assert_eq!(f.progress(0), [5, 5], "{cut}");
        assert_eq!(f.buffer(0, "http.server", ToClient).as_deref(), Some("sv"), "{cut}");
        assert_eq!(f.buffer(0, "http.response_body", ToClient).as_deref(), Some("hi"), "{cut}");
        assert_eq!(f.events(0), Vec::<&str>::new(), "{cut}");
    }
}

/// A first line that ends with its piece, and began with an earlier one, is shown to rules with the next byte (Suricata 8.0.7).
#[test]
fn a_line_that_was_cut_is_shown_with_what_follows() {
    let shown = |f: &Flow, d: Direction| f.parser.tx(0).map_or(0, |tx| tx.progress(d));
    let line = message::progress::LINE;
    for (pieces, at) in [
        (&["GET / HTTP/1.0\r\n", "\r\n"][..], 0),
        (&["GET / HT", "TP/1.0\r\n", "\r\n"], 2),
        (&["G", "ET / HTTP/1.0", "\r", "\n", "H"], 4),
        (&["GET / HT", "TP/1.0\r\nHo", "st: a\r\n"], 1),
        (&["GET / HT", "TP/1.0\r\n\r\n"], 1),
        // What may be HTTP/0.9 is shown as late.
        (&["GET ", "/\r\n", "Host: a\r\n"], 2),
    ] {
        let mut f = Flow::new();
        for (n, piece) in pieces.iter().enumerate() {
            f.client(piece);
            assert_eq!(shown(&f, ToServer) >= line, n >= at, "{pieces:?} {n}");
        }
    }
    for (pieces, at) in [
        (&["HTTP/1.0 200 OK\r\n", "A: b\r\n"][..], 0),
        (&["HTTP/1.0 2", "00 OK\r\n", "A: b\r\n"], 2),
        (&["HTTP/1.0 2", "00 OK\r\nA: ", "b\r\n"], 1),
    ] {
        let mut f = Flow::new();
        f.client("GET / HTTP/1.0\r\n\r\n");
        for (n, piece) in pieces.iter().enumerate() {
            f.server(piece);
            assert_eq!(shown(&f, ToClient) >= line, n >= at, "{pieces:?} {n}");
        }
    }
    // What is hidden is there in the end.
    let mut f = Flow::new();
    f.client("GET / HT").client("TP/1.0\r\n").end();
    assert_eq!(shown(&f, ToServer), message::progress::COMPLETE);
    assert_eq!(f.buffer(0, "http.method", ToServer).as_deref(), Some("GET"));
}

/// Of many open requests the last one has what rules had made of it: the others gave it back, and make it again.
#[test]
fn requests_give_back_what_rules_had_made_of_them() {
    let (mut asked, mut bare) = (Flow::new(), Flow::new());
    let header = "Host: Foo.COM:81\\r\\nUser-Agent: ua\\r\\nX-A: 1, 2\\r\\n";
    for id in 0..100 {
        asked.client(GET);
        bare.client(GET);
        assert_eq!(asked.buffer(id, "http.header", ToServer).as_deref(), Some(header));
        assert!(asked.buffer(id, "http.header_names", ToServer).is_some());
    }
    let more = asked.parser.bytes_held() - bare.parser.bytes_held();
    assert!((100..1_000).contains(&more), "{more}");
    assert_eq!(asked.buffer(7, "http.header", ToServer).as_deref(), Some(header));
}

/// Requests that are never answered hold no response, and look like those whose response has not begun: before the flow's end
/// and after it, for rules and for the log. One that is answered late is answered in full.
#[test]
fn requests_without_a_response_hold_none() {
    let request = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut f = Flow::new();
    f.client(request.repeat(100));
    let of_requests = f.parser.bytes_held();
    assert_eq!(f.progress(7), [5, 0]);
    assert_eq!(f.buffer(7, "http.stat_code", ToClient), None);
    f.server("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi".repeat(100));
    assert_eq!(f.progress(7), [5, 5]);
    assert_eq!(f.buffer(7, "http.stat_code", ToClient).as_deref(), Some("200"));
    assert_eq!(f.buffer(7, "file.data", ToClient).as_deref(), Some("hi"));
    let of_both = f.parser.bytes_held();
    assert!(of_both > of_requests + 100 * size_of::<message::Message>(), "{of_requests} {of_both}");

    let mut f = Flow::new();
    f.client(request.repeat(10)).server("HTTP/1.1 204 None\r\n\r\n");
    let before = f.parser.bytes_held();
    f.end();
    assert_eq!([f.progress(0), f.progress(2)], [[5, 5], [5, 5]]);
    assert_eq!(f.buffer(2, "http.stat_code", ToClient), None);
    assert!(!f.log(2).contains("status"), "{}", f.log(2));
    assert!(f.files(2, ToClient).is_empty());
    assert_eq!(f.parser.bytes_held(), before);
}

/// A client can keep as many requests open as the limit allows, in each of its flows: what one takes counts.
#[test]
fn an_open_request_takes_little_memory() {
    assert!(size_of::<super::message::Tx>() <= 384, "{}", size_of::<super::message::Tx>());
    let mut f = Flow::new();
    f.client("GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(100)).end();
    assert_eq!(f.count(), 100);
    let each = f.parser.bytes_held() / 100;
    assert!(each <= 600, "{each} bytes for each request");
}

/// Detection passes over the buffers of an answer of which nothing came: they must have nothing.
#[test]
fn an_answer_that_never_came_has_no_buffers() {
    for is_over in [false, true] {
        let mut f = Flow::new();
        f.client("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
        if is_over {
            f.end();
        }
        let tx = f.parser.tx(0).unwrap();
        assert!(tx.has_begun(ToServer) && !tx.has_begun(ToClient));
        for at_end in [false, true] {
            let how = Inspect { at_end, ..Inspect::default() };
            let hooks = PROTOCOL.table.buffers.iter().flat_map(|def| def.hooks);
            for hook in hooks.filter(|hook| hook.direction == ToClient) {
                assert_eq!(tx.buffer(hook.local, ToClient, 0, how), None, "{}", hook.local);
            }
        }
    }
    let mut f = Flow::new();
    f.client("GET /a HTTP/1.1\r\nHost: a\r\n\r\n").server("HTTP/1.1 200 OK\r\n");
    assert!(f.parser.tx(0).unwrap().has_begun(ToClient));
}
