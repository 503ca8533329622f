//! SMB, DCE/RPC, NFS, Kerberos, LDAP and RDP: messages that chain to themselves, answers that nobody asked for,
//! chunks that wait for a hole, and single bytes.

use gabion_adversarial::Connection;
use gabion_proto::{dcerpc, smb};
use gabion_record::Direction;
use gabion_record::applayer::Transport;

/// Bytes a flow's parser may hold in the worst of these cases.
const HELD_MAX: usize = 8 << 20;

fn tcp(name: &str) -> Connection {
    Connection::with_protocol(name, Transport::Tcp)
}

/// A message of NetBIOS.
fn netbios(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u32).to_be_bytes()[..], message].concat()
}

/// A header of SMB 2 (MS-SMB2 2.2.1.2) whose next one is `next` bytes on.
fn header2(command: u8, is_response: bool, id: u64, next: u32) -> Vec<u8> {
    let mut m = b"\xfeSMB\x40\0\x01\0\0\0\0\0".to_vec();
    m.extend_from_slice(&[command, 0, 1, 0, u8::from(is_response), 0, 0, 0]);
    m.extend_from_slice(&next.to_le_bytes());
    m.extend_from_slice(&id.to_le_bytes());
    m.extend_from_slice(&[0; 4]);
    m.extend_from_slice(&1u32.to_le_bytes());
    m.extend_from_slice(&[1; 24]);
    m
}

fn message2(command: u8, is_response: bool, id: u64, body: &[u8]) -> Vec<u8> {
    netbios(&[&header2(command, is_response, id, 0), body].concat())
}

/// Whatever a header says of the place of the next one, each is read once: at most one for each 64 bytes.
#[test]
fn smb_compounds_that_chain_to_themselves_end() {
    const LEN: usize = 60_000;
    for next in [0, 1, 8, 63, 64, 65, 72, 0x7fff_ffff, 0xffff_ffc0, u32::MAX] {
        let mut compound = Vec::new();
        while compound.len() < LEN {
            compound.extend(header2(13, false, compound.len() as u64, next));
            compound.extend(vec![0; (next as usize).clamp(64, 128) - 64]);
        }
        let mut talk = tcp("smb");
        talk.client(&netbios(&compound));
        talk.server(&netbios(&compound));
        talk.end();
        let made = talk.account.made;
        assert!(made <= 2 * LEN as u64 / 64 + 2, "{next}: {made}");
        assert!(talk.account.offered <= 2 * talk.account.said, "{next}: {:?}", talk.account);
        assert!(talk.account.held_max < HELD_MAX, "{next}: {:?}", talk.account);
    }
    // A command of SMB 1 whose AndX offset is its own place, the header's, or a place before it (MS-CIFS 2.2.3.4).
    for offset in [0u16, 4, 32, 33, 35, 40, u16::MAX] {
        let mut m = b"\xffSMB\xa2\0\0\0\0\x18\x07\xc8".to_vec();
        m.extend_from_slice(&[0; 20]);
        m.extend_from_slice(&[24, 0xa2, 0]);
        m.extend_from_slice(&offset.to_le_bytes());
        m.extend_from_slice(&[0; 60]);
        let mut talk = tcp("smb");
        for _ in 0..100 {
            talk.client(&netbios(&m));
        }
        talk.end();
        assert!(talk.account.made <= 100, "{offset}: {:?}", talk.account);
        assert!(talk.account.offered <= 2 * talk.account.said, "{offset}: {:?}", talk.account);
    }
}

/// A session that opens a million files and closes none holds the names of the last 1,024.
#[test]
fn a_million_identifiers_of_files_take_no_room() {
    let mut talk = tcp("smb").freeing();
    let mut asked = vec![0; 56];
    asked[44..48].copy_from_slice(&[120, 0, 2, 0]);
    asked.extend_from_slice(b"f\0");
    for n in 0..1_000_000_u64 {
        let answer = [&[0; 64][..], &n.to_le_bytes(), &[7; 8]].concat();
        talk.client(&message2(5, false, n, &asked));
        talk.server(&message2(5, true, n, &answer));
    }
    assert_eq!(talk.account.made, 1_000_000);
    assert!(talk.account.alive_max <= 2, "{:?}", talk.account);
    assert!(talk.account.held_max < 512 << 10, "{:?}", talk.account);
    assert!(talk.account.offered == talk.account.said);
}

/// Answers without requests, a hundred thousand of each protocol, are bounded whether the engine frees them or not.
#[test]
fn answers_without_requests_are_bounded() {
    let answer = |call_id: u32| {
        let mut m = vec![5, 0, 2, 3, 0x10, 0, 0, 0, 28, 0, 0, 0];
        m.extend_from_slice(&call_id.to_le_bytes());
        m.extend_from_slice(&[0; 8]);
        m.extend_from_slice(b"stub");
        m
    };
    let reply = |xid: u32| {
        let body = [&xid.to_be_bytes()[..], &1u32.to_be_bytes(), &[0; 40]].concat();
        [&(0x8000_0000 | body.len() as u32).to_be_bytes()[..], &body].concat()
    };
    let entry = |n: u8| vec![0x30, 12, 2, 1, n, 0x65, 7, 0x0a, 1, 0, 4, 0, 4, 0];
    for (name, make) in [
        ("smb", &(|n: u32| message2(13, true, n.into(), &[4, 0, 0, 0])) as &dyn Fn(u32) -> Vec<u8>),
        ("dcerpc", &answer),
        ("nfs", &reply),
        ("ldap", &|n: u32| entry(1 + (n & 63) as u8)),
    ] {
        let mut talk = tcp(name);
        for n in 0..100 {
            let many: Vec<u8> = (0..1000).flat_map(|i| make(n * 1000 + i)).collect();
            talk.server(&many);
        }
        assert!(talk.account.alive_max <= 65_536, "{name}: {:?}", talk.account);
        assert!(talk.account.held_max < 64 << 20, "{name}: {:?}", talk.account);
        assert!(talk.account.offered <= 2 * talk.account.said, "{name}: {:?}", talk.account);
    }
}

