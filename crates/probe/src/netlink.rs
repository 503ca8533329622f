//! Questions to the kernel by netlink: an interface, the tables of neighbours, and what a device's driver can do.

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, sendto,
    socket_with,
};
use std::io;

/// `NLM_F_REQUEST`, and with `NLM_F_DUMP` for all of a kind.
pub(crate) const REQUEST: u16 = 1;
pub(crate) const DUMP: u16 = 0x301;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// Bytes of `struct nlmsghdr`.
pub(crate) const HEAD: usize = 16;

/// A message of an answer: its type, and what follows its head.
pub(crate) struct Message {
    pub(crate) kind: u16,
    pub(crate) body: Vec<u8>,
}

/// Which part of the kernel is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// `NETLINK_ROUTE`.
    Route,
    /// `NETLINK_GENERIC`.
    Generic,
}

/// Asks in this thread's network namespace. All messages of the answer.
///
/// # Errors
/// The kernel's answer.
pub(crate) fn ask(part: Part, kind: u16, flags: u16, body: &[u8]) -> io::Result<Vec<Message>> {
    let protocol = match part {
        Part::Route => None,
        Part::Generic => Some(netlink::GENERIC),
    };
    let socket =
        socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
    let mut request = Vec::with_capacity(HEAD + body.len());
    request.extend(u32::try_from(HEAD + body.len()).unwrap_or(0).to_ne_bytes());
    request.extend(kind.to_ne_bytes());
    request.extend(flags.to_ne_bytes());
    request.extend([0; 8]); // sequence, port
    request.extend(body);
    sendto(&socket, &request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut all = Vec::new();
    let mut bytes = vec![0; crate::limits::NETLINK_ANSWER_BYTES];
    for _ in 0..crate::limits::NETLINK_ANSWERS_MAX {
        let (length, _) = recv(&socket, bytes.as_mut_slice(), RecvFlags::empty())?;
        if parse_messages(bytes.get(..length).unwrap_or_default(), &mut all)? || flags != DUMP {
            break;
        }
    }
    Ok(all)
}

/// Adds the messages of one answer. Whether it is the last one.
fn parse_messages(mut bytes: &[u8], all: &mut Vec<Message>) -> io::Result<bool> {
    let torn = || io::Error::from_raw_os_error(libc::EPROTO);
    while let Some(length) = bytes.first_chunk() {
        let length = usize::try_from(u32::from_ne_bytes(*length)).unwrap_or(0);
        let kind = bytes.get(4..).and_then(|b| b.first_chunk()).ok_or_else(torn)?;
        let kind = u16::from_ne_bytes(*kind);
        let body = bytes.get(HEAD..length).ok_or_else(torn)?;
        match kind {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => {
                let code = body.first_chunk().map_or(libc::EPROTO, |b| i32::from_ne_bytes(*b));
                return match code {
                    0 => Ok(true),
                    code => Err(io::Error::from_raw_os_error(code.saturating_neg())),
                };
            }
            kind => all.push(Message { kind, body: body.to_vec() }),
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

/// The attribute of a list with a number.
pub(crate) fn attribute(mut list: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16::from_ne_bytes(*list.first_chunk()?));
        let kind = u16::from_ne_bytes(*list.get(2..)?.first_chunk()?);
        let value = list.get(4..length)?;
        if kind & 0x3fff == wanted {
            return Some(value);
        }
        list = list.get(length.next_multiple_of(4)..)?;
    }
}

/// An attribute for a request.
fn put(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = 4 + value.len();
    let mut bytes = u16::try_from(length).unwrap_or(0).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(length.next_multiple_of(4), 0);
    bytes
}

/// A table of neighbours of the host: all network namespaces share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeighbourTable {
    /// `arp_cache` or `ndisc_cache`.
    pub name: String,
    /// Entries.
    pub entries: u32,
    /// The most that it holds (`gc_thresh3`).
    pub max: u32,
}

/// The tables of neighbours (`RTM_GETNEIGHTBL`), which every network namespace may ask for.
///
/// # Errors
/// The kernel's answer.
pub fn neighbour_tables() -> io::Result<Vec<NeighbourTable>> {
    const GET: u16 = 66;
    let answer = ask(Part::Route, GET, DUMP, &[0; 4])?;
    Ok(answer.iter().filter_map(|message| neighbour_table(&message.body)).collect())
}

/// A table in an answer; the kernel sends further messages for each device, which have no configuration.
fn neighbour_table(body: &[u8]) -> Option<NeighbourTable> {
    const NAME: u16 = 1;
    const THRESHOLD_3: u16 = 4;
    const CONFIG: u16 = 5;
    let list = body.get(4..)?;
    let name = attribute(list, NAME)?;
    let max = attribute(list, THRESHOLD_3)?.first_chunk()?;
    // `struct ndt_config`: lengths of key and entry, then the entries.
    let entries = attribute(list, CONFIG)?.get(4..)?.first_chunk()?;
    Some(NeighbourTable {
        name: String::from_utf8_lossy(name).trim_end_matches('\0').to_owned(),
        entries: u32::from_ne_bytes(*entries),
        max: u32::from_ne_bytes(*max),
    })
}

/// Whether the driver of an interface has native XDP, as the kernel reports it (`netdev` family, Linux 6.3). Nothing is
/// attached.
///
/// # Errors
/// The kernel's answer; ENOENT where it is older.
pub fn has_native_xdp(interface: u32) -> io::Result<bool> {
    const CONTROL: u16 = 16;
    const GET_FAMILY: u8 = 3;
    const FAMILY_ID: u16 = 1;
    const FAMILY_NAME: u16 = 2;
    const DEVICE_GET: u8 = 1;
    const DEVICE_INDEX: u16 = 1;
    const DEVICE_FEATURES: u16 = 3;
    /// Programs may pass, drop and abort.
    const BASIC: u64 = 1;
    let missing = || io::Error::from_raw_os_error(libc::ENOENT);
    let mut body = vec![GET_FAMILY, 1, 0, 0];
    body.extend(put(FAMILY_NAME, b"netdev\0"));
    let answer = ask(Part::Generic, CONTROL, REQUEST, &body)?;
    let list = answer.first().and_then(|message| message.body.get(4..)).ok_or_else(missing)?;
    let family = attribute(list, FAMILY_ID).and_then(|id| id.first_chunk()).ok_or_else(missing)?;
    let mut body = vec![DEVICE_GET, 1, 0, 0];
    body.extend(put(DEVICE_INDEX, &interface.to_ne_bytes()));
    let answer = ask(Part::Generic, u16::from_ne_bytes(*family), REQUEST, &body)?;
    let list = answer.first().and_then(|message| message.body.get(4..)).ok_or_else(missing)?;
    let features = attribute(list, DEVICE_FEATURES).and_then(|bits| bits.first_chunk());
    Ok(u64::from_ne_bytes(*features.ok_or_else(missing)?) & BASIC != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = u32::try_from(HEAD + body.len()).unwrap().to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend(body);
        bytes
    }

    #[test]
    fn messages_are_read_to_the_last_and_errors_and_torn_answers_are_errors() {
        let mut all = Vec::new();
        let mut bytes = message(64, &[1, 2, 3, 4]);
        bytes.extend(message(64, &[5]));
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        assert!(!parse_messages(&bytes, &mut all).unwrap());
        assert_eq!(all.iter().map(|m| m.body.len()).collect::<Vec<_>>(), [4, 1]);
        assert!(parse_messages(&message(NLMSG_DONE, &[0; 4]), &mut all).unwrap());
        let error = message(NLMSG_ERROR, &(-libc::ENODEV).to_ne_bytes());
        assert_eq!(
            parse_messages(&error, &mut all).unwrap_err().raw_os_error(),
            Some(libc::ENODEV)
        );
        for end in 4..20 {
            assert!(parse_messages(&bytes[..end], &mut Vec::new()).is_err(), "cut at {end}");
        }
        assert!(parse_messages(&[0; 16], &mut Vec::new()).is_err(), "a length of nothing");
    }

    #[test]
    fn a_table_of_neighbours_is_read_and_a_device_of_it_is_none() {
        let mut body = vec![2, 0, 0, 0];
        body.extend(put(1, b"arp_cache\0"));
        assert_eq!(neighbour_table(&body), None);
        body.extend(put(4, &1024_u32.to_ne_bytes()));
        body.extend(put(5, &[4, 0, 0, 2, 7, 0, 0, 0, 0, 0, 0, 0]));
        let wanted = NeighbourTable { name: "arp_cache".to_owned(), entries: 7, max: 1024 };
        assert_eq!(neighbour_table(&body), Some(wanted));
    }

    #[test]
    fn this_kernel_has_tables_of_neighbours() {
        let tables = neighbour_tables().unwrap();
        assert!(
            tables.iter().any(|table| table.name == "arp_cache" && table.max > 0),
            "{tables:?}"
        );
    }

    #[test]
    fn the_loopback_interface_has_no_native_xdp() {
        match has_native_xdp(1) {
            Ok(has) => assert!(!has),
            Err(e) => assert_eq!(e.raw_os_error(), Some(libc::ENOENT), "an older kernel: {e}"),
        }
        if has_native_xdp(1).is_ok() {
            assert_eq!(has_native_xdp(0x7fff_ffff).unwrap_err().raw_os_error(), Some(libc::ENODEV));
        }
    }
}
