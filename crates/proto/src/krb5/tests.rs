//! Flows of Kerberos made by hand. Records and events are Suricata's (8.0.7) for the same messages.

use super::limits::{NAME_PARTS_MAX, RECORD_BYTES_MAX, TXS_MAX};
use super::*;
use crate::{Endpoints, LogOptions, Transaction};
use Direction::{ToClient, ToServer};
use gabion_record::json::Json;

const AS_REQ: &[u8] = b"\x6a\x77\x30\x75\xa1\x03\x02\x01\x05\xa2\x03\x02\x01\x0a\xa4\x69\x30\x67\xa0\x07\x03\x05\x00\x40\x81\x00\x10\xa1\x11\x30\x0f\xa0\x03\x02\x01\x01\xa1\x08\x30\x06\x1b\x04\x75\x73\x65\x72\xa2\x07\x1b\x05\x52\x45\x41\x4c\x4d\xa3\x1a\x30\x18\xa0\x03\x02\x01\x02\xa1\x11\x30\x0f\x1b\x06\x6b\x72\x62\x74\x67\x74\x1b\x05\x52\x45\x41\x4c\x4d\xa5\x11\x18\x0f\x32\x30\x32\x34\x30\x31\x30\x31\x30\x30\x30\x30\x30\x30\x5a\xa7\x04\x02\x02\x30\x39\xa8\x0b\x30\x09\x02\x01\x12\x02\x01\x11\x02\x01\x17";
const TGS_REQ: &[u8] = b"\x6c\x77\x30\x75\xa1\x03\x02\x01\x05\xa2\x03\x02\x01\x0c\xa4\x69\x30\x67\xa0\x07\x03\x05\x00\x40\x81\x00\x10\xa1\x11\x30\x0f\xa0\x03\x02\x01\x01\xa1\x08\x30\x06\x1b\x04\x75\x73\x65\x72\xa2\x07\x1b\x05\x52\x45\x41\x4c\x4d\xa3\x1a\x30\x18\xa0\x03\x02\x01\x02\xa1\x11\x30\x0f\x1b\x06\x6b\x72\x62\x74\x67\x74\x1b\x05\x52\x45\x41\x4c\x4d\xa5\x11\x18\x0f\x32\x30\x32\x34\x30\x31\x30\x31\x30\x30\x30\x30\x30\x30\x5a\xa7\x04\x02\x02\x30\x39\xa8\x0b\x30\x09\x02\x01\x12\x02\x01\x11\x02\x01\x17";
const AS_REP: &[u8] = b"\x6b\x81\x8a\x30\x81\x87\xa0\x03\x02\x01\x05\xa1\x03\x02\x01\x0b\xa3\x08\x1b\x06\x43\x52\x45\x41\x4c\x4d\xa4\x11\x30\x0f\xa0\x03\x02\x01\x01\xa1\x08\x30\x06\x1b\x04\x75\x73\x65\x72\xa5\x46\x61\x44\x30\x42\xa0\x03\x02\x01\x05\xa1\x07\x1b\x05\x52\x45\x41\x4c\x4d\xa2\x1a\x30\x18\xa0\x03\x02\x01\x02\xa1\x11\x30\x0f\x1b\x06\x6b\x72\x62\x74\x67\x74\x1b\x05\x52\x45\x41\x4c\x4d\xa3\x16\x30\x14\xa0\x03\x02\x01\x12\xa1\x03\x02\x01\x02\xa2\x08\x04\x06\x63\x69\x70\x68\x65\x72\xa6\x16\x30\x14\xa0\x03\x02\x01\x17\xa1\x03\x02\x01\x03\xa2\x08\x04\x06\x63\x69\x70\x68\x65\x72";
const ERROR: &[u8] = b"\x7e\x4e\x30\x4c\xa0\x03\x02\x01\x05\xa1\x03\x02\x01\x1e\xa4\x11\x18\x0f\x32\x30\x32\x34\x30\x31\x30\x31\x30\x30\x30\x30\x30\x30\x5a\xa5\x03\x02\x01\x01\xa6\x03\x02\x01\x19\xa9\x07\x1b\x05\x52\x45\x41\x4c\x4d\xaa\x1a\x30\x18\xa0\x03\x02\x01\x02\xa1\x11\x30\x0f\x1b\x06\x6b\x72\x62\x74\x67\x74\x1b\x05\x52\x45\x41\x4c\x4d";

