//! SMB sessions made by hand. What each comes to was measured with Suricata 8.0.7.

mod play;

use gabion_proto::smb::PROTOCOL;
use gabion_record::{Direction, Tree};
use play::{c, play_all, s};

type Session = Vec<(Direction, Vec<u8>)>;

const FILE: [u8; 16] = *b"0123456789abcdef";

/// A NetBIOS message.
fn netbios(message: &[u8]) -> Vec<u8> {
    let mut bytes = (message.len() as u32).to_be_bytes().to_vec();
    bytes.extend_from_slice(message);
    bytes
}

/// An SMB 2 message (MS-SMB2 2.2.1.2).
fn message2(command: u16, is_response: bool, id: u64, status: u32, body: &[u8]) -> Vec<u8> {
    let mut m = b"\xfeSMB\x40\0\x01\0".to_vec();
    m.extend_from_slice(&status.to_le_bytes());
    m.extend_from_slice(&command.to_le_bytes());
    m.extend_from_slice(&1u16.to_le_bytes());
    m.extend_from_slice(&u32::from(is_response).to_le_bytes());
    m.extend_from_slice(&0u32.to_le_bytes());
    m.extend_from_slice(&id.to_le_bytes());
    m.extend_from_slice(&0xfeffu32.to_le_bytes());
    m.extend_from_slice(&1u32.to_le_bytes());
    m.extend_from_slice(&9u64.to_le_bytes());
    m.extend_from_slice(&[0; 16]);
    m.extend_from_slice(body);
    netbios(&m)
}

fn request(command: u16, id: u64, body: &[u8]) -> (Direction, Vec<u8>) {
    c(&message2(command, false, id, 0, body))
}

