//! NFS sessions made by hand. What each comes to was measured with Suricata 8.0.7.

mod play;

use gabion_proto::files::FileState;
use gabion_proto::frames::FrameNote;
use gabion_proto::nfs::limits::{CALLS_MAX, NAMES_MAX, OPERATIONS_MAX, TXS_PER_FLOW_MAX};
use gabion_proto::nfs::{NfsTx, PROTOCOL};
use gabion_proto::{Endpoints, Input, Outcome, ParseContext, Parser, Transaction};
use gabion_record::Direction::{self, ToClient, ToServer};
use gabion_record::Tree;
use gabion_record::applayer::Transport;
use play::{c, play_all, s};

fn number(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

/// A byte string of stated length (RFC 4506 4.10).
fn opaque(bytes: &[u8]) -> Vec<u8> {
    let mut out = number(bytes.len() as u32).to_vec();
    out.extend_from_slice(bytes);
    out.resize(out.len().next_multiple_of(4), 0);
    out
}

/// A call of version `version` by user 5 of group 6 (RFC 5531 9).
fn call(version: u32, xid: u32, procedure: u32, arguments: &[u8]) -> Vec<u8> {
    let head = [xid, 0, 2, 100_003, version, procedure, 1].map(number).concat();
    let user = [&number(1)[..], &opaque(b"host"), &number(5), &number(6), &number(0)].concat();
    [head, opaque(&user), vec![0; 8], arguments.to_vec()].concat()
}

fn reply(xid: u32, results: &[u8]) -> Vec<u8> {
    [[xid, 1, 0, 0, 0, 0].map(number).concat(), results.to_vec()].concat()
}

fn record(message: &[u8]) -> Vec<u8> {
    [&number(message.len() as u32 | 1 << 31)[..], message].concat()
}

fn write_call(xid: u32, offset: u8, stable: u32, data: &[u8]) -> Vec<u8> {
    let place = [0, 0, 0, 0, 0, 0, 0, offset];
    let count = number(data.len() as u32);
    let rest = [&count[..], &number(stable), &opaque(data)].concat();
    call(3, xid, 7, &[opaque(b"HANDLE01"), place.to_vec(), rest].concat())
}

fn read_call(xid: u32, offset: u8) -> Vec<u8> {
    let place = [0, 0, 0, 0, 0, 0, 0, offset, 0, 0, 4, 0];
    call(3, xid, 6, &[opaque(b"HANDLE01"), place.to_vec()].concat())
}

fn read_reply(xid: u32, is_last: u32, data: &[u8]) -> Vec<u8> {
    let count = number(data.len() as u32);
    reply(xid, &[&[0; 8][..], &count, &number(is_last), &opaque(data)].concat())
}

const BY: &str = "\"file_tx\":false,\"type\":\"response\",\"status\":\"OK\"}";

#[test]
fn names_and_handles() {
    let named = |name: &[u8]| [opaque(b"DIR-HAND"), opaque(name)].concat();
    let found = [&number(0)[..], &opaque(b"HANDLE01"), &[0; 8]].concat();
    let session = [
        c(&record(&call(3, 1, 3, &named(b"file")))),
        s(&record(&reply(1, &found))),
        c(&record(&call(3, 2, 4, &[opaque(b"HANDLE01"), vec![0; 4]].concat()))),
        s(&record(&reply(2, &number(13)))),
        c(&record(&call(3, 3, 1, &opaque(b"HANDLE01")))),
        s(&record(&reply(3, &number(0)))),
        c(&record(&call(3, 4, 14, &[named(b"from"), named(b"to")].concat()))),
        s(&record(&reply(4, &number(0)))),
        c(&record(&call(3, 5, 12, &named(b"gone")))),
    ];
    let out = play_all(PROTOCOL, None, &session);
    let records: Vec<&str> = out.all.iter().map(|(_, record)| record.as_str()).collect();
    let expected = [
        "{\"version\":3,\"procedure\":\"LOOKUP\",\"filename\":\"file\",\"hhash\":\"cc0c730e\",\
         \"id\":1,\"file_tx\":false,\"type\":\"response\",\"status\":\"OK\"}",
        "{\"version\":3,\"procedure\":\"ACCESS\",\"filename\":\"file\",\"hhash\":\"cc0c730e\",\
         \"id\":2,\"file_tx\":false,\"type\":\"response\",\"status\":\"ERR_ACCES\"}",
        // Suricata 8.0.7 has no records of GETATTR.
        "",
        "{\"version\":3,\"procedure\":\"RENAME\",\"filename\":\"from\",\"hhash\":\"51c211ba\",\
         \"id\":4,\"file_tx\":false,\"type\":\"response\",\"status\":\"OK\",\
         \"rename\":{\"from\":\"from\",\"to\":\"to\"}}",
        "{\"version\":3,\"procedure\":\"REMOVE\",\"filename\":\"gone\",\"hhash\":\"51c211ba\",\
         \"id\":5,\"file_tx\":false,\"type\":\"response\",\"status\":\"OK\"}",
    ];
    assert_eq!(records, expected);
    assert!(!out.is_error && records[4].ends_with(BY));
}

#[test]
fn records_that_cannot_be_read_end_the_flow() {
    let first = [c(&record(&call(3, 1, 0, b""))), s(&record(&reply(1, b"")))];
    let lookup = call(3, 2, 3, b"\0\0\0\x50abc");
    let untyped = record(&[&number(5)[..], &number(9), &[0; 32]].concat());
    for wrong in [&b"GET / HTTP/1.0\r\n\r\n"[..], &number(1 << 31), &untyped, &record(b"short")] {
        let out = play_all(PROTOCOL, None, &[&first[..], &[c(wrong)]].concat());
        assert!(out.is_error && out.events == ["malformed_data"], "{wrong:?}");
    }
    // Arguments that can't be read are an event, no more.
    let out = play_all(PROTOCOL, None, &[&first[..], &[c(&record(&lookup))]].concat());
    assert_eq!((out.is_error, out.all.len()), (false, 2));
    assert_eq!(out.events, ["malformed_data"]);
}

/// A fragment counts as a record, one of the other side as one that can't be read.
#[test]
fn fragments_do_not_end_the_flow() {
    let lookup = |xid| call(3, xid, 3, &[opaque(b"DIR-HAND"), opaque(b"file")].concat());
    let cut = |at: usize| {
        let message = lookup(2);
        let (head, rest) = message.split_at(at);
        [&number(head.len() as u32)[..], head, &record(rest)].concat()
    };
    let reply_to_server = record(&reply(1, &number(0)));
    for (middle, events) in [(cut(48), 2), (cut(56), 2), (reply_to_server, 1)] {
        let session = [c(&record(&lookup(1))), c(&middle), c(&record(&lookup(3)))];
        let out = play_all(PROTOCOL, None, &session);
        assert_eq!((out.is_error, out.all.len()), (false, 2), "{middle:?}");
        assert_eq!(out.events, vec!["malformed_data"; events]);
    }
    // The first one holds a message that can be read.
    let whole = [&number(lookup(2).len() as u32)[..], &lookup(2)].concat();
    let out = play_all(PROTOCOL, None, &[c(&record(&lookup(1))), c(&whole)]);
    assert_eq!((out.is_error, out.all.len(), out.events.len()), (false, 2, 0));
}

/// Files over UDP have all hashes, whatever is asked for.
#[test]
fn files_over_udp_are_hashed() {
    let mut flow = Flow::open(Transport::Udp, &[]);
    flow.client(&write_call(1, 0, 0, b"AAAA")).client(&write_call(2, 4, 2, b"BBBB"));
    let digests = flow.tx(0).files(ToServer).expect("files").files[0].digests();
    let first = |bytes: Option<&[u8]>| bytes.map(|b| b[..4].to_vec());
    assert_eq!(first(digests.md5.as_ref().map(|d| &d[..])), Some(vec![0x9d, 0xa4, 0xfc, 0x50]));
    assert_eq!(first(digests.sha1.as_ref().map(|d| &d[..])), Some(vec![0x7c, 0xd1, 0x88, 0xef]));
    assert_eq!(first(digests.sha256.as_ref().map(|d| &d[..])), Some(vec![0x7b, 0xf5, 0x2a, 0xfd]));
}

/// A parser of one flow.
struct Flow {
    parser: Box<dyn Parser>,
    last: Outcome,
}

impl Flow {
    fn open(transport: Transport, settings: &[(&str, &str)]) -> Flow {
        let mut config = Tree::default();
        settings.iter().for_each(|(key, value)| config.set(key, value));
        let settings = (PROTOCOL.configure)(Some(&config)).expect("settings");
        Flow { parser: (PROTOCOL.open)(&settings, transport), last: Outcome::Done }
    }

    fn give(&mut self, direction: Direction, input: Input<'_>) -> &mut Flow {
        let ends = Endpoints::default();
        let mut cx = ParseContext::new(0, direction, &ends);
        (cx.requirements.file_data, cx.requirements.md5) = (true, true);
        self.last = self.parser.parse(&mut cx, input);
        self
    }

    fn client(&mut self, bytes: &[u8]) -> &mut Flow {
        self.give(ToServer, Input::Data { bytes, eof: false })
    }

    fn server(&mut self, bytes: &[u8]) -> &mut Flow {
        self.give(ToClient, Input::Data { bytes, eof: false })
    }

    fn tx(&self, id: u64) -> &NfsTx {
        self.parser.tx(id).and_then(|tx| tx.as_any().downcast_ref()).expect("transaction")
    }

    /// Size, state and content of a transaction's file, and its parts.
    fn file(&self, id: u64, direction: Direction) -> (u64, FileState, Vec<u8>, u64) {
        let tx = self.tx(id);
        let file = &tx.files(direction).expect("files").files[0];
        let chunks = tx.transfer.as_ref().map_or(0, |t| t.chunks);
        (file.size, file.state, file.content().0.to_vec(), chunks)
    }
}

#[test]
fn parts_of_files_are_joined() {
    let mut flow = Flow::open(Transport::Udp, &[]);
    // Unstable parts, the last one written through.
    flow.client(&write_call(1, 0, 0, b"AAAA")).client(&write_call(2, 4, 0, b"BBBB"));
    assert_eq!(flow.file(0, ToServer).1, FileState::Open);
    flow.client(&write_call(3, 8, 2, b"CC"));
    assert_eq!(flow.file(0, ToServer), (10, FileState::Closed, b"AAAABBBBCC".to_vec(), 2));
    // A part after one that is no multiple of four bytes ends the file.
    flow.client(&write_call(4, 0, 0, b"AAAAA")).client(&write_call(5, 5, 0, b"BBB"));
    assert_eq!(flow.file(1, ToServer), (5, FileState::Truncated, b"AAAAA".to_vec(), 1));
    // Reads.
    flow.client(&read_call(6, 0)).server(&read_reply(6, 0, b"DDDD"));
    flow.client(&read_call(7, 4)).server(&read_reply(7, 1, b"EEE"));
    assert_eq!(flow.file(2, ToClient), (7, FileState::Closed, b"DDDDEEE".to_vec(), 2));
    // One that does not begin the file, and is the only one.
    flow.client(&read_call(8, 10)).server(&read_reply(8, 1, b"FFFF"));
    assert_eq!(flow.file(3, ToClient), (0, FileState::Closed, Vec::new(), 1));
    // What is no message is a transaction with an event.
    flow.client(b"junk");
    assert_eq!((flow.tx(4).xid, flow.tx(4).events().len(), flow.last), (0, 1, Outcome::Done));
}

/// A call that says that what was written is to be kept (RFC 1813 3.3.21).
fn commit(xid: u32) -> Vec<u8> {
    call(3, xid, 21, &[opaque(b"HANDLE01"), vec![0; 12]].concat())
}

/// Parts are put in their places, in whichever order they come.
#[test]
fn parts_out_of_order_are_joined() {
    let part = |n: u32| [&b"AAAA"[..], b"BBBB", b"CCCC"][n as usize];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let whole = (12, FileState::Closed, b"AAAABBBBCCCC".to_vec(), 3);
        let mut flow = Flow::open(Transport::Udp, &[]);
        for n in order {
            flow.client(&write_call(n, 4 * n as u8, 0, part(n)));
        }
        flow.client(&commit(4));
        assert_eq!(flow.file(0, ToServer), whole, "written {order:?}");
        let mut flow = Flow::open(Transport::Udp, &[]);
        for n in 0..3 {
            flow.client(&read_call(n, 4 * n as u8));
        }
        for (at, n) in order.into_iter().enumerate() {
            flow.server(&read_reply(n, u32::from(at == 2), part(n)));
        }
        assert_eq!(flow.file(0, ToClient), whole, "read {order:?}");
    }
    // Bytes that come again are those that came first; of parts that wait at one place the later follows.
    let mut flow = Flow::open(Transport::Udp, &[]);
    flow.client(&write_call(1, 0, 0, b"AAAA")).client(&write_call(2, 2, 0, b"XXYY"));
    assert_eq!(flow.file(0, ToServer).2, b"AAAAYY");
    let mut flow = Flow::open(Transport::Udp, &[]);
    flow.client(&write_call(1, 4, 0, b"BBBB")).client(&write_call(2, 4, 0, b"DDDD"));
    flow.client(&write_call(3, 0, 0, b"AAAA"));
    assert_eq!(flow.file(0, ToServer).2, b"AAAABBBBDDDD");
}

