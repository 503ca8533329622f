//! TLS for listeners: the server's certificate and key, and whom of the clients to trust.

use crate::exit::Fault;
use crate::limits::{CLIENT_NAME_MAX, KEY_FILE_BYTES_MAX, reached};
use crate::operator_file;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::path::Path;
use std::sync::Arc;

/// A server's configuration. With authorities, clients may show a certificate that they vouch for, or
/// must.
pub(crate) fn server(
    certificates: &Path,
    key: &Path,
    authorities: Option<&Path>,
    is_required: bool,
) -> Result<Arc<ServerConfig>, Fault> {
    let chain = read_certificates(certificates)?;
    let wrong = |what: &Path, e: &dyn std::fmt::Display| {
        Fault::input(format!("{}: {e}: a PEM file is wanted", what.display()))
    };
    let pem = operator_file::bytes(key, KEY_FILE_BYTES_MAX).map_err(|e| wrong(key, &e))?;
    let private = PrivateKeyDer::from_pem_slice(&pem).map_err(|e| wrong(key, &e))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|e| Fault::internal(format!("TLS: {e}")))?;
    let builder = match authorities {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in read_certificates(path)? {
                roots.add(certificate).map_err(|e| wrong(path, &e))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = if is_required { verifier } else { verifier.allow_unauthenticated() };
            builder.with_client_cert_verifier(verifier.build().map_err(|e| wrong(path, &e))?)
        }
    };
    let mut config = builder.with_single_cert(chain, private).map_err(|e| match e {
        rustls::Error::InconsistentKeys(_) => Fault::input(format!(
            "{}: the key of another certificate than {} begins with: give key and certificate of one pair",
            key.display(),
            certificates.display()
        )),
        e => wrong(certificates, &e),
    })?;
    // Senders of logs do not read. A ticket that lies unread when they close makes their system reset
    // the connection, and what was on its way is lost.
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Fault> {
    let wrong = |e: &dyn std::fmt::Display| {
        Fault::input(format!("{}: {e}: a PEM file with certificates is wanted", path.display()))
    };
    let pem = operator_file::bytes(path, KEY_FILE_BYTES_MAX).map_err(|e| wrong(&e))?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
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
        format!("sha-256:{}", gabion_seal::text::hex(digest.as_ref()))
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
        assert_eq!(gabion_record::limits::take().of(&reached::CLIENT_NAME_MAX), 1);
        assert_eq!(kept("client.example\n"), "client.example");
        assert!(gabion_record::limits::take().is_empty());
    }
}
