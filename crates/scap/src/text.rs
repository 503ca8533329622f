//! Values as text for people, from the event alone: descriptors and threads are numbers here, since their names are
//! known only to the crate that keeps the state of threads.

use std::io::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::parameter::{Address, Param, Tuple};
use crate::table::Format;

impl Param<'_> {
    /// Appends the value as text; `false` if it is unknown. Bytes that cannot be printed are `.`.
    pub fn write_text(&self, to: &mut Vec<u8>) -> bool {
        // Writing to a vector does not fail.
        let _ = match *self {
            Param::Unknown => return false,
            Param::Malformed(raw) => {
                write!(to, "{} bytes that contradict the event table", raw.len())
            }
            Param::Signed(n, format) => match format {
                Format::Hex => write!(to, "{n:X}"),
                Format::Oct => write!(to, "{n:o}"),
                Format::Dec | Format::Na => write!(to, "{n}"),
            },
            Param::Unsigned(n, format) => match format {
                Format::Hex => write!(to, "{n:X}"),
                Format::Oct => write!(to, "{n:o}"),
                Format::Dec | Format::Na => write!(to, "{n}"),
            },
            Param::Result(n) | Param::Fd(n) | Param::Pid(n) => write!(to, "{n}"),
            Param::Uid(id) | Param::Gid(id) => match id {
                Some(id) => write!(to, "{id}"),
                None => write!(to, "-1"),
            },
            Param::Mode(n, table) => {
                let _ = write!(to, "0{n:o}");
                write_names(to, table.names_of(n));
                Ok(())
            }
            Param::Flags(n, table) => {
                let _ = write!(to, "{n}");
                if let Some(table) = table {
                    write_names(to, table.names_of(n));
                }
                Ok(())
            }
            Param::Name(n, table) => {
                let _ = write!(to, "{n}");
                write_names(to, table.and_then(|table| table.name_of(n)).into_iter());
                Ok(())
            }
            Param::Text(text)
            | Param::Path(text)
            | Param::RelativePath(text, _)
            | Param::Bytes(text) => {
                write_printable(to, text);
                Ok(())
            }
            Param::Texts(texts) => {
                for (n, text) in
                    texts.split(|b| *b == 0).filter(|text| !text.is_empty()).enumerate()
                {
                    if n > 0 {
                        to.push(b' ');
                    }
                    write_printable(to, text);
                }
                Ok(())
            }
            Param::Address(address) => write_address(to, &address),
            Param::Tuple(tuple) => write_tuple(to, &tuple),
            Param::Fds(fds) => {
                for (n, (fd, flags)) in fds.iter().enumerate() {
                    let _ = write!(to, "{}{fd}:{flags:x}", if n > 0 { " " } else { "" });
                }
                Ok(())
            }
            Param::Call(code) => match crate::table::calls().get(usize::from(code)) {
                Some(call) => write!(to, "{code}({})", call.name),
                None => write!(to, "{code}"),
            },
            Param::Signal(n) => write!(to, "{n}"),
            Param::Port(n) => write!(to, "{n}"),
            Param::Ipv4(ip) => write!(to, "{}", Ipv4Addr::from(ip)),
            Param::Ipv6(ip) => write!(to, "{}", Ipv6Addr::from(ip)),
            Param::Duration(ns) | Param::Time(ns) => write!(to, "{ns}"),
        };
        true
    }
}

/// Names in brackets after the number; nothing if there are none.
fn write_names(to: &mut Vec<u8>, names: impl Iterator<Item = &'static str>) {
    let mut is_first = true;
    for name in names {
        to.push(if is_first { b'(' } else { b'|' });
        to.extend_from_slice(name.as_bytes());
        is_first = false;
    }
    if !is_first {
        to.push(b')');
    }
}

fn write_printable(to: &mut Vec<u8>, text: &[u8]) {
    to.extend(text.iter().map(|byte| if (0x20..0x7f).contains(byte) { *byte } else { b'.' }));
}

fn write_address(to: &mut Vec<u8>, address: &Address<'_>) -> std::io::Result<()> {
    match *address {
        Address::V4(ip, port) => write!(to, "{}:{port}", Ipv4Addr::from(ip)),
        Address::V6(ip, port) => write!(to, "[{}]:{port}", Ipv6Addr::from(ip)),
        Address::Unix(path) => {
            write_printable(to, path);
            Ok(())
        }
        Address::Other(family) => write!(to, "family {family}"),
    }
}

fn write_tuple(to: &mut Vec<u8>, tuple: &Tuple<'_>) -> std::io::Result<()> {
    match *tuple {
        Tuple::V4((from, from_port), (ip, port)) => {
            write!(to, "{}:{from_port}->{}:{port}", Ipv4Addr::from(from), Ipv4Addr::from(ip))
        }
        Tuple::V6((from, from_port), (ip, port)) => {
            write!(to, "[{}]:{from_port}->[{}]:{port}", Ipv6Addr::from(from), Ipv6Addr::from(ip))
        }
        Tuple::Unix(source, destination, path) => {
            let _ = write!(to, "{source:x}->{destination:x} ");
            write_printable(to, path);
            Ok(())
        }
        Tuple::Other(family) => write!(to, "family {family}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{event_type, types};

    #[test]
    fn values_are_text() {
        let flags = event_type(types::OPEN_X).unwrap().parameters[2].flags;
        let cases: [(Param<'_>, &str); 9] = [
            (Param::Signed(-1, Format::Dec), "-1"),
            (Param::Unsigned(255, Format::Hex), "FF"),
            (Param::Flags(5, flags), "5(O_CREAT|O_RDONLY)"),
            (Param::Name(3, flags), "3(O_RDWR)"),
            (Param::Text(b"a\nb"), "a.b"),
            (Param::Texts(b"-l\0/tmp\0"), "-l /tmp"),
            (Param::Address(Address::V4([127, 0, 0, 1], 80)), "127.0.0.1:80"),
            (Param::Tuple(Tuple::Unix(1, 255, b"/run/x")), "1->ff /run/x"),
            (Param::Call(3), "3(read)"),
        ];
        for (param, expected) in cases {
            let mut text = Vec::new();
            assert!(param.write_text(&mut text));
            assert_eq!(String::from_utf8(text).unwrap(), expected);
        }
        assert!(!Param::Unknown.write_text(&mut Vec::new()));
    }
}