/// What is behind a hole is not of the file, and the file has no hashes.
#[test]
fn files_with_holes_are_not_hashed() {
    let hash = |flow: &Flow, direction| {
        let digests = flow.tx(0).files(direction).expect("files").files[0].digests();
        digests.md5.is_some() || digests.sha256.is_some()
    };
    for (is_whole, offset) in [(true, 4), (false, 8)] {
        let mut flow = Flow::open(Transport::Udp, &[]);
        flow.client(&read_call(1, 0)).server(&read_reply(1, 0, b"AAAA"));
        flow.client(&read_call(2, offset)).server(&read_reply(2, 1, b"BBBB"));
        let expected = if is_whole {
            (8, FileState::Closed, b"AAAABBBB".to_vec(), 2)
        } else {
            (4, FileState::Truncated, b"AAAA".to_vec(), 2)
        };
        assert_eq!((flow.file(0, ToClient), hash(&flow, ToClient)), (expected, is_whole));
        // Written, with a commit, and written through.
        for stable in [0, 2] {
            let mut flow = Flow::open(Transport::Udp, &[]);
            flow.client(&write_call(1, 0, 0, b"AAAA"));
            flow.client(&write_call(2, offset, stable, b"BBBB")).client(&commit(3));
            let size = if is_whole { 8 } else { 4 };
            let is_cut = !is_whole && stable == 2;
            let state = if is_cut { FileState::Truncated } else { FileState::Closed };
            let (found_size, found_state, ..) = flow.file(0, ToServer);
            assert_eq!((found_size, found_state, hash(&flow, ToServer)), (size, state, is_whole));
        }
    }
    // Bytes of a part that waits are lost.
    let late = record(&write_call(2, 104, 0, &[b'C'; 2000]));
    let mut flow = Flow::open(Transport::Tcp, &[]);
    flow.client(&record(&write_call(1, 0, 0, b"AAAA"))).client(&late[..1500]);
    flow.give(ToServer, Input::Gap { len: 400 }).client(&late[1900..]);
    flow.client(&record(&write_call(3, 4, 0, &[b'B'; 100]))).client(&record(&commit(4)));
    let (size, state, ..) = flow.file(0, ToServer);
    assert_eq!((size, state, hash(&flow, ToServer)), (2104, FileState::Truncated, false));
}