fn response(command: u16, id: u64, status: u32, body: &[u8]) -> (Direction, Vec<u8>) {
    s(&message2(command, true, id, status, body))
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// NEGOTIATE: 2.02 and 2.10, of which the server takes 2.10.
fn negotiate() -> Session {
    let mut asked = b"\x24\0\x02\0\x01\0\0\0\0\0\0\0".to_vec();
    asked.extend_from_slice(&[0x11; 16]);
    asked.extend_from_slice(&[0; 8]);
    asked.extend_from_slice(b"\x02\x02\x10\x02");
    let mut answer = b"\x41\0\x01\0\x10\x02\0\0".to_vec();
    answer.extend_from_slice(&[0x22; 16]);
    answer.extend_from_slice(&7u32.to_le_bytes());
    for size in [1u32 << 20; 3] {
        answer.extend_from_slice(&size.to_le_bytes());
    }
    answer.extend_from_slice(&[0; 24]);
    vec![request(0, 0, &asked), response(0, 0, 0, &answer)]
}

/// TREE_CONNECT to a share of files (1) or pipes (2).
fn tree(path: &str, share_type: u8) -> Session {
    let path = utf16(path);
    let mut asked = b"\x09\0\0\0\x48\0".to_vec();
    asked.extend_from_slice(&(path.len() as u16).to_le_bytes());
    asked.extend_from_slice(&path);
    let mut answer = vec![16, 0, share_type, 0];
    answer.extend_from_slice(&[0; 12]);
    vec![request(3, 1, &asked), response(3, 1, 0, &answer)]
}

/// CREATE of a file.
fn create(name: &str) -> Session {
    let name = utf16(name);
    let mut asked = vec![0; 36];
    asked.extend_from_slice(&1u32.to_le_bytes());
    asked.extend_from_slice(&0u32.to_le_bytes());
    asked.extend_from_slice(&120u16.to_le_bytes());
    asked.extend_from_slice(&(name.len() as u16).to_le_bytes());
    asked.extend_from_slice(&[0; 8]);
    asked.extend_from_slice(&name);
    let mut answer = vec![0; 64];
    answer.extend_from_slice(&FILE);
    answer.extend_from_slice(&[0; 8]);
    vec![request(5, 2, &asked), response(5, 2, 0, &answer)]
}

fn write(id: u64, offset: u64, data: &[u8]) -> (Direction, Vec<u8>) {
    let mut body = b"\x31\0\x70\0".to_vec();
    body.extend_from_slice(&(data.len() as u32).to_le_bytes());
    body.extend_from_slice(&offset.to_le_bytes());
    body.extend_from_slice(&FILE);
    body.extend_from_slice(&[0; 16]);
    body.extend_from_slice(data);
    request(9, id, &body)
}

fn read(id: u64, offset: u64, data: &[u8]) -> Session {
    let mut asked = b"\x31\0\x50\0".to_vec();
    asked.extend_from_slice(&(data.len() as u32).to_le_bytes());
    asked.extend_from_slice(&offset.to_le_bytes());
    asked.extend_from_slice(&FILE);
    asked.extend_from_slice(&[0; 17]);
    let mut answer = b"\x11\0\x50\0".to_vec();
    answer.extend_from_slice(&(data.len() as u32).to_le_bytes());
    answer.extend_from_slice(&[0; 8]);
    answer.extend_from_slice(data);
    vec![request(8, id, &asked), response(8, id, 0, &answer)]
}

fn close(id: u64) -> Session {
    let mut asked = vec![24, 0, 0, 0, 0, 0, 0, 0];
    asked.extend_from_slice(&FILE);
    vec![request(6, id, &asked), response(6, id, 0, &[0; 60])]
}

/// Events and records, without what most records have in common.
fn outcomes(settings: Option<&Tree>, session: &Session) -> Vec<String> {
    let out = play_all(PROTOCOL, settings, session);
    let mut all = Vec::new();
    for (events, record) in &out.all {
        let record = record
            .replace("\"dialect\":\"2.10\",", "")
            .replace("\"status\":\"STATUS_SUCCESS\",\"status_code\":\"0x0\",", "")
            .replace("\"session_id\":9,\"tree_id\":1", "")
            .replace("33323130-3534-3736-3938-626166656463", "FILE");
        all.push([events.join(" "), record].concat());
    }
    if out.is_error {
        all.push("error".to_owned());
    }
    all
}

const OPENED: [&str; 3] = [
    "{\"id\":1,\"command\":\"SMB2_COMMAND_NEGOTIATE_PROTOCOL\",,\
     \"client_dialects\":[\"2.02\",\"2.10\"],\
     \"client_guid\":\"11111111-1111-1111-1111-111111111111\",\
     \"server_guid\":\"22222222-2222-2222-2222-222222222222\",\"max_read_size\":1048576,\
     \"max_write_size\":1048576}",
    "{\"id\":2,\"command\":\"SMB2_COMMAND_TREE_CONNECT\",,\"share\":\"\\\\\\\\srv\\\\data\",\
     \"share_type\":\"FILE\"}",
    "{\"id\":3,\"command\":\"SMB2_COMMAND_CREATE\",,\"filename\":\"f.txt\",\
     \"disposition\":\"FILE_OPEN\",\"access\":\"normal\",\"created\":0,\"accessed\":0,\
     \"modified\":0,\"changed\":0,\"size\":0,\"fuid\":\"FILE\"}",
];

fn opened() -> Session {
    [negotiate(), tree("\\\\srv\\data", 1), create("f.txt")].concat()
}

#[test]
fn files_are_written_and_read() {
    let session = [
        opened(),
        vec![write(3, 100, &[b'b'; 50]), write(4, 0, &[b'a'; 100])],
        read(5, 0, &[b'c'; 3000]),
        close(6),
    ]
    .concat();
    let found = outcomes(None, &session);
    assert_eq!(found[..3], OPENED);
    let rest = [
        "{\"id\":4,\"command\":\"SMB2_COMMAND_WRITE\",,\"filename\":\"f.txt\",\"share\":\"\",\
         \"fuid\":\"FILE\"}",
        "{\"id\":5,\"command\":\"SMB2_COMMAND_READ\",,\"filename\":\"f.txt\",\
         \"share\":\"\\\\\\\\srv\\\\data\",\"fuid\":\"FILE\"}",
        "{\"id\":6,\"command\":\"SMB2_COMMAND_CLOSE\",}",
    ];
    assert_eq!(found[3..], rest);
}

#[test]
fn what_is_too_large_or_repeated_raises_events() {
    let session = [
        opened(),
        vec![write(3, 0, &[b'a'; 100]), write(4, 50, &[b'b'; 100])],
        vec![write(5, 900, &[b'c'; 10]), write(6, 800, &[b'c'; 10])],
        close(7),
    ]
    .concat();
    let mut settings = Tree::default();
    settings.set("max-write-queue-cnt", "1");
    let found = outcomes(Some(&settings), &session);
    assert!(found[3].starts_with("file_overlap write_queue_cnt_exceeded{"), "{}", found[3]);
    settings.set("max-tx", "2");
    let found = outcomes(Some(&settings), &session);
    assert!(found[2].starts_with("too_many_transactions{"), "{found:?}");
    assert_eq!((found.len(), found[3].as_str()), (4, "error"));
}

/// A bind and a call in a pipe.
#[test]
fn calls_in_pipes() {
    let mut bind =
        b"\x05\0\x0b\x03\x10\0\0\0\x48\0\0\0\x01\0\0\0\xb8\x10\xb8\x10\0\0\0\0\x01\0\0\0".to_vec();
    bind.extend_from_slice(
        b"\0\0\x01\0\x81\xbb\x7a\x36\x44\x98\xf1\x35\xad\x32\x98\xf0\x38\0\x10\x03\x02\0\0\0",
    );
    bind.extend_from_slice(&[4; 20]);
    let mut ack =
        b"\x05\0\x0c\x03\x10\0\0\0\x44\0\0\0\x01\0\0\0\xb8\x10\xb8\x10\x01\0\0\0".to_vec();
    ack.extend_from_slice(b"\x0d\0\\PIPE\\ntsvcs\0\0\x01\0\0\0\0\0\0\0");
    ack.extend_from_slice(&[4; 20]);
    ack.resize(68, 0);
    let mut call = b"\x05\0\0\x03\x10\0\0\0\x20\0\0\0\x02\0\0\0\x08\0\0\0\0\0\x0f\0".to_vec();
    call.extend_from_slice(b"stubdata");
    let mut answer = b"\x05\0\x02\x03\x10\0\0\0\x1c\0\0\0\x02\0\0\0\x04\0\0\0\0\0\0\0".to_vec();
    answer.extend_from_slice(b"stub");
    let session = [
        negotiate(),
        tree("\\\\srv\\IPC$", 2),
        create("svcctl"),
        vec![write(3, 0, &bind)],
        read(4, 0, &ack),
        vec![write(5, 0, &call)],
        read(6, 0, &answer),
    ]
    .concat();
    let found = outcomes(None, &session);
    let calls = [
        "{\"id\":4,\"command\":\"SMB2_COMMAND_WRITE\",,\"dcerpc\":{\"request\":\"BIND\",\
         \"response\":\"BINDACK\",\"interfaces\":[{\"uuid\":\
         \"367abb81-9844-35f1-ad32-98f038001003\",\"version\":\"2.0\",\"ack_result\":0,\
         \"ack_reason\":0}],\"call_id\":1}}",
        "{\"id\":5,\"command\":\"SMB2_COMMAND_WRITE\",,\"dcerpc\":{\"request\":\"REQUEST\",\
         \"response\":\"RESPONSE\",\"opnum\":15,\"req\":{\"frag_cnt\":1,\"stub_data_size\":8},\
         \"interfaces\":[{\"uuid\":\"367abb81-9844-35f1-ad32-98f038001003\",\
         \"version\":\"2.0\"}],\"res\":{\"frag_cnt\":1,\"stub_data_size\":4},\"call_id\":2}}",
    ];
    assert_eq!(found[3..], calls);
}

/// A message of DCE/RPC whose numbers are in big-endian order (C706 14.1).
fn big(kind: u8, call_id: u8, body: &[u8]) -> Vec<u8> {
    let len = (16 + body.len()) as u8;
    [&[5, 0, kind, 3, 0, 0, 0, 0, 0, len, 0, 0, 0, 0, 0, call_id], body].concat()
}

/// Numbers in big-endian order. Suricata 8.0.7 has the same records with a bind_ack in little-endian order, in which it
/// reads all: one in big-endian order is malformed to it, and is read here as it says.
#[test]
fn calls_in_big_endian_order() {
    let offer = b"\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\x01\0\
        \x36\x7a\xbb\x81\x98\x44\x35\xf1\xad\x32\x98\xf0\x38\0\x10\x03\0\x01\0\x02";
    let bind = big(11, 1, &[&offer[..], &[4; 20]].concat());
    let taken =
        |len: [u8; 2]| [&[0; 8][..], &len, b"135\0\0\0\x01\0\0\0\0\0\0\0", &[4; 20]].concat();
    let mut little = big(12, 1, &taken([4, 0]));
    (little[4], little[8], little[9], little[12], little[15]) = (0x10, little[9], 0, 1, 0);
    for ack in [little, big(12, 1, &taken([0, 4]))] {
        let session = [
            negotiate(),
            tree("\\\\srv\\IPC$", 2),
            create("svcctl"),
            vec![write(3, 0, &bind)],
            read(4, 0, &ack),
            vec![write(5, 0, &big(0, 3, b"\0\0\0\x08\0\0\0\x0fabcdefgh"))],
            read(6, 0, &big(2, 3, b"\0\0\0\x04\0\0\0\0stub")),
        ]
        .concat();
        let of = "{\"uuid\":\"367abb81-9844-35f1-ad32-98f038001003\",\"version\":\"2.1\"";
        let call = "\"command\":\"SMB2_COMMAND_WRITE\",,\"dcerpc\":{\"request\"";
        let expected = [
            format!(
                "{{\"id\":4,{call}:\"BIND\",\"response\":\"BINDACK\",\"interfaces\":\
                 [{of},\"ack_result\":0,\"ack_reason\":0}}],\"call_id\":1}}}}"
            ),
            format!(
                "{{\"id\":5,{call}:\"REQUEST\",\"response\":\"RESPONSE\",\"opnum\":15,\"req\":\
                 {{\"frag_cnt\":1,\"stub_data_size\":8}},\"interfaces\":[{of}}}],\
                 \"res\":{{\"frag_cnt\":1,\"stub_data_size\":4}},\"call_id\":3}}}}"
            ),
        ];
        assert_eq!(outcomes(None, &session)[3..], expected);
    }
}

/// Answers without requests, compounds that lead into themselves or out of the message, and messages that are
/// none of SMB come to no transaction.
#[test]
fn broken_messages_come_to_nothing() {
    let mut chained = message2(13, false, 3, 0, &[0; 64]);
    // The next message is this one.
    chained[4 + 20] = 8;
    let session =
        [negotiate(), vec![c(&chained), response(9, 8, 0, &[0; 16]), response(13, 9, 0, &[4])]]
            .concat();
    let found = outcomes(None, &session);
    assert_eq!(found.len(), 2, "{found:?}");
    chained[4 + 21] = 0x40;
    let found = outcomes(None, &[negotiate(), vec![c(&chained)]].concat());
    assert_eq!(found[1..], ["error"]);
    let found = outcomes(None, &[negotiate(), vec![c(&netbios(b"none"))]].concat());
    assert_eq!(found[1..], ["error"]);
}
