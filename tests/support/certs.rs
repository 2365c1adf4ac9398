//! Certificates for TLS tests, good and bad, made anew for each test that wants them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};

use super::process::TempDir;

/// An authority and what it signed, as PEM files under an absolute path; removed on drop.
pub struct Certs {
    ca: Authority,
    stranger: Authority,
    server: Identity,
    expired: Identity,
    wrong_host: Identity,
    client: Identity,
    stranger_client: Identity,
    _dir: TempDir,
}

impl Certs {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        let dir = TempDir::new();
        let ca = issuer("lockson test authority");
        let stranger = issuer("somebody else's authority");
        let here = || params(&["localhost", "127.0.0.1"], SERVER);
        let mut past = here();
        past.not_before = date_time_ymd(2020, 1, 1);
        past.not_after = date_time_ymd(2021, 1, 1);
        let client = || params(&["lockson-client"], CLIENT);

        let path = dir.path();
        Self {
            server: Identity::sign(path, "server", here(), &ca),
            expired: Identity::sign(path, "expired", past, &ca),
            wrong_host: Identity::sign(
                path,
                "wrong-host",
                params(&["elsewhere.test"], SERVER),
                &ca,
            ),
            client: Identity::sign(path, "client", client(), &ca),
            stranger_client: Identity::sign(path, "stranger-client", client(), &stranger),
            ca: Authority::write(path, "ca", &ca),
            stranger: Authority::write(path, "stranger-ca", &stranger),
            _dir: dir,
        }
    }

    /// The authority behind all identities but [`stranger_client`](Self::stranger_client).
    pub fn ca(&self) -> &Authority {
        &self.ca
    }

    /// An authority that has signed no server's certificate.
    pub fn stranger(&self) -> &Authority {
        &self.stranger
    }

    /// For `localhost` and `127.0.0.1`.
    pub fn server(&self) -> &Identity {
        &self.server
    }

    /// As [`server`](Self::server), but out of date.
    pub fn expired(&self) -> &Identity {
        &self.expired
    }

    /// In date, but for another host.
    pub fn wrong_host(&self) -> &Identity {
        &self.wrong_host
    }

    pub fn client(&self) -> &Identity {
        &self.client
    }

    /// A client's certificate that the server's authority did not sign.
    pub fn stranger_client(&self) -> &Identity {
        &self.stranger_client
    }
}

/// The certificate of an authority.
pub struct Authority {
    path: PathBuf,
    pem: String,
}

impl Authority {
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn pem(&self) -> &[u8] {
        self.pem.as_bytes()
    }

    fn write(dir: &Path, name: &str, issuer: &Issuer) -> Self {
        let pem = issuer.pem();
        let path = store(dir, &format!("{name}.crt"), &pem);
        Self { path, pem }
    }
}

/// A certificate and its key.
pub struct Identity {
    cert_path: PathBuf,
    cert: String,
    key_path: PathBuf,
    key: String,
}

impl Identity {
    pub fn cert_path(&self) -> &Path {
        &self.cert_path
    }

    pub fn cert_pem(&self) -> &[u8] {
        self.cert.as_bytes()
    }

    pub fn key_path(&self) -> &Path {
        &self.key_path
    }

    pub fn key_pem(&self) -> &[u8] {
        self.key.as_bytes()
    }

    fn sign(dir: &Path, name: &str, params: CertificateParams, issuer: &Issuer) -> Self {
        let key = KeyPair::generate().expect("a key can be made");
        let cert = params
            .signed_by(&key, issuer)
            .expect("the certificate can be signed")
            .pem();
        let key = key.serialize_pem();
        Self {
            cert_path: store(dir, &format!("{name}.crt"), &cert),
            cert,
            key_path: store(dir, &format!("{name}.key"), &key),
            key,
        }
    }
}

type Issuer = CertifiedIssuer<'static, KeyPair>;

fn issuer(name: &str) -> Issuer {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate().expect("a key can be made");
    CertifiedIssuer::self_signed(params, key).expect("an authority signs itself")
}

fn params(hosts: &[&str], usage: ExtendedKeyUsagePurpose) -> CertificateParams {
    let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
    let mut params = CertificateParams::new(hosts).expect("the host names are valid");
    params.extended_key_usages = vec![usage];
    params
}

fn store(dir: &Path, name: &str, pem: &str) -> PathBuf {
    // The server resolves a relative path against its own directory.
    let path = std::path::absolute(dir.join(name)).expect("the current directory is known");
    fs::write(&path, pem).expect("the temporary directory is writable");
    path
}

const SERVER: ExtendedKeyUsagePurpose = ExtendedKeyUsagePurpose::ServerAuth;
const CLIENT: ExtendedKeyUsagePurpose = ExtendedKeyUsagePurpose::ClientAuth;