/// Seventy parts wait: 64 may, and as many as the configuration says.
#[test]
fn few_parts_wait() {
    for (settings, size, chunks, events) in
        [(&[][..], 260, 65, 6), (&[("max-write-queue-cnt", "5")][..], 24, 6, 65)]
    {
        let mut flow = Flow::open(Transport::Udp, settings);
        for n in 0..70u8 {
            let at = 4 + u32::from(n) * 4;
            let mut bytes = write_call(n.into(), 0, 0, b"xxxx");
            let place = bytes.len() - 4 - 4 - 4 - 4 - 4;
            bytes[place..place + 4].copy_from_slice(&number(at));
            flow.client(&bytes);
        }
        flow.client(&write_call(71, 0, 0, b"AAAA")).client(&commit(72));
        let (found_size, state, _, found_chunks) = flow.file(0, ToServer);
        assert_eq!((found_size, state, found_chunks), (size, FileState::Closed, chunks));
        assert_eq!(flow.tx(0).events(), vec![7; events]);
    }
    let mut flow = Flow::open(Transport::Udp, &[("max-read-queue-size", "6")]);
    for xid in [1, 2] {
        let at = 4 * xid as u8;
        flow.client(&read_call(xid, at)).server(&read_reply(xid, 0, b"xxxx"));
    }
    assert_eq!(flow.tx(0).events(), [4]);
}

