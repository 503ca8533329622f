//! `suricata.ntp`: an NTP message.

use super::{Library, member, transaction, tx_as};
use crate::script::call::{Answer, Call};
use gabion_proto::ntp::NtpTx;

pub(super) const LIBRARY: Library = Library {
    name: "ntp",
    class: "suricata:ntp:tx",
    functions: &[member("get_tx", |c| transaction(c, "ntp", "error: protocol not ntp"))],
    methods: &[
        member("version", |c| number(c, NtpTx::version)),
        member("mode", |c| number(c, NtpTx::mode)),
        member("stratum", |c| number(c, |tx| tx.stratum)),
        member("reference_id", |c| {
            let id = tx_as::<NtpTx>(c).map(|tx| tx.reference_id);
            c.text(id.as_ref().map(<[u8; 4]>::as_slice))
        }),
    ],
};

fn number(c: &mut Call<'_, '_>, of: fn(&NtpTx) -> u8) -> Answer {
    c.give(tx_as::<NtpTx>(c).map(of))
}
