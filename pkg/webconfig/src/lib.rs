//! The web configuration of Prometheus exporters: TLS, client certificates and logins.
//!
//! The file format is that of Prometheus' exporter-toolkit, `--web.config.file` of every exporter. Insecure settings are
//! errors: TLS older than 1.2, client certificates that are not verified, and private keys that others can read. Errors
//! contain the file and the line.
//!
//! [`WebConfig::load`] reads the file and all files that it names; nothing is read later. To detect changes, load it again
//! and compare with [`WebConfig::is_same`].

#![forbid(unsafe_code)]

mod basic_auth;
mod error;
mod headers;
mod san_verifier;
mod tls;
mod trusted_files;
mod web_config_file;

use std::{path::Path, sync::Arc};

use http::{HeaderName, HeaderValue};
use rustls::ServerConfig;

pub use basic_auth::{BasicAuthUsers, BasicCredentials};
pub use error::{Error, LineError};
pub use web_config_file::WebConfigFile;

use crate::trusted_files::TrustedFiles;

/// How a port is served. The default is plain text without authentication.
#[derive(Debug, Default)]
pub struct WebConfig {
    /// TLS with its certificate and, if configured, the verification of client certificates; `None` for plain text.
    pub tls: Option<Arc<ServerConfig>>,
    /// The users that can log in; `None` if no login is required.
    pub users: Option<BasicAuthUsers>,
    /// Headers that are added to every response that does not have them.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    requirements: Vec<&'static str>,
    fingerprint: [u8; 32],
}

impl WebConfig {
    /// Reads the file and the files that it names, relative to its directory.
    ///
    /// # Errors
    /// [`Error`]: a file cannot be read, is writable by others, contains a key that others can read, or is invalid.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let mut files = TrustedFiles::relative_to(path);
        let text = files.configuration()?;
        let file = WebConfigFile::parse(&text).map_err(|error| error.of(path))?;
        if file.has_key() {
            files.require_private()?;
        }
        let tls = file.tls().map(|tls| tls::server(tls, &mut files)).transpose();
        let users = file.users().map(BasicAuthUsers::new).transpose();
        Ok(Self {
            tls: tls.map_err(|error| error.of(path))?,
            users: users.map_err(|error| error.of(path))?,
            headers: headers::of(&file).map_err(|error| error.of(path))?,
            requirements: file.requirements(),
            fingerprint: files.fingerprint(),
        })
    }

    /// Returns the keys of the file that require something of clients, like `basic_auth_users`.
    pub fn client_requirements(&self) -> &[&'static str] {
        &self.requirements
    }

    /// Whether both were loaded from files with the same contents.
    pub fn is_same(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint
    }
}
