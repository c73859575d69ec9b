//! The files of a TLS client.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

/// The files of a TLS client.
#[derive(Debug, Clone, Default)]
pub struct TlsFiles {
    /// The certificates of the authorities that sign those of the daemons.
    pub ca: Option<PathBuf>,
    /// The certificate of this client, and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// A file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsFileError {
    /// No authority is known.
    #[error("an https address needs --fleet-ca FILE: the certificate of the authority of the daemons")]
    NoAuthority,
    /// It cannot be read, or is no PEM file.
    #[error("{}: {what}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The certificate and the key do not fit.
    #[error("the client certificate cannot be used: {0}")]
    Identity(rustls::Error),
}

impl TlsFiles {
    /// Returns the configuration of a client.
    pub(crate) fn config(&self) -> Result<Arc<ClientConfig>, TlsFileError> {
        let authority = self.ca.as_deref().ok_or(TlsFileError::NoAuthority)?;
        let mut roots = RootCertStore::empty();
        for certificate in certificates(authority)? {
            roots.add(certificate).map_err(|error| wrong(authority, &error))?;
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(TlsFileError::Identity)?
            .with_root_certificates(roots);
        let config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let text = fs::read(key).map_err(|error| wrong(key, &error))?;
                let key = PrivateKeyDer::from_pem_slice(&text).map_err(|error| wrong(key, &error))?;
                builder
                    .with_client_auth_cert(certificates(certificate)?, key)
                    .map_err(TlsFileError::Identity)?
            }
        };
        Ok(Arc::new(config))
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
    let text = fs::read(path).map_err(|error| wrong(path, &error))?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match all.map_err(|error| wrong(path, &error))? {
        none if none.is_empty() => Err(wrong(path, &"there is no certificate in it; expected PEM")),
        certificates => Ok(certificates),
    }
}

fn wrong(path: &Path, what: &dyn std::fmt::Display) -> TlsFileError {
    TlsFileError::File { path: path.to_owned(), what: what.to_string() }
}