/// Nothing is taken of a message that carries more of a file than it may.
#[test]
fn parts_that_are_too_large_are_passed_over() {
    let settings = [("max-write-size", "8"), ("max-read-size", "8")];
    let mut flow = Flow::open(Transport::Udp, &settings);
    let has_no_file = |tx: &NfsTx, d| tx.files(d).is_none_or(|list| list.files.is_empty());
    // One that is written is a transaction of its own, and the file continues.
    flow.client(&write_call(1, 0, 0, b"AAAABBBB")).client(&write_call(2, 8, 0, b"AAAABBBBC"));
    assert_eq!(flow.tx(1).events(), [9]);
    assert_eq!(Direction::BOTH.map(|d| flow.tx(1).progress(d)), [1; 2]);
    assert!(has_no_file(flow.tx(1), ToServer));
    flow.client(&write_call(3, 8, 2, b"CCCC"));
    assert_eq!(flow.file(0, ToServer), (12, FileState::Closed, b"AAAABBBBCCCC".to_vec(), 1));
    // One that is read ends its file.
    flow.client(&read_call(4, 0)).server(&read_reply(4, 0, b"DDDD"));
    flow.client(&read_call(5, 4)).server(&read_reply(5, 1, b"AAAABBBBC"));
    assert_eq!(flow.file(2, ToClient), (4, FileState::Truncated, b"DDDD".to_vec(), 1));
    assert_eq!(flow.tx(2).events(), [8]);
    flow.client(&read_call(6, 0)).server(&read_reply(6, 1, b"AAAABBBBC"));
    assert!(has_no_file(flow.tx(3), ToClient));
    // A size of 0 sets no limit.
    let mut flow = Flow::open(Transport::Udp, &[("max-write-size", "0")]);
    flow.client(&write_call(1, 0, 2, &[b'x'; 1000]));
    assert_eq!((flow.file(0, ToServer).0, flow.tx(0).events().len()), (1000, 0));
}

