//! A TPACKET_V3 ring: memory that the kernel fills with packets block by block, shared without a copy.
//!
//! A block belongs to the kernel or to this program, as its status word says. While it is ours, the kernel writes
//! nothing into it, and it returns to the kernel when the last reader of its frames is gone.
//!
//! `unsafe` stands here because the memory is shared with the kernel, and because no crate has these options of sockets.
#![allow(unsafe_code)]

use super::block::{PACKETS, STATUS, STATUS_USER};
use crate::filter::ClassicInstruction;
use memmap2::{MmapOptions, MmapRaw};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

/// The memory of a ring.
#[derive(Debug)]
struct RingMap {
    map: MmapRaw,
    block_len: usize,
    /// Blocks whose frames are still read here.
    held: Box<[AtomicBool]>,
    /// How many they are.
    reading: AtomicUsize,
}

impl RingMap {
    /// A word of a block's header.
    fn word(&self, index: usize, at: usize) -> &AtomicU32 {
        // SAFETY: every index is below the number of blocks, so the word lies within the map, which lives as long as
        // `self`; blocks begin at pages, so it is aligned. The kernel changes it as one word.
        unsafe {
            AtomicU32::from_ptr(self.map.as_mut_ptr().add(index * self.block_len + at).cast())
        }
    }

    /// The status word of a block.
    fn status(&self, index: usize) -> &AtomicU32 {
        self.word(index, STATUS)
    }

    /// The number of packets of a block.
    fn packets(&self, index: usize) -> &AtomicU32 {
        self.word(index, PACKETS)
    }
}

/// A block that belongs to this program until it is dropped.
#[derive(Debug)]
pub(crate) struct RingBlock {
    ring: Arc<RingMap>,
    index: usize,
}

impl RingBlock {
    /// Its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        let at = self.index * self.ring.block_len;
        // SAFETY: the block lies within the map. It is ours, so neither the kernel nor, through a shared reference,
        // anybody else writes into it.
        unsafe { std::slice::from_raw_parts(self.ring.map.as_ptr().add(at), self.ring.block_len) }
    }

    /// Its bytes, to put tags back.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        let at = self.index * self.ring.block_len;
        // SAFETY: as in `bytes`; `&mut self` is the only reference to this block, and each block is handed out once
        // until it has returned.
        unsafe {
            std::slice::from_raw_parts_mut(self.ring.map.as_mut_ptr().add(at), self.ring.block_len)
        }
    }
}

impl Drop for RingBlock {
    fn drop(&mut self) {
        // Until the kernel opens it again it has none.
        self.ring.packets(self.index).store(0, Ordering::Relaxed);
        // What was read of the block comes before the kernel's next use of it, and that before ours.
        self.ring.status(self.index).store(0, Ordering::Release);
        if let Some(held) = self.ring.held.get(self.index) {
            held.store(false, Ordering::Release);
            self.ring.reading.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// The size of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSize {
    /// Bytes of a block: a power of two, a page at least.
    pub block_len: u32,
    /// Blocks.
    pub blocks: u32,
    /// Milliseconds after which the kernel hands over a block that is not full.
    pub block_timeout_ms: u32,
    /// Its memory is never swapped out.
    pub is_locked: bool,
}

/// What the kernel counted since the last question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingCounts {
    /// Frames that reached the socket, those that were dropped included.
    pub offered: u64,
    /// Frames for which no block was free.
    pub dropped: u64,
}

/// A socket with its ring, and the block that comes next.
#[derive(Debug)]
pub(super) struct Ring {
    socket: OwnedFd,
    map: Arc<RingMap>,
    blocks: usize,
    next: usize,
}

fn set_option<T>(socket: BorrowedFd<'_>, level: i32, option: i32, value: &T) -> io::Result<()> {
    // SAFETY: the pointer and the length are those of one value, which the kernel only reads.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What the kernel counted since the last question; it begins at zero again.
pub(super) fn take_counts(socket: BorrowedFd<'_>) -> io::Result<RingCounts> {
    let mut counts = libc::tpacket_stats_v3 { tp_packets: 0, tp_drops: 0, tp_freeze_q_cnt: 0 };
    let mut len = size_of_val(&counts) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, the size of `counts`, whose fields are plain integers.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut counts).cast(),
            &raw mut len,
        )
    };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(RingCounts { offered: counts.tp_packets.into(), dropped: counts.tp_drops.into() })
}

/// A program as the kernel takes it.
fn instructions(program: &[ClassicInstruction]) -> Vec<libc::sock_filter> {
    let one =
        |i: &ClassicInstruction| libc::sock_filter { code: i.code, jt: i.jt, jf: i.jf, k: i.k };
    program.iter().map(one).collect()
}

