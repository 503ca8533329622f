//! Every bound of the decoders, with its reason, its source and what reaching it means.

use gabion_record::limits;

/// Longest IP packet in bytes that the length field can express. Only a longer buffer may have a
/// length of zero: hardware offload delivers such packets ("BIG TCP"), and they fill the whole
/// buffer.
pub const MAX_IP_LEN: usize = 65_535;

limits! { "packet";
    /// Nested layers of one frame before decoding stops: Suricata's default of
    /// `decoder.max-layers`. It bounds recursion and the work for one frame.
    pub const MAX_LAYERS: u8 = 16,
        Counts("the layers within, as event `too_many_layers`");

    /// Packets found inside one frame, one less than its layers.
    pub const MAX_INNER: usize = MAX_LAYERS as usize - 1,
        Spares("each costs a layer, so their limit is reached first");

    /// VLAN tags kept of one packet, as many as in Suricata.
    pub const MAX_VLANS: usize = 3,
        Counts("the packet, as event `vlan.too_many_layers`");

    /// Events kept of one packet, as many as in Suricata.
    pub const MAX_EVENTS: usize = 15,
        Loses("decoder events of a packet");

    /// UDP ports of one tunnel kind (VXLAN, Geneve, Teredo) in the configuration: twice as many as
    /// Suricata reads.
    pub const MAX_TUNNEL_PORTS: usize = 8,
        Loses("further ports of a tunnel kind: no tunnel is decoded on them");
}
