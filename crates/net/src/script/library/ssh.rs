//! `suricata.ssh`: an SSH flow.

use super::{Library, member, transaction, tx_as};
use crate::script::call::{Answer, Call, Member};
use crate::script::inspect::Registered;
use gabion_proto::ssh::{Side, SshTx};
use gabion_record::Direction::{self, ToClient, ToServer};
use std::rc::Rc;

pub(super) const LIBRARY: Library = Library {
    name: "ssh",
    class: "suricata:ssh:tx",
    functions: &[
        member("enable_hassh", enable),
        member("get_tx", |c| transaction(c, "ssh", "error: protocol not ssh")),
    ],
    methods: METHODS,
};

const METHODS: &[Member] = &[
    member("client_hassh", |c| side(c, ToServer, |s| &s.hassh)),
    member("client_hassh_string", |c| side(c, ToServer, |s| &s.hassh_string)),
    member("client_proto", |c| side(c, ToServer, |s| &s.proto)),
    member("client_software", |c| side(c, ToServer, |s| &s.software)),
    member("server_hassh", |c| side(c, ToClient, |s| &s.hassh)),
    member("server_hassh_string", |c| side(c, ToClient, |s| &s.hassh_string)),
    member("server_proto", |c| side(c, ToClient, |s| &s.proto)),
    member("server_software", |c| side(c, ToClient, |s| &s.software)),
];

fn enable(c: &mut Call<'_, '_>) -> Answer {
    if let Some(r) = c.lua.app_data_ref::<Rc<Registered>>() {
        r.0.borrow_mut().hassh = true;
    }
    c.give(())
}

fn side(c: &mut Call<'_, '_>, direction: Direction, of: fn(&Side) -> &Vec<u8>) -> Answer {
    let value = tx_as::<SshTx>(c).map(|t| of(t.side(direction)).as_slice());
    c.text(value.filter(|v| !v.is_empty()))
}
