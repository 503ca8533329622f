//! The one table of dialects: over which sockets logs come, and what is spoken there. A new dialect is a file here with
//! its [`Session`], and one row of the table; the number and the name that its records have in a sealed log are its row
//! in `seal::record`, without which the table does not compile.

pub mod relp;
pub mod slog_tcp;

use crate::framing::SyslogSession;
use crate::session::{Session, SessionSettings};
use gabion_seal::Transport;
use relp::RelpServer;
use slog_tcp::SlogSession;

/// What kind of socket a dialect is spoken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Carrier {
    /// UDP.
    Udp,
    /// A local socket of datagrams.
    Local,
    /// TCP in clear.
    Tcp,
    /// TLS over TCP.
    Tls,
}

/// How a dialect is spoken over datagrams or connections.
#[derive(Clone, Copy, Debug)]
pub enum Manner {
    /// One message a datagram.
    Datagrams,
    /// A session a connection.
    Sessions {
        /// Begins one.
        begin: fn(&SessionSettings) -> Box<dyn Session>,
        /// By which word connections are counted that broke its rules, where it has some.
        violation: Option<&'static str>,
        /// Answers are short and waited for: they are sent without delay, and clients are asked for segments of this
        /// payload at most.
        segment_bytes: Option<u16>,
    },
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct Dialect {
    /// How it stands in records; its name is the dialect's.
    pub transport: Transport,
    /// Over which sockets.
    pub carrier: Carrier,
    /// And how.
    pub manner: Manner,
    /// Messages are envelopes, opened before they are kept.
    pub is_enveloped: bool,
    /// A further name by which a service manager may call its sockets.
    pub inherited_as: Option<&'static str>,
    /// What an operator reads of it.
    pub about: &'static str,
}

/// Payload of a TCP segment that RELP's clients are asked for, as on an Ethernet. librelp corks its
/// socket: what does not fill a segment is held back for 200 ms, or until an answer comes. Where segments
/// are large (the loopback's hold 64 KiB) that is its whole window of 128 messages, every time.
const RELP_SEGMENT: u16 = 1448;

/// Lines and counted frames.
const SYSLOG: Manner = Manner::Sessions {
    begin: |settings| Box::new(SyslogSession::new(settings.framing)),
    violation: None,
    segment_bytes: None,
};

/// What a row has where it says nothing else.
const PLAIN: Dialect = Dialect {
    transport: Transport::Udp,
    carrier: Carrier::Udp,
    manner: Manner::Datagrams,
    is_enveloped: false,
    inherited_as: None,
    about: "",
};

/// All dialects, in the order in which operators read of them.
pub const ALL: &[Dialect] = &[
    Dialect { about: "Syslog over UDP", ..PLAIN },
    Dialect {
        transport: Transport::Tcp,
        carrier: Carrier::Tcp,
        manner: SYSLOG,
        about: "Syslog over TCP, octet-counted or one message per line",
        ..PLAIN
    },
    Dialect {
        transport: Transport::Tls,
        carrier: Carrier::Tls,
        manner: SYSLOG,
        about: "Syslog over TLS",
        ..PLAIN
    },
    Dialect {
        transport: Transport::Relp,
        carrier: Carrier::Tcp,
        manner: Manner::Sessions {
            begin: |_| Box::new(RelpServer::new()),
            violation: Some("relp_violation"),
            segment_bytes: Some(RELP_SEGMENT),
        },
        about: "RELP: a message is acknowledged when it is durable",
        ..PLAIN
    },
    Dialect {
        transport: Transport::Unix,
        carrier: Carrier::Local,
        about: "A local datagram socket such as /dev/log",
        ..PLAIN
    },
    Dialect {
        transport: Transport::SlogUdp,
        is_enveloped: true,
        inherited_as: Some("slog"),
        about: "slog's envelopes over UDP",
        ..PLAIN
    },
    Dialect {
        transport: Transport::SlogTcp,
        carrier: Carrier::Tcp,
        manner: Manner::Sessions {
            begin: |settings| Box::new(SlogSession::new(settings.wrapped_len)),
            violation: None,
            segment_bytes: None,
        },
        is_enveloped: true,
        inherited_as: Some("slog"),
        about: "slog's envelopes over TCP",
    },
];

impl Dialect {
    /// Its name: in options, in the names of sockets and in output.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.transport.name()
    }

    /// Whether its messages are syslog's, one a message, as a reader of the log parses them.
    #[must_use]
    pub fn is_syslog(transport: Transport) -> bool {
        ALL.iter().any(|dialect| dialect.transport == transport && !dialect.is_enveloped)
    }

    /// Begins a session; `None` where it is spoken over datagrams.
    #[must_use]
    pub fn begin(&self, settings: &SessionSettings) -> Option<Box<dyn Session>> {
        match self.manner {
            Manner::Datagrams => None,
            Manner::Sessions { begin, .. } => Some(begin(settings)),
        }
    }

    /// By its name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Dialect> {
        ALL.iter().find(|dialect| dialect.name() == name)
    }

    /// What is spoken on a socket of this kind that a service manager calls by this name; without a name that is
    /// known it is plain syslog.
    #[must_use]
    pub fn inherited(carrier: Carrier, name: &str) -> Option<&'static Dialect> {
        // Whether it is TLS that comes over TCP, the name alone says.
        let has_kind = |dialect: &&Dialect| match (carrier, dialect.carrier) {
            (Carrier::Tcp | Carrier::Tls, Carrier::Tcp | Carrier::Tls) => true,
            (carrier, other) => carrier == other,
        };
        let is_called =
            |dialect: &&Dialect| dialect.name() == name || dialect.inherited_as == Some(name);
        let mut all = ALL.iter().filter(has_kind);
        all.clone().find(is_called).or_else(|| all.next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dialect_has_a_number_and_a_name_of_its_own() {
        for (at, dialect) in ALL.iter().enumerate() {
            assert!(ALL[..at].iter().all(|before| before.transport != dialect.transport));
        }
        for dialect in ALL {
            let is_datagrams = matches!(dialect.manner, Manner::Datagrams);
            assert!(!dialect.about.is_empty());
            assert_eq!(is_datagrams, matches!(dialect.carrier, Carrier::Udp | Carrier::Local));
            assert_eq!(
                Dialect::named(dialect.name()).map(|d| d.transport),
                Some(dialect.transport)
            );
        }
    }

    #[test]
    fn sockets_of_a_service_manager_are_known_by_kind_and_name() {
        for (carrier, name, transport) in [
            (Carrier::Udp, "slog", Transport::SlogUdp),
            (Carrier::Udp, "tls", Transport::Udp),
            (Carrier::Tcp, "slog", Transport::SlogTcp),
            (Carrier::Tcp, "tls", Transport::Tls),
            (Carrier::Tcp, "relp", Transport::Relp),
            (Carrier::Tcp, "whatever", Transport::Tcp),
            (Carrier::Local, "dev-log", Transport::Unix),
        ] {
            let found = Dialect::inherited(carrier, name).map(|d| d.transport);
            assert_eq!(found, Some(transport), "{name}");
        }
    }
}