const AS_REQ_RECORD: &str = "{\"msg_type\":\"KRB_AS_REQ\",\"cname\":\"user\",\"realm\":\"REALM\",\
    \"sname\":\"krbtgt/REALM\",\"encryption\":\"<none>\",\"weak_encryption\":false}";
const AS_REP_RECORD: &str = "{\"msg_type\":\"KRB_AS_REP\",\"cname\":\"user\",\"realm\":\"CREALM\",\
    \"sname\":\"krbtgt/REALM\",\"encryption\":\"rc4-hmac\",\"weak_encryption\":true,\
    \"ticket_encryption\":\"aes256-cts-hmac-sha1-96\",\"ticket_weak_encryption\":false} weak_encryption";

fn error_record(request: &str) -> String {
    format!(
        "{{\"msg_type\":\"KRB_ERROR\",\"failed_request\":\"{request}\",\
         \"error_code\":\"KDC_ERR_PREAUTH_REQUIRED\",\"cname\":\"<empty>\",\"realm\":\"<empty>\",\
         \"sname\":\"krbtgt/REALM\",\"encryption\":\"<none>\",\"weak_encryption\":false}}"
    )
}

fn record(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u32).to_be_bytes()[..], message].concat()
}

/// A flow as the engine feeds it: what is not used comes again with more.
struct Flow {
    parser: KrbParser,
    pending: [Vec<u8>; 2],
    needed: [usize; 2],
    calls: usize,
}

impl Flow {
    fn open(is_tcp: bool) -> Flow {
        let parser = KrbParser { is_tcp, ..KrbParser::default() };
        Flow { parser, pending: Default::default(), needed: [0; 2], calls: 0 }
    }

    fn give(&mut self, direction: Direction, bytes: &[u8]) -> Vec<String> {
        let held = &mut self.pending[direction.index()];
        held.extend_from_slice(bytes);
        if held.len() >= self.needed[direction.index()] {
            self.calls += 1;
            let ends = Endpoints::default();
            let mut cx = ParseContext::new(0, direction, &ends);
            let (consumed, needed) =
                match self.parser.parse(&mut cx, Input::Data { bytes: held, eof: false }) {
                    Outcome::Incomplete { consumed, needed } => (consumed, needed),
                    Outcome::Done => (held.len(), 0),
                    Outcome::Error => panic!("an error"),
                };
            held.drain(..consumed);
            self.needed[direction.index()] = needed;
        }
        let mut out = Vec::new();
        while let Some((id, tx)) = self.parser.txs.first_live() {
            let mut json = Json::new();
            json.open();
            tx.log(&mut json, LogOptions::default());
            json.close();
            let mut text = String::from_utf8(json.take_bytes()).unwrap();
            for code in tx.events() {
                text.push(' ');
                text.push_str(PROTOCOL.table.events[usize::from(*code)].name);
            }
            out.push(text);
            self.parser.txs.free(id);
        }
        out
    }
}

#[test]
fn messages_are_logged_and_errors_name_their_request() {
    let mut flow = Flow::open(false);
    assert_eq!(flow.give(ToServer, AS_REQ), [AS_REQ_RECORD]);
    assert_eq!(flow.give(ToClient, AS_REP), [AS_REP_RECORD]);
    assert_eq!(flow.give(ToClient, ERROR), [error_record("UNKNOWN")]);
    flow.give(ToServer, AS_REQ);
    assert_eq!(flow.give(ToServer, TGS_REQ), [AS_REQ_RECORD.replace("AS_REQ", "TGS_REQ")]);
    assert_eq!(flow.give(ToClient, ERROR), [error_record("KRB_TGS_REQ")]);
    assert_eq!(flow.give(ToClient, ERROR), [error_record("UNKNOWN")]);
    // A request that can't be read is one still.
    assert!(flow.give(ToServer, &AS_REQ[..20]).is_empty());
    assert_eq!(flow.give(ToClient, ERROR), [error_record("KRB_AS_REQ")]);
    for end in 0..AS_REP.len() {
        assert!(flow.give(ToClient, &AS_REP[..end]).is_empty());
    }
    assert_eq!(flow.give(ToClient, &[AS_REP, b"more"].concat()), [AS_REP_RECORD]);
}

