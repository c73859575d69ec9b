//! Configurations as users write them, with real keys.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod arbitrary;
mod authority;
mod clients;
mod wrong;

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
};

use tempfile::TempDir;
use webconfig::{Error, WebConfig};

use crate::authority::TestCa;

/// A directory with a server's certificate and key, and the authority that signed them.
struct TlsDir {
    dir: TempDir,
    authority: TestCa,
}

impl TlsDir {
    fn new() -> Self {
        let (dir, authority) = (tempfile::tempdir().unwrap(), TestCa::new());
        let this = Self { dir, authority };
        let (cert, key) = this.authority.sign(&["localhost"]);
        this.write("cert.pem", &cert.pem());
        this.write("key.pem", &key.serialize_pem());
        this.write("ca.pem", &this.authority.pem());
        this
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
        fs::set_permissions(self.path(name), Permissions::from_mode(0o600)).unwrap();
    }

    fn load(&self, text: &str) -> Result<WebConfig, Error> {
        self.write("web.yaml", text);
        WebConfig::load(&self.path("web.yaml"))
    }
}

const TLS: &str = "tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n";

#[test]
fn without_keys_nothing_is_configured() {
    let directory = TlsDir::new();
    let empty = directory.load("{}").unwrap();
    assert!(empty.tls.is_none() && empty.users.is_none() && empty.headers.is_empty());
    let tls = directory.load(TLS).unwrap();
    assert!(tls.tls.is_some() && tls.users.is_none());
}

#[test]
fn it_differs_if_any_of_its_files_differs() {
    let directory = TlsDir::new();
    let text = format!("{TLS}  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n");
    let first = directory.load(&text).unwrap();
    assert!(directory.load(&text).unwrap().is_same(&first));
    directory.write("ca.pem", &TestCa::new().pem());
    assert!(!directory.load(&text).unwrap().is_same(&first));
    assert!(!directory.load(&format!("{text}# later\n")).unwrap().is_same(&first));
}

#[test]
fn a_certificate_and_its_key_can_be_inline() {
    let directory = TlsDir::new();
    let indented = |name: &str| fs::read_to_string(directory.path(name)).unwrap().replace('\n', "\n    ");
    let text = format!(
        "tls_server_config:\n  cert: |\n    {}\n  key: |\n    {}\n",
        indented("cert.pem"),
        indented("key.pem")
    );
    assert!(directory.load(&text).unwrap().tls.is_some());
    fs::set_permissions(directory.path("web.yaml"), Permissions::from_mode(0o644)).unwrap();
    let error = WebConfig::load(&directory.path("web.yaml")).unwrap_err().to_string();
    assert!(error.contains("web.yaml: contains a private key that others can read (mode 0644)"), "{error}");
}
