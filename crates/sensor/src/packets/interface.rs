//! Interfaces as inputs of a run: opened by name, waited for when they go down, closed without losing what came.

use gabion_capture::live::{LinkFault, Live};
use gabion_capture::{Source, live::RingSize};
use gabion_runtime::sockets::packets::{
    bind_packet_socket, find_interface, join_promiscuous, open_packet_socket,
};
use gabion_settings::InterfaceSettings;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};

/// LINKTYPE numbers (tcpdump.org's registry).
const ETHERNET: u16 = 1;
const RAW_IP: u16 = 101;
/// Kinds of hardware (linux/if_arp.h): Ethernet, the loopback, and tunnels without a link layer.
const HARDWARE_ETHERNET: u16 = 1;
const HARDWARE_LOOPBACK: u16 = 772;
const HARDWARE_NONE: u16 = 65_534;
const HARDWARE_RAW_IP: u16 = 519;

/// Why an interface can't be read from.
#[derive(Debug, thiserror::Error)]
pub(super) enum InterfaceError {
    #[error("there is no interface with this name")]
    Absent,
    #[error("its frames may not be read: {0}")]
    Refused(io::Error),
    #[error("its frames are of hardware type {0}, which is not decoded")]
    Hardware(u16),
    #[error("no ring of {bytes} bytes: {source}")]
    Ring { bytes: u64, source: io::Error },
    #[error("{0}")]
    Other(io::Error),
}

impl InterfaceError {
    fn of_lookup(error: io::Error) -> InterfaceError {
        match (error.raw_os_error(), error.kind()) {
            // ENODEV, and names that no interface can have.
            (Some(19), _) | (_, ErrorKind::InvalidInput | ErrorKind::NotFound) => {
                InterfaceError::Absent
            }
            _ => InterfaceError::Other(error),
        }
    }

    /// What to do about it.
    pub(super) fn advice(&self) -> &'static str {
        match self {
            InterfaceError::Absent => "`ip link` lists those that are there",
            InterfaceError::Refused(_) => "run this as root, or with the capability CAP_NET_RAW",
            InterfaceError::Hardware(_) => "name an interface of Ethernet or raw IP",
            InterfaceError::Ring { .. } => {
                "ask for less with ring-size and block-size of af-packet"
            }
            InterfaceError::Other(_) => "name another interface",
        }
    }
}

/// An interface that frames are read from, and whether it is there.
pub(super) struct Opened {
    wanted: InterfaceSettings,
    index: u32,
    is_away: bool,
    is_closing: bool,
}

fn link_of(hardware: u16) -> Result<u16, InterfaceError> {
    match hardware {
        HARDWARE_ETHERNET | HARDWARE_LOOPBACK => Ok(ETHERNET),
        HARDWARE_NONE | HARDWARE_RAW_IP => Ok(RAW_IP),
        other => Err(InterfaceError::Hardware(other)),
    }
}

impl Opened {
    /// Opens an interface: the ring first, so that no frame comes before there is room for it.
    pub(super) fn open(wanted: &InterfaceSettings) -> Result<(Source, Opened), InterfaceError> {
        let socket = open_packet_socket().map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => InterfaceError::Refused(error),
            _ => InterfaceError::Other(error),
        })?;
        let found = find_interface(socket.as_fd(), &wanted.name);
        let found = found.map_err(InterfaceError::of_lookup)?;
        let size = RingSize {
            block_len: wanted.block_len,
            blocks: wanted.blocks,
            block_timeout_ms: wanted.block_timeout_ms,
        };
        let bytes = u64::from(size.block_len) * u64::from(size.blocks);
        let live = Live::new(socket, size, link_of(found.hardware)?)
            .map_err(|source| InterfaceError::Ring { bytes, source })?;
        let mut opened =
            Opened { wanted: wanted.clone(), index: 0, is_away: !found.is_up, is_closing: false };
        opened.bind(live.socket(), found.index).map_err(InterfaceError::Other)?;
        Ok((Source::from_live(live), opened))
    }

    fn bind(&mut self, socket: BorrowedFd<'_>, index: u32) -> io::Result<()> {
        bind_packet_socket(socket, index)?;
        self.index = index;
        if self.wanted.is_promiscuous {
            // Where it is refused, frames to this host still come.
            let _ = join_promiscuous(socket, index);
        }
        Ok(())
    }

    /// What is worth reporting when it was opened.
    pub(super) fn opening_note(&self) -> Option<String> {
        self.is_away.then(|| "the interface is down: frames are awaited".to_owned())
    }

    /// Looks after the interface where no frame came for a while, or a fault was seen. Returns what a person should know.
    pub(super) fn look_after(&mut self, source: &mut Source) -> Option<String> {
        match source.take_link_fault() {
            Some(LinkFault::Down) if !self.is_away => {
                self.is_away = true;
                return Some("the interface went down or away: its return is awaited".to_owned());
            }
            Some(LinkFault::Other(number)) => {
                let error = io::Error::from_raw_os_error(number);
                return Some(format!("the interface reported an error: {error}"));
            }
            Some(LinkFault::Down) | None => {}
        }
        if !self.is_away {
            return None;
        }
        let socket = source.live()?.socket();
        let found = find_interface(socket, &self.wanted.name).ok()?;
        if found.index != self.index && self.bind(socket, found.index).is_err() {
            return None;
        }
        if !found.is_up {
            return None;
        }
        self.is_away = false;
        Some("the interface is back".to_owned())
    }

    /// Begins to close: no frame enters the ring any more, and those in it are read. False: that was asked before.
    pub(super) fn close(&mut self, source: &Source) -> bool {
        if self.is_closing {
            return false;
        }
        self.is_closing = true;
        // Where the kernel refuses, the frames of the next moment are read too.
        source.live().is_some_and(|live| live.refuse_frames().is_ok())
    }
}
