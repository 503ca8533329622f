//! Flows of IKE made by hand. Records and events are Suricata's (8.0.7) for the same messages.

use super::limits::{PAYLOADS_MAX, TRANSFORMS_MAX};
use super::*;
use crate::{Endpoints, LogOptions, Transaction};
use Direction::{ToClient, ToServer};
use gabion_record::json::Json;

fn payload(next: u8, body: &[u8]) -> Vec<u8> {
    [&[next, 0][..], &(body.len() as u16 + 4).to_be_bytes(), body].concat()
}

fn chain(payloads: &[(u8, &[u8])]) -> (u8, Vec<u8>) {
    let nexts = payloads.iter().skip(1).map(|(kind, _)| *kind).chain([0]);
    let bytes = payloads.iter().zip(nexts).flat_map(|((_, body), next)| payload(next, body));
    (payloads.first().map_or(0, |(kind, _)| *kind), bytes.collect())
}

fn message(version: u8, exchange: u8, flags: u8, payloads: &[(u8, &[u8])]) -> Vec<u8> {
    let (first, body) = chain(payloads);
    let len = (body.len() as u32 + 28).to_be_bytes();
    [&b"INITSPI1RESPSPI2"[..], &[first, version, exchange, flags, 0, 0, 0, 0], &len, &body].concat()
}

/// A security association of IKE 1 with transforms of these attributes.
fn sa_1(transforms: &[&[u8]]) -> Vec<u8> {
    let mut proposal = vec![1, 1, 0, transforms.len() as u8];
    for (n, attributes) in transforms.iter().enumerate() {
        let next = if n + 1 < transforms.len() { 3 } else { 0 };
        proposal.extend(payload(next, &[&[n as u8 + 1, 1, 0, 0], *attributes].concat()));
    }
    [&[0, 0, 0, 1, 0, 0, 0, 1][..], &payload(0, &proposal)].concat()
}

/// A security association of IKE 2 with transforms by type and number.
fn sa_2(protocol: u8, transforms: &[(u8, u16)]) -> Vec<u8> {
    let mut proposal = vec![1, protocol, 0, transforms.len() as u8];
    for (n, (kind, id)) in transforms.iter().enumerate() {
        let next = if n + 1 < transforms.len() { 3 } else { 0 };
        let [high, low] = id.to_be_bytes();
        proposal.extend(payload(next, &[*kind, 0, high, low]));
    }
    payload(0, &proposal)
}

struct Flow(IkeParser);

impl Flow {
    /// The record and the events of a message, `error` where it is refused.
    fn give(&mut self, direction: Direction, bytes: &[u8]) -> String {
        let ends = Endpoints::default();
        let mut cx = ParseContext::new(0, direction, &ends);
        if self.0.parse(&mut cx, Input::Data { bytes, eof: false }) == Outcome::Error {
            return "error".to_string();
        }
        let (id, tx) = self.0.txs.first_live().unwrap();
        let mut json = Json::new();
        json.open();
        tx.log(&mut json, LogOptions::default());
        json.close();
        let mut text = String::from_utf8(json.take_bytes()).unwrap();
        for code in tx.events() {
            text.push(' ');
            text.push_str(PROTOCOL.table.events[usize::from(*code)].name);
        }
        self.0.txs.free(id);
        text
    }
}

fn flow() -> Flow {
    Flow(IkeParser::default())
}

const START_1: &str = "{\"version_major\":1,\"version_minor\":0,\"init_spi\":\"494e495453504931\",\
    \"resp_spi\":\"5245535053504932\",\"message_id\":0,\"exchange_type\":2,";
const AES: &[u8] = b"\x80\x01\0\x07\0\x0c\0\x04\0\x01\x51\x80\x80\x01\0\x05";
const AES_TEXT: &str = "\"alg_enc\":\"EncAesCbc\",\"alg_enc_raw\":7,\
    \"sa_life_duration\":\"Unknown\",\"sa_life_duration_raw\":86400";

