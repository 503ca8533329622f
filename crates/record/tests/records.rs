//! The crate's types as other crates use them: ledgers of stages, JSON, the configuration tree, addresses.

use gabion_record::json::{Json, Later};
use gabion_record::ledger::{Ledger, ShedReason, StageLedgers, Tally};
use gabion_record::{Addr, Ip, Tree, hex};

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn workers_ledgers_add_up_by_stage_and_an_imbalance_names_its_stage() {
    let mut all = StageLedgers::new();
    for worker in 0..3_u16 {
        let mut decode = Ledger::new();
        decode.receive(10, 1000);
        decode.shed(ShedReason::DecodeInvalid, u64::from(worker), 0);
        decode.pass(10 - u64::from(worker), 1000);
        all.add("decode", Some(worker), &decode);
    }
    all.balance().unwrap();
    let [decode] = &all.by_stage()[..] else { panic!("one stage") };
    assert_eq!((decode.stage.as_str(), decode.worker), ("decode", None));
    assert_eq!(decode.ledger.received(), Tally::new(30, 3000));
    assert_eq!(decode.ledger.shed_for(ShedReason::DecodeInvalid).items, 3);
    assert_eq!(decode.ledger.completeness().to_string(), "10.0 % of items shed: decode_invalid");

    let mut lost = Ledger::new();
    lost.receive(1, 60);
    all.add("flow", Some(0), &lost);
    let (stage, imbalance) = all.balance().unwrap_err();
    assert_eq!((stage.as_str(), imbalance.accounted), ("flow", Tally::default()));
}

#[test]
fn a_line_of_json_keeps_bytes_that_are_no_text_and_leaves_numbers_open() {
    let mut j = Json::new();
    j.open();
    j.field("name", b"a\"b\xff");
    j.number_later("file_id", 99);
    j.open_array_key("ports");
    j.item_number(80_u16);
    j.item_number(443_u16);
    j.close_array();
    j.hex("md5", &[0xd4, 0x1d]);
    j.close();
    assert_eq!(
        text(j.bytes()),
        r#"{"name":"a\"b\\xff","file_id":0,"ports":[80,443],"md5":"d41d"}"#
    );
    let [Later { at, key: 99 }] = j.later() else { panic!("{:?}", j.later()) };
    assert_eq!(j.bytes().get(*at), Some(&b'0'));
}

#[test]
fn a_configuration_is_asked_by_dotted_paths() {
    let mut tree = Tree::default();
    tree.set("outputs.0.eve-log.enabled", "yes");
    tree.set("stream.memcap", "64mb");
    assert_eq!(tree.flag("outputs.0.eve-log.enabled"), Some(true));
    assert_eq!(tree.size("stream.memcap"), Some(64 << 20));
    assert_eq!(tree.text("stream.depth"), None);
}

#[test]
fn addresses_have_one_text() {
    for (bytes, wanted) in [([192, 0, 2, 1], "192.0.2.1"), ([255; 4], "255.255.255.255")] {
        assert_eq!(Addr::v4(bytes).text(4), wanted);
        assert_eq!(Ip::parse(wanted.as_bytes()).map(|ip| ip.to_string()).as_deref(), Some(wanted));
    }
    assert_eq!(Ip::parse(b"192.0.2"), None);
    assert_eq!(hex::to_hex_pairs(&[0, 27, 68], ':'), "00:1b:44");
}