/// Names and calls are as many as the configuration allows; the name that was used longest ago goes first.
#[test]
fn few_names_and_calls_are_kept() {
    let lookup = |flow: &mut Flow, xid: u32, n: u8| {
        flow.client(&call(3, xid, 3, &[opaque(b"DIR-HAND"), opaque(&[b'f', n])].concat()));
        let handle = opaque(&[&b"HANDLE0"[..], &[n]].concat());
        flow.server(&reply(xid, &[&[0; 4][..], &handle, &[0; 8]].concat()));
    };
    let mut flow = Flow::open(Transport::Udp, &[("max-names", "2")]);
    lookup(&mut flow, 1, b'1');
    lookup(&mut flow, 2, b'2');
    // Reading uses a name.
    flow.client(&read_call(3, 0)).server(&read_reply(3, 1, b"DDDD"));
    lookup(&mut flow, 4, b'3');
    for (xid, n) in [(5, b'1'), (6, b'2'), (7, b'3')] {
        let place = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0];
        let handle = opaque(&[&b"HANDLE0"[..], &[n]].concat());
        flow.client(&call(3, xid, 6, &[handle, place.to_vec()].concat()));
        flow.server(&read_reply(xid, 1, b"DDDD"));
    }
    let names: Vec<String> = (3..7)
        .filter_map(|id| flow.tx(id).files(ToClient)?.files.first())
        .map(|file| String::from_utf8_lossy(&file.name).into_owned())
        .collect();
    assert_eq!(names, ["f1", "", "f3"]);
    let mut flow = Flow::open(Transport::Udp, &[("max-requests", "2")]);
    for xid in 0..4 {
        flow.client(&call(3, xid, 4, &[opaque(b"HANDLE01"), vec![0; 4]].concat()));
    }
    for xid in 0..4 {
        flow.server(&reply(xid, &[0; 12]));
    }
    let done = (0..4).filter(|id| flow.tx(*id).progress(ToClient) == 1).count();
    assert_eq!(done, 2);
}

