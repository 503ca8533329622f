//! `suricata.tls`: a TLS flow.

use super::{Library, member, tx_as};
use crate::script::call::{Answer, Call, Held, Member};
use gabion_proto::tls::certificate::Certificate;
use gabion_proto::tls::{TlsTx, version};
use gabion_record::Direction::{self, ToClient, ToServer};

pub(super) const LIBRARY: Library = Library {
    name: "tls",
    class: "suricata:tls",
    functions: &[member("get_tx", get_tx)],
    methods: METHODS,
};

const METHODS: &[Member] = &[
    member("get_client_cert_chain", |c| chain(c, ToServer)),
    member("get_client_cert_info", |c| info(c, ToServer)),
    member("get_client_cert_not_after", |c| not_after(c, ToServer)),
    member("get_client_cert_not_before", |c| not_before(c, ToServer)),
    member("get_client_serial", |c| serial(c, ToServer)),
    member("get_client_sni", |c| {
        let sni = tx_as::<TlsTx>(c).and_then(|t| t.client().sni.as_ref());
        c.text_or(sni.map(|s| s.as_ref()), "error: no server name indication")
    }),
    member("get_client_version", |c| tls_version(c, ToServer)),
    member("get_server_cert_chain", |c| chain(c, ToClient)),
    member("get_server_cert_info", |c| info(c, ToClient)),
    member("get_server_cert_not_after", |c| not_after(c, ToClient)),
    member("get_server_cert_not_before", |c| not_before(c, ToClient)),
    member("get_server_serial", |c| serial(c, ToClient)),
    member("get_server_version", |c| tls_version(c, ToClient)),
];

fn get_tx(c: &mut Call<'_, '_>) -> Answer {
    match tx_as::<TlsTx>(c) {
        Some(_) => c.give(c.object(Held::Nothing)?),
        None => c.nil("error: protocol not tls"),
    }
}

fn certificate<'a>(c: &Call<'_, 'a>, d: Direction) -> Option<&'a Certificate> {
    tx_as::<TlsTx>(c)?.side(d).certificate.as_ref()
}

fn name(v: u16) -> String {
    match version::name(v) {
        Some(n) => n.to_string(),
        None => format!("0x{v:04x}"),
    }
}

fn tls_version(c: &mut Call<'_, '_>, d: Direction) -> Answer {
    c.give(tx_as::<TlsTx>(c).map(|t| name(t.side(d).version)))
}

fn serial(c: &mut Call<'_, '_>, d: Direction) -> Answer {
    let serial = certificate(c, d).map(|x| x.serial.as_slice());
    c.text_or(serial, "error: no certificate serial")
}

fn not_after(c: &mut Call<'_, '_>, d: Direction) -> Answer {
    match certificate(c, d) {
        Some(x) => c.give(x.not_after),
        None => c.nil("error: no certificate NotAfter"),
    }
}

fn not_before(c: &mut Call<'_, '_>, d: Direction) -> Answer {
    match certificate(c, d) {
        Some(x) => c.give(x.not_before),
        None => c.nil("error: no certificate NotBefore"),
    }
}

/// Version, subject, issuer, fingerprint.
fn info(c: &mut Call<'_, '_>, d: Direction) -> Answer {
    let (Some(tx), Some(x)) = (tx_as::<TlsTx>(c), certificate(c, d)) else {
        return c.nil("error: no cert");
    };
    let text = |b: &[u8]| c.lua.create_string(b);
    c.give((name(tx.side(d).version), text(&x.subject)?, text(&x.issuer)?, text(&x.fingerprint)?))
}

fn chain(c: &mut Call<'_, '_>, d: Direction) -> Answer {
    let list = c.lua.create_table()?;
    if let Some(tx) = tx_as::<TlsTx>(c) {
        for (i, der) in tx.side(d).chain.iter().enumerate() {
            let entry = c.lua.create_table()?;
            entry.raw_set("length", der.len())?;
            entry.raw_set("data", c.lua.create_string(der)?)?;
            list.raw_set(i + 1, entry)?;
        }
    }
    c.give(list)
}