#[test]
fn version_1_keeps_what_was_chosen() {
    let mut flow = flow();
    let sa = sa_1(&[AES]);
    assert_eq!(
        flow.give(ToServer, &message(0x10, 2, 0, &[(1, &sa), (13, b"VV")])),
        format!(
            "{START_1}\"payload\":[\"SecurityAssociation\",\"Proposal\",\"Transform\",\"VendorID\"],\
             \"ikev1\":{{\"doi\":1,\"encrypted_payloads\":false,\"client\":{{\"proposals\":[{{{AES_TEXT}}}]}},\
             \"server\":{{}},\"vendor_ids\":[\"5656\"]}}}}"
        )
    );
    let answer = message(0x10, 2, 0, &[(1, &sa_1(&[AES, b"\x80\x02\0\x01"]))]);
    assert_eq!(
        flow.give(ToClient, &answer),
        format!(
            "{START_1}{AES_TEXT},\"server_proposals\":[{{{AES_TEXT}}},{{\"alg_hash\":\"HashMd5\",\
             \"alg_hash_raw\":1}}],\"payload\":[\"SecurityAssociation\",\"Proposal\",\"Transform\"],\
             \"ikev1\":{{\"doi\":1,\"encrypted_payloads\":false,\"client\":{{}},\"server\":{{}}}}}}"
        )
    );
    assert_eq!(
        flow.give(ToServer, &message(0x10, 2, 0, &[(4, b"KK"), (10, b"N")])),
        format!(
            "{START_1}{AES_TEXT},\"payload\":[\"KeyExchange\",\"Nonce\"],\"ikev1\":{{\"doi\":1,\
             \"encrypted_payloads\":false,\"client\":{{\"key_exchange_payload\":\"4b4b\",\
             \"key_exchange_payload_length\":2,\"nonce_payload\":\"4e\",\"nonce_payload_length\":1}},\
             \"server\":{{}}}}}}"
        )
    );
    assert_eq!(
        super::IkeParser::default().take_message(&message(0x10, 5, 1, &[(8, b"sealed")]), ToServer),
        Some(())
    );
}

