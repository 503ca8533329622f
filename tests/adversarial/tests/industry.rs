//! DNP3, ENIP and Modbus: points, nests, floods of requests and single bytes.

use gabion_adversarial::Connection;
use gabion_proto::{dnp3, enip, modbus};
use gabion_record::Direction;
use gabion_record::applayer::Transport;

fn tcp(name: &str) -> Connection {
    Connection::with_protocol(name, Transport::Tcp)
}

/// A message of Modbus with the header of Modbus/TCP.
fn modbus_message(transaction: u16, function: u8, data: &[u8]) -> Vec<u8> {
    let len = (2 + data.len()) as u16;
    let head = [transaction.to_be_bytes(), [0; 2], len.to_be_bytes()].concat();
    [&head[..], &[1, function], data].concat()
}

/// A message of ENIP.
fn enip_message(command: u16, session: u32, data: &[u8]) -> Vec<u8> {
    let mut m = command.to_le_bytes().to_vec();
    m.extend((data.len() as u16).to_le_bytes());
    m.extend(session.to_le_bytes());
    m.extend([0; 16]);
    m.extend_from_slice(data);
    m
}

/// Requests that nobody answers, and answers that nobody asked for.
#[test]
fn requests_without_answers_are_bounded() {
    for side in Direction::BOTH {
        let mut talk = tcp("modbus");
        for n in 0..200_u16 {
            let of = |i: u16| modbus_message(n * 250 + i, 3, &[0, 0, 0, 1]);
            talk.send(side, &(0..250).flat_map(of).collect::<Vec<u8>>());
        }
        let a = &talk.account;
        assert!(a.alive_max <= modbus::limits::OPEN_TXS_MAX + 1, "{a:?}");
        assert!(a.held_max < 2 << 20 && a.offered <= 2 * a.said, "{a:?}");
        let mut talk = tcp("enip");
        for n in 0..200_u32 {
            let of = |i: u32| enip_message(0x65, n * 100 + i, &[1, 0, 0, 0]);
            talk.send(side, &(0..100).flat_map(of).collect::<Vec<u8>>());
        }
        let a = &talk.account;
        assert!(a.alive_max <= enip::limits::OPEN_TXS_MAX + 1, "{a:?}");
        assert!(a.held_max < enip::limits::HELD_BYTES_MAX && a.offered <= 2 * a.said, "{a:?}");
    }
}

/// One byte a segment, and messages that claim to be long.
#[test]
fn single_bytes_and_false_lengths() {
    let long = modbus_message(1, 16, &[9; 250]).repeat(40);
    let mut false_length = modbus_message(1, 3, &[0, 0, 0, 1]);
    false_length[4..6].copy_from_slice(&[0xff, 0xff]);
    false_length.extend(vec![0; 20_000]);
    let sent = enip_message(0x70, 1, &[7; 20_000]);
    // A frame of 250 bytes with wrong checksums.
    let mut frame = vec![5, 0x64, 250, 0xc4, 2, 0, 3, 0, 0, 0];
    frame.extend([0; 300]);
    for (name, bytes) in
        [("modbus", long), ("modbus", false_length), ("enip", sent), ("dnp3", frame.repeat(40))]
    {
        for side in Direction::BOTH {
            let mut talk = tcp(name);
            talk.in_pieces(side, &bytes, 1);
            talk.end();
            let a = &talk.account;
            assert!(a.offered <= 4 * a.said + 100, "{name} {side:?}: {a:?}");
            assert!(a.held_max < 1 << 20, "{name} {side:?}: {a:?}");
        }
    }
}

/// Points of DNP3 without data: objects of packed bits that claim 65,535 of them, in message after message.
#[test]
fn points_without_data_are_bounded() {
    let crc = |bytes: &[u8]| {
        let mut crc = 0u16;
        for b in bytes {
            crc ^= u16::from(*b);
            for _ in 0..8 {
                crc = if crc & 1 != 0 { crc >> 1 ^ 0xa6bc } else { crc >> 1 };
            }
        }
        (!crc).to_le_bytes()
    };
    let mut data = b"\xc0\xc0\x02".to_vec();
    data.extend(b"\x01\x01\x08\xff\xff".repeat(40));
    let mut frame = vec![5, 0x64, 5 + data.len() as u8, 0xc4, 2, 0, 3, 0];
    frame.extend(crc(&frame));
    for block in data.chunks(16) {
        frame.extend_from_slice(block);
        frame.extend(crc(block));
    }
    let mut talk = tcp("dnp3");
    for _ in 0..200 {
        talk.client(&frame.repeat(100));
    }
    let a = &talk.account;
    assert!(a.alive_max <= dnp3::limits::TXS_PER_FLOW_MAX as u64, "{a:?}");
    assert!(a.held_max < 8 << 20, "{a:?}");
    for tx in talk.transactions().take(40) {
        let len = Connection::record(tx).len();
        assert!(len < 100 * dnp3::limits::POINTS_MAX as usize, "{len}");
    }
}
