//! HTTP/1: header blocks in tiny pieces, bombs, nested encodings, long headers.

use gabion_adversarial::Connection;
use gabion_record::Direction;
use gabion_record::applayer::Transport;
use std::io::Write;

/// Bytes a flow's parser may hold by default: header block, body window, decoder.
const HELD_MAX: usize = 8 << 20;

fn talk() -> Connection {
    Connection::with_protocol("http1", Transport::Tcp)
}

fn request(talk: &mut Connection) {
    talk.client(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
}

fn response(encoding: &str, body: &[u8]) -> Vec<u8> {
    let mut out = format!(
        "HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    out.extend_from_slice(body);
    out
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut e = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    e.write_all(bytes).unwrap();
    e.finish().unwrap()
}

/// Header blocks over many small packets: the parser sees every byte once, whatever the pieces.
#[test]
fn headers_in_tiny_pieces_are_read_once() {
    let mut head = b"GET / HTTP/1.1\r\n".to_vec();
    for n in 0..1_000 {
        head.extend_from_slice(format!("X-{n}: {}\r\n", "v".repeat(40)).as_bytes());
    }
    head.extend_from_slice(b"\r\n");
    let mut talk = talk();
    talk.in_pieces(Direction::ToServer, &head, 1);
    talk.end();
    assert_eq!(talk.account.offered, talk.account.said);
    assert!(talk.account.held_max < HELD_MAX, "{}", talk.account.held_max);
    assert_eq!(talk.account.waiting_max, 1);
}

/// An endless header block, of short lines or of one line: it ends at a limit with an event, or at
/// a bound on the kept bytes.
#[test]
fn endless_headers_are_bounded() {
    for line in [&b"A: b\r\n"[..], b" folded\r\n", b"x"] {
        let mut talk = talk();
        talk.client(b"GET / HTTP/1.1\r\nA: b\r\n");
        let block = line.repeat(65_536 / line.len());
        for _ in 0..64 {
            talk.client(&block);
        }
        assert!(talk.account.held_max < HELD_MAX, "{line:?}: {}", talk.account.held_max);
        assert!(talk.account.offered <= talk.account.said);
    }
}

/// Bombs of gzip, deflate, lzma and brotli, several in a flow: the decompressed bytes stay within
/// the window for rules, and a flow's third bomb is its last.
#[test]
fn bombs_unpack_to_no_more_than_the_window() {
    let zeros = vec![0u8; 24 << 20];
    let mut deflate = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
    deflate.write_all(&zeros).unwrap();
    let mut lzma = Vec::new();
    lzma_rs::lzma_compress(&mut &zeros[..], &mut lzma).unwrap();
    let mut br = Vec::new();
    let how = brotli::enc::BrotliEncoderParams { quality: 5, ..Default::default() };
    brotli::BrotliCompress(&mut &zeros[..], &mut br, &how).unwrap();
    let deflate = deflate.finish().unwrap();
    let bodies = [("gzip", gzip(&zeros)), ("deflate", deflate), ("lzma", lzma), ("br", br)];
    for (encoding, body) in bodies {
        let mut talk = talk().freeing();
        for _ in 0..4 {
            request(&mut talk);
            talk.in_pieces(Direction::ToClient, &response(encoding, &body), 1_400);
        }
        talk.end();
        assert!(talk.account.held_max < HELD_MAX, "{encoding}: {}", talk.account.held_max);
        assert_eq!(talk.account.offered, talk.account.said, "{encoding}");
    }
}

/// Endlessly nested encodings: two layers are decoded (Suricata's default), the rest has an event.
#[test]
fn nested_encodings_are_decoded_to_a_depth() {
    let mut body = vec![b'a'; 100_000];
    for _ in 0..12 {
        body = gzip(&body);
    }
    let mut talk = talk();
    request(&mut talk);
    talk.server(&response(&vec!["gzip"; 100].join(", "), &body));
    talk.end();
    assert!(talk.account.events.contains("too_many_encoding_layers"), "{:?}", talk.account.events);
    assert!(talk.account.held_max < HELD_MAX, "{}", talk.account.held_max);
}

/// A flow of pipelined requests without an answer: transactions are limited, not collected.
#[test]
fn requests_without_answers_are_limited() {
    let mut talk = talk();
    let many = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(500);
    for _ in 0..40 {
        talk.client(&many);
    }
    assert!(talk.account.alive_max <= 512, "{}", talk.account.alive_max);
    assert_eq!(talk.account.errors, 1, "one more ends the direction");
}

/// Transactions of a flow that is passed or ignored are freed one by one when they are complete:
/// the list never grows.
#[test]
fn answered_requests_are_freed() {
    let mut talk = talk().freeing();
    for _ in 0..5_000 {
        request(&mut talk);
        talk.server(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    }
    assert!(talk.account.alive_max <= 3, "{}", talk.account.alive_max);
    assert!(talk.account.held_max < 1 << 20, "{}", talk.account.held_max);
    assert_eq!(talk.account.made, 5_000);
}

/// Content-Disposition with only separators and half names, and boundaries that never arrive.
#[test]
fn multipart_headers_of_separators_are_bounded() {
    let mut body = b"--b\r\nContent-Disposition: form-data".to_vec();
    body.extend_from_slice(&b"; name=\"".repeat(20_000));
    body.extend_from_slice(b"\r\n\r\n");
    body.extend_from_slice(&b"--b\r\n-b--".repeat(20_000));
    let head = format!(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=b\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    let mut talk = talk();
    talk.client(head.as_bytes());
    talk.in_pieces(Direction::ToServer, &body, 7);
    talk.end();
    assert_eq!(talk.account.offered, talk.account.said);
    assert!(talk.account.held_max < HELD_MAX, "{}", talk.account.held_max);
}

/// A Flash file in a Flash file in ...: unpacked once, to the window.
#[test]
fn flash_files_are_unpacked_once() {
    let mut file = vec![0u8; 1 << 20];
    for _ in 0..20 {
        let mut e = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        e.write_all(&file).unwrap();
        let packed = e.finish().unwrap();
        file = b"CWS\x09".to_vec();
        file.extend_from_slice(&u32::MAX.to_le_bytes());
        file.extend_from_slice(&packed);
    }
    let mut talk = talk();
    request(&mut talk);
    talk.server(&response("identity", &file));
    talk.end();
    assert!(talk.account.held_max < HELD_MAX, "{}", talk.account.held_max);
}
