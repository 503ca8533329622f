//! NTLMSSP messages of session setups (MS-NLMP 2.2.1): who logs on, from which host.

use super::wire::{part_at, text_without_zeros, u8_at, u16_at, u32_at};

/// What every message begins with.
const SIGNATURE: &[u8] = b"NTLMSSP\0";

/// The type of the message that names the user (MS-NLMP 2.2.1.3).
const AUTHENTICATE: u32 = 3;

/// The flag that the version of the client's system is there.
const HAS_VERSION: u32 = 1 << 25;

/// Places in that message.
mod place {
    pub(super) const LM: usize = 12;
    pub(super) const NT: usize = 20;
    pub(super) const DOMAIN: usize = 28;
    pub(super) const USER: usize = 36;
    pub(super) const HOST: usize = 44;
    pub(super) const KEY: usize = 52;
    pub(super) const FLAGS: usize = 60;
    pub(super) const VERSION: usize = 64;
}

/// Who logs on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ntlmssp {
    /// The user's domain.
    pub domain: Vec<u8>,
    /// The user.
    pub user: Vec<u8>,
    /// The client's host.
    pub host: Vec<u8>,
    /// The version of the client's system: major, minor, build, revision of NTLMSSP.
    pub version: Option<(u8, u8, u16, u8)>,
    /// Domain, user and host do not follow each other.
    pub(super) is_order_unusual: bool,
}

impl Ntlmssp {
    /// The message in these bytes, if it names the user.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Ntlmssp> {
        let start = memchr::memmem::find(bytes, SIGNATURE)?;
        let bytes = bytes.get(start..)?;
        if u32_at(bytes, SIGNATURE.len())? != AUTHENTICATE {
            return None;
        }
        let flags = u32_at(bytes, place::FLAGS)?;
        let fields = [place::DOMAIN, place::USER, place::HOST].map(|at| Field::at(bytes, at));
        let [domain, user, host] = [fields[0]?, fields[1]?, fields[2]?];
        let others = [place::LM, place::NT, place::KEY].map(|at| Field::at(bytes, at));
        let all = others.into_iter().flatten().chain([domain, user, host]);
        // Where the content begins before the version's place ends, there is none.
        let has_version = flags & HAS_VERSION != 0
            && all.map(|field| field.start).min() >= Some(place::VERSION + 8);
        Some(Ntlmssp {
            domain: domain.text(bytes)?,
            user: user.text(bytes)?,
            host: host.text(bytes)?,
            version: if has_version { version(bytes) } else { None },
            is_order_unusual: user.start < domain.start || host.start < user.start,
        })
    }

    /// The version as EVE writes it.
    pub fn version_text(&self) -> Option<String> {
        let (major, minor, build, revision) = self.version?;
        Some(format!("{major}.{minor} build {build} rev {revision}"))
    }
}

/// The length and place of a field's content: fields come in any order (MS-NLMP 2.2.1.3).
#[derive(Clone, Copy)]
struct Field {
    len: usize,
    start: usize,
}

impl Field {
    fn at(bytes: &[u8], at: usize) -> Option<Field> {
        let len = usize::from(u16_at(bytes, at)?);
        Some(Field { len, start: usize::try_from(u32_at(bytes, at + 4)?).ok()? })
    }

    /// Its content as a text; none where it would begin in the signature or type.
    fn text(self, bytes: &[u8]) -> Option<Vec<u8>> {
        if self.start < SIGNATURE.len() + 4 {
            return None;
        }
        Some(text_without_zeros(part_at(bytes, self.start, self.len)?))
    }
}

fn version(bytes: &[u8]) -> Option<(u8, u8, u16, u8)> {
    let at = place::VERSION;
    Some((u8_at(bytes, at)?, u8_at(bytes, at + 1)?, u16_at(bytes, at + 2)?, u8_at(bytes, at + 7)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message whose contents are in that order.
    fn message(order: &[(usize, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0; place::VERSION + 8];
        bytes[..8].copy_from_slice(SIGNATURE);
        bytes[8] = 3;
        bytes[place::FLAGS..place::FLAGS + 4].copy_from_slice(&HAS_VERSION.to_le_bytes());
        bytes[place::VERSION..].copy_from_slice(&[10, 0, 0x5a, 0x29, 0, 0, 0, 15]);
        for (at, content) in order {
            let start = bytes.len() as u32;
            bytes[*at..*at + 2].copy_from_slice(&(content.len() as u16).to_le_bytes());
            bytes[*at + 4..*at + 8].copy_from_slice(&start.to_le_bytes());
            bytes.extend_from_slice(content);
        }
        bytes
    }

    /// What Suricata 8.0.7 makes of such messages.
    #[test]
    fn fields_in_any_order() {
        let [d, u, h] = [
            (place::DOMAIN, &b"D\0O\0M\0"[..]),
            (place::USER, &b"u\0s\0"[..]),
            (place::HOST, &b"H\0"[..]),
        ];
        let rest = [(place::LM, &b"L"[..]), (place::NT, b"N"), (place::KEY, b"K")];
        for (order, is_unusual) in
            [([d, u, h], false), ([u, d, h], true), ([d, h, u], true), ([h, d, u], true)]
        {
            let bytes = message(&[&order[..], &rest[..]].concat());
            let read = Ntlmssp::from_bytes(&bytes).unwrap();
            assert_eq!((&read.domain[..], &read.user[..]), (&b"DOM"[..], &b"us"[..]));
            assert_eq!((&read.host[..], read.is_order_unusual), (&b"H"[..], is_unusual));
            assert_eq!(read.version_text().as_deref(), Some("10.0 build 10586 rev 15"));
            for len in 0..bytes.len() {
                let _ = Ntlmssp::from_bytes(&bytes[..len]);
            }
        }
        // Without the other fields they begin at 0, before the version; without a host it is no message.
        let read = Ntlmssp::from_bytes(&message(&[d, u, h])).unwrap();
        assert_eq!(read.version_text(), None);
        assert_eq!(Ntlmssp::from_bytes(&message(&[d, u])), None);
    }
}
