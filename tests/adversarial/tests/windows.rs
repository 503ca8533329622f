//! SMB, DCE/RPC and Kerberos: compounds, file ids without end, answers that nobody asked for, chunks behind a hole, parts
//! that never end, single bytes.

use gabion_adversarial::Connection;
use gabion_proto::{dcerpc, smb};
use gabion_record::Direction;
use gabion_record::applayer::Transport;

fn tcp(name: &str) -> Connection {
    Connection::with_protocol(name, Transport::Tcp)
}

/// A message of SMB 2 (MS-SMB2 2.2.1); `next` is where the next one of a compound begins.
fn smb2(command: u8, is_response: bool, next: u32, id: u64, body: &[u8]) -> Vec<u8> {
    let mut m = b"\xfeSMB\x40\0\x01\0\0\0\0\0".to_vec();
    m.extend([command, 0, 1, 0, u8::from(is_response), 0, 0, 0]);
    m.extend(next.to_le_bytes());
    m.extend(id.to_le_bytes());
    m.extend([0; 4]);
    m.extend(1_u32.to_le_bytes());
    m.extend([1; 24]);
    m.extend_from_slice(body);
    m
}

/// Messages in one of NetBIOS.
fn framed(messages: &[u8]) -> Vec<u8> {
    let mut all = (messages.len() as u32).to_be_bytes().to_vec();
    all.extend_from_slice(messages);
    all
}

const ECHO: &[u8] = &[4, 0, 0, 0];

/// A request to open the file `f`.
fn open(id: u64) -> Vec<u8> {
    let mut body = vec![0; 56];
    body[44..48].copy_from_slice(&[120, 0, 2, 0]);
    body.extend_from_slice(b"f\0");
    framed(&smb2(5, false, 0, id, &body))
}

fn file_id(n: u64) -> Vec<u8> {
    [&n.to_le_bytes()[..], &[7; 8]].concat()
}

fn opened(id: u64) -> Vec<u8> {
    framed(&smb2(5, true, 0, id, &[&[0; 64][..], &file_id(id)].concat()))
}

/// Compounds whose next message is the same one, a part of it, or beyond the whole: no message is read twice.
#[test]
fn compounds_chained_to_themselves_end() {
    for next in [0, 1, 7, 8, 63, 64, 65, 68, 72, 1 << 20, u32::MAX - 63, u32::MAX] {
        let messages = smb2(13, false, next, 1, ECHO).repeat(200);
        for side in Direction::BOTH {
            let mut talk = tcp("smb");
            for _ in 0..20 {
                talk.send(side, &framed(&messages));
            }
            talk.end();
            let a = &talk.account;
            assert!(a.made <= a.said / 64 + 1, "{next} {side:?}: {a:?}");
            assert!(a.offered <= 2 * a.said, "{next} {side:?}: {a:?}");
        }
    }
}

/// A million files are opened and never closed.
#[test]
fn file_ids_without_end_are_bounded() {
    let mut talk = tcp("smb").freeing();
    for round in 0..2_000 {
        let ids = round * 500..(round + 1) * 500;
        talk.client(&ids.clone().flat_map(open).collect::<Vec<u8>>());
        talk.server(&ids.flat_map(opened).collect::<Vec<u8>>());
    }
    let a = &talk.account;
    assert!(a.made >= 1_000_000, "{a:?}");
    assert!(a.alive_max <= smb::limits::TXS_PER_FLOW_MAX as u64, "{a:?}");
    assert!(a.held_max < 4 << 20 && a.offered <= 2 * a.said, "{a:?}");
}

/// Answers that nobody asked for, of all commands.
#[test]
fn answers_without_requests_are_bounded() {
    let mut talk = tcp("smb").freeing();
    for round in 0..2_000_u64 {
        let of = |command: u8| framed(&smb2(command, true, 0, round, &[0x41; 120]));
        talk.server(&(0..19).flat_map(of).collect::<Vec<u8>>());
    }
    let a = &talk.account;
    assert!(a.alive_max <= smb::limits::TXS_PER_FLOW_MAX as u64 + 19, "{a:?}");
    assert!(a.held_max < 4 << 20 && a.offered <= 2 * a.said, "{a:?}");
}

/// Writes far behind a hole that is never filled.
#[test]
fn chunks_behind_a_hole_are_bounded() {
    let mut talk = tcp("smb").freeing();
    talk.client(&open(1));
    talk.server(&opened(1));
    for n in 0..2_000_u64 {
        let mut body = vec![49, 0, 112, 0];
        body.extend(1000_u32.to_le_bytes());
        body.extend(((1 << 20) + n * 2000).to_le_bytes());
        body.extend(file_id(1));
        body.extend([0; 16]);
        body.extend([b'x'; 1000]);
        talk.client(&framed(&smb2(9, false, 0, n + 2, &body)));
    }
    let a = &talk.account;
    let chunks = u64::from(smb::limits::QUEUE_CHUNKS_MAX);
    assert!((a.held_max as u64) < chunks * 2000 + (4 << 20), "{a:?}");
    assert!(a.offered <= 2 * a.said, "{a:?}");
}

/// Parts of a call without a last one, more than a megabyte of them.
#[test]
fn calls_without_a_last_part_are_bounded() {
    let mut bind = vec![5, 0, 11, 3, 0x10, 0, 0, 0, 72, 0, 0, 0, 1, 0, 0, 0];
    bind.extend([0xd0, 0x16, 0xd0, 0x16, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0]);
    bind.extend([1; 20]);
    bind.extend([
        4, 0x5d, 0x88, 0x8a, 0xeb, 0x1c, 0xc9, 0x11, 0x9f, 0xe8, 8, 0, 0x2b, 0x10, 0x48, 0x60, 2,
        0, 0, 0,
    ]);
    for is_first in [true, false] {
        let mut talk = tcp("dcerpc").freeing();
        talk.client(&bind);
        for n in 0..3_000 {
            let flags = u8::from(is_first && n == 0);
            let mut part = vec![5, 0, 0, flags, 0x10, 0, 0, 0];
            part.extend(1024_u16.to_le_bytes());
            part.extend([0, 0, 2, 0, 0, 0]);
            part.extend([0; 8]);
            part.extend([b'x'; 1000]);
            talk.client(&part);
        }
        let a = &talk.account;
        assert!((a.held_max as u64) < 2 * dcerpc::limits::STUB_BYTES_MAX + (1 << 20), "{a:?}");
        assert!(
            a.alive_max <= dcerpc::limits::OPEN_TXS_MAX + 2 && a.offered <= 2 * a.said,
            "{a:?}"
        );
    }
}

/// A byte a segment costs a few looks at each byte, whatever the length that is announced.
#[test]
fn single_bytes_are_linear() {
    let krb5 = [&60_000_u32.to_be_bytes()[..], b"\x6a\x82\xea\x5c", &[0x30; 60_000]].concat();
    let smb = framed(&smb2(13, false, 0, 1, &[0; 60_000]));
    for (name, bytes) in [("krb5", krb5), ("smb", smb)] {
        for side in Direction::BOTH {
            let mut talk = tcp(name);
            talk.in_pieces(side, &bytes, 1);
            talk.end();
            let a = &talk.account;
            assert!(a.offered <= 4 * a.said + 4096, "{name} {side:?}: {a:?}");
        }
    }
}
