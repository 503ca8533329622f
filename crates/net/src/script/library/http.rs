//! `suricata.http`: an HTTP/1 transaction, by the buffers that rules know.

use super::{Library, member, transaction};
use crate::script::call::{Answer, Call, Member};
use gabion_record::Direction::{self, ToClient, ToServer};

pub(super) const LIBRARY: Library = Library {
    name: "http",
    class: "suricata:http:tx",
    functions: &[member("get_tx", |c| transaction(c, "http", "error: protocol not http"))],
    methods: METHODS,
};

const METHODS: &[Member] = &[
    member("request_body", |c| body(c, "http.request_body", ToServer)),
    member("request_header", |c| header(c, ToServer)),
    member("request_headers", |c| headers(c, ToServer)),
    member("request_headers_raw", |c| one(c, "http.header.raw", ToServer, "no headers found")),
    member("request_host", |c| one(c, "http.host", ToServer, "no request hostname")),
    member("request_line", |c| one(c, "http.request_line", ToServer, "no request_line found")),
    member("request_uri_normalized", |c| one(c, "http.uri", ToServer, "no normalized uri found")),
    member("request_uri_raw", |c| one(c, "http.uri.raw", ToServer, "no raw uri found")),
    member("response_body", |c| body(c, "http.response_body", ToClient)),
    member("response_header", |c| header(c, ToClient)),
    member("response_headers", |c| headers(c, ToClient)),
    member("response_headers_raw", |c| one(c, "http.header.raw", ToClient, "no headers found")),
    member("response_line", |c| one(c, "http.response_line", ToClient, "no response_line found")),
];

fn one(c: &mut Call<'_, '_>, buffer: &str, direction: Direction, why: &str) -> Answer {
    c.text_or(c.scene.buffer(buffer, direction, 0), why)
}

/// A body as a list of its pieces, and 0 as Suricata returns it. Suricata's pieces are as the parser got
/// them; here a body is one piece.
fn body(c: &mut Call<'_, '_>, buffer: &str, direction: Direction) -> Answer {
    let Some(bytes) = c.scene.buffer(buffer, direction, 0) else { return c.nil("no body found") };
    let list = c.lua.create_table()?;
    list.raw_set(1, c.lua.create_string(bytes)?)?;
    c.give((list, 0))
}

/// Name and value of each field.
fn fields<'a>(c: &Call<'_, 'a>, direction: Direction) -> Vec<(&'a [u8], &'a [u8])> {
    let keyword = match direction {
        ToServer => "http.request_header",
        ToClient => "http.response_header",
    };
    (0..)
        .map_while(|i| c.scene.buffer(keyword, direction, i))
        .filter_map(|line| {
            let at = line.windows(2).position(|w| w == b": ")?;
            Some((line.get(..at)?, line.get(at + 2..)?))
        })
        .collect()
}

fn header(c: &mut Call<'_, '_>, direction: Direction) -> Answer {
    let name = c.bytes(0)?;
    let all = fields(c, direction);
    let found = all.iter().find(|(n, _)| n.eq_ignore_ascii_case(&name)).map(|(_, v)| *v);
    c.text_or(found, "header not found")
}

fn headers(c: &mut Call<'_, '_>, direction: Direction) -> Answer {
    let list = c.lua.create_table()?;
    for (name, value) in fields(c, direction) {
        list.raw_set(c.lua.create_string(name)?, c.lua.create_string(value)?)?;
    }
    c.give(list)
}