/// Of a record of which nothing is taken the rest is not kept either.
#[test]
fn records_that_are_too_large_are_passed_over() {
    let large = record(&write_call(1, 0, 0, &[b'x'; 20_000]));
    let next = record(&write_call(2, 0, 2, b"AAAA"));
    for piece in [1, 100, 1460, 30_000] {
        let mut flow = Flow::open(Transport::Tcp, &[("max-write-size", "8")]);
        let mut held = Vec::new();
        for bytes in [&large[..], &next].concat().chunks(piece) {
            held.extend_from_slice(bytes);
            match flow.client(&held).last {
                Outcome::Incomplete { consumed, .. } => drop(held.drain(..consumed)),
                _ => held.clear(),
            }
            assert!(held.len() < 2000 + piece, "{piece}");
        }
        assert_eq!((flow.tx(0).events(), flow.last), (&[9][..], Outcome::Done), "{piece}");
        assert_eq!(flow.file(1, ToServer), (4, FileState::Closed, b"AAAA".to_vec(), 0));
        assert!(flow.parser.bytes_held() < 20_000, "{piece}");
    }
}

/// The same file whatever the segments, and with a hole.
#[test]
fn large_parts_come_in_segments() {
    let data = vec![b'x'; 5000];
    let bytes = record(&read_reply(2, 1, &data));
    for piece in [1, 100, 1400, usize::MAX] {
        let mut flow = Flow::open(Transport::Tcp, &[]);
        flow.client(&record(&read_call(2, 0)));
        let mut held = Vec::new();
        for part in bytes.chunks(piece.min(bytes.len())) {
            held.extend_from_slice(part);
            match flow.server(&held).last {
                Outcome::Incomplete { consumed, .. } => drop(held.drain(..consumed)),
                _ => held.clear(),
            }
        }
        let (size, state, content, _) = flow.file(0, ToClient);
        assert_eq!((size, state, content == data), (5000, FileState::Closed, true), "{piece}");
    }
    let mut flow = Flow::open(Transport::Tcp, &[]);
    flow.client(&record(&read_call(2, 0))).server(&bytes[..2000]);
    flow.give(ToClient, Input::Gap { len: 1400 }).server(&bytes[3400..]);
    assert_eq!(flow.file(0, ToClient).1, FileState::Truncated);
    assert_eq!(flow.file(0, ToClient).0, 5000);
    // The next record is found after a gap between records, and nothing before it.
    flow.give(ToServer, Input::Gap { len: 100 }).client(b"no record");
    flow.client(&record(&call(3, 9, 0, b"")));
    assert_eq!((flow.last, flow.parser.next_tx_id()), (Outcome::Done, 2));
}

/// Suricata 8.0.7 finds the next record after lost bytes wherever it begins in a segment, of either side.
#[test]
fn records_behind_lost_bytes_are_found() {
    let lookup = |xid| record(&call(3, xid, 3, &[opaque(b"DIR-HAND"), opaque(b"file")].concat()));
    let found =
        |xid| record(&reply(xid, &[&number(0)[..], &opaque(b"HANDLE01"), &[0; 8]].concat()));
    let garbage = &b"garbage_that_is_no_record_"[..];
    for (is_client, before) in [(true, garbage), (true, b""), (false, garbage), (false, b"")] {
        for piece in [1, 5, 30, usize::MAX] {
            let mut flow = Flow::open(Transport::Tcp, &[]);
            flow.client(&lookup(1)).server(&found(1));
            let (side, bytes) = if is_client {
                (ToServer, [before, &lookup(2)].concat())
            } else {
                flow.client(&lookup(2));
                (ToClient, [before, &found(2)].concat())
            };
            flow.give(side, Input::Gap { len: 50 });
            let mut held = Vec::new();
            for part in bytes.chunks(piece.min(bytes.len())) {
                held.extend_from_slice(part);
                match flow.give(side, Input::Data { bytes: &held, eof: false }).last {
                    Outcome::Incomplete { consumed, .. } => drop(held.drain(..consumed)),
                    _ => held.clear(),
                }
            }
            if is_client {
                flow.server(&found(2));
            }
            flow.client(&lookup(3)).server(&found(3));
            assert_eq!((flow.last, flow.parser.next_tx_id()), (Outcome::Done, 3));
            let done = (0..3).all(|id| flow.tx(id).progress(ToClient) == 1);
            assert!(done, "{is_client} {before:?} {piece}");
        }
    }
}

