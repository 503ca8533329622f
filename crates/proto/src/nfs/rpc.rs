//! Remote procedure calls (RFC 5531): calls, replies, and the record marks that separate them over TCP.

use super::limits::{AUTH_BYTES_MAX, MACHINE_NAME_MAX};
use super::xdr::Fields;

/// Bytes of a record mark (RFC 5531 11).
pub const MARK_BYTES: usize = 4;

/// Number of the NFS program (RFC 1813 2.2).
pub const NFS_PROGRAM: u32 = 100_003;

/// A record mark: bytes of the fragment, and whether it is the record's last.
pub fn parse_mark(bytes: &[u8]) -> Option<(bool, usize)> {
    let mark = Fields::new(bytes).u32()?;
    Some((mark >> 31 != 0, usize::try_from(mark & 0x7fff_ffff).ok()?))
}

/// Who calls (RFC 5531 8.2, appendix A).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Credentials {
    /// Nobody in particular: AUTH_NONE.
    #[default]
    None,
    /// AUTH_SYS, which was called AUTH_UNIX.
    Unix {
        /// Name of the client's machine.
        machine: Vec<u8>,
        /// User.
        uid: u32,
        /// Group.
        gid: u32,
    },
    /// RPCSEC_GSS (RFC 2203).
    Gss,
    /// Of another flavor.
    Other(u32),
}

/// Flavors (RFC 5531 8.2; RFC 2203 5.2).
mod flavor {
    pub(super) const NONE: u32 = 0;
    pub(super) const UNIX: u32 = 1;
    pub(super) const GSS: u32 = 6;
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// Number by which the reply is found.
    pub xid: u32,
    /// Program.
    pub program: u32,
    /// Its version.
    pub version: u32,
    /// Procedure of the program.
    pub procedure: u32,
    /// Who calls.
    pub credentials: Credentials,
    /// Bytes of the credentials, with their flavor and length.
    pub credentials_bytes: usize,
    /// Arguments of the procedure.
    pub arguments: &'a [u8],
    /// Bytes of the message before the arguments.
    pub head_bytes: usize,
}

/// A reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// Number of the call.
    pub xid: u32,
    /// State of the accepted call, 0: done.
    pub state: u32,
    /// Results of the procedure.
    pub results: &'a [u8],
    /// Bytes of the message before the results.
    pub head_bytes: usize,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// A call.
    Call(Call<'a>),
    /// A reply.
    Reply(Reply<'a>),
}

/// Reads a message, or as much of it as is before its arguments or results.
pub fn parse_message(bytes: &[u8]) -> Option<Message<'_>> {
    let mut f = Fields::new(bytes);
    let xid = f.u32()?;
    match f.u32()? {
        0 => parse_call(xid, f, bytes.len()).map(Message::Call),
        1 => parse_reply(xid, f, bytes.len()).map(Message::Reply),
        _ => None,
    }
}

/// Whether these are no first bytes of a message: a number and a type that there is not.
pub fn has_no_type(bytes: &[u8]) -> bool {
    let mut f = Fields::new(bytes);
    f.u32().and_then(|_| f.u32()).is_some_and(|kind| kind > 1)
}

fn parse_call(xid: u32, mut f: Fields<'_>, len: usize) -> Option<Call<'_>> {
    // The version of remote procedure calls: Suricata 8.0.7 takes any.
    f.u32()?;
    let (program, version, procedure) = (f.u32()?, f.u32()?, f.u32()?);
    let flavor = f.u32()?;
    let before = f.rest().len();
    let credentials = parse_credentials(flavor, f.opaque(AUTH_BYTES_MAX)?)?;
    let credentials_bytes = 4 + before.saturating_sub(f.rest().len());
    f.u32()?;
    f.opaque(AUTH_BYTES_MAX)?;
    let arguments = f.rest();
    let head_bytes = len.saturating_sub(arguments.len());
    Some(Call {
        xid,
        program,
        version,
        procedure,
        credentials,
        credentials_bytes,
        arguments,
        head_bytes,
    })
}

fn parse_credentials(flavor: u32, body: &[u8]) -> Option<Credentials> {
    Some(match flavor {
        flavor::NONE => Credentials::None,
        flavor::UNIX => parse_unix(&mut Fields::new(body))?,
        flavor::GSS => Credentials::Gss,
        other => Credentials::Other(other),
    })
}

/// Suricata 8.0.7 takes the numbers right after the name, whatever fills it up; so does this, since its
/// records show them.
fn parse_unix(f: &mut Fields<'_>) -> Option<Credentials> {
    f.u32()?;
    let len = usize::try_from(f.u32()?).ok().filter(|len| *len <= MACHINE_NAME_MAX)?;
    let machine = f.bytes(len)?.to_vec();
    Some(Credentials::Unix { machine, uid: f.u32()?, gid: f.u32()? })
}

fn parse_reply(xid: u32, mut f: Fields<'_>, len: usize) -> Option<Reply<'_>> {
    // Suricata 8.0.7 takes a denied call (1) for malformed.
    if f.u32()? != 0 {
        return None;
    }
    f.u32()?;
    f.opaque(AUTH_BYTES_MAX)?;
    let state = f.u32()?;
    let results = f.rest();
    Some(Reply { xid, state, results, head_bytes: len.saturating_sub(results.len()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call and its reply by RFC 5531 9.
    #[test]
    fn messages() {
        let call = b"\0\0\0\x07\0\0\0\0\0\0\0\x02\0\x01\x86\xa3\0\0\0\x03\0\0\0\x01\
            \0\0\0\x01\0\0\0\x18\0\0\0\x05\0\0\0\x04host\0\0\0\x64\0\0\0\xc8\0\0\0\0\0\0\0\0\0\0\0\0args";
        let Some(Message::Call(found)) = parse_message(call) else { panic!("no call") };
        assert_eq!((found.xid, found.program, found.version), (7, NFS_PROGRAM, 3));
        assert_eq!((found.procedure, found.arguments), (1, &b"args"[..]));
        assert_eq!((found.head_bytes, found.credentials_bytes), (call.len() - 4, 32));
        let unix = Credentials::Unix { machine: b"host".to_vec(), uid: 100, gid: 200 };
        assert_eq!(found.credentials, unix);
        for end in 0..found.head_bytes {
            assert_eq!(parse_message(&call[..end]), None);
        }
        let reply = b"\0\0\0\x07\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0results";
        let Some(Message::Reply(found)) = parse_message(reply) else { panic!("no reply") };
        assert_eq!((found.state, found.results), (0, &b"results"[..]));
        assert_eq!(parse_mark(b"\x80\0\x01\0"), Some((true, 256)));
        assert_eq!(parse_mark(b"\x7f\xff\xff\xff"), Some((false, 0x7fff_ffff)));
        assert_eq!(parse_mark(b"\x80\0\x01"), None);
    }
}
