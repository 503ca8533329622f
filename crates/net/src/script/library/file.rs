//! `suricata.file`: the file at hand, in output scripts.

use super::{Library, member};
use crate::script::call::{Answer, Call, Held, Member};
use gabion_proto::files::File;

pub(super) const LIBRARY: Library = Library {
    name: "file",
    class: "suricata:file",
    functions: &[member("get_file", get_file)],
    methods: METHODS,
};

const METHODS: &[Member] = &[
    member("file_id", |c| c.give(file(c).map(|f| i64::from(f.id)))),
    member("tx_id", |c| c.give(c.scene.file.and_then(|(_, tx)| i64::try_from(tx).ok()))),
    member("name", |c| c.text(file(c).map(|f| f.name.as_slice()))),
    member("size", |c| c.give(file(c).and_then(|f| i64::try_from(f.size).ok()))),
    member("magic", |c| c.text(file(c).and_then(|f| f.magic().map(str::as_bytes)))),
    member("md5", |c| hex(c, |f| f.digests().md5.map(|h| h.to_vec()))),
    member("sha1", |c| hex(c, |f| f.digests().sha1.map(|h| h.to_vec()))),
    member("sha256", |c| hex(c, |f| f.digests().sha256.map(|h| h.to_vec()))),
    member("get_state", |c| c.give(file(c).map(|f| f.state.name()))),
    member("is_stored", |c| c.give(file(c).map(|f| f.is_stored))),
];

fn file<'a>(c: &Call<'_, 'a>) -> Option<&'a File> {
    c.scene.file.map(|(f, _)| f)
}

fn get_file(c: &mut Call<'_, '_>) -> Answer {
    match c.scene.file {
        Some(_) => c.give(c.object(Held::Nothing)?),
        None => c.nil("error: no file found"),
    }
}

fn hex(c: &mut Call<'_, '_>, of: fn(&File) -> Option<Vec<u8>>) -> Answer {
    let text = file(c).and_then(of).map(|h| super::hashlib::hex(&h));
    c.text(text.as_deref())
}