/// The frames that a parser notes: side, name, place and length.
fn frames(transport: Transport, talk: &[(Direction, Vec<u8>)]) -> Vec<String> {
    let settings = (PROTOCOL.configure)(None).expect("settings");
    let mut parser = (PROTOCOL.open)(&settings, transport);
    let (ends, mut at, mut found) = (Endpoints::default(), [0; 2], Vec::new());
    for (direction, bytes) in talk {
        let mut cx = ParseContext::new(0, *direction, &ends);
        (cx.frames.wanted, cx.frames.at) = (u32::MAX, at);
        assert_eq!(parser.parse(&mut cx, Input::Data { bytes, eof: false }), Outcome::Done);
        at[direction.index()] += if transport == Transport::Tcp { bytes.len() as u64 } else { 0 };
        for note in cx.frames.notes {
            let FrameNote::Begin { direction, kind, start, len: Some(len), tx: None } = note else {
                panic!("{note:?}")
            };
            let name = PROTOCOL.table.frames[usize::from(kind)];
            found.push(format!("{} {name} {start} {len}", direction.index()));
        }
    }
    found
}

#[test]
fn frames_of_calls_and_replies() {
    let tcp = |talk: &[(Direction, Vec<u8>)]| {
        let records = talk.iter().map(|(direction, message)| (*direction, record(message)));
        frames(Transport::Tcp, &records.collect::<Vec<_>>())
    };
    let lookup = |xid| call(3, xid, 3, &[opaque(b"DIR-HAND"), opaque(b"file")].concat());
    let found = reply(1, &[&number(0)[..], &opaque(b"HANDLE01"), &[0; 8]].concat());
    let talk = [(ToServer, lookup(1)), (ToClient, found)];
    let of_call = ["0 rpc.pdu 0 88", "0 rpc.creds 28 32", "0 nfs.pdu 68 20"];
    let of_reply = ["1 rpc.pdu 0 52", "1 rpc.hdr 0 12", "1 rpc.data 12 40", "1 nfs.pdu 28 24"];
    assert_eq!(tcp(&talk), [&of_call[..], &of_reply, &["1 nfs.status 28 4"]].concat());
    let of_call = ["0 rpc.pdu 0 84", "0 rpc.creds 24 32", "0 nfs.pdu 64 20"];
    let of_reply = ["1 rpc.pdu 0 48", "1 rpc.hdr 0 8", "1 rpc.data 8 40", "1 nfs.pdu 24 24"];
    let all = [&of_call[..], &of_reply, &["1 nfs.status 24 4"]].concat();
    assert_eq!(frames(Transport::Udp, &talk), all);
    // A reply without results, and one without a call.
    let talk =
        [(ToServer, call(3, 1, 0, b"")), (ToClient, reply(1, b"")), (ToClient, reply(9, b""))];
    let all = [
        "0 rpc.pdu 0 68",
        "0 rpc.creds 28 32",
        "0 nfs.pdu 68 0",
        "1 rpc.pdu 0 28",
        "1 rpc.hdr 0 12",
        "1 rpc.data 12 16",
        "1 rpc.pdu 28 28",
        "1 rpc.hdr 28 12",
        "1 rpc.data 40 16",
    ];
    assert_eq!(tcp(&talk), all);
    // Compounds, whose operations are not read over UDP.
    let operations = [number(22).to_vec(), opaque(b"HANDLE01"), number(24).to_vec()].concat();
    let asked = call(4, 1, 1, &[&[0; 8][..], &number(2), &operations].concat());
    let answer = reply(1, &[&[0; 8][..], &number(2), &[0; 32]].concat());
    let talk = [(ToServer, asked.clone()), (ToClient, answer)];
    let all = [
        "0 rpc.pdu 0 100",
        "0 rpc.creds 28 32",
        "0 nfs4.pdu 68 32",
        "0 nfs4.hdr 68 8",
        "0 nfs4.ops 76 24",
        "1 rpc.pdu 0 72",
        "1 rpc.hdr 0 12",
        "1 rpc.data 12 60",
        "1 nfs4.pdu 28 44",
        "1 nfs4.status 28 4",
        "1 nfs4.hdr 28 8",
        "1 nfs4.ops 36 36",
    ];
    assert_eq!(tcp(&talk), all);
    let of_datagram = ["0 rpc.pdu 0 96", "0 rpc.creds 24 32"];
    assert_eq!(frames(Transport::Udp, &[(ToServer, asked)]), of_datagram);
    // One that can't be read, and sealed ones.
    let sealed = [
        [1, 0, 2, 100_003, 3, 1, 6].map(number).concat(),
        opaque(&[b'G'; 20]),
        number(6).to_vec(),
        opaque(&[b'V'; 12]),
    ];
    let talk = [
        (ToServer, lookup(1)[..40].to_vec()),
        (ToServer, sealed.concat()),
        (ToClient, reply(1, &[0; 20])),
    ];
    let all = ["0 rpc.pdu 0 44", "0 rpc.pdu 44 76", "1 rpc.pdu 0 48", "1 rpc.hdr 0 12"];
    assert_eq!(tcp(&talk), [&all[..], &["1 rpc.data 12 36"]].concat());
}

