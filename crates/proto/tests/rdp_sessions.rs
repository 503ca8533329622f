//! RDP sessions made by hand. What each comes to was measured with Suricata 8.0.7.

mod play;

use gabion_proto::rdp::PROTOCOL;
use gabion_record::Direction;
use play::{c, play_all, s};

type Session = Vec<(Direction, Vec<u8>)>;

/// A packet of RFC 1006 around one of X.224.
fn packet(body: &[u8]) -> Vec<u8> {
    [&[3, 0][..], &(body.len() as u16 + 4).to_be_bytes(), body].concat()
}

/// A request to connect.
fn request(body: &[u8]) -> (Direction, Vec<u8>) {
    c(&packet(&[&[6 + body.len() as u8, 0xe0, 0, 0, 0, 0, 0], body].concat()))
}

/// Its answer.
fn confirm(body: &[u8]) -> (Direction, Vec<u8>) {
    s(&packet(&[&[6 + body.len() as u8, 0xd0, 0, 0, 0x12, 0x34, 0], body].concat()))
}

fn utf16(text: &str, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    bytes.resize(len, 0);
    bytes
}

/// A client's connect request (ITU-T T.125 11.1) with its core data and channels (MS-RDPBCGR 2.2.1.3).
fn connect_initial() -> Vec<u8> {
    let mut core = b"\x04\0\x08\0\0\x05\0\x04\x01\xca\x03\xaa\x09\x04\0\0\x28\x0a\0\0".to_vec();
    core.extend(utf16("ISD2-KM84178", 32));
    core.extend(b"\x04\0\0\0\0\0\0\0\x0c\0\0\0");
    core.extend([0; 64]);
    core.extend(b"\x01\xca\x01\0\0\0\0\0\x18\0\x07\0\x01\0");
    core.extend(utf16("69712-783-0357974-42714", 64));
    core.extend([0; 6]);
    let network = b"\x02\0\0\0rdpdr\0\0\0\0\0\x80\x80cliprdr\0\0\0\xa0\xc0";
    let block = |kind: u8, data: &[u8]| {
        [&[kind, 0xc0][..], &(data.len() as u16 + 4).to_le_bytes(), data].concat()
    };
    let blocks = [block(1, &core), block(3, network)].concat();
    let short_len = |len: usize| (0x8000 | len as u16).to_be_bytes();
    let head = b"\x00\x08\x00\x10\x00\x01\xc0\x00Duca";
    let inner = [&head[..], &short_len(blocks.len()), &blocks].concat();
    let user = [&b"\x00\x05\x00\x14\x7c\x00\x01"[..], &short_len(inner.len()), &inner].concat();
    let parameters = b"\x30\x03\x02\x01\x22".repeat(3);
    let long_len = |len: usize| [&[0x82][..], &(len as u16).to_be_bytes()].concat();
    let body = [
        &b"\x04\x01\x01\x04\x01\x01\x01\x01\xff"[..],
        &parameters,
        &[4],
        &long_len(user.len()),
        &user,
    ]
    .concat();
    packet(&[&b"\x02\xf0\x80\x7f\x65"[..], &long_len(body.len()), &body].concat())
}

fn connect_response() -> Vec<u8> {
    packet(&[&b"\x02\xf0\x80\x7f\x66\x82\x01\0\x0a\x01\0"[..], &[0; 253]].concat())
}

const CONNECT_REQUEST: &str = "\"event_type\":\"connect_request\",\"client\":{\"version\":\"v5\",\
    \"desktop_width\":1280,\"desktop_height\":1024,\"color_depth\":24,\
    \"keyboard_layout\":\"en-US\",\"build\":\"Windows XP\",\"client_name\":\"ISD2-KM84178\",\
    \"keyboard_type\":\"enhanced\",\"function_keys\":12,\"product_id\":1,\
    \"capabilities\":[\"support_errinfo_pdf\"],\"id\":\"69712-783-0357974-42714\"},\
    \"channels\":[\"rdpdr\",\"cliprdr\"]";

/// A negotiation (MS-RDPBCGR 2.2.1.1.1).
const NEGOTIATION: &[u8] = b"\x01\0\x08\0\x03\0\0\0";

#[test]
fn sessions() {
    let asked = |cookie: &str| format!("\"event_type\":\"initial_request\"{cookie}");
    let answered = |more: &str| format!("\"event_type\":\"initial_response\"{more}");
    let connected = [CONNECT_REQUEST.to_owned(), "\"event_type\":\"connect_response\"".to_owned()];
    let cases: [(Session, Vec<String>); 6] = [
        (
            vec![
                request(b"Cookie: mstshash=A70067\r\n"),
                confirm(b""),
                c(&connect_initial()),
                s(&connect_response()),
            ],
            [&[asked(",\"cookie\":\"A70067\""), answered("")][..], &connected].concat(),
        ),
        (
            vec![
                request(&[b"Cookie: mstshash=user\r\n", NEGOTIATION].concat()),
                confirm(b"\x02\x1f\x08\0\x01\0\0\0"),
            ],
            vec![
                asked(",\"cookie\":\"user\""),
                answered(
                    ",\"server_supports\":[\"extended_client_data\",\"dynvc_gfx\",\
                     \"restricted_admin\",\"redirected_authentication\"],\"protocol\":\"ssl\"",
                ),
            ],
        ),
        (
            vec![request(NEGOTIATION), confirm(b"\x03\0\x08\0\x05\0\0\0")],
            vec![asked(""), answered(",\"error_code\":5,\"reason\":\"hybrid required by server\"")],
        ),
        (
            vec![
                request(NEGOTIATION),
                confirm(b"\x02\0\x08\0\0\0\0\0"),
                c(&connect_initial()),
                s(&connect_response()),
            ],
            [&[asked(""), answered(",\"protocol\":\"rdp\"")][..], &connected].concat(),
        ),
        // A cookie without its end is none, and the message is not logged.
        (vec![request(b"Cookie: mstshash=user"), confirm(b"")], vec![answered("")]),
        (
            vec![
                request(NEGOTIATION),
                s(&[confirm(b"\x02\0\x08\0\0\0\0\0").1, connect_response()].concat()),
            ],
            vec![asked(""), answered(",\"protocol\":\"rdp\""), connected[1].clone()],
        ),
    ];
    for (session, expected) in cases {
        let out = play_all(PROTOCOL, None, &session);
        let records: Vec<&String> = out.all.iter().map(|(_, record)| record).collect();
        let expected: Vec<String> =
            (1..).zip(&expected).map(|(n, text)| format!("{{\"tx_id\":{n},{text}}}")).collect();
        assert_eq!(records, expected.iter().collect::<Vec<_>>());
    }
}
