//! `suricata.hashlib`: MD5, SHA-1, SHA-256.

use super::{Library, member};
use crate::script::call::{Answer, Call, Held, Member};
use crate::script::hash::{Hash, Kind};

pub(super) const LIBRARY: Library =
    Library { name: "hashlib", class: "suricata:hashlib", functions: FUNCTIONS, methods: METHODS };

const FUNCTIONS: &[Member] = &[
    member("md5", |c| begin(c, Kind::Md5)),
    member("md5_digest", |c| digest(c, Kind::Md5, false)),
    member("md5_hexdigest", |c| digest(c, Kind::Md5, true)),
    member("sha1", |c| begin(c, Kind::Sha1)),
    member("sha1_digest", |c| digest(c, Kind::Sha1, false)),
    member("sha1_hexdigest", |c| digest(c, Kind::Sha1, true)),
    member("sha256", |c| begin(c, Kind::Sha256)),
    member("sha256_digest", |c| digest(c, Kind::Sha256, false)),
    member("sha256_hexdigest", |c| digest(c, Kind::Sha256, true)),
];

const METHODS: &[Member] = &[
    member("update", update),
    member("finalize", |c| finish(c, false)),
    member("finalize_to_hex", |c| finish(c, true)),
];

/// Lower-case hex digits.
pub(in crate::script) fn hex(bytes: &[u8]) -> Vec<u8> {
    gabion_record::hex::to_hex(bytes).into_bytes()
}

fn digest(c: &mut Call<'_, '_>, kind: Kind, in_hex: bool) -> Answer {
    let input = c.bytes(0)?;
    let mut h = Hash::begin(kind);
    h.update(&input);
    let out = h.finish();
    c.text(Some(&if in_hex { hex(&out) } else { out }))
}

fn begin(c: &mut Call<'_, '_>, kind: Kind) -> Answer {
    c.give(c.object(Held::Hash(Some(Hash::begin(kind))))?)
}

fn update(c: &mut Call<'_, '_>) -> Answer {
    let input = c.bytes(0)?;
    let done = c.held(|h| match h {
        Held::Hash(Some(h)) => {
            h.update(&input);
            true
        }
        Held::Hash(None) | Held::Nothing | Held::Slot(_) | Held::Name(_) => false,
    })?;
    if done { c.give(()) } else { Err(c.error("invalid hash context")) }
}

fn finish(c: &mut Call<'_, '_>, in_hex: bool) -> Answer {
    let hash = c.held(|h| match h {
        Held::Hash(h) => h.take(),
        Held::Nothing | Held::Slot(_) | Held::Name(_) => None,
    })?;
    match hash.map(Hash::finish) {
        Some(out) => c.text(Some(&if in_hex { hex(&out) } else { out })),
        None => Err(c.error("invalid hash context")),
    }
}