/// How often the limit of that name was reached.
fn times(counts: &gabion_record::limits::Reached, name: &str) -> u64 {
    let all = gabion_proto::limits::tables().into_iter().flatten();
    all.filter(|limit| limit.full_name() == name).map(|limit| counts.times_reached(limit)).sum()
}

/// Calls without replies, endless compounds, marks of two gigabytes, long names: all is bounded.
#[test]
fn floods_hold_no_more_than_the_limits() {
    let mut flow = Flow::open(Transport::Udp, &[("max-tx", "4")]);
    for xid in 0..9 {
        flow.client(&call(3, xid, 4, &[opaque(b"HANDLE01"), vec![0; 4]].concat()));
    }
    assert_eq!((0..9).filter(|id| !flow.tx(*id).events().is_empty()).count(), 4);
    let mut flow = Flow::open(Transport::Tcp, &[]);
    for xid in 0..TXS_PER_FLOW_MAX as u32 + 3 {
        flow.client(&record(&call(3, xid, 19, b"")));
    }
    let counts = gabion_record::limits::take_reached();
    assert_eq!(times(&counts, "proto.nfs.txs_per_flow_max"), 3);
    assert_eq!(times(&counts, "proto.nfs.calls_max"), (TXS_PER_FLOW_MAX - CALLS_MAX) as u64 + 3);
    assert!(flow.parser.bytes_held() < 8 << 20);
    // Names of a listing.
    let mut flow = Flow::open(Transport::Udp, &[]);
    let listing = call(3, 1, 17, &[opaque(b"DIR-HAND"), vec![0; 24]].concat());
    let mut entries = vec![0; 16];
    for n in 0..NAMES_MAX as u32 + 5 {
        let handle = [number(1), number(8), number(n), number(n)].concat();
        entries.extend([&number(1)[..], &[0; 8], &opaque(b"name"), &[0; 8], &[0; 4]].concat());
        entries.extend(handle);
    }
    flow.client(&listing).server(&reply(1, &entries));
    // Compounds.
    let count = OPERATIONS_MAX as u32 + 9;
    let operations = [&[0; 8][..], &number(count), &number(24).repeat(count as usize)].concat();
    flow.client(&call(4, 2, 1, &operations));
    // Names and handles.
    flow.client(&call(3, 3, 12, &[opaque(b"DIR-HAND"), opaque(&[b'n'; 5000])].concat()));
    flow.client(&call(3, 4, 1, &opaque(&[b'h'; 129])));
    let counts = gabion_record::limits::take_reached();
    for (name, expected) in [
        ("proto.nfs.names_max", 5),
        ("proto.nfs.operations_max", 1),
        ("proto.nfs.name_bytes_max", 1),
        ("proto.nfs.handle_bytes_max", 1),
    ] {
        assert_eq!(times(&counts, name), expected, "{name}");
    }
    assert!(flow.parser.bytes_held() < 4 << 20);
    let mut flow = Flow::open(Transport::Tcp, &[]);
    flow.client(&[&number(u32::MAX)[..], &call(3, 1, 4, &opaque(b"HANDLE01"))].concat());
    assert!(matches!(flow.last, Outcome::Incomplete { consumed: 0, .. }));
}
