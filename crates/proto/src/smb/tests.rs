//! What a flow keeps stays within its limits, whatever its messages name.

use super::SmbParser;
use super::limits::{MESSAGE_BYTES_MAX, STUB_BYTES_MAX, reached};
use super::settings::Settings;
use crate::{Endpoints, Input, Outcome, ParseContext, Parser};
use gabion_record::Direction::{self, ToClient, ToServer};
use gabion_record::limits::{Limit, take_reached};

fn feed(parser: &mut SmbParser, direction: Direction, bytes: &[u8]) -> Outcome {
    let ends = Endpoints::default();
    let mut cx = ParseContext::new(0, direction, &ends);
    parser.parse(&mut cx, Input::Data { bytes, eof: false })
}

/// An SMB 2 message in one of NetBIOS.
fn message(command: u8, is_response: bool, id: u64, tree: u32, body: &[u8]) -> Vec<u8> {
    let mut m = ((64 + body.len()) as u32).to_be_bytes().to_vec();
    m.extend_from_slice(b"\xfeSMB\x40\0\x01\0\0\0\0\0");
    m.extend_from_slice(&[command, 0, 1, 0, u8::from(is_response), 0, 0, 0, 0, 0, 0, 0]);
    m.extend_from_slice(&id.to_le_bytes());
    m.extend_from_slice(&[0; 4]);
    m.extend_from_slice(&tree.to_le_bytes());
    m.extend_from_slice(&[1; 24]);
    m.extend_from_slice(body);
    m
}

fn file_id(n: u64) -> [u8; 16] {
    let mut id = [7; 16];
    id[..8].copy_from_slice(&n.to_le_bytes());
    id
}

/// Opens a file and frees the transaction.
fn open_file(parser: &mut SmbParser, n: u64, name: &[u8]) {
    let mut asked = vec![0; 56];
    asked[44..48].copy_from_slice(&[120, 0, name.len() as u8, 0]);
    asked.extend_from_slice(name);
    feed(parser, ToServer, &message(5, false, n, 1, &asked));
    let answer = [&[0; 64][..], &file_id(n)].concat();
    feed(parser, ToClient, &message(5, true, n, 1, &answer));
    free_all(parser);
}

fn free_all(parser: &mut SmbParser) {
    (parser.first_tx_id()..parser.next_tx_id()).for_each(|id| parser.free(id));
}

fn open_tree(parser: &mut SmbParser, n: u64, tree: u32, share_type: u8) {
    feed(parser, ToServer, &message(3, false, n, 0, &[0, 0, 0, 0, 72, 0, 0, 0]));
    let answer = [&[16, 0, share_type][..], &[0; 13]].concat();
    feed(parser, ToClient, &message(3, true, n, tree, &answer));
    free_all(parser);
}

fn data(n: u64, bytes: &[u8], is_read: bool) -> Vec<u8> {
    let mut body = vec![17, 0, 80, 0];
    if !is_read {
        body = vec![49, 0, 112, 0];
    }
    body.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    body.extend_from_slice(&[0; 8]);
    if !is_read {
        body.extend_from_slice(&file_id(n));
        body.extend_from_slice(&[0; 16]);
    }
    body.extend_from_slice(bytes);
    body
}

fn ask_to_read(parser: &mut SmbParser, n: u64, id: u64) {
    let asked = [&[49, 0, 80, 0, 0, 16, 0, 0][..], &[0; 8], &file_id(n), &[0; 17]].concat();
    feed(parser, ToServer, &message(8, false, id, 1, &asked));
}

/// That a limit is reached by this, and that little is held however often it is done.
fn assert_bounded(limit: &'static Limit, mut act: impl FnMut(&mut SmbParser, u64)) {
    let mut parser = SmbParser::new(Settings::default());
    take_reached();
    (0..3000).for_each(|n| act(&mut parser, n));
    assert!(take_reached().times_reached(limit) > 0, "{}", limit.name);
    (3000..6000).for_each(|n| act(&mut parser, n));
    let held = parser.bytes_held();
    assert!(held < 512 * 1024, "{}: {held}", limit.name);
}

#[test]
fn names_and_numbers_are_bounded() {
    assert_bounded(&reached::FILES_KNOWN_MAX, |parser, n| open_file(parser, n, b"f\0"));
    assert_bounded(&reached::READS_KNOWN_MAX, |parser, n| ask_to_read(parser, n, n));
    assert_bounded(&reached::TREES_KNOWN_MAX, |parser, n| open_tree(parser, n, n as u32 + 2, 1));
}

#[test]
fn parts_of_pipes_are_bounded() {
    assert_bounded(&reached::PIPES_KNOWN_MAX, |parser, n| {
        if n == 0 {
            open_tree(parser, 0, 1, 2);
        }
        open_file(parser, n, b"s\0v\0c\0c\0t\0l\0");
        ask_to_read(parser, n, n);
        let mut part = message(8, true, n, 1, &data(n, b"\x05\0\x02\x03 part", true));
        part[4 + 8..4 + 12].copy_from_slice(&0x8000_0005u32.to_le_bytes());
        feed(parser, ToClient, &part);
    });
}

