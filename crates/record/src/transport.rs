//! The transports that protocols of applications run over.

use crate::IpProto;

/// A transport that a protocol of applications may run over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl Transport {
    /// Its number in headers of IP.
    pub const fn ip_proto(self) -> IpProto {
        match self {
            Transport::Tcp => IpProto::TCP,
            Transport::Udp => IpProto::UDP,
        }
    }

    /// Its name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Transport::Tcp => "tcp",
            Transport::Udp => "udp",
        }
    }
}
