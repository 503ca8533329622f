//! Datasets as text: what is written at the end of a run.
//!
//! Values are in the order of Suricata's hash table without random seed (`--no-random`), so that
//! the files of both can be compared: Bob Jenkins' lookup3 (2006, public domain), seed 0, modulo
//! the size of the table; checked against files that 8.0.7 wrote.

use crate::dataset_file::Entry;
use gabion_record::json::base64_into;
use gabion_rules::compiled::{DatasetDef, DatasetType};
use std::net::{Ipv4Addr, Ipv6Addr};

/// The set's file.
pub(crate) fn text<'v>(
    def: &DatasetDef,
    buckets: u32,
    values: impl Iterator<Item = (&'v [u8], &'v Entry)>,
) -> Vec<u8> {
    let mut lines: Vec<(u32, Vec<u8>)> = values
        .map(|(value, entry)| (hash(def.kind, value) % buckets.max(1), line(def, value, entry)))
        .collect();
    lines.sort();
    lines.into_iter().flat_map(|(_, line)| line).collect()
}

fn line(def: &DatasetDef, value: &[u8], entry: &Entry) -> Vec<u8> {
    let mut out = Vec::new();
    match def.kind {
        DatasetType::String => base64_into(value, &mut out),
        DatasetType::Md5 | DatasetType::Sha256 => {
            gabion_record::hex::push_hex(&mut out, value);
        }
        DatasetType::Ipv4 | DatasetType::Ip => {
            let text = match (<[u8; 4]>::try_from(value), <[u8; 16]>::try_from(value)) {
                (Ok(v4), _) => Ipv4Addr::from(v4).to_string(),
                (_, Ok(v6)) => {
                    let parts = Ipv6Addr::from(v6).segments().map(|p| format!("{p:04x}"));
                    parts.join(":")
                }
                _ => String::new(),
            };
            out.extend_from_slice(text.as_bytes());
        }
    }
    if def.has_reputation {
        out.extend_from_slice(format!(",{}", entry.score).as_bytes());
    }
    out.push(b'\n');
    out
}

/// Suricata keeps IPv4 in sets of both versions as the first four of sixteen bytes, and hashes
/// addresses as words, without the trailing partial block that texts have.
fn hash(kind: DatasetType, value: &[u8]) -> u32 {
    match kind {
        DatasetType::Ip => {
            let mut padded = [0u8; 16];
            for (to, from) in padded.iter_mut().zip(value) {
                *to = *from;
            }
            lookup3(&padded)
        }
        DatasetType::String | DatasetType::Md5 | DatasetType::Sha256 | DatasetType::Ipv4 => {
            lookup3(value)
        }
    }
}

/// `hashlittle` with seed 0; for whole words the same as `hashword`.
fn lookup3(bytes: &[u8]) -> u32 {
    let start = 0xdead_beef_u32.wrapping_add(bytes.len() as u32);
    let [mut a, mut b, mut c] = [start; 3];
    let mut rest = bytes;
    loop {
        let mut block = [0u8; 12];
        for (to, from) in block.iter_mut().zip(rest) {
            *to = *from;
        }
        let (words, _) = block.as_chunks::<4>();
        let word = |i: usize| words.get(i).map_or(0, |w| u32::from_le_bytes(*w));
        if rest.is_empty() {
            return c;
        }
        a = a.wrapping_add(word(0));
        b = b.wrapping_add(word(1));
        c = c.wrapping_add(word(2));
        if rest.len() <= 12 {
            break;
        }
        rest = rest.get(12..).unwrap_or_default();
        for (turn, plus) in [(4, 0), (6, 1), (8, 2), (16, 0), (19, 1), (4, 2)] {
            // each of the three in turn gives to its neighbours
            let (x, y, z) = match plus {
                0 => (&mut a, &mut b, &mut c),
                1 => (&mut b, &mut c, &mut a),
                _ => (&mut c, &mut a, &mut b),
            };
            *x = x.wrapping_sub(*z) ^ z.rotate_left(turn);
            *z = z.wrapping_add(*y);
        }
    }
    for (turn, which) in [(14, 2), (11, 0), (25, 1), (16, 2), (4, 0), (14, 1), (24, 2)] {
        let (x, y) = match which {
            2 => (&mut c, b),
            0 => (&mut a, c),
            _ => (&mut b, a),
        };
        *x = (*x ^ y).wrapping_sub(y.rotate_left(turn));
    }
    c
}

#[cfg(test)]
mod tests {
    use super::*;

    // The values that lookup3.c itself names for seed 0.
    #[test]
    fn hashes_are_lookup3() {
        assert_eq!(lookup3(b""), 0xdead_beef);
        assert_eq!(lookup3(b"Four score and seven years ago"), 0x1777_0551);
    }

    // Orders as 8.0.7 wrote them with --no-random.
    #[test]
    fn saved_values_are_in_the_order_of_suricata() {
        let words = ["word9", "word5", "word7", "word1", "curl/7.43.0", "word2", "word12", "word8"];
        let at = |w: &&str| hash(DatasetType::String, w.as_bytes()) % 4096;
        assert!(words.iter().map(at).is_sorted());
        let addresses = ["82.165.177.154", "fe80::6:7", "fe80::2:7", "10.16.1.11", "1.2.3.4"];
        let at = |a: &&str| match a.parse().unwrap() {
            std::net::IpAddr::V4(a) => hash(DatasetType::Ip, &a.octets()) % 4096,
            std::net::IpAddr::V6(a) => hash(DatasetType::Ip, &a.octets()) % 4096,
        };
        assert!(addresses.iter().map(at).is_sorted());
    }
}
