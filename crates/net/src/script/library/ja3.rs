//! `suricata.ja3`: JA3 and JA3S of a TLS or QUIC flow.

use super::{Library, member, tx_as};
use crate::script::call::{Answer, Call, Held, Member};
use crate::script::inspect::Registered;
use gabion_proto::quic::QuicTx;
use gabion_proto::tls::TlsTx;
use gabion_proto::tls::fingerprint::Ja3;
use gabion_record::Direction;
use std::rc::Rc;

pub(super) const LIBRARY: Library = Library {
    name: "ja3",
    class: "suricata:ja3:tx",
    functions: &[member("enable_ja3", enable), member("get_tx", get_tx)],
    methods: METHODS,
};

const METHODS: &[Member] = &[
    member("ja3_get_hash", |c| hash(c, Direction::ToServer)),
    member("ja3_get_string", |c| text(c, Direction::ToServer)),
    member("ja3s_get_hash", |c| hash(c, Direction::ToClient)),
    member("ja3s_get_string", |c| text(c, Direction::ToClient)),
];

fn enable(c: &mut Call<'_, '_>) -> Answer {
    if let Some(r) = c.lua.app_data_ref::<Rc<Registered>>() {
        r.0.borrow_mut().ja3 = true;
    }
    c.give(())
}

fn get_tx(c: &mut Call<'_, '_>) -> Answer {
    if tx_as::<TlsTx>(c).is_some() || tx_as::<QuicTx>(c).is_some() {
        return c.give(c.object(Held::Nothing)?);
    }
    c.nil("error: protocol nor tls neither quic")
}

/// The fingerprint of the side that sends in that direction, once it is complete.
fn find_ja3<'a>(c: &'a Call<'_, '_>, direction: Direction) -> Option<&'a Ja3> {
    let of_tls = tx_as::<TlsTx>(c).and_then(|tx| tx.side(direction).ja3.as_ref());
    let of_quic =
        || tx_as::<QuicTx>(c).filter(|tx| tx.direction() == direction).and_then(QuicTx::ja3);
    of_tls.or_else(of_quic).filter(|ja3| ja3.hash.is_some())
}

fn hash(c: &mut Call<'_, '_>, direction: Direction) -> Answer {
    let hash = find_ja3(c, direction).and_then(|ja3| ja3.hash);
    c.text(hash.as_ref().map(|h| h.as_slice()))
}

fn text(c: &mut Call<'_, '_>, direction: Direction) -> Answer {
    let text = find_ja3(c, direction).map(|ja3| ja3.text.clone());
    c.text(text.as_deref())
}