#[test]
fn transactions_are_bounded() {
    let settings = Settings { txs_max: usize::MAX, ..Settings::default() };
    let mut parser = SmbParser::new(settings);
    take_reached();
    let echo = message(13, false, 0, 1, &[4, 0, 0, 0]).repeat(1000);
    (0..66).for_each(|_| {
        feed(&mut parser, ToServer, &echo);
    });
    assert_eq!(take_reached().times_reached(&reached::TXS_KEPT_MAX), 66_000 - 65_536);
}

/// A message that carries no file and is too long to be held is read as far as it is held; what follows it is
/// read.
#[test]
fn long_messages_are_cut() {
    let mut parser = SmbParser::new(Settings::default());
    take_reached();
    let mut long = message(13, false, 0, 1, &vec![0; 2 * MESSAGE_BYTES_MAX]);
    long.extend_from_slice(&message(13, false, 1, 1, &[4, 0, 0, 0]));
    let mut held: Vec<u8> = Vec::new();
    let (mut needed, mut calls) = (0, 0);
    for piece in long.chunks(1400) {
        held.extend_from_slice(piece);
        assert!(held.len() <= MESSAGE_BYTES_MAX + 1400, "{}", held.len());
        if held.len() < needed {
            continue;
        }
        calls += 1;
        match feed(&mut parser, ToServer, &held) {
            Outcome::Done => (held, needed) = (Vec::new(), 0),
            Outcome::Incomplete { consumed, needed: n } => {
                held.drain(..consumed);
                needed = n;
            }
            Outcome::Error => panic!("the flow can be followed"),
        }
    }
    assert_eq!(
        (parser.next_tx_id(), take_reached().times_reached(&reached::MESSAGE_BYTES_MAX)),
        (2, 1)
    );
    assert!(calls < 600, "{calls}");
}

/// Fragments of a call whose last one never comes.
#[test]
fn stub_data_are_bounded() {
    let mut parser = SmbParser::new(Settings::default());
    open_tree(&mut parser, 0, 1, 2);
    open_file(&mut parser, 1, b"s\0v\0c\0c\0t\0l\0");
    take_reached();
    let mut fragment = b"\x05\0\0\0\x10\0\0\0\xff\xff\0\0\x02\0\0\0\0\0\0\0\0\0\0\0".to_vec();
    fragment.resize(65_535, b's');
    for n in 0..40 {
        fragment[3] = u8::from(n == 0);
        feed(&mut parser, ToServer, &message(9, false, 10 + n, 1, &data(1, &fragment, false)));
    }
    assert!(parser.bytes_held() < 3 * STUB_BYTES_MAX, "{}", parser.bytes_held());
    assert!(take_reached().times_reached(&reached::STUB_BYTES_MAX) > 20);
    assert_eq!(parser.next_tx_id() - parser.first_tx_id(), 1);
}

/// Encrypted messages are passed over and counted, once each however they come.
#[test]
fn encrypted_messages_are_counted() {
    let mut encrypted = vec![0, 0, 0, 0];
    encrypted.extend_from_slice(b"\xfdSMB");
    encrypted.resize(4 + 52 + 3000, 7);
    let len = encrypted.len() as u32 - 4;
    encrypted[1..4].copy_from_slice(&len.to_be_bytes()[1..]);
    for piece in [1, 60, 1400, encrypted.len()] {
        let mut parser = SmbParser::new(Settings::default());
        take_reached();
        let echo = message(13, false, 1, 1, &[4, 0, 0, 0]);
        let stream = [encrypted.as_slice(), &encrypted, &echo].concat();
        let mut held: Vec<u8> = Vec::new();
        for part in stream.chunks(piece) {
            held.extend_from_slice(part);
            match feed(&mut parser, ToServer, &held) {
                Outcome::Done => held.clear(),
                Outcome::Incomplete { consumed, .. } => drop(held.drain(..consumed)),
                Outcome::Error => panic!("the flow can be followed"),
            }
        }
        let times = take_reached().times_reached(&reached::ENCRYPTED_READ_MAX);
        assert_eq!((times, parser.next_tx_id()), (2, 1), "pieces of {piece}");
    }
}

/// A message of a byte a segment is looked at a bounded number of times.
#[test]
fn bytes_one_by_one_are_linear() {
    let mut parser = SmbParser::new(Settings::default());
    open_tree(&mut parser, 0, 1, 1);
    let stream = message(9, false, 5, 1, &data(1, &[b'x'; 20_000], false)).repeat(3);
    let (mut held, mut needed, mut looked) = (Vec::new(), 0, 0);
    for byte in &stream {
        held.push(*byte);
        if held.len() < needed {
            continue;
        }
        looked += held.len();
        match feed(&mut parser, ToServer, &held) {
            Outcome::Done => (held, needed) = (Vec::new(), 0),
            Outcome::Incomplete { consumed, needed: n } => {
                held.drain(..consumed);
                needed = n;
            }
            Outcome::Error => panic!("the flow can be followed"),
        }
    }
    assert!(looked < 2 * stream.len(), "{looked} of {}", stream.len());
}
