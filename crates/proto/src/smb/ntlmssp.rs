//! NTLMSSP messages of session setups (MS-NLMP 2.2.1): who logs on, from which host.

use super::wire::{part_at, text_of_utf16, u8_at, u16_at, u32_at};

/// What every message begins with.
const SIGNATURE: &[u8] = b"NTLMSSP\0";

/// The type of the message that names the user (MS-NLMP 2.2.1.3).
const AUTHENTICATE: u32 = 3;

/// The flag that the version of the client's system is there.
const HAS_VERSION: u32 = 1 << 25;

/// Places in that message.
mod place {
    pub(super) const DOMAIN: usize = 28;
    pub(super) const USER: usize = 36;
    pub(super) const HOST: usize = 44;
    pub(super) const FLAGS: usize = 60;
    pub(super) const VERSION: usize = 64;
}

/// The message has a field that it can't have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

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
}

impl Ntlmssp {
    /// The message at the beginning of these bytes, if it names the user.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Option<Ntlmssp>, Malformed> {
        if !bytes.starts_with(SIGNATURE) {
            return Ok(None);
        }
        if u32_at(bytes, SIGNATURE.len()).ok_or(Malformed)? != AUTHENTICATE {
            return Ok(None);
        }
        let flags = u32_at(bytes, place::FLAGS).ok_or(Malformed)?;
        let text = |at| text_field(bytes, at).ok_or(Malformed);
        Ok(Some(Ntlmssp {
            domain: text(place::DOMAIN)?,
            user: text(place::USER)?,
            host: text(place::HOST)?,
            version: (flags & HAS_VERSION != 0).then(|| version(bytes)).flatten(),
        }))
    }

    /// The version as EVE writes it.
    pub fn version_text(&self) -> Option<String> {
        let (major, minor, build, revision) = self.version?;
        Some(format!("{major}.{minor} build {build} rev {revision}"))
    }
}

/// A text by its length and place in the message: texts come in any order (MS-NLMP 2.2.1.3).
fn text_field(bytes: &[u8], at: usize) -> Option<Vec<u8>> {
    let len = usize::from(u16_at(bytes, at)?);
    let start = usize::try_from(u32_at(bytes, at + 4)?).ok()?;
    if len == 0 {
        return Some(Vec::new());
    }
    Some(text_of_utf16(part_at(bytes, start, len)?))
}

fn version(bytes: &[u8]) -> Option<(u8, u8, u16, u8)> {
    let at = place::VERSION;
    Some((
        u8_at(bytes, at)?,
        u8_at(bytes, at + 1)?,
        u16_at(bytes, at + 2)?,
        u8_at(bytes, at + 7)?,
    ))
}
