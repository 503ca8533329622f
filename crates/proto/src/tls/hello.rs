//! Client and server hello (RFC 8446 4.1, RFC 5246 7.4.1, older forms and drafts).
//!
//! A hello that breaks off raises an event and leaves what was read before; the session continues.
//! A bad server name, ALPN, algorithm or version list ends the reading of extensions, but counts as
//! their proper end for JA3; a bad group or format list, or lengths that do not add up, leave the
//! JA3 text without its hash. All of that is Suricata's behaviour, measured with crafted hellos.

use super::fingerprint::{Hello, Ja3};
use super::limits::reached;
use super::tables::event;
use super::tx::Side;
use super::version;
use crate::transaction::EventList;

/// What a hello is read into, in addition to the side's own fields.
pub(super) struct Reading<'a> {
    pub(super) side: &'a mut Side,
    pub(super) events: &'a mut EventList,
    /// JA3 is wanted.
    pub(super) wants_ja3: bool,
    /// It is a client hello.
    pub(super) is_client: bool,
    /// The client named versions in an extension.
    pub(super) client_names_versions: bool,
    /// What was found that concerns the session.
    pub(super) found: Found,
}

/// What a hello says about the session.
#[derive(Default)]
pub(super) struct Found {
    /// A client can take session tickets: the session is resumed unless a certificate comes.
    pub(super) has_ticket: bool,
    /// Versions were named in an extension.
    pub(super) names_versions: bool,
    /// The server's certificate will be encrypted.
    pub(super) hides_certificate: bool,
}

/// The bytes do not hold what they announce.
struct Short;

/// Extensions that are looked into.
mod extension {
    pub(super) const SERVER_NAME: u16 = 0;
    pub(super) const GROUPS: u16 = 10;
    pub(super) const FORMATS: u16 = 11;
    pub(super) const ALGORITHMS: u16 = 13;
    pub(super) const ALPN: u16 = 16;
    pub(super) const TICKET: u16 = 35;
    pub(super) const VERSIONS: u16 = 43;
}

