//! Parameters of events as values: what their bytes mean by the event table. Nothing is copied.

use crate::table::{FlagTable, Format, Parameter, ParameterKind};

/// A parameter. The numbers of Falco's libs, schema 4.5.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Param<'a> {
    /// No bytes: the value could not be read when the event was recorded. It is not 0.
    Unknown,
    /// The bytes contradict the kind of the parameter.
    Malformed(&'a [u8]),
    /// A signed number.
    Signed(i64, Format),
    /// An unsigned number.
    Unsigned(u64, Format),
    /// What the call returned: a value, or the negative number of an error.
    Result(i64),
    /// A file descriptor.
    Fd(i64),
    /// A thread.
    Pid(i64),
    /// A user; none if the number means that there is none.
    Uid(Option<u32>),
    /// A group; none if the number means that there is none.
    Gid(Option<u32>),
    /// The permissions of a file.
    Mode(u32, &'static FlagTable),
    /// Text without its final NUL; not always UTF-8.
    Text(&'a [u8]),
    /// A path without its final NUL.
    Path(&'a [u8]),
    /// A path relative to the folder whose descriptor is the parameter with this place.
    RelativePath(&'a [u8], u8),
    /// Bytes that the call read or wrote.
    Bytes(&'a [u8]),
    /// Texts, each with a final NUL.
    Texts(&'a [u8]),
    /// An address of a socket.
    Address(Address<'a>),
    /// Both ends of a connection.
    Tuple(Tuple<'a>),
    /// Descriptors that the call waits for.
    Fds(Fds<'a>),
    /// A value whose bits have names; without a table it is a number.
    Flags(u32, Option<&'static FlagTable>),
    /// A value that has a name.
    Name(u32, Option<&'static FlagTable>),
    /// The code of a system call.
    Call(u16),
    /// The number of a signal.
    Signal(u8),
    /// A port.
    Port(u16),
    /// An IPv4 address as bytes in the order of the network.
    Ipv4([u8; 4]),
    /// An IPv6 address.
    Ipv6([u8; 16]),
    /// A span of time in nanoseconds.
    Duration(u64),
    /// Nanoseconds since 1970.
    Time(u64),
}

impl<'a> Param<'a> {
    /// Reads bytes as this parameter of the table.
    #[must_use]
    pub fn decode(parameter: &Parameter, raw: &'a [u8]) -> Param<'a> {
        if raw.is_empty() {
            return Param::Unknown;
        }
        if parameter.kind == ParameterKind::Dyn {
            let chosen = raw.split_first().and_then(|(index, value)| {
                let (kind, format) = parameter.alternatives.get(usize::from(*index))?;
                Some(decode(*kind, *format, None, value))
            });
            return chosen.unwrap_or(Param::Malformed(raw));
        }
        match (parameter.kind, parameter.directory) {
            (ParameterKind::Fsrelpath, Some(directory)) => {
                Param::RelativePath(without_nul(raw), directory)
            }
            (kind, _) => decode(kind, parameter.format, parameter.flags, raw),
        }
    }

    /// The number, for all kinds that are one.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        Some(match *self {
            Param::Signed(n, _) | Param::Result(n) | Param::Fd(n) | Param::Pid(n) => n,
            Param::Unsigned(n, _) | Param::Duration(n) | Param::Time(n) => n as i64,
            Param::Uid(id) | Param::Gid(id) => i64::from(id.unwrap_or(u32::MAX)),
            Param::Mode(n, _) | Param::Flags(n, _) | Param::Name(n, _) => i64::from(n),
            Param::Call(n) | Param::Port(n) => i64::from(n),
            Param::Signal(n) => i64::from(n),
            _ => return None,
        })
    }

    /// The bytes of a text or path, without the final NUL.
    #[must_use]
    pub fn as_text(&self) -> Option<&'a [u8]> {
        match *self {
            Param::Text(text) | Param::Path(text) | Param::RelativePath(text, _) => Some(text),
            Param::Bytes(bytes) | Param::Texts(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// Reads bytes, at least one, as a value of a kind.
fn decode<'a>(
    kind: ParameterKind,
    format: Format,
    flags: Option<&'static FlagTable>,
    raw: &'a [u8],
) -> Param<'a> {
    use ParameterKind as K;
    if kind.size().is_some_and(|size| size != raw.len()) {
        return Param::Malformed(raw);
    }
    let unsigned = || {
        let mut bytes = [0; 8];
        for (to, from) in bytes.iter_mut().zip(raw) {
            *to = *from;
        }
        u64::from_le_bytes(bytes)
    };
    let small = || unsigned() as u32;
    match kind {
        K::Int8 => Param::Signed(i64::from(unsigned() as i8), format),
        K::Int16 => Param::Signed(i64::from(unsigned() as i16), format),
        K::Int32 => Param::Signed(i64::from(unsigned() as i32), format),
        K::Int64 => Param::Signed(unsigned() as i64, format),
        K::Uint8 | K::Uint16 | K::Uint32 | K::Uint64 | K::Sigset => {
            // The table gives names to some plain numbers, such as the mode of open.
            match flags {
                Some(_) => Param::Flags(small(), flags),
                None => Param::Unsigned(unsigned(), format),
            }
        }
        K::Errno => Param::Result(unsigned() as i64),
        K::Fd => Param::Fd(unsigned() as i64),
        K::Fd32 => Param::Fd(i64::from(unsigned() as i32)),
        K::Pid => Param::Pid(unsigned() as i64),
        K::Pid32 => Param::Pid(i64::from(unsigned() as i32)),
        K::Uid => Param::Uid(Some(small()).filter(|id| *id != u32::MAX)),
        K::Gid => Param::Gid(Some(small()).filter(|id| *id != u32::MAX)),
        K::Mode => match flags {
            Some(table) => Param::Mode(small(), table),
            None => Param::Unsigned(unsigned(), Format::Oct),
        },
        K::Flags8 | K::Flags16 | K::Flags32 => Param::Flags(small(), flags),
        K::Enumflags8 | K::Enumflags16 | K::Enumflags32 => Param::Name(small(), flags),
        K::Charbuf => Param::Text(without_nul(raw)),
        K::Fspath | K::Fsrelpath => Param::Path(without_nul(raw)),
        K::Bytebuf => Param::Bytes(raw),
        K::Charbufarray | K::CharbufPairArray => Param::Texts(raw),
        K::Sockaddr => Address::decode(raw).map_or(Param::Malformed(raw), Param::Address),
        K::Socktuple => Tuple::decode(raw).map_or(Param::Malformed(raw), Param::Tuple),
        K::Fdlist => Fds::decode(raw).map_or(Param::Malformed(raw), Param::Fds),
        K::Syscallid => Param::Call(unsigned() as u16),
        K::Sigtype => Param::Signal(unsigned() as u8),
        K::Port => Param::Port(unsigned() as u16),
        K::Reltime => Param::Duration(unsigned()),
        K::Abstime => Param::Time(unsigned()),
        K::Ipv4addr => raw.first_chunk().map_or(Param::Malformed(raw), |ip| Param::Ipv4(*ip)),
        K::Ipv6addr => raw.first_chunk().map_or(Param::Malformed(raw), |ip| Param::Ipv6(*ip)),
        // Alternatives have no alternatives.
        K::Dyn => Param::Malformed(raw),
    }
}

/// The bytes before the first NUL.
fn without_nul(raw: &[u8]) -> &[u8] {
    raw.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// An address of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address<'a> {
    /// IPv4: address in the order of the network, and port.
    V4([u8; 4], u16),
    /// IPv6: address and port.
    V6([u8; 16], u16),
    /// A path of a Unix socket, without NUL.
    Unix(&'a [u8]),
    /// Another family, by its number.
    Other(u8),
}

/// The family of Unix sockets in parameters.
pub(crate) const FAMILY_UNIX: u8 = 1;
/// The family of IPv4 in parameters.
pub(crate) const FAMILY_V4: u8 = 2;
/// The family of IPv6 in parameters.
pub(crate) const FAMILY_V6: u8 = 10;

/// One end of a connection: address and port.
type End<const N: usize> = ([u8; N], u16);

/// Takes an address of N bytes and a port from the beginning.
fn end_of<const N: usize>(raw: &[u8]) -> Option<(End<N>, &[u8])> {
    let (ip, rest) = raw.split_first_chunk::<N>()?;
    let (port, rest) = rest.split_first_chunk::<2>()?;
    Some(((*ip, u16::from_le_bytes(*port)), rest))
}

impl<'a> Address<'a> {
    fn decode(raw: &'a [u8]) -> Option<Address<'a>> {
        let (family, rest) = raw.split_first()?;
        Some(match *family {
            FAMILY_V4 => end_of(rest).map(|((ip, port), _)| Address::V4(ip, port))?,
            FAMILY_V6 => end_of(rest).map(|((ip, port), _)| Address::V6(ip, port))?,
            FAMILY_UNIX => Address::Unix(without_nul(rest)),
            other => Address::Other(other),
        })
    }
}

/// Both ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tuple<'a> {
    /// IPv4: source and destination, each with its port.
    V4(([u8; 4], u16), ([u8; 4], u16)),
    /// IPv6: source and destination, each with its port.
    V6(([u8; 16], u16), ([u8; 16], u16)),
    /// A Unix socket: the addresses of both ends in the kernel, and the path.
    Unix(u64, u64, &'a [u8]),
    /// Another family, by its number.
    Other(u8),
}

impl<'a> Tuple<'a> {
    fn decode(raw: &'a [u8]) -> Option<Tuple<'a>> {
        let (family, rest) = raw.split_first()?;
        Some(match *family {
            FAMILY_V4 => {
                let (source, rest) = end_of(rest)?;
                Tuple::V4(source, end_of(rest)?.0)
            }
            FAMILY_V6 => {
                let (source, rest) = end_of(rest)?;
                Tuple::V6(source, end_of(rest)?.0)
            }
            FAMILY_UNIX => {
                let (source, rest) = rest.split_first_chunk()?;
                let (destination, rest) = rest.split_first_chunk()?;
                let (source, destination) =
                    (u64::from_le_bytes(*source), u64::from_le_bytes(*destination));
                Tuple::Unix(source, destination, without_nul(rest))
            }
            other => Tuple::Other(other),
        })
    }
}

/// Descriptors with flags, as poll gets and returns them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fds<'a>(&'a [u8]);

impl<'a> Fds<'a> {
    /// A count in 2 bytes, then 10 bytes for each descriptor.
    fn decode(raw: &'a [u8]) -> Option<Fds<'a>> {
        let (count, entries) = raw.split_first_chunk::<2>()?;
        let len = usize::from(u16::from_le_bytes(*count)).checked_mul(10)?;
        entries.get(..len).map(Fds)
    }

    /// Each descriptor with its flags.
    pub fn iter(&self) -> impl Iterator<Item = (i64, i16)> + 'a {
        self.0.chunks_exact(10).filter_map(|entry| {
            let (fd, rest) = entry.split_first_chunk::<8>()?;
            let flags = rest.first_chunk::<2>()?;
            Some((i64::from_le_bytes(*fd), i16::from_le_bytes(*flags)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{event_type, types};

    fn decode_parameter(kind: u16, place: usize, raw: &[u8]) -> Param<'_> {
        Param::decode(&event_type(kind).unwrap().parameters[place], raw)
    }

    #[test]
    fn a_parameter_without_bytes_is_unknown_and_not_0() {
        assert_eq!(decode_parameter(types::OPEN_X, 0, &[]), Param::Unknown);
        assert_eq!(decode_parameter(types::OPEN_X, 1, &[]), Param::Unknown);
        assert_eq!(Param::Unknown.as_i64(), None);
        assert_eq!(
            decode_parameter(types::OPEN_X, 1, &[0]),
            Param::Path(b""),
            "an empty path is known"
        );
    }

    #[test]
    fn numbers_texts_and_flags() {
        assert_eq!(decode_parameter(types::OPEN_X, 0, &(-2i64).to_le_bytes()), Param::Fd(-2));
        assert_eq!(decode_parameter(types::OPEN_X, 0, &[1, 2]), Param::Malformed(&[1, 2]));
        assert_eq!(
            decode_parameter(types::OPEN_X, 1, b"/etc/passwd\0"),
            Param::Path(b"/etc/passwd")
        );
        let Param::Flags(5, Some(table)) = decode_parameter(types::OPEN_X, 2, &5u32.to_le_bytes())
        else {
            panic!("flags with a table")
        };
        assert_eq!(table.names_of(5).collect::<Vec<_>>(), ["O_CREAT", "O_RDONLY"]);
        assert_eq!(table.names_of(0).collect::<Vec<_>>(), ["O_NONE"]);
        let none = u32::MAX.to_le_bytes();
        let uid = decode_parameter(types::SETUID_X, 1, &none);
        assert_eq!((uid, uid.as_i64()), (Param::Uid(None), Some(4_294_967_295)));
    }

    #[test]
    fn addresses_and_lists() {
        let v4 = [2, 127, 0, 0, 1, 80, 0];
        assert_eq!(Address::decode(&v4), Some(Address::V4([127, 0, 0, 1], 80)));
        assert_eq!(Address::decode(&v4[..6]), None);
        assert_eq!(Address::decode(b"\x01/run/x\0more"), Some(Address::Unix(b"/run/x")));
        let tuple = [2, 1, 2, 3, 4, 5, 0, 6, 7, 8, 9, 10, 0];
        assert_eq!(Tuple::decode(&tuple), Some(Tuple::V4(([1, 2, 3, 4], 5), ([6, 7, 8, 9], 10))));
        let fds = [1, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 99];
        assert_eq!(Fds::decode(&fds).unwrap().iter().collect::<Vec<_>>(), [(3, 4)]);
        assert_eq!(Fds::decode(&fds[..11]), None, "the count claims more than there is");
    }

    #[test]
    fn a_value_of_many_kinds_is_chosen_by_its_first_byte() {
        let mut raw = vec![2];
        raw.extend(7u32.to_le_bytes());
        let place = event_type(types::SETSOCKOPT_X).unwrap().parameter("val").unwrap();
        assert_eq!(
            decode_parameter(types::SETSOCKOPT_X, place, &raw),
            Param::Unsigned(7, Format::Dec)
        );
        assert_eq!(
            decode_parameter(types::SETSOCKOPT_X, place, &[99, 1]),
            Param::Malformed(&[99, 1])
        );
    }
}
