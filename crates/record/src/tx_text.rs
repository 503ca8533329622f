//! Parts of a transaction that outputs of plain text write, as they came from the wire.

/// A part of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxText<'a> {
    /// HTTP: the host.
    Host,
    /// HTTP: the target of the request.
    Target,
    /// HTTP: the method.
    Method,
    /// HTTP: the version that the request names.
    Protocol,
    /// HTTP: the status of the response.
    Status,
    /// HTTP: bytes of the request's body.
    RequestLength,
    /// HTTP: bytes of the response's body.
    ResponseLength,
    /// HTTP: a field of the request, by its name.
    RequestField(&'a str),
    /// HTTP: a field of the response.
    ResponseField(&'a str),
    /// TLS: the version.
    Version,
    /// TLS: the name of the server that the client asked for.
    ServerName,
    /// TLS: the subject of the server's certificate.
    Subject,
    /// TLS: its issuer.
    Issuer,
    /// TLS: its SHA-1.
    Fingerprint,
    /// TLS: its serial number.
    Serial,
    /// TLS: when it begins to be valid.
    NotBefore,
    /// TLS: when it ends to be valid.
    NotAfter,
    /// TLS: is there, and empty, if an earlier session was resumed.
    Resumed,
}

/// Takes a part of a transaction, if the transaction has it.
pub type TakeText<'t> = &'t mut dyn FnMut(&[u8]);
