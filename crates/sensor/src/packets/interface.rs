//! Interfaces as inputs of a run: opened by name, waited for when they go down, closed without losing what came.

use super::ring_group::RingGroup;
use gabion_capture::Source;
use gabion_capture::filter::{ClassicInstruction, Filter};
use gabion_capture::live::{LinkFault, Live, RingSize};
use gabion_runtime::sockets::packets::{
    NetworkInterface, bind_packet_socket, find_interface, join_promiscuous, open_packet_socket,
};
use gabion_settings::InterfaceSettings;
use rustix::net::netdevice::index_to_name;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
    #[error("a ring of {bytes} bytes cannot be made: {source}")]
    Ring { bytes: u64, source: io::Error },
    #[error("bpf-filter: {0}")]
    Filter(String),
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

    /// Whether it lies in where this runs: a privilege, or memory.
    pub(super) fn is_of_environment(&self) -> bool {
        matches!(self, InterfaceError::Refused(_) | InterfaceError::Ring { .. })
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
            InterfaceError::Filter(_) => "write it as pcap-filter(7) describes",
            InterfaceError::Other(_) => "name another interface",
        }
    }
}

/// What was reported of an interface about the sizes of frames, whichever of its rings they came to.
#[derive(Debug, Default)]
pub(super) struct ReportedSizes {
    is_large: AtomicBool,
    is_cut: AtomicBool,
}

/// An interface that frames are read from, and whether it is there.
pub(super) struct Opened {
    wanted: InterfaceSettings,
    index: u32,
    /// Largest packet that the interface takes, in bytes.
    mtu: u32,
    is_away: bool,
    is_closing: bool,
    group: Option<RingGroup>,
    /// The filter that the kernel runs.
    program: Option<Vec<ClassicInstruction>>,
    reported: Arc<ReportedSizes>,
}

fn link_of(hardware: u16) -> Result<u16, InterfaceError> {
    match hardware {
        HARDWARE_ETHERNET | HARDWARE_LOOPBACK => Ok(ETHERNET),
        HARDWARE_NONE | HARDWARE_RAW_IP => Ok(RAW_IP),
        other => Err(InterfaceError::Hardware(other)),
    }
}

/// The filter of an interface as the kernel runs it, so that no frame is copied in vain, or as it is where the kernel
/// can't.
type Filters = (Option<Vec<ClassicInstruction>>, Option<Filter>);

fn filters(
    wanted: &InterfaceSettings,
    link: u16,
    notes: &mut Vec<String>,
) -> Result<Filters, InterfaceError> {
    let Some(text) = &wanted.filter else { return Ok((None, None)) };
    let filter = Filter::compile(text).map_err(|e| InterfaceError::Filter(e.to_string()))?;
    match filter.to_classic(link) {
        Ok(program) => Ok((Some(program), None)),
        Err(why) => {
            notes.push(format!(
                "the kernel does not run the filter: {why}: frames are copied first"
            ));
            Ok((None, Some(filter)))
        }
    }
}

/// A ring for an interface, which nothing enters yet.
fn make_ring(wanted: &InterfaceSettings) -> Result<(Live, NetworkInterface), InterfaceError> {
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
        is_locked: wanted.is_locked,
    };
    let bytes = u64::from(size.block_len) * u64::from(size.blocks);
    let live = Live::new(socket, size, link_of(found.hardware)?)
        .map_err(|source| InterfaceError::Ring { bytes, source })?;
    live.refuse_frames().map_err(InterfaceError::Other)?;
    Ok((live, found))
}

impl Opened {
    /// Opens an interface: the ring first, so that no frame comes before there is room for it, and none before
    /// [`Opened::admit`]. What a person should know goes to `notes`; a filter that the kernel can't run is returned.
    pub(super) fn open(
        wanted: &InterfaceSettings,
        group: Option<RingGroup>,
        notes: &mut Vec<String>,
    ) -> Result<(Source, Opened, Option<Filter>), InterfaceError> {
        let (live, found) = make_ring(wanted)?;
        let (program, filter) = filters(wanted, live.link(), notes)?;
        notes.extend(wanted.idle.iter().cloned());
        let mut opened = Opened {
            wanted: wanted.clone(),
            index: 0,
            mtu: found.mtu,
            is_away: !found.is_up,
            is_closing: false,
            reported: group.as_ref().map_or_else(Arc::default, |group| Arc::clone(&group.reported)),
            group,
            program,
        };
        notes.extend(opened.bind(&live, found.index).map_err(InterfaceError::Other)?);
        notes.extend(opened.opening_note());
        Ok((Source::from_live(live), opened, filter))
    }

