//! Opening a segment's data keys with a reader's private keys.

use crate::error::{Error, Result};
use crate::format::data_key::ClassKeys;
use crate::format::segment;
use crate::format::walk::{Item, Walk, read_body};
use crate::recipient::Stanza;
use crate::statement::Statement;
use crate::storage::Storage;
use gabion_record::hex::to_hex;
use std::collections::BTreeSet;

/// Commitments of classes above 0, from the statement in a segment's first chunk.
pub(crate) fn commitments(
    log: &dyn Storage,
    name: &str,
    header: &segment::Header,
) -> Vec<(u8, [u8; 32])> {
    let mut found = Vec::new();
    let Ok(mut walk) = Walk::new(log, name) else { return found };
    let Ok(Some((at, Item::Chunk(chunk)))) = walk.step() else { return found };
    let mut body = Vec::new();
    if !chunk.is_clear() || read_body(log, name, at, &chunk, &mut body).is_err() {
        return found;
    }
    let Ok(decoded) = crate::record::Decoded::from_plain(&body, chunk.records, chunk.earliest_ns)
    else {
        return found;
    };
    for (record, _) in &decoded.records {
        if let Some(Statement::Recipients { segment, classes, .. }) = Statement::parse(record.bytes)
            && segment == header.first_chunk
        {
            found = classes;
        }
    }
    found
}

/// Opens as many classes as these keys can; class 0 must be among them.
pub(crate) fn open_classes(
    stanzas: &[Stanza],
    header: &segment::Header,
    keys: &[crate::recipient::SecretKey],
    commitments: &[(u8, [u8; 32])],
) -> Result<Vec<Option<ClassKeys>>> {
    let mut classes = Vec::new();
    let all = std::iter::once((0, header.commitment)).chain(commitments.iter().copied());
    for (class, commitment) in all {
        let mut opened = None;
        for stanza in stanzas.iter().filter(|s| s.class == class) {
            if let Some(data_key) = keys.iter().find_map(|k| stanza.unwrap(k, header)) {
                opened = Some(ClassKeys::of_class(header, &data_key, class, &commitment)?);
                break;
            }
        }
        classes.resize_with(usize::from(class), || None);
        classes.push(opened);
    }
    if classes.iter().all(Option::is_none) {
        let ids: BTreeSet<String> = stanzas.iter().map(|s| to_hex(&s.id)).collect();
        let ids: Vec<String> = ids.into_iter().collect();
        return Err(Error::key(format!(
            "no key given opens it; it is wrapped for {}",
            ids.join(", ")
        )));
    }
    Ok(classes)
}
