//! The web configuration that Prometheus' exporters share: TLS, client certificates, and logins.
//!
//! The file's form is that of Prometheus' exporter-toolkit, `--web.config.file` of every exporter. What would be less safe
//! than it looks is refused here: TLS older than 1.2, client certificates that nobody verifies, and keys that others may
//! read. What is wrong is told with the file and its line.
//!
//! [`WebConfig::load`] reads the file and all that it names; nothing is read later. Who wants to notice changes loads it
//! again and compares.

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

/// How a port is served; by default in plain text, to everybody.
#[derive(Debug, Default)]
pub struct WebConfig {
    /// TLS with its certificate and, if they are asked for, with clients' certificates; `None` for plain text.
    pub tls: Option<Arc<ServerConfig>>,
    /// Who may ask; `None` for everybody.
    pub users: Option<BasicAuthUsers>,
    /// Headers of every answer that does not have them anyway.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    demands: Vec<&'static str>,
    seal: [u8; 32],
}

impl WebConfig {
    /// Reads the file, and those that it names: relative to its directory.
    ///
    /// # Errors
    /// [`Error`]: a file cannot be read, or others can change it, or read a key; or something in it is wrong.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let mut files = TrustedFiles::relative_to(path);
        let text = files.configuration()?;
        let written = WebConfigFile::parse(&text).map_err(|wrong| wrong.of(path))?;
        if written.has_key() {
            files.keeps_a_key()?;
        }
        let tls = written.tls().map(|tls| tls::server(tls, &mut files)).transpose();
        let users = written.users().map(BasicAuthUsers::new).transpose();
        Ok(Self {
            tls: tls.map_err(|wrong| wrong.of(path))?,
            users: users.map_err(|wrong| wrong.of(path))?,
            headers: headers::of(&written).map_err(|wrong| wrong.of(path))?,
            demands: written.demands(),
            seal: files.fingerprint(),
        })
    }

    /// What is demanded of clients, by the keys of the file that demand it.
    pub fn client_requirements(&self) -> &[&'static str] {
        &self.demands
    }

    /// Whether it was made of the same bytes.
    pub fn is_same(&self, other: &Self) -> bool {
        self.seal == other.seal
    }
}
