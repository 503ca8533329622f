//! States of flows and of TCP connections, why a flow ended and what was done with it, in the words of EVE.

/// State of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum FlowState {
    /// One direction seen, or handshake not complete.
    #[default]
    New = 0,
    /// Both directions seen, or handshake complete.
    Established = 1,
    /// The TCP connection has ended.
    Closed = 2,
    /// The flow is no longer inspected.
    Bypassed = 3,
}

impl FlowState {
    /// EVE's word.
    pub const fn name(self) -> &'static str {
        match self {
            FlowState::New => "new",
            FlowState::Established => "established",
            FlowState::Closed => "closed",
            FlowState::Bypassed => "bypassed",
        }
    }
}

/// Why a flow ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndReason {
    /// The timeout passed without a packet.
    Timeout,
    /// It was evicted to free space.
    Forced,
    /// The input ended.
    Shutdown,
    /// A new connection reused its key.
    TcpReuse,
}

impl EndReason {
    /// EVE's word.
    pub const fn name(self) -> &'static str {
        match self {
            EndReason::Timeout => "timeout",
            EndReason::Forced => "forced",
            EndReason::Shutdown => "shutdown",
            EndReason::TcpReuse => "tcp_reuse",
        }
    }
}

/// State of a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(u8)]
pub enum TcpState {
    /// No handshake seen.
    #[default]
    None = 0,
    /// The client's SYN was seen.
    SynSent = 1,
    /// The server's SYN/ACK was seen.
    SynRecv = 2,
    /// The handshake is complete.
    Established = 3,
    /// The server has sent a FIN.
    FinWait1 = 4,
    /// The server has sent a FIN and the client has acknowledged it.
    FinWait2 = 5,
    /// Both have sent a FIN, the server first.
    TimeWait = 6,
    /// Both have sent a FIN, the client first.
    LastAck = 7,
    /// The client has sent a FIN.
    CloseWait = 8,
    /// Both have sent a FIN at the same time.
    Closing = 9,
    /// The connection has ended.
    Closed = 10,
}

impl TcpState {
    /// EVE's word.
    pub const fn name(self) -> &'static str {
        match self {
            TcpState::None => "none",
            TcpState::SynSent => "syn_sent",
            TcpState::SynRecv => "syn_recv",
            TcpState::Established => "established",
            TcpState::FinWait1 => "fin_wait1",
            TcpState::FinWait2 => "fin_wait2",
            TcpState::TimeWait => "time_wait",
            TcpState::LastAck => "last_ack",
            TcpState::CloseWait => "close_wait",
            TcpState::Closing => "closing",
            TcpState::Closed => "closed",
        }
    }

    /// The flow's state in this state; `None` if it stays unchanged.
    pub const fn flow_state(self) -> Option<FlowState> {
        match self {
            TcpState::None | TcpState::SynSent | TcpState::SynRecv => None,
            TcpState::Established
            | TcpState::FinWait1
            | TcpState::FinWait2
            | TcpState::Closing
            | TcpState::CloseWait => Some(FlowState::Established),
            TcpState::LastAck | TcpState::TimeWait | TcpState::Closed => Some(FlowState::Closed),
        }
    }
}

/// What rules or policies did with a flow as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlowAction {
    /// Its packets were dropped.
    Drop,
    /// A firewall rule accepted it.
    Accept,
    /// A rule passed it.
    Pass,
}

impl FlowAction {
    /// EVE's word.
    pub const fn name(self) -> &'static str {
        match self {
            FlowAction::Drop => "drop",
            FlowAction::Accept => "accept",
            FlowAction::Pass => "pass",
        }
    }
}
