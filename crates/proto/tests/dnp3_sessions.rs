//! DNP3 sessions made by hand. What each comes to was measured with Suricata 8.0.7.

mod play;

use gabion_proto::dnp3::{PROTOCOL, limits};
use gabion_record::Direction;
use play::{c, play, play_all, s};

/// The checksum of IEEE 1815-2012 9.2.4.3, bit by bit.
fn checksum(bytes: &[u8]) -> [u8; 2] {
    let mut crc = 0u16;
    for b in bytes {
        crc ^= u16::from(*b);
        for _ in 0..8 {
            crc = if crc & 1 != 0 { crc >> 1 ^ 0xa6bc } else { crc >> 1 };
        }
    }
    (!crc).to_le_bytes()
}

/// A frame with this control octet around user data.
fn frame(control: u8, data: &[u8]) -> Vec<u8> {
    let mut out = vec![0x05, 0x64, 5 + data.len() as u8, control, 2, 0, 3, 0];
    out.extend(checksum(&out));
    for block in data.chunks(16) {
        out.extend_from_slice(block);
        out.extend(checksum(block));
    }
    out
}

fn request(message: &[u8]) -> Vec<u8> {
    frame(0xc4, &[b"\xc0", message].concat())
}

fn response(message: &[u8]) -> Vec<u8> {
    frame(0x44, &[b"\xc0", message].concat())
}

fn damaged(mut frame: Vec<u8>, at: usize) -> Vec<u8> {
    frame[at] ^= 1;
    frame
}

/// Events, and what is in a record of `application`.
fn outcomes(session: &[(Direction, Vec<u8>)]) -> Vec<String> {
    let out = play_all(PROTOCOL, None, session);
    let short = |record: &str| match record.split_once("\"function_code\":") {
        Some((_, rest)) => rest.split_once("\"function_code\":").map_or("", |(_, r)| r).to_owned(),
        None => record.to_owned(),
    };
    let mut all: Vec<String> =
        out.all.iter().map(|(e, r)| format!("{} {}", e.join(" "), short(r))).collect();
    if out.is_error {
        all.push("error".to_owned());
    }
    all
}

const READ: &[u8] = b"\xc1\x01\x3c\x02\x06";
const READ_LOGGED: &str = " 1,\"objects\":[{\"group\":60,\"variation\":2,\"qualifier\":6,\"prefix_code\":0,\
    \"range_code\":6,\"start\":0,\"stop\":0,\"count\":0}],\"complete\":true}}";
const ANSWER: &[u8] = b"\xc1\x81\0\0";
const ANSWER_LOGGED: &str = " 129,\"complete\":true},\"iin\":{}}";

#[test]
fn requests_and_responses() {
    let session = [c(&request(READ)), s(&response(b"\xf1\x82\x80\x02\x02\x01\x28\x01\0\0\0\x81"))];
    let out = play_all(PROTOCOL, None, &session);
    assert_eq!(
        out.all[1].1,
        "{\"type\":\"unsolicited_response\",\"control\":{\"dir\":false,\"pri\":true,\"fcb\":false,\
         \"fcv\":false,\"function_code\":4},\"src\":3,\"dst\":2,\"application\":{\"control\":{\
         \"fir\":true,\"fin\":true,\"con\":true,\"uns\":true,\"sequence\":1},\"function_code\":130,\
         \"objects\":[{\"group\":2,\"variation\":1,\"qualifier\":40,\"prefix_code\":2,\
         \"range_code\":8,\"start\":0,\"stop\":0,\"count\":1,\"points\":[{\"prefix\":0,\"index\":0,\
         \"state\":129}]}],\"complete\":true},\"iin\":{\"indicators\":[\"device_restart\",\
         \"object_unknown\"]}}"
    );
    assert_eq!(outcomes(&session)[0], READ_LOGGED);
    // A confirmation is no transaction.
    let session = [c(&request(READ)), c(&request(b"\xd0\0")), s(&response(ANSWER))];
    assert_eq!(outcomes(&session), [READ_LOGGED, ANSWER_LOGGED]);
}

