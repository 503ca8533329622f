//! Key exchange initialisation (RFC 4253 7.1) and the hassh made of it.

use md5::Digest;

/// The ten lists of algorithm names, as sent.
#[derive(Debug, PartialEq, Eq)]
pub struct KeyExchange<'a> {
    lists: [&'a [u8]; 10],
}

impl<'a> KeyExchange<'a> {
    /// Reads the body of the record: cookie, ten lists, a flag and a reserved word.
    pub fn parse(body: &'a [u8]) -> Option<KeyExchange<'a>> {
        let mut rest = body.get(16..)?;
        let mut lists: [&[u8]; 10] = [&[]; 10];
        for list in &mut lists {
            let (len, tail) = rest.split_first_chunk::<4>()?;
            let len = usize::try_from(u32::from_be_bytes(*len)).ok()?;
            (*list, rest) = tail.split_at_checked(len)?;
        }
        rest.get(..5)?;
        Some(KeyExchange { lists })
    }

    /// The text of hassh: key exchange, encryption, authentication and compression algorithms of
    /// the direction in which the sender talks.
    pub fn hassh_text(&self, is_server: bool) -> Vec<u8> {
        let [kex, _, enc_cs, enc_sc, mac_cs, mac_sc, comp_cs, comp_sc, _, _] = self.lists;
        if is_server {
            [kex, enc_sc, mac_sc, comp_sc].join(&b';')
        } else {
            [kex, enc_cs, mac_cs, comp_cs].join(&b';')
        }
    }
}

/// MD5 in hex.
pub fn hassh(text: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    crate::tls::fingerprint::write_hex(&md5::Md5::digest(text), &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hassh_of_both_sides() {
        let mut body = vec![b'k'; 16];
        for list in ["kex1,kex2", "hk", "enc-c2s", "enc-s2c,x", "mac-c2s", "mac-s2c", "comp-c2s"] {
            body.extend((list.len() as u32).to_be_bytes());
            body.extend(list.bytes());
        }
        body.extend(8u32.to_be_bytes());
        body.extend(b"comp-s2c");
        body.extend([0; 8 + 5]);
        let kex = KeyExchange::parse(&body).unwrap();
        // Suricata's record of a session with these lists.
        assert_eq!(kex.hassh_text(false), b"kex1,kex2;enc-c2s;mac-c2s;comp-c2s");
        assert_eq!(&hassh(&kex.hassh_text(false)), b"dea653a10197542c2341a499315aa340");
        assert_eq!(&hassh(&kex.hassh_text(true)), b"4a99e00abcd121e55dd9dd577e1f0d97");
        for i in 0..body.len() {
            assert_eq!(KeyExchange::parse(&body[..i]), None);
        }
    }
}