/// Any pieces of a stream give the same, two records in one segment too; a byte a segment costs a call for each record.
#[test]
fn records_come_in_any_pieces() {
    let session =
        [record(AS_REQ), record(b"\x6a\x03abc"), record(&[TGS_REQ, b"xx"].concat())].concat();
    for size in [1, 2, 3, 5, 50, 130, session.len()] {
        let mut flow = Flow::open(true);
        let records: Vec<String> =
            session.chunks(size).flat_map(|piece| flow.give(ToServer, piece)).collect();
        assert_eq!(
            records,
            [AS_REQ_RECORD.to_string(), AS_REQ_RECORD.replace("AS_REQ", "TGS_REQ")]
        );
        assert_eq!(flow.give(ToClient, &record(AS_REP)), [AS_REP_RECORD]);
        assert!(flow.calls <= 12, "{} calls for pieces of {size}", flow.calls);
    }
}

#[test]
fn records_that_are_too_long_are_skipped() {
    for (len, more) in [(RECORD_BYTES_MAX + 1, true), (u32::MAX as usize, false)] {
        let mut flow = Flow::open(true);
        assert!(flow.give(ToServer, &(len as u32).to_be_bytes()).is_empty());
        for chunk in 0..RECORD_BYTES_MAX / 1000 {
            assert!(flow.give(ToServer, &[b'x'; 1000]).is_empty(), "{chunk}");
        }
        assert!(flow.pending[0].is_empty());
        if more {
            let rest = vec![b'x'; len - RECORD_BYTES_MAX / 1000 * 1000];
            assert_eq!(flow.give(ToServer, &[rest, record(AS_REQ)].concat()), [AS_REQ_RECORD]);
        }
    }
    assert_eq!(gabion_record::limits::take_reached().times_reached(&reached::RECORD_BYTES_MAX), 2);
}

#[test]
fn names_and_transactions_are_bounded() {
    let parts = b"\x1b\x01a".repeat(NAME_PARTS_MAX + 5);
    let name = [&b"\xa0\x03\x02\x01\x01\xa1\x81\xd2\x30\x81\xcf"[..], &parts].concat();
    assert_eq!(message::read_name(&name).unwrap().len(), NAME_PARTS_MAX);
    let mut parser = KrbParser::default();
    for _ in 0..TXS_MAX + 3 {
        parser.take_message(AS_REQ, ToServer);
    }
    assert_eq!(parser.txs.len(), TXS_MAX);
    let counts = gabion_record::limits::take_reached();
    assert_eq!(counts.times_reached(&reached::NAME_PARTS_MAX), 5);
    assert_eq!(counts.times_reached(&reached::TXS_MAX), 3);
}

#[test]
fn messages_are_found_by_their_beginning() {
    for message in [AS_REQ, TGS_REQ, AS_REP, ERROR, &AS_REQ[..60]] {
        assert_eq!(probe_message(message, ToServer), Probe::Yes);
        assert_eq!(probe_record(&record(message), ToServer), Probe::Yes);
    }
    for message in [
        &b"hello, world"[..],
        b"\x6a\x0f\x30\x0d\xa1\x03\x02\x01\x06\xa2",
        b"\x30\x26\x02\x01\x01\x04",
        &AS_REQ[..9],
        b"",
    ] {
        assert_eq!(probe_message(message, ToServer), Probe::No, "{message:?}");
    }
    assert_eq!(probe_record(&[b"\0\x10\0\0", AS_REQ].concat(), ToServer), Probe::No);
    assert_eq!(probe_record(&record(AS_REQ)[..4], ToServer), Probe::No);
}