#[test]
fn frames_that_carry_no_message() {
    let good = request(READ);
    let cases: [(Vec<u8>, &[&str]); 6] = [
        (damaged(good.clone(), 8), &["bad_link_crc ", READ_LOGGED]),
        (damaged(good.clone(), 16), &["bad_transport_crc ", READ_LOGGED]),
        (frame(0xc4, b""), &["len_too_small ", READ_LOGGED]),
        (frame(0xc4, b"\xc0\xc0"), &["len_too_small ", READ_LOGGED]),
        (frame(0xc9, b""), &[READ_LOGGED]),
        (b"\x05\x65\x05\xc9 is none".to_vec(), &["error"]),
    ];
    for (bad, expected) in cases {
        assert_eq!(outcomes(&[c(&bad), c(&good)]), expected);
    }
    // An event is of the youngest transaction that is still there.
    assert_eq!(
        outcomes(&[c(&good), c(&frame(0xc4, b"\xc0"))]),
        [format!("len_too_small{READ_LOGGED}")]
    );
    // A response has indications.
    let short = frame(0x44, b"\xc0\xc0\x81\0");
    assert_eq!(outcomes(&[s(&short), s(&response(ANSWER))]), ["len_too_small ", ANSWER_LOGGED]);
}

#[test]
fn messages_in_several_frames() {
    let (head, tail) = READ.split_at(3);
    let first = frame(0xc4, &[b"\x41", head].concat());
    let last = |transport: u8| frame(0xc4, &[&[transport], tail].concat());
    let whole = request(READ);
    let cases: [(&[Vec<u8>], &[&str]); 6] = [
        (&[first.clone(), last(0x82)], &[READ_LOGGED]),
        (&[first.clone(), last(0x84), last(0x82)], &[READ_LOGGED]),
        (&[first.clone(), request(b"\xd0\0"), last(0x82)], &[READ_LOGGED]),
        (&[last(0x82), whole.clone()], &[READ_LOGGED]),
        (&[first.clone(), whole.clone()], &[" ", READ_LOGGED]),
        (
            &[first.clone(), frame(0xc4, b"\x02\x02"), last(0x82)],
            &[&format!("len_too_small{READ_LOGGED}")],
        ),
    ];
    for (frames, expected) in cases {
        let session: Vec<_> = frames.iter().map(|f| c(f)).collect();
        assert_eq!(outcomes(&session), expected);
    }
}

/// A server may greet with a text.
#[test]
fn greetings_are_left_out() {
    let session = [s(b"#DNP3 server\r\n"), c(&request(READ)), s(&response(ANSWER))];
    let out = play(PROTOCOL, None, &session, 0);
    assert_eq!((out.all.len(), out.is_error), (2, false));
}

/// A flow's records list as many points as its frames have bytes, and some: Suricata 8.0.7 lists all 1,880 of each message.
#[test]
fn points_in_records_are_bounded_by_bytes() {
    let points = 1880u16;
    let stop = (points - 1).to_le_bytes();
    let bits = vec![0x55; usize::from(points / 8) + 1];
    let message = [b"\xc0\x81\0\0\x01\x01\x01\0\0", &stop[..], &bits].concat();
    let frame = response(&message);
    let count = |session: &[(Direction, Vec<u8>)]| {
        let out = play(PROTOCOL, None, session, 0);
        let lines = out.all.iter().map(|(_, record)| record.matches("\"prefix\":").count() as u64);
        lines.collect::<Vec<u64>>()
    };
    let all = [s(&frame.repeat(40))];
    let listed = count(&all);
    let limit = &limits::reached::LISTED_POINTS_MAX;
    let lost = gabion_record::limits::take_reached().times_reached(limit);
    assert_eq!(limit.full_name(), "proto.dnp3.listed_points_max");
    let total = limits::LISTED_POINTS_MAX + 40 * frame.len() as u64;
    assert_eq!((listed.len(), listed.iter().sum::<u64>()), (40, total));
    assert_eq!(lost, 40 * u64::from(points) - total);
    assert!(listed[..8].iter().all(|n| *n == u64::from(points)), "{listed:?}");
    // The object has the number of its points, of which later messages list as many as the frame has bytes.
    assert_eq!(*listed.last().unwrap(), frame.len() as u64);
    let record = play_all(PROTOCOL, None, &all).all.pop().unwrap().1;
    assert!(record.contains("\"count\":1880,\"points\":[") && record.ends_with("\"iin\":{}}"));
    // Requests count, too, and one with points that take bytes is always whole.
    let octets = [&b"\xc0\x81\0\0\x01\x02\x07\xc8"[..], &[1; 200]].concat();
    let session = [s(&frame.repeat(40)), s(&response(&octets).repeat(9))];
    assert_eq!(count(&session)[40..], [200; 9]);
}

