//! Every bound of the decoders, with its reason.

/// Layers one frame may be nested before decoding stops with `too_many_layers`: the peer's default
/// of `decoder.max-layers`. It bounds recursion and the work one frame can ask for.
pub const MAX_LAYERS: u8 = 16;

/// Packets found inside one frame at most. Each costs a layer, so the bound above is reached first.
pub const MAX_INNER: usize = MAX_LAYERS as usize - 1;

/// VLAN tags kept of one packet; the fourth raises `vlan.too_many_layers` (the peer's bound).
pub const MAX_VLANS: usize = 3;

/// Events kept of one packet; those beyond are counted in [`crate::EventList::lost`]. The peer
/// keeps as many.
pub const MAX_EVENTS: usize = 15;

/// SCTP chunks counted in one packet: more than a full Ethernet frame of empty chunks holds.
pub const MAX_SCTP_CHUNKS: u32 = 512;

/// UDP ports of one tunnel kind (VXLAN, Geneve, Teredo): the peer reads four from its file.
pub const MAX_TUNNEL_PORTS: usize = 8;

/// Longest IP packet in bytes that its length field can say. Only a longer buffer may have a length
/// of zero: hardware offload hands such packets over ("BIG TCP"), and all of the buffer is theirs.
pub const MAX_IP_LEN: usize = 65_535;
