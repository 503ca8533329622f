//! The types that pass between crates, as other crates use them: accounts that balance, JSON, trees, addresses, and
//! values that a checkpoint holds.

use gabion_record::json::Json;
use gabion_record::ledger::{Ledger, ShedReason};
use gabion_record::saved;
use gabion_record::saved::Saved;
use gabion_record::{Ip, Net, Tree};

#[test]
fn a_ledger_balances_when_all_that_came_is_accounted_for() {
    let mut ledger = Ledger::new();
    ledger.receive(5, 500);
    ledger.pass(3, 300);
    ledger.shed(ShedReason::UnreadableRecord, 1, 100);
    assert!(ledger.balance().is_err());
    ledger.set_in_flight(1, 100);
    ledger.balance().unwrap();
    assert_eq!((ledger.passed().items, ledger.shed_total().bytes), (3, 100));
    let mut both = Ledger::new();
    both.merge(&ledger);
    both.merge(&ledger);
    both.balance().unwrap();
    assert_eq!(both.received().items, 10);
    for (reason, _) in ledger.sheds() {
        assert_eq!(ShedReason::from_name(reason.name()), Some(reason));
    }
}

#[test]
fn json_is_closed_and_escaped_and_can_be_taken_back() {
    let mut json = Json::new();
    json.open();
    json.field("text", b"a\"b\n\\");
    json.number("n", 7);
    let mark = json.mark();
    json.field("gone", "x");
    json.rewind(mark);
    json.open_key("inner");
    json.boolean("yes", true);
    json.close();
    json.close();
    assert_eq!(json.into_line(), "{\"text\":\"a\\\"b\\n\\\\\",\"n\":7,\"inner\":{\"yes\":true}}\n");
}

#[test]
fn trees_are_read_by_path() {
    let mut tree = Tree::default();
    tree.set("a.b", "yes");
    tree.set("a.size", "4mb");
    tree.set("a.n", "12");
    assert_eq!((tree.flag("a.b"), tree.number("a.n")), (Some(true), Some(12)));
    assert_eq!(tree.size("a.size"), Some(4 << 20));
    assert_eq!(tree.text("a.c"), None);
}

#[test]
fn networks_hold_their_addresses() {
    let net = Net::parse(b"192.0.2.0/24").unwrap();
    assert!(net.contains(Ip::parse(b"192.0.2.255").unwrap()));
    assert!(!net.contains(Ip::parse(b"192.0.3.0").unwrap()));
    for text in ["10.0.0.1", "2001:db8::1"] {
        let ip = Ip::parse(text.as_bytes()).unwrap();
        assert_eq!((ip.to_string().as_str(), Ip::from_bytes(ip.to_bytes())), (text, ip));
    }
    assert!(Ip::parse(b"10.0.0").is_none() && Net::parse(b"10.0.0.0/33").is_none());
}

#[derive(Debug, Default, PartialEq)]
struct State {
    number: u64,
    text: String,
    seen: Vec<(i64, bool)>,
}

saved! { State { number, text, seen } }

#[test]
fn what_is_saved_comes_back_and_no_cut_of_it_does() {
    let state = State { number: 7, text: "x".into(), seen: vec![(-1, true), (i64::MAX, false)] };
    let mut bytes = Vec::new();
    state.save(&mut bytes);
    let from = &mut bytes.as_slice();
    assert_eq!((State::load(from).as_ref(), from.is_empty()), (Some(&state), true));
    for cut in 0..bytes.len() {
        assert_eq!(State::load(&mut &bytes[..cut]), None, "{cut}");
    }
}
