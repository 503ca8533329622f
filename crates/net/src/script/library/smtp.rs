//! `suricata.smtp`: an SMTP transaction. Its MIME fields are those of the part that is being read.

use super::{Library, member, tx_as};
use crate::script::call::{Answer, Call, Held, Member};
use gabion_proto::smtp::SmtpTx;

pub(super) const LIBRARY: Library = Library {
    name: "smtp",
    class: "suricata:smtp:tx",
    functions: &[member("get_tx", get_tx)],
    methods: METHODS,
};

const METHODS: &[Member] = &[
    member("get_mail_from", |c| {
        let from = tx_as::<SmtpTx>(c).and_then(|t| t.mail_from.as_deref());
        c.text_or(from, "request not found")
    }),
    member("get_mime_field", mime_field),
    member("get_mime_list", mime_list),
    member("get_rcpt_list", recipients),
];

/// The transaction at hand, or the one that is under way.
fn get_tx(c: &mut Call<'_, '_>) -> Answer {
    match tx_as::<SmtpTx>(c) {
        Some(_) => c.give(c.object(Held::Nothing)?),
        None => c.nil("error: protocol not SMTP"),
    }
}

fn mime_field(c: &mut Call<'_, '_>) -> Answer {
    let name = c.name(0)?;
    let mime = tx_as::<SmtpTx>(c).and_then(|t| t.mime.as_ref());
    let field = mime.and_then(|m| {
        m.part_headers().iter().find(|f| f.name.eq_ignore_ascii_case(name.as_bytes()))
    });
    c.text_or(field.map(|f| f.value.as_slice()), "request mime field not found")
}

fn mime_list(c: &mut Call<'_, '_>) -> Answer {
    let list = c.lua.create_table()?;
    let mime = tx_as::<SmtpTx>(c).and_then(|t| t.mime.as_ref());
    // Suricata begins with the second.
    for field in mime.map(|m| m.part_headers()).unwrap_or_default().iter().skip(1) {
        list.raw_push(c.lua.create_string(&field.name)?)?;
    }
    c.give(list)
}

fn recipients(c: &mut Call<'_, '_>) -> Answer {
    let list = c.lua.create_table()?;
    for r in tx_as::<SmtpTx>(c).map(|t| t.rcpt_to.as_slice()).unwrap_or_default() {
        list.raw_push(c.lua.create_string(r)?)?;
    }
    c.give(list)
}