/// The bytes of a message, its objects and points are bounded, and so are transactions that wait for
/// the rest of theirs.
#[test]
fn bad_input_is_bounded() {
    let long = |n: usize| {
        let message = [b"\xc0\x01", vec![0xff; n - 2].as_slice()].concat();
        let parts: Vec<&[u8]> = message.chunks(249).collect();
        let last = parts.len() - 1;
        let header = |i: usize| {
            (i as u8 & 0x3f) | if i == 0 { 0x40 } else { 0 } | if i == last { 0x80 } else { 0 }
        };
        let frames = parts.iter().enumerate();
        let frames = frames.map(|(i, p)| frame(0xc4, &[&[header(i)], *p].concat()));
        frames.flatten().collect::<Vec<u8>>()
    };
    let events = |n: usize| play(PROTOCOL, None, &[c(&long(n))], 1000).all.remove(0).0;
    assert_eq!(events(limits::MESSAGE_BYTES_MAX), [""; 0]);
    assert_eq!(events(limits::MESSAGE_BYTES_MAX + 1), ["too_long_reassembly"]);
    let many = b"\x3c\x02\x06".repeat(limits::OBJECTS_MAX as usize + 1);
    let parts: Vec<&[u8]> = many.chunks(240).collect();
    let mut frames = frame(0xc4, &[b"\x40\xc0\x01", parts[0]].concat());
    for (i, p) in parts.iter().enumerate().skip(1) {
        let is_last = i == parts.len() - 1;
        frames.extend(frame(0xc4, &[&[i as u8 & 0x3f | u8::from(is_last) << 7], *p].concat()));
    }
    assert_eq!(play(PROTOCOL, None, &[c(&frames)], 0).events, ["too_many_objects"]);
    let points = request(b"\xc0\x02\x01\x01\x01\0\0\xff\xff");
    assert_eq!(play(PROTOCOL, None, &[c(&points)], 0).events, ["too_many_points"]);
    // Ended ones are there until the engine frees them.
    let many = request(READ).repeat(limits::TXS_PER_FLOW_MAX + 1);
    let out = play(PROTOCOL, None, &[c(&many)], 0);
    let limit = &limits::reached::TXS_PER_FLOW_MAX;
    let lost = gabion_record::limits::take_reached().times_reached(limit);
    assert_eq!(limit.full_name(), "proto.dnp3.txs_per_flow_max");
    assert_eq!((out.all.len(), lost), (limits::TXS_PER_FLOW_MAX, 1));
    let text = |len: u16| {
        let size = (8 + len).to_le_bytes();
        let message = [b"\x40\xc0\x02\x46\x05\x5b\x01", &size[..], &[7; 8], &[7; 230]].concat();
        let rest = vec![7; usize::from(len) - 230];
        let frames = [frame(0xc4, &message), frame(0xc4, &[b"\x81", rest.as_slice()].concat())];
        play(PROTOCOL, None, &[c(&frames.concat())], 0).events
    };
    let longest = limits::REST_TEXT_MAX as u16;
    assert_eq!((text(longest).len(), text(longest + 1)), (0, vec!["unknown_object"]));
    // Messages that are begun and never ended.
    let begun = frame(0xc4, &[b"\x40\xc0\x01", [7; 200].as_slice()].concat());
    let out = play(PROTOCOL, None, &[c(&begun.repeat(1000))], 0);
    let flooded: Vec<usize> = (0..out.all.len()).filter(|i| !out.all[*i].0.is_empty()).collect();
    assert_eq!((out.all.len(), flooded), (1000, vec![limits::OPEN_TXS_MAX as usize]));
}
