//! Limits of the BitTorrent DHT, each with its reason.

use gabion_record::limits;

limits! { "proto.bittorrent-dht";
    /// Lists and dictionaries within one another: messages have three levels (BEP 5), and Suricata 8.0.7 takes no
    /// more.
    pub const DEPTH_MAX: usize = 3,
        Counts("a message, as event `malformed_packet`");

    /// Addresses of a response that are kept: more than the largest datagram holds.
    pub const PEERS_MAX: usize = 16 * 1024,
        Spares("the largest message holds no more");
}
