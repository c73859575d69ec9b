//! TLS between silkraild and its scraper.

use std::{error::Error, fs, net::TcpStream, path::PathBuf, sync::Arc};

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, crypto::ring};
use tempfile::TempDir;

const NAME: &str = "silkraild";

/// A web configuration with a self-signed certificate, and a client that trusts it.
#[derive(Debug)]
pub struct TlsSetup {
    dir: TempDir,
    client: Arc<ClientConfig>,
}

impl TlsSetup {
    /// Generates a key and a certificate.
    ///
    /// # Errors
    /// If they cannot be generated or written.
    pub fn new() -> Result<Self, Box<dyn Error>> {
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed([NAME.to_owned()])?;
        let mut roots = RootCertStore::empty();
        roots.add(cert.der().clone())?;
        let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        // The directory is not accessible to other users.
        let dir = tempfile::tempdir()?;
        for (name, text) in [("tls.crt", cert.pem()), ("tls.key", signing_key.serialize_pem())] {
            fs::write(dir.path().join(name), text)?;
        }
        let key = fs::File::open(dir.path().join("tls.key"))?;
        key.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        let text = "tls_server_config: {cert_file: tls.crt, key_file: tls.key}\n";
        fs::write(dir.path().join("web.yaml"), text)?;
        Ok(Self { dir, client: Arc::new(client) })
    }

    /// Returns the path for `--web.config.file`.
    pub fn file(&self) -> PathBuf {
        self.dir.path().join("web.yaml")
    }

    /// Starts TLS on a connection; the handshake takes place with the first request.
    ///
    /// # Errors
    /// If rustls rejects the configuration.
    pub fn connect(
        &self,
        stream: TcpStream,
    ) -> Result<StreamOwned<ClientConnection, TcpStream>, Box<dyn Error>> {
        let connection = ClientConnection::new(self.client.clone(), NAME.try_into()?)?;
        Ok(StreamOwned::new(connection, stream))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_it_makes_fits_together_and_the_key_is_closed() {
        let secure = TlsSetup::new().unwrap();
        assert!(fs::read_to_string(secure.file()).unwrap().contains("tls.key"));
        let mode = fs::metadata(secure.dir.path().join("tls.key")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
