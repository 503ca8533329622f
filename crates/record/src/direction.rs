//! The two directions of a flow, seen from the side that opened it.

/// Direction of a packet, stream, buffer or rule within a flow. The client is the side that sent
/// the first packet, unless the protocol found out later that the roles are the other way round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Direction {
    /// From the client to the server.
    ToServer = 0,
    /// From the server to the client.
    ToClient = 1,
}

impl Direction {
    /// Both directions, in index order.
    pub const BOTH: [Direction; 2] = [Direction::ToServer, Direction::ToClient];

    /// 0 for to-server, 1 for to-client: index into per-direction pairs.
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The other direction.
    #[inline]
    pub const fn opposite(self) -> Direction {
        match self {
            Direction::ToServer => Direction::ToClient,
            Direction::ToClient => Direction::ToServer,
        }
    }

    /// `to_server` or `to_client`, as EVE writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Direction::ToServer => "to_server",
            Direction::ToClient => "to_client",
        }
    }
}
