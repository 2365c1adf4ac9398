//! What opens sockets: plain, or by TLS with the certificates that were set.

#[cfg(feature = "tls")]
use redis::ConnectionAddr;
use redis::ConnectionInfo;

use crate::{
    error::{Error, Result},
    settings::Settings,
};

#[cfg(not(feature = "tls"))]
pub(super) fn dial(info: ConnectionInfo, settings: &Settings) -> Result<redis::Client> {
    if settings.tls_roots.is_some() || settings.tls_identity.is_some() {
        return Err(Error::config(
            "certificates are set, but TLS needs the crate's feature `tls`",
        ));
    }
    redis::Client::open(info).map_err(unusable)
}

#[cfg(feature = "tls")]
pub(super) fn dial(info: ConnectionInfo, settings: &Settings) -> Result<redis::Client> {
    if !matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
        if settings.tls_roots.is_some() || settings.tls_identity.is_some() {
            return Err(Error::config(
                "certificates are set, but the URL does not begin with rediss://",
            ));
        }
        return redis::Client::open(info).map_err(unusable);
    }
    if let ConnectionAddr::TcpTls { insecure: true, .. } = info.addr() {
        return Err(Error::config(
            "a URL with #insecure is refused: give the root certificate instead",
        ));
    }
    // The client library builds its TLS settings from the process's default provider and panics
    // where there is none, or where several were compiled in and none chosen.
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    check_certificates(settings)?;
    let certificates = redis::TlsCertificates {
        client_tls: settings
            .tls_identity
            .clone()
            .map(|identity| redis::ClientTlsConfig {
                client_cert: identity.certificate,
                client_key: identity.key,
            }),
        root_cert: settings.tls_roots.clone(),
    };
    redis::Client::build_with_tls(info, certificates)
        .map_err(|cause| Error::config(format!("the certificates cannot be used: {cause}")))
}

/// The client library takes a text without a certificate for no certificate, and sees that a key
/// belongs to another certificate when it connects.
#[cfg(feature = "tls")]
fn check_certificates(settings: &Settings) -> Result<()> {
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};

    let chain = |pem: &[u8]| -> Vec<CertificateDer<'static>> {
        CertificateDer::pem_slice_iter(pem)
            .filter_map(std::result::Result::ok)
            .collect()
    };
    if let Some(roots) = &settings.tls_roots
        && chain(roots).is_empty()
    {
        return Err(Error::config("the root certificates contain none (PEM)"));
    }
    let Some(identity) = &settings.tls_identity else {
        return Ok(());
    };
    let key = PrivateKeyDer::from_pem_slice(&identity.key)
        .map_err(|cause| Error::config(format!("the client's key cannot be used: {cause}")))?;
    rustls::ClientConfig::builder()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_client_auth_cert(chain(&identity.certificate), key)
        .map(drop)
        .map_err(|cause| Error::config(format!("the client's certificate cannot be used: {cause}")))
}

fn unusable(cause: redis::RedisError) -> Error {
    Error::config(format!("the URL cannot be used: {}", cause.category()))
}