impl Reading<'_> {
    /// Reads the body of a hello.
    pub(super) fn read_body(&mut self, body: &[u8]) {
        if self.read_all(body).is_err() {
            self.events.set(event::HANDSHAKE_INVALID_LENGTH);
        }
    }

    fn read_all(&mut self, mut rest: &[u8]) -> Result<(), Short> {
        let own = u16_of(&mut rest)?;
        self.side.version = own;
        self.hello().add_version(own);
        let random = take_bytes(&mut rest, 32)?;
        self.side.random = random.try_into().ok();
        if !self.is_client && version::is_early_draft(own) {
            self.found.hides_certificate = true;
            if own == version::TLS13 {
                self.side.version = version::TLS13_EARLY;
            }
        } else {
            let id = vector_8(&mut rest)?;
            if !id.is_empty() && self.side.session_id.is_empty() {
                self.side.session_id = id.into();
            }
        }
        // A text that an earlier hello left without hash continues, as it does in Suricata.
        let earlier = self.side.ja3.take();
        let is_wanted = self.wants_ja3 && earlier.as_ref().is_none_or(|j| j.hash.is_none());
        if !is_wanted {
            self.side.ja3 = earlier;
            self.read_ciphers(&mut rest, &mut None)?;
            return self.read_extensions(rest, &mut None);
        }
        let mut ja3 = Some(earlier.unwrap_or_else(|| Ja3::begin(own)));
        let read = self
            .read_ciphers(&mut rest, &mut ja3)
            .and_then(|()| self.read_extensions(rest, &mut ja3));
        self.side.ja3 = ja3;
        read
    }

    fn hello(&mut self) -> &mut Hello {
        &mut self.side.hello
    }

    /// Cipher suites of a client, or a server's choice, with the compression after them.
    fn read_ciphers(&mut self, rest: &mut &[u8], ja3: &mut Option<Ja3>) -> Result<(), Short> {
        let mut ciphers = Vec::new();
        if self.is_client {
            let list = vector_16(rest)?;
            if list.len() % 2 != 0 {
                return Err(Short);
            }
            ciphers.extend(values(list).filter(|c| !version::is_grease(*c)));
        } else {
            ciphers.push(u16_of(rest)?);
        }
        for c in &ciphers {
            self.hello().add_cipher(*c);
        }
        if let Some(j) = ja3 {
            j.field(&ciphers);
        }
        if self.is_client {
            vector_8(rest)?;
        } else if !version::is_early_draft(self.side.version) {
            take_bytes(rest, 1)?;
        }
        Ok(())
    }

    fn read_extensions(&mut self, rest: &[u8], ja3: &mut Option<Ja3>) -> Result<(), Short> {
        let mut lists = Lists::default();
        let read = self.walk_extensions(rest, &mut lists);
        let is_whole = !matches!(read, Err(End::Broken));
        if let Some(ja3) = ja3.as_mut().filter(|_| is_whole) {
            ja3.field(&lists.extensions);
            if self.is_client {
                ja3.field(&lists.groups);
                ja3.field(&lists.formats);
            }
            ja3.finish();
        }
        match read {
            Ok(()) | Err(End::Named) => Ok(()),
            Err(End::Broken | End::Short) => Err(Short),
        }
    }

    fn walk_extensions(&mut self, mut rest: &[u8], lists: &mut Lists) -> Result<(), End> {
        if rest.is_empty() {
            return Ok(());
        }
        let mut all = vector_16(&mut rest).map_err(|Short| End::Broken)?;
        while !all.is_empty() {
            let kind = u16_of(&mut all).map_err(|Short| End::Broken)?;
            let body = vector_16(&mut all).map_err(|Short| End::Broken)?;
            self.read_extension(kind, body, lists)?;
            self.hello().add_extension(kind);
            if !version::is_grease(kind) {
                lists.extensions.push(kind);
            }
        }
        Ok(())
    }

    fn read_extension(&mut self, kind: u16, body: &[u8], lists: &mut Lists) -> Result<(), End> {
        let short = |Short| End::Short;
        let broken = |Short| End::Broken;
        match kind {
            extension::SERVER_NAME if self.is_client && !body.is_empty() => self.read_name(body)?,
            extension::GROUPS if !body.is_empty() => {
                let groups = vector_16(&mut &*body).map_err(broken)?;
                // The values are read only where they are needed (as in Suricata).
                if self.wants_ja3 {
                    if groups.len() % 2 != 0 {
                        return Err(End::Broken);
                    }
                    lists.groups.extend(values(groups).filter(|g| !version::is_grease(*g)));
                }
            }
            extension::FORMATS if !body.is_empty() => {
                let formats = vector_8(&mut &*body).map_err(broken)?;
                lists.formats.extend(formats.iter().map(|f| u16::from(*f)));
            }
            extension::ALGORITHMS if !body.is_empty() => {
                let algorithms = list_16(body).map_err(short)?;
                for a in values(algorithms) {
                    self.hello().add_algorithm(a);
                }
            }
            extension::ALPN if !body.is_empty() => self.read_alpn(body).map_err(short)?,
            extension::TICKET if self.is_client => self.found.has_ticket = true,
            extension::VERSIONS if !body.is_empty() => self.read_versions(body).map_err(short)?,
            _ => {}
        }
        Ok(())
    }

    /// The first host name of the list (RFC 6066 3). A second extension is only an event.
    fn read_name(&mut self, body: &[u8]) -> Result<(), End> {
        if self.side.sni.is_some() {
            self.events.set(event::MULTIPLE_SNI_EXTENSIONS);
            return Ok(());
        }
        let mut rest = body.get(2..).ok_or(End::Short)?;
        let Some((kind, tail)) = rest.split_first() else { return Err(End::Short) };
        if *kind != 0 {
            self.events.set(event::INVALID_SNI_TYPE);
            return Err(End::Named);
        }
        rest = tail;
        match vector_16(&mut rest) {
            Ok(name) if !name.is_empty() => {
                self.side.sni = Some(name.into());
                Ok(())
            }
            _ => {
                self.events.set(event::INVALID_SNI_LENGTH);
                Err(End::Named)
            }
        }
    }

    fn read_alpn(&mut self, body: &[u8]) -> Result<(), Short> {
        let mut list = vector_16(&mut &*body)?;
        while !list.is_empty() {
            let protocol = vector_8(&mut list)?;
            if protocol.is_empty() {
                continue;
            }
            if self.side.alpns.is_empty() {
                self.hello().set_alpn(protocol);
            }
            if reached::ALPN_MAX.has_room(self.side.alpns.len()) {
                self.side.alpns.push(protocol.into());
            }
        }
        Ok(())
    }

    /// The first version that is known counts; a server names just one.
    fn read_versions(&mut self, body: &[u8]) -> Result<(), Short> {
        let chosen = if self.is_client {
            let list = vector_8(&mut &*body)?;
            if list.len() < 2 {
                return Err(Short);
            }
            self.found.names_versions = true;
            values(list).find(|v| version::is_known(*v))
        } else {
            let own = u16_of(&mut &*body)?;
            self.found.hides_certificate |= self.client_names_versions && own > version::TLS12;
            Some(own)
        };
        if let Some(v) = chosen {
            self.side.version = v;
            if self.is_client {
                self.hello().add_version(v);
            }
        }
        Ok(())
    }
}

/// What JA3 takes from extensions.
#[derive(Default)]
struct Lists {
    extensions: Vec<u16>,
    groups: Vec<u16>,
    formats: Vec<u16>,
}

/// Why reading extensions ended early.
enum End {
    /// An event of its own was raised.
    Named,
    /// A list is too short: an event, but JA3 is complete.
    Short,
    /// Lengths do not add up: an event, and JA3 stays without hash.
    Broken,
}

fn take_bytes<'a>(rest: &mut &'a [u8], n: usize) -> Result<&'a [u8], Short> {
    let (head, tail) = rest.split_at_checked(n).ok_or(Short)?;
    *rest = tail;
    Ok(head)
}

fn u16_of(rest: &mut &[u8]) -> Result<u16, Short> {
    let pair = take_bytes(rest, 2)?;
    Ok(u16::from_be_bytes([pair[0], pair[1]]))
}

/// Bytes after a length of one byte.
fn vector_8<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], Short> {
    let n = take_bytes(rest, 1)?[0];
    take_bytes(rest, n.into())
}

/// Bytes after a length of two bytes.
fn vector_16<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], Short> {
    let n = u16_of(rest)?;
    take_bytes(rest, n.into())
}

/// A list of two-byte values after its length.
fn list_16(body: &[u8]) -> Result<&[u8], Short> {
    let list = vector_16(&mut &*body)?;
    if list.len() % 2 == 0 { Ok(list) } else { Err(Short) }
}

fn values(list: &[u8]) -> impl Iterator<Item = u16> {
    list.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
}