/// Refers to the instructions, which must live as long as it is used.
fn classic_program(instructions: &mut [libc::sock_filter]) -> io::Result<libc::sock_fprog> {
    let len = u16::try_from(instructions.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    Ok(libc::sock_fprog { len, filter: instructions.as_mut_ptr() })
}

impl Ring {
    /// Makes a ring for a socket that is not bound yet, so that no frame comes before its memory is there.
    pub(super) fn new(socket: OwnedFd, size: RingSize) -> io::Result<Ring> {
        let version = libc::tpacket_versions::TPACKET_V3 as libc::c_int;
        set_option(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
        // Room before each frame in which its VLAN tag is put back.
        set_option(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_RESERVE, &4_u32)?;
        let frame_len = 2048.min(size.block_len);
        let request = libc::tpacket_req3 {
            tp_block_size: size.block_len,
            tp_block_nr: size.blocks,
            tp_frame_size: frame_len,
            tp_frame_nr: (size.block_len / frame_len).saturating_mul(size.blocks),
            tp_retire_blk_tov: size.block_timeout_ms,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set_option(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        let (block_len, blocks) = (size.block_len as usize, size.blocks as usize);
        let map = MmapOptions::new().len(block_len * blocks).map_raw(socket.as_raw_fd())?;
        if size.is_locked {
            map.lock()?;
        }
        let held = (0..blocks).map(|_| AtomicBool::new(false)).collect();
        Ok(Ring {
            socket,
            map: Arc::new(RingMap { map, block_len, held, reading: AtomicUsize::new(0) }),
            blocks,
            next: 0,
        })
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether the next block belongs to this program and was not taken yet.
    pub(super) fn has_next(&self) -> bool {
        let is_held = |held: &AtomicBool| held.load(Ordering::Acquire);
        !self.map.held.get(self.next).is_none_or(is_held)
            && self.map.status(self.next).load(Ordering::Acquire) & STATUS_USER != 0
    }

    /// Whether the kernel has put frames into the next block and not handed it over yet.
    pub(super) fn is_filling(&self) -> bool {
        self.map.packets(self.next).load(Ordering::Relaxed) > 0
    }

    /// Whether frames of blocks that were handed out are still read somewhere.
    pub(super) fn is_in_use(&self) -> bool {
        self.map.reading.load(Ordering::Relaxed) > 0
    }

    /// The next block, if the kernel has handed it over.
    pub(super) fn next_block(&mut self) -> Option<RingBlock> {
        if !self.has_next() {
            return None;
        }
        self.map.held.get(self.next)?.store(true, Ordering::Relaxed);
        self.map.reading.fetch_add(1, Ordering::Relaxed);
        let block = RingBlock { ring: Arc::clone(&self.map), index: self.next };
        self.next = (self.next + 1) % self.blocks;
        Some(block)
    }

    /// From now on only frames enter the ring for which this program returns more than 0.
    pub(super) fn attach_filter(&self, program: &[ClassicInstruction]) -> io::Result<()> {
        set_option(
            self.socket.as_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            &classic_program(&mut instructions(program))?,
        )
    }

    /// From now on every frame enters the ring.
    pub(super) fn detach_filter(&self) -> io::Result<()> {
        let done = set_option(self.socket.as_fd(), libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0);
        match done {
            // There was none.
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => Ok(()),
            done => done,
        }
    }

    /// Joins other rings of the interface: each frame enters the ring that the program names, in the order in which
    /// they joined. Without a group a new one is made; returns its number.
    pub(super) fn join_group(
        &self,
        group: Option<u16>,
        program: &[ClassicInstruction],
    ) -> io::Result<u16> {
        /// `PACKET_FANOUT_CBPF`, the flag that asks for a number that nobody uses, and the options (linux/if_packet.h).
        const BY_PROGRAM: u32 = 6 << 16;
        const UNIQUE: u32 = 0x2000 << 16;
        const FANOUT: i32 = 18;
        const FANOUT_DATA: i32 = 22;
        let wanted = match group {
            Some(group) => BY_PROGRAM | u32::from(group),
            None => BY_PROGRAM | UNIQUE,
        };
        let level = libc::SOL_PACKET;
        set_option(self.socket.as_fd(), level, FANOUT, &wanted)?;
        set_option(
            self.socket.as_fd(),
            level,
            FANOUT_DATA,
            &classic_program(&mut instructions(program))?,
        )?;
        let mut joined = 0_u32;
        let mut len = size_of_val(&joined) as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes, the size of `joined`, a plain integer.
        let done = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                level,
                FANOUT,
                (&raw mut joined).cast(),
                &raw mut len,
            )
        };
        if done == 0 { Ok(joined as u16) } else { Err(io::Error::last_os_error()) }
    }

    /// Its bytes.
    pub(super) fn bytes(&self) -> u64 {
        (self.map.block_len * self.blocks) as u64
    }

    /// Blocks that the kernel has no use of, since they wait to be read or are read, in percent of the ring. Those that
    /// wait follow each other, so that few are looked at.
    pub(super) fn fill_percent(&self) -> u32 {
        let waits = |n: usize| {
            let at = (self.next + n) % self.blocks;
            let is_held = self.map.held.get(at).is_some_and(|h| h.load(Ordering::Acquire));
            !is_held && self.map.status(at).load(Ordering::Acquire) & STATUS_USER != 0
        };
        let (mut low, mut high) = (0, self.blocks);
        while low < high {
            let middle = low + (high - low) / 2;
            if waits(middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let full = low + self.map.reading.load(Ordering::Relaxed);
        (full * 100 / self.blocks.max(1)) as u32
    }
}
