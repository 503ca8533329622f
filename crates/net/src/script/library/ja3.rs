//! `suricata.ja3`: JA3 and JA3S of a TLS flow.

use super::{Library, member, tx_as};
use crate::script::call::{Answer, Call, Held, Member};
use crate::script::inspect::Registered;
use gabion_proto::tls::TlsTx;
use gabion_proto::tls::fingerprint::Ja3;
use std::rc::Rc;

pub(super) const LIBRARY: Library = Library {
    name: "ja3",
    class: "suricata:ja3:tx",
    functions: &[member("enable_ja3", enable), member("get_tx", get_tx)],
    methods: METHODS,
};

const METHODS: &[Member] = &[
    member("ja3_get_hash", |c| hash(c, |t| t.client().ja3.as_ref())),
    member("ja3_get_string", |c| text(c, |t| t.client().ja3.as_ref())),
    member("ja3s_get_hash", |c| hash(c, |t| t.server().ja3.as_ref())),
    member("ja3s_get_string", |c| text(c, |t| t.server().ja3.as_ref())),
];

fn enable(c: &mut Call<'_, '_>) -> Answer {
    if let Some(r) = c.lua.app_data_ref::<Rc<Registered>>() {
        r.0.borrow_mut().ja3 = true;
    }
    c.give(())
}

fn get_tx(c: &mut Call<'_, '_>) -> Answer {
    match tx_as::<TlsTx>(c) {
        Some(_) => c.give(c.object(Held::Nothing)?),
        None => c.nil("error: protocol nor tls neither quic"),
    }
}

fn hash(c: &mut Call<'_, '_>, of: fn(&TlsTx) -> Option<&Ja3>) -> Answer {
    let hash = tx_as::<TlsTx>(c).and_then(of).and_then(|j| j.hash.as_ref());
    c.text(hash.map(|h| h.as_slice()))
}

fn text(c: &mut Call<'_, '_>, of: fn(&TlsTx) -> Option<&Ja3>) -> Answer {
    let ja3 = tx_as::<TlsTx>(c).and_then(of).filter(|j| j.hash.is_some());
    c.text(ja3.map(|j| j.text.as_slice()))
}