/// Chunks of a file that wait for one before them: 64 are kept, then each is an event.
#[test]
fn chunks_behind_a_hole_are_bounded() {
    let mut talk = tcp("smb").freeing();
    for n in 1..2000_u64 {
        let mut body = b"\x31\0\x70\0".to_vec();
        body.extend_from_slice(&1000u32.to_le_bytes());
        body.extend_from_slice(&(n * 1_000_000).to_le_bytes());
        body.extend_from_slice(&[9; 16]);
        body.extend_from_slice(&[0; 16]);
        body.extend_from_slice(&[b'x'; 1000]);
        talk.client(&message2(9, false, n, &body));
        talk.server(&message2(9, true, n, &[17, 0, 0, 0, 232, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]));
    }
    talk.end();
    assert!(talk.account.events.contains("write_queue_cnt_exceeded"), "{:?}", talk.account);
    let bound = 1500 * smb::limits::QUEUE_CHUNKS_MAX as usize + (256 << 10);
    assert!(talk.account.held_max < bound, "{:?}", talk.account);
}

/// Calls of DCE/RPC whose last fragment never comes, 4 MiB of each: a call keeps the first of them.
#[test]
fn stub_data_of_endless_calls_are_bounded() {
    let fragment = |flags: u8, call_id: u32, stub: &[u8]| {
        let mut m = vec![5, 0, 0, flags, 0x10, 0, 0, 0];
        m.extend_from_slice(&((24 + stub.len()) as u16).to_le_bytes());
        m.extend_from_slice(&[0, 0]);
        m.extend_from_slice(&call_id.to_le_bytes());
        m.extend_from_slice(&[0; 8]);
        m.extend_from_slice(stub);
        m
    };
    let mut talk = tcp("dcerpc");
    for n in 0..1000 {
        talk.client(&fragment(u8::from(n == 0), 1, &[b's'; 4000]));
    }
    talk.end();
    let bound = 2 * dcerpc::limits::STUB_BYTES_MAX as usize + (64 << 10);
    assert!(talk.account.held_max < bound, "{:?}", talk.account);
    assert_eq!(talk.account.made, 1);
}

/// One byte a segment: every message is read once it is whole, so each byte is handed over a few times at most.
#[test]
fn single_bytes_are_read_in_a_line_of_steps() {
    let long = 20_000;
    let data = vec![b'x'; long];
    let sized = |head: &[u8], len: &[u8]| [head, len, &data[..]].concat();
    let be32 = (long as u32 + 4).to_be_bytes();
    let der = [&[0x30, 0x82][..], &(long as u16).to_be_bytes()].concat();
    let mut write = b"\x31\0\x70\0".to_vec();
    write.extend_from_slice(&(long as u32).to_le_bytes());
    write.extend_from_slice(&[0; 40]);
    let rpc = [
        &[5, 0, 0, 3, 0x10, 0, 0, 0][..],
        &(long as u16 + 24).to_le_bytes(),
        &[0, 0, 1, 0, 0, 0],
        &[0; 8],
    ];
    let record = [
        &(0x8000_0000 | (long as u32 + 40)).to_be_bytes()[..],
        b"\0\0\0\x01\0\0\0\0\0\0\0\x02\0\x01\x86\xa3\0\0\0\x03\0\0\0\x07",
        &[0; 16],
    ];
    for (name, bytes) in [
        ("smb", message2(9, false, 1, &[&write, &data[..]].concat())),
        ("dcerpc", sized(&rpc.concat(), b"")),
        ("nfs", sized(&record.concat(), b"")),
        ("krb5", sized(&(long as u32).to_be_bytes(), b"")),
        ("ldap", sized(&der, b"")),
        ("rdp", sized(&[3, 0], &(long as u16 + 4).to_be_bytes())),
        ("pgsql", sized(b"\0\0\0\x08\0\x03\0\0Q", &be32)),
        ("rfb", sized(b"RFB 003.008\n", b"")),
        ("pop3", sized(b"USER ", b"")),
        ("telnet", sized(b"login: ", b"")),
    ] {
        for side in Direction::BOTH {
            let mut talk = tcp(name);
            talk.in_pieces(side, &bytes, 1);
            talk.end();
            let a = &talk.account;
            assert!(a.offered <= 6 * a.said + 100, "{name} {side:?}: {a:?}");
            assert!(a.held_max < 1 << 20, "{name} {side:?}: {a:?}");
        }
    }
}
