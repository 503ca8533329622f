//! # packet: from the link layer to the transport layer
//!
//! The input is the bytes of one frame and its link type. The output is a [`PacketSet`]: the packet
//! the frame carried and, for each tunnel, the packet found inside, each a plain struct of offsets,
//! numbers, flags and decoder events. Statistics are counted in [`DecodeCounters`].
//!
//! The crate holds the decoders of all layers up to the transport header, checksums on request, and the key by which frames are spread over workers. It keeps no
//! state between frames: IP reassembly and the flow table are in the crate `flow`.
#![forbid(unsafe_code)]

#[cfg(test)]
mod build;
pub mod checksum;
mod config;
mod counters;
mod decode;
mod decoded;
mod ethernet;
mod event;
mod fuzz;
mod gre;
mod icmp;
mod ipv4;
mod ipv6;
mod layer;
pub mod limits;
mod link;
mod mpls;
mod nsh;
mod overlay;
mod partition;
mod partition_program;
mod ppp;
mod tcp;
mod transport;
mod udp;

pub use config::{DecodeConfig, TunnelPorts};
pub use counters::{Counter, DecodeCounters};
pub use decode::{decode, decode_ip_reassembled};
pub use decoded::{Decoded, ExtHeaders, Flags, IpOptions, Network, PacketSet, PacketSource};
pub use ethernet::Arp;
pub use event::EventList;
#[doc(hidden)]
pub use fuzz::DecodeFault;
pub use gabion_record::DecoderEvent;
pub use link::Link;
pub use partition::{TUNNELS, decoded_key, ordinary_key, worker_of_key};
pub use partition_program::{KernelInstruction, worker_program};
pub use transport::{Esp, Gre, Icmp, Quoted, Sctp, Tcp, TcpOptions, TransportHeader, Udp};

/// Decodes arbitrary bytes as a frame of `link` and returns what is wrong with the result, if
/// anything. For fuzzers and tests.
#[doc(hidden)]
pub fn fuzz_entry(
    set: &mut PacketSet,
    counters: &mut DecodeCounters,
    link: Link,
    frame: &[u8],
) -> Result<(), DecodeFault> {
    fuzz::decode_and_check(set, counters, link, frame)
}