    /// Binds a ring to the interface; a note where promiscuity is refused.
    fn bind(&mut self, live: &Live, index: u32) -> io::Result<Option<String>> {
        bind_packet_socket(live.socket(), index)?;
        if let Some(group) = &mut self.group {
            group.join(live)?;
        }
        self.index = index;
        let refused = if self.wanted.is_promiscuous {
            join_promiscuous(live.socket(), index).err()
        } else {
            None
        };
        Ok(refused
            .map(|e| format!("promiscuous mode is refused: {e}: only frames to this host come")))
    }

    /// From now on the frames that are wanted enter the ring.
    ///
    /// # Errors
    /// The kernel refuses the filter's program.
    pub(super) fn admit(&self, live: &Live) -> io::Result<()> {
        match &self.program {
            Some(program) => live.attach_filter(program),
            None => live.detach_filter(),
        }
    }

    /// What is worth reporting when it was opened.
    fn opening_note(&self) -> Option<String> {
        self.is_away.then(|| "the interface is down: the run waits for it".to_owned())
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
        if !self.is_away || self.is_closing {
            return None;
        }
        let Ok(found) = find_interface(source.live()?.socket(), &self.wanted.name) else {
            if index_to_name(source.live()?.socket(), self.index).is_err() {
                // It may come back with its number, but the kernel has taken it from the socket.
                self.index = 0;
            }
            return None;
        };
        if found.index != self.index {
            self.move_to(source, found.index)?;
        }
        if !found.is_up {
            return None;
        }
        // Of an interface that was renamed frames were refused.
        self.admit(source.live()?).ok()?;
        (self.is_away, self.mtu) = (false, found.mtu);
        Some("the interface is back".to_owned())
    }

    /// Looks, once in a while, whether the interface still has its name. Returns what a person should know. What an
    /// interface receives under another name is not read: another interface may get this one.
    pub(super) fn check(&mut self, source: &Source) -> Option<String> {
        if self.is_away || self.is_closing {
            return None;
        }
        let live = source.live()?;
        let found = find_interface(live.socket(), &self.wanted.name);
        if !found.is_ok_and(|found| found.index == self.index)
            // One that is gone is a fault of its socket, which is seen at once.
            && let Ok(now) = index_to_name(live.socket(), self.index)
            && now != self.wanted.name
        {
            live.refuse_frames().ok()?;
            self.is_away = true;
            return Some(format!("the interface is called {now} now: its return is awaited"));
        }
        None
    }

    /// Reads another interface that has the name now. A ring that shares frames with others can't be bound again: it
    /// makes room for a new one.
    fn move_to(&mut self, source: &mut Source, index: u32) -> Option<()> {
        let Some(group) = &mut self.group else {
            return self.bind(source.live()?, index).ok().map(|_| ());
        };
        if !group.is_turn() {
            return None;
        }
        let (live, _) = make_ring(&self.wanted).ok()?;
        self.bind(&live, index).ok()?;
        self.admit(&live).ok()?;
        source.renew_live(live);
        Some(())
    }

    /// Says once that frames are larger than the interface takes packets, since something puts packets together, and once
    /// that they are larger than a block.
    pub(super) fn size_note(&self, live: &Live) -> Option<String> {
        // Addresses and ethertype, and two tags.
        const LINK_LAYER: u32 = 14 + 8;
        let facts = live.facts();
        if facts.cut > 0 && !self.reported.is_cut.swap(true, Ordering::Relaxed) {
            // Headers of the block and of the frame stand before it.
            let wanted = facts.largest_cut.saturating_add(512).checked_next_power_of_two()?;
            let (largest, block) = (facts.largest_cut, self.wanted.block_len);
            return Some(format!(
                "frames of {largest} bytes do not fit into a block of {block}: they are cut: ask for {wanted} with \
                 block-size of af-packet"
            ));
        }
        if facts.largest <= self.mtu.saturating_add(LINK_LAYER)
            || self.reported.is_large.swap(true, Ordering::Relaxed)
        {
            return None;
        }
        let (largest, mtu, name) = (facts.largest, self.mtu, &self.wanted.name);
        Some(format!(
            "frames of up to {largest} bytes come where packets have {mtu} at most: the kernel or the interface puts \
             packets together: `ethtool -K {name} gro off lro off`"
        ))
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
