//! TLS out of files: a server's certificate and key and which clients it trusts, and the same for a client.

use crate::error::{Error, Result};
use crate::limits::{CLIENT_NAME_MAX, KEY_FILE_BYTES_MAX, reached};
use gabion_runtime::operator_file;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const PEM_WANTED: &str = "name a PEM file";
const CERTIFICATES_WANTED: &str = "name a PEM file with certificates";

/// The files of a server's side of TLS.
#[derive(Clone, Debug)]
pub struct ServerTls {
    /// Its certificate and those up to its root, PEM.
    pub certificates: PathBuf,
    /// The certificate's private key, PEM.
    pub key: PathBuf,
    /// Clients may show a certificate that these authorities vouch for; its name is kept with each message.
    pub client_authorities: Option<PathBuf>,
    /// Clients must show one.
    pub is_client_required: bool,
}

/// The files of a client's side of TLS.
#[derive(Clone, Debug)]
pub struct ClientTls {
    /// Authorities that the server's certificate must come from, PEM.
    pub authorities: PathBuf,
    /// The certificate that is shown to the server, and its key, PEM.
    pub shown: Option<(PathBuf, PathBuf)>,
    /// The server's name in its certificate.
    pub server_name: String,
}

impl ServerTls {
    /// Reads the files.
    ///
    /// # Errors
    /// What is wrong with one.
    pub fn load(&self) -> Result<Arc<ServerConfig>> {
        let chain = read_certificates(&self.certificates)?;
        let private = read_key(&self.key)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(Error::Tls)?;
        let builder = match &self.client_authorities {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for certificate in read_certificates(path)? {
                    roots.add(certificate).map_err(|e| Error::file(path, e, PEM_WANTED))?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = if self.is_client_required {
                    verifier
                } else {
                    verifier.allow_unauthenticated()
                };
                let verifier = verifier.build().map_err(|e| Error::file(path, e, PEM_WANTED))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder.with_single_cert(chain, private).map_err(|e| match e {
            rustls::Error::InconsistentKeys(_) => {
                Error::OtherKey { key: self.key.clone(), certificates: self.certificates.clone() }
            }
            e => Error::file(&self.certificates, e, PEM_WANTED),
        })?;
        // Senders of logs do not read. A ticket that lies unread when they close makes their system reset
        // the connection, and what was on its way is lost.
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }
}

/// Reads a request, and returns the bytes of its answer.
type Reply<'a> = dyn FnMut(&mut dyn Read) -> io::Result<Vec<u8>> + 'a;

impl ServerTls {
    /// Reads the files and answers connections with them, one request each: `reply` reads the request and returns the
    /// bytes of the answer.
    ///
    /// # Errors
    /// What is wrong with a file.
    pub fn answering(
        &self,
    ) -> Result<impl Fn(TcpStream, &mut Reply<'_>) -> io::Result<()> + Send + use<>> {
        let config = self.load()?;
        Ok(move |stream, reply: &mut Reply<'_>| {
            let connection =
                ServerConnection::new(Arc::clone(&config)).map_err(io::Error::other)?;
            let mut stream = StreamOwned::new(connection, stream);
            let answer = reply(&mut stream)?;
            stream.write_all(&answer)?;
            stream.conn.send_close_notify();
            stream.flush()
        })
    }
}

impl ClientTls {
    /// Reads the files; with the server's name as it will be checked.
    ///
    /// # Errors
    /// What is wrong with one, or with the name.
    pub fn load(&self) -> Result<(Arc<ClientConfig>, ServerName<'static>)> {
        const AUTHORITIES_WANTED: &str = "name a file with certificates";
        let path = &self.authorities;
        let wrong = |e: &dyn std::fmt::Display| Error::file(path, e, AUTHORITIES_WANTED);
        let mut roots = RootCertStore::empty();
        let pem = operator_file::bytes(path, KEY_FILE_BYTES_MAX).map_err(|e| wrong(&e))?;
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            roots.add(certificate.map_err(|e| wrong(&e))?).map_err(|e| wrong(&e))?;
        }
        if roots.is_empty() {
            return Err(wrong(&"no certificate in it"));
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(Error::Tls)?
            .with_root_certificates(roots);
        let config = match &self.shown {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => {
                let wrong = |e: &dyn std::fmt::Display| Error::file(certificate, e, PEM_WANTED);
                let chain = read_certificates(certificate)?;
                config.with_client_auth_cert(chain, read_key(key)?).map_err(|e| wrong(&e))?
            }
        };
        let name = ServerName::try_from(self.server_name.clone()).map_err(|e| {
            Error::ServerName { name: self.server_name.clone(), why: e.to_string() }
        })?;
        Ok((Arc::new(config), name))
    }
}

pub(crate) fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>> {
    let pem = operator_file::bytes(path, KEY_FILE_BYTES_MAX)
        .map_err(|e| Error::file(path, e, PEM_WANTED))?;
    PrivateKeyDer::from_pem_slice(&pem).map_err(|e| Error::file(path, e, PEM_WANTED))
}

pub(crate) fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let wrong = |e: &dyn std::fmt::Display| Error::file(path, e, CERTIFICATES_WANTED);
    let pem = operator_file::bytes(path, KEY_FILE_BYTES_MAX).map_err(|e| wrong(&e))?;
    let certificates: std::result::Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(&pem).collect();
    let certificates = certificates.map_err(|e| wrong(&e))?;
    if certificates.is_empty() {
        return Err(wrong(&"no certificate in it"));
    }
    Ok(certificates)
}

/// The name of a peer by its certificate, which was checked: the first alternative name, else the
/// common name, else the fingerprint.
pub(crate) fn peer_name(certificate: &CertificateDer<'_>) -> String {
    use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};
    let fingerprint = || {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, certificate);
        format!("sha-256:{}", gabion_record::hex::to_hex(digest.as_ref()))
    };
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else { return fingerprint() };
    let alternative = parsed.subject_alternative_name().ok().flatten().and_then(|names| {
        names.value.general_names.iter().find_map(|name| match name {
            GeneralName::DNSName(name) | GeneralName::RFC822Name(name) | GeneralName::URI(name) => {
                Some((*name).to_owned())
            }
            _ => None,
        })
    });
    let name = alternative
        .or_else(|| parsed.subject().iter_common_name().next()?.as_str().ok().map(str::to_owned))
        .unwrap_or_else(fingerprint);
    kept(&name)
}

/// As much of a name as is kept, without control characters.
fn kept(name: &str) -> String {
    let mut all = name.chars().filter(|c| !c.is_control());
    let kept = all.by_ref().take(CLIENT_NAME_MAX).collect();
    if all.next().is_some() {
        reached::CLIENT_NAME_MAX.count();
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_cut_are_counted() {
        assert_eq!(kept(&"x".repeat(CLIENT_NAME_MAX + 1)).len(), CLIENT_NAME_MAX);
        assert_eq!(
            gabion_record::limits::take_reached().times_reached(&reached::CLIENT_NAME_MAX),
            1
        );
        assert_eq!(kept("client.example\n"), "client.example");
        assert!(gabion_record::limits::take_reached().is_empty());
    }
}
