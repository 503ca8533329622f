//! Heads of packets that arrive at an interface, sampled for a short time at a tcx link.
//!
//! A tcx link sees packets after XDP and before the network stack, and ends with the process. It needs Linux 6.6; older
//! kernels are refused in one line, as a classifier that is attached by netlink would outlive a crash.

use crate::Error;
use crate::bpf_call;
use crate::limits::HEADS_MAX;
use crate::mapped::MappedArray;
use crate::object::{Link, Object};
use crate::refusal::{self, Kind};
use aya::programs::ProgramFd;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

/// The first heads of a sample are of all packets, those after them of the flows that the hash chooses.
pub const HEADS_OF_ALL: usize = 4096;
/// One flow in this many is sampled, less one: a mask of bits.
const FLOW_MASK: u64 = 31;
/// Words of a head.
const WORDS: usize = 6;

/// The head of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// When it arrived, in nanoseconds of the monotonic clock.
    pub at_ns: u64,
    /// Its source.
    pub source: IpAddr,
    /// Its destination.
    pub destination: IpAddr,
    /// Ports of source and destination; zeros where the protocol has none.
    pub ports: (u16, u16),
    /// Its length, link-layer header included.
    pub length: u16,
    /// The protocol of its payload.
    pub protocol: u8,
}

/// What was sampled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heads {
    /// Packets that arrived while it lasted.
    pub seen: u64,
    /// Heads of all packets, in the order of their arrival.
    pub of_all: Vec<Head>,
    /// Heads of some flows with all their packets.
    pub of_flows: Vec<Head>,
}

/// The loaded program.
pub struct HeadSampler {
    interface: u32,
    control: MappedArray,
    heads: MappedArray,
    link: Option<Link>,
    object: Object,
}

impl HeadSampler {
    /// Loads the program for an interface, and attaches it once to find out whether this kernel can.
    ///
    /// # Errors
    /// The kernel's refusal in plain words.
    pub fn load(interface: u32) -> Result<Self, Error> {
        let mut object = Object::open("heads", |_| {})?;
        object.load_classifier("sample")?;
        let mut sampler = Self {
            interface,
            control: MappedArray::new("control", object.take_array("control")?)?,
            heads: MappedArray::new("heads", object.take_array("heads")?)?,
            link: None,
            object,
        };
        sampler.attach()?;
        sampler.link = None;
        Ok(sampler)
    }

    fn attach(&mut self) -> Result<(), Error> {
        let what = format!("tcx on interface {}", self.interface);
        let program = self.object.loaded_classifier("sample")?;
        let fd: &ProgramFd =
            program.fd().map_err(|e| refusal::program(&what, Kind::Packets, &e))?;
        let link =
            bpf_call::link_tcx(fd.as_fd(), self.interface).map_err(|e| match e.raw_os_error() {
                Some(libc::EINVAL | libc::EOPNOTSUPP) => {
                    let why = "this kernel has no tcx links: Linux 6.6 or newer is needed";
                    refusal::refused(&what, why.to_owned(), &e)
                }
                Some(libc::ENODEV) => {
                    refusal::refused(&what, "the interface does not exist".to_owned(), &e)
                }
                _ => refusal::loading(&what, Kind::Packets, &e, ""),
            })?;
        self.link = Some(link.into());
        Ok(())
    }

    /// Begins a sample that ends by itself at a time of the monotonic clock, in nanoseconds.
    ///
    /// # Errors
    /// The kernel's refusal in plain words.
    pub fn begin(&mut self, until_ns: u64) -> Result<(), Error> {
        let values = [until_ns, crate::syscalls::random(), FLOW_MASK, 0, 0];
        for (word, value) in self.control.value(0).iter().zip(values) {
            word.store(value, Ordering::Relaxed);
        }
        self.attach()
    }

    /// Whether the sample has all heads that it can have.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.word(3) >= HEADS_MAX as u64
    }

    /// Ends the sample.
    pub fn end(&mut self) -> Heads {
        self.link = None;
        let written = usize::try_from(self.word(3)).unwrap_or(HEADS_MAX).min(HEADS_MAX);
        let mut all = (0..written).filter_map(|at| {
            let mut words = [0; WORDS];
            self.heads.read_words(at, &mut words);
            head_of(&words)
        });
        let of_all = all.by_ref().take(HEADS_OF_ALL).collect();
        Heads { seen: self.word(4), of_all, of_flows: all.collect() }
    }

    fn word(&self, at: usize) -> u64 {
        self.control.value(0).get(at).map_or(0, |word| word.load(Ordering::Relaxed))
    }
}

/// A head from its words; none where the program has not written all of it yet.
fn head_of(words: &[u64; WORDS]) -> Option<Head> {
    let [at_ns, addresses @ .., last] = words;
    if *at_ns == 0 {
        return None;
    }
    let mut bytes = [0; 32];
    for (eight, word) in bytes.chunks_exact_mut(8).zip(addresses) {
        eight.copy_from_slice(&word.to_ne_bytes());
    }
    let address = |from: usize| {
        let mut of = [0; 16];
        of.iter_mut().zip(bytes.iter().skip(from)).for_each(|(a, b)| *a = *b);
        Ipv6Addr::from(of).to_canonical()
    };
    let ports = *last as u32;
    Some(Head {
        at_ns: *at_ns,
        source: address(0),
        destination: address(16),
        ports: ((ports >> 16) as u16, ports as u16),
        length: (*last >> 32) as u16,
        protocol: (*last >> 48) as u8,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_has_the_layout_of_the_program() {
        let four = |d| u64::from_ne_bytes([0, 0, 0xff, 0xff, 10, 0, 0, d]);
        let last = u64::from(1024_u32 << 16 | 9) | 60 << 32 | 17 << 48;
        let head = head_of(&[5, 0, four(1), 0, four(2), last]).unwrap();
        assert_eq!(head.source, "10.0.0.1".parse::<IpAddr>().unwrap());
        assert_eq!(head.destination, "10.0.0.2".parse::<IpAddr>().unwrap());
        assert_eq!((head.ports, head.length, head.protocol), ((1024, 9), 60, 17));
        assert_eq!(head_of(&[0; 6]), None);
    }
}
