//! Limits of RDP.

use gabion_record::limits;

limits! { "proto.rdp";
    /// Channels of a connect request (MS-RDPBCGR 2.2.1.3.4 allows 31).
    pub const CHANNELS_MAX: usize = 31,
        Loses("channels of a client");

    /// Certificates of a handshake whose numbers are logged.
    pub const CERTIFICATES_MAX: usize = 16,
        Loses("numbers of certificates");

    /// Live transactions of a flow: a session has five.
    pub const TXS_MAX: usize = 64,
        Loses("the oldest transaction of a flow");
}
