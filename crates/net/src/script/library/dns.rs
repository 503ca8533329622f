//! `suricata.dns`: a DNS message.

use super::{Library, member, transaction, tx_as};
use crate::script::call::{Answer, Call, Member};
use gabion_proto::dns::tables::{rcode_name, rrtype_name};
use gabion_proto::dns::{DnsTx, Message, Rdata, Record, Section};
use mlua::Value;

pub(super) const LIBRARY: Library = Library {
    name: "dns",
    class: "suricata:dns:tx",
    functions: &[member("get_tx", |c| transaction(c, "dns", "error: protocol not dns"))],
    methods: METHODS,
};

const METHODS: &[Member] = &[
    member("answers", |c| records(c, Section::Answers)),
    member("authorities", |c| records(c, Section::Authorities)),
    member("queries", queries),
    member("rcode", |c| number(c, |m| i64::from(m.header.rcode()))),
    member("rcode_string", rcode_string),
    member("recursion_desired", recursion_desired),
    member("rrname", rrname),
    member("txid", |c| number(c, |m| i64::from(m.header.id))),
];

fn message<'a>(c: &Call<'_, 'a>) -> Option<&'a Message> {
    tx_as::<DnsTx>(c).map(|t| &t.message)
}

fn number(c: &mut Call<'_, '_>, of: fn(&Message) -> i64) -> Answer {
    c.give(message(c).map(of))
}

fn rcode_string(c: &mut Call<'_, '_>) -> Answer {
    let Some(m) = message(c) else { return c.give(Value::Nil) };
    let code = m.header.rcode();
    match rcode_name(code) {
        Some(name) => c.give(name),
        None => c.give(code.to_string()),
    }
}

fn recursion_desired(c: &mut Call<'_, '_>) -> Answer {
    c.give(message(c).map(|m| m.header.flags & 0x0100 != 0))
}

fn rrname(c: &mut Call<'_, '_>) -> Answer {
    let name = message(c).and_then(|m| m.queries.first().map(|q| m.name(q.name)));
    c.text(name)
}

fn kind(c: &Call<'_, '_>, rrtype: u16) -> mlua::Result<Value> {
    let name = match rrtype_name(rrtype) {
        Some(n) => c.lua.create_string(n)?,
        None => c.lua.create_string(rrtype.to_string())?,
    };
    Ok(Value::String(name))
}

fn queries(c: &mut Call<'_, '_>) -> Answer {
    let list = c.lua.create_table()?;
    if let Some(m) = message(c) {
        for (i, q) in m.queries.iter().enumerate() {
            let entry = c.lua.create_table()?;
            entry.raw_set("type", kind(c, q.rrtype)?)?;
            entry.raw_set("rrname", c.lua.create_string(m.name(q.name))?)?;
            list.raw_set(i, entry)?;
        }
    }
    c.give(list)
}

fn records(c: &mut Call<'_, '_>, section: Section) -> Answer {
    let list = c.lua.create_table()?;
    if let Some(m) = message(c) {
        for (i, r) in m.section(section).iter().enumerate() {
            let entry = c.lua.create_table()?;
            entry.raw_set("type", kind(c, r.rrtype)?)?;
            entry.raw_set("ttl", r.ttl)?;
            entry.raw_set("rrname", c.lua.create_string(m.name(r.name))?)?;
            if let Some(data) = data(m, r) {
                entry.raw_set("addr", c.lua.create_string(data)?)?;
            }
            list.raw_set(i, entry)?;
        }
    }
    c.give(list)
}

/// An address as text, a name, a text.
fn data(m: &Message, r: &Record) -> Option<Vec<u8>> {
    Some(match r.data {
        Rdata::Address(span) => {
            let bytes = m.bytes(span);
            if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
                std::net::Ipv4Addr::from(v4).to_string().into_bytes()
            } else if let Ok(v6) = <[u8; 16]>::try_from(bytes) {
                std::net::Ipv6Addr::from(v6).to_string().into_bytes()
            } else {
                return None;
            }
        }
        Rdata::Name(name) => m.name(name).to_vec(),
        Rdata::Text(span) => m.bytes(span).to_vec(),
        Rdata::Texts { first, len } => {
            let first = first as usize;
            let strings = m.strings.get(first..first.saturating_add(len as usize))?;
            strings.iter().flat_map(|s| m.bytes(*s)).copied().collect()
        }
        Rdata::Soa { mname, .. } => m.name(mname).to_vec(),
        Rdata::Srv { target, .. } => m.name(target).to_vec(),
        Rdata::Sshfp { .. } | Rdata::Opt { .. } | Rdata::Other(_) => return None,
    })
}