#[test]
fn version_2_raises_events_of_weak_choices() {
    let good = [(1, 12), (2, 5), (3, 12), (4, 14)];
    let start = "{\"version_major\":2,\"version_minor\":0,\"init_spi\":\"494e495453504931\",\
        \"resp_spi\":\"5245535053504932\",\"message_id\":0,\"exchange_type\":34,";
    let sa = sa_2(1, &good);
    let record = flow().give(ToServer, &message(0x20, 34, 8, &[(33, &sa), (40, b"nonce")]));
    let expected = format!(
        "{start}\"role\":\"initiator\",\"payload\":[\"SecurityAssociation\",\"Nonce\",\"NoNextPayload\"],\
         \"ikev2\":{{\"errors\":0}}}}"
    );
    assert_eq!(record, expected);
    assert_eq!(
        flow().give(ToClient, &message(0x20, 34, 0x20, &[(33, &sa), (41, b"\0\0\0\x0e")])),
        format!(
            "{start}\"role\":\"responder\",\"alg_enc\":\"ENCR_AES_CBC\",\
             \"alg_auth\":\"AUTH_HMAC_SHA2_256_128\",\"alg_prf\":\"PRF_HMAC_SHA2_256\",\"alg_dh\":\"Modp2048\",\
             \"alg_esn\":\"NoESN\",\"payload\":[\"SecurityAssociation\",\"Notify\",\"NoNextPayload\"],\
             \"ikev2\":{{\"errors\":1,\"notify\":[\"NO_PROPOSAL_CHOSEN\"]}}}}"
        )
    );
    type Attributes<'a> = &'a [(u8, u16)];
    let cases: [(u8, Attributes<'_>, &str); 9] = [
        (
            1,
            &[(1, 3), (2, 1), (3, 2), (4, 2)],
            " weak_crypto_enc weak_crypto_prf weak_crypto_auth weak_crypto_dh",
        ),
        (1, &[(1, 12), (2, 5), (4, 14)], " weak_crypto_no_auth"),
        (1, &[(1, 20), (2, 5), (4, 14)], ""),
        (1, &[(1, 12), (2, 5), (3, 12)], " weak_crypto_no_dh"),
        (1, &[(1, 12), (2, 0), (3, 12), (4, 0)], " invalid_proposal invalid_proposal"),
        (1, &[(1, 12), (2, 5), (3, 0), (4, 14)], " weak_crypto_no_auth"),
        (1, &[(1, 12), (2, 5), (3, 12), (4, 14), (6, 1)], " unknown_proposal"),
        (2, &[(1, 12), (2, 5), (3, 12), (4, 22)], " no_encryption weak_crypto_dh"),
        (1, &[(1, 10), (2, 3), (3, 8), (4, 31)], ""),
    ];
    for (protocol, transforms, events) in cases {
        let sa = sa_2(protocol, transforms);
        let record = flow().give(ToServer, &message(0x20, 34, 8, &[(33, &sa)]));
        assert!(record.ends_with(&format!("}}}}{events}")), "{record}");
    }
    // What can't be read is no payload.
    for payloads in
        [&[(33u8, &b"short"[..])][..], &[(40, b"n"), (34, b"a")], &[(44, b"\x01\0\0\0")]]
    {
        let record = flow().give(ToServer, &message(0x20, 34, 8, payloads));
        assert!(record.contains("\"payload\":[],"), "{record}");
    }
}

#[test]
fn what_is_broken_is_refused() {
    let good = message(0x10, 2, 0, &[(1, &sa_1(&[AES]))]);
    assert_eq!(probe(&good, ToServer), Probe::Yes);
    for end in 1..good.len() {
        assert!(flow().give(ToServer, &good[..end]) == "error", "{end}");
    }
    assert_eq!(flow().give(ToServer, &[&good[..], b"xx"].concat()), "error");
    assert_eq!(probe(&message(0x21, 34, 8, &[]), ToServer), Probe::No);
    assert_eq!(probe(&message(0x20, 38, 8, &[]), ToServer), Probe::No);
    assert_eq!(probe(&message(0x30, 2, 0, &[]), ToServer), Probe::No);
    // A security association, or a proposal, that can't be read. (Suricata 8.0.7 logs none of these.)
    let sa = sa_1(&[AES]);
    for sa in [
        &sa[..7],
        &[&sa[..8], &[0, 0, 0, 3][..]].concat(),
        &[&sa[..8], &payload(0, b"\x01\x01\x63\x01abc")].concat(),
    ] {
        assert_eq!(flow().give(ToServer, &message(0x10, 2, 0, &[(1, sa)])), "error", "{sa:?}");
    }
}

/// The same message with more bytes, which its length counts.
fn with_more(mut message: Vec<u8>, more: &[u8]) -> Vec<u8> {
    message.extend(more);
    let len = (message.len() as u32).to_be_bytes();
    message[24..28].copy_from_slice(&len);
    message
}

fn payload_names(record: &str) -> &str {
    let names = record.split_once("\"payload\":[").and_then(|(_, rest)| rest.split_once(']'));
    names.map_or("none", |(names, _)| names)
}

/// Kinds of payloads where lengths are wrong, as in Suricata 8.0.7.
#[test]
fn lengths_that_are_wrong_are_as_in_suricata() {
    // Of version 1 a payload without a length is empty and the last one.
    for len in 0..4 {
        let mut first = message(0x10, 2, 0, &[(13, b"VVVV"), (13, b"WW")]);
        first[31] = len;
        let record = flow().give(ToServer, &first);
        assert_eq!(payload_names(&record), "\"VendorID\"");
        assert!(record.contains("\"vendor_ids\":[\"\"]"), "{record}");
        let mut second = message(0x10, 2, 0, &[(13, b"VVVV"), (13, b"WW")]);
        second[39] = len;
        let record = flow().give(ToServer, &second);
        assert!(record.contains("\"vendor_ids\":[\"56565656\",\"\"]"), "{record}");
    }
    let mut sa = sa_1(&[AES]);
    sa[19] = 3;
    let record = flow().give(ToServer, &message(0x10, 2, 0, &[(1, &sa)]));
    assert_eq!(payload_names(&record), "\"SecurityAssociation\",\"Proposal\",\"Transform\"");
    assert!(record.contains("\"client\":{},"), "{record}");
    // What is after the last payload is one without a kind, and may name further ones.
    let vendor = || message(0x10, 2, 0, &[(13, b"VVVV")]);
    for (more, names) in [
        (&b"\0\0\0"[..], "\"VendorID\""),
        (b"\0\0\0\0", "\"VendorID\",\"None\""),
        (b"\0\0\0\0\0\0\0\0", "\"VendorID\",\"None\""),
        (b"\x04\0\0\x02", "\"VendorID\",\"None\""),
        (b"\0\0\0\x64abcd", "\"VendorID\""),
        (b"\x04\0\0\x06ab\0\0\0\x06KK", "\"VendorID\",\"None\",\"KeyExchange\""),
    ] {
        let record = flow().give(ToServer, &with_more(vendor(), more));
        assert_eq!(payload_names(&record), names, "{more:?}");
    }
    // Of version 2 nothing may be left, and vendors and deletions have at least eight bytes.
    let nonce = message(0x20, 34, 8, &[(40, b"VVVV")]);
    assert_eq!(payload_names(&flow().give(ToServer, &with_more(nonce, b"\0"))), "");
    for kind in [42, 43] {
        for len in 0..12 {
            let message =
                message(0x20, 34, 8, &[(kind, &b"\0\0\0\0\0\0\0\0\0\0\0\0"[..len]), (40, b"n")]);
            let record = flow().give(ToServer, &message);
            assert_eq!(payload_names(&record).is_empty(), len < 8, "{kind} {len}");
        }
    }
    // Only version 2 is not found where the length is not that of the datagram.
    for (version, exchange, answer) in [(0x10, 2, Probe::Yes), (0x20, 34, Probe::No)] {
        for len in [0, 27, 29, 1000_u32] {
            let mut message = message(version, exchange, 8, &[]);
            message[24..28].copy_from_slice(&len.to_be_bytes());
            assert_eq!(probe(&message, ToServer), answer, "{version} {len}");
            assert_eq!(flow().give(ToServer, &message), "error");
        }
    }
}

/// Transforms that a proposal announces, of which it has four weak ones; events as in Suricata 8.0.7.
#[test]
fn a_proposal_says_how_many_transforms_it_has() {
    let weak = [(1, 3), (2, 1), (3, 2), (4, 2)];
    let proposal = |count: u8, next: u8| {
        let mut sa = sa_2(1, &weak);
        (sa[0], sa[7]) = (next, count);
        sa
    };
    let give = |sa: &[u8]| flow().give(ToServer, &message(0x20, 34, 8, &[(33, sa)]));
    let (enc, prf, auth, dh) =
        (" weak_crypto_enc", " weak_crypto_prf", " weak_crypto_auth", " weak_crypto_dh");
    let (no_dh, no_auth) = (" weak_crypto_no_dh", " weak_crypto_no_auth");
    let all = [enc, prf, auth, dh].concat();
    for (count, events) in [
        (0, [no_dh, no_auth].concat()),
        (1, [enc, no_dh, no_auth].concat()),
        (3, [enc, prf, auth, no_dh].concat()),
        (4, all.clone()),
    ] {
        let record = give(&proposal(count, 0));
        assert!(record.ends_with(&format!("}}}}{events}")), "{count}: {record}");
    }
    for count in [5, 255] {
        let record = give(&proposal(count, 0));
        assert!(record.ends_with("}}") && payload_names(&record).is_empty(), "{record}");
        // A later one that can't be read ends the list.
        let record = give(&[proposal(4, 2), proposal(count, 0)].concat());
        assert!(record.ends_with(&format!("}}}}{all}")), "{record}");
    }
    let record = give(&proposal(4, 2));
    assert!(record.ends_with(&format!("}}}}{all}")), "{record}");
}

/// Chains of payloads, transforms and attributes are bounded.
#[test]
fn hostile_messages_are_bounded() {
    let vendors = vec![(13u8, &b""[..]); PAYLOADS_MAX + 100];
    flow().give(ToServer, &message(0x10, 2, 0, &vendors));
    let transforms = vec![&b"\x80\x01\0\x07"[..]; 255];
    let sa = sa_1(&transforms);
    let many = [(1u8, &sa[..]), (1, &sa)];
    let record = flow().give(ToServer, &message(0x10, 2, 0, &many));
    assert_eq!(record.matches("EncAesCbc").count(), TRANSFORMS_MAX);
    let attributes: Vec<u8> = b"\x80\x01\0\x07".repeat(5000);
    let record = flow().give(ToServer, &message(0x10, 2, 0, &[(1, &sa_1(&[&attributes]))]));
    assert_eq!(record.matches("EncAesCbc").count(), 1);
    let sa = sa_2(1, &vec![(1, 12); 3000]);
    flow().give(ToServer, &message(0x20, 34, 8, &[(33, &sa)]));
    let counts = gabion_record::limits::take_reached();
    assert!(counts.times_reached(&limits::reached::PAYLOADS_MAX) > 0);
    assert!(counts.times_reached(&limits::reached::TRANSFORMS_MAX) > 0);
}
