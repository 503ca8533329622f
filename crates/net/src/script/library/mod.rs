//! The `suricata.*` libraries: one file each, one line here.
//!
//! Names of functions and methods, what they return and the words of their errors are Suricata's
//! (8.0.7, observed).

mod base64;
mod bytevar;
mod config;
mod dataset;
mod dnp3;
mod dns;
mod file;
mod flow;
mod flowint;
mod flowvar;
mod hashlib;
mod http;
mod ja3;
mod log;
mod ntp;
mod packet;
mod rule;
mod smtp;
mod ssh;
mod thread;
mod tls;

use super::call::{Answer, Call, Held, Library, Member};

/// All libraries. A further one is one line here.
pub(super) const LIBRARIES: &[&Library] = &[
    &base64::LIBRARY,
    &bytevar::LIBRARY,
    &config::LIBRARY,
    &dataset::LIBRARY,
    &dnp3::LIBRARY,
    &dns::LIBRARY,
    &file::LIBRARY,
    &flow::LIBRARY,
    &flowint::LIBRARY,
    &flowvar::LIBRARY,
    &hashlib::LIBRARY,
    &http::LIBRARY,
    &ja3::LIBRARY,
    &log::LIBRARY,
    &ntp::LIBRARY,
    &packet::LIBRARY,
    &rule::LIBRARY,
    &smtp::LIBRARY,
    &ssh::LIBRARY,
    &thread::LIBRARY,
    &tls::LIBRARY,
];

/// A member.
const fn member(name: &'static str, run: fn(&mut Call<'_, '_>) -> Answer) -> Member {
    Member { name, run }
}

/// An object for the transaction at hand, when the flow's protocol is that one.
fn transaction(c: &Call<'_, '_>, proto: &str, refusal: &str) -> Answer {
    if c.scene.proto_name() != proto {
        return c.nil(refusal);
    }
    match c.scene.tx {
        Some(_) => c.give(c.object(Held::Nothing)?),
        None => c.nil("error: no tx available"),
    }
}

/// The transaction as the protocol's own type.
fn tx_as<'a, T: 'static>(c: &Call<'_, 'a>) -> Option<&'a T> {
    c.scene.latest_tx()?.as_any().downcast_ref::<T>()
}
