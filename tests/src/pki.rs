//! Certificates and hashes, created by the programs openssl and perl.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

/// A certificate authority and its certificates: files in a temporary directory.
#[derive(Debug)]
pub struct OpensslCa(TempDir);

impl OpensslCa {
    /// Creates an authority; its certificate is `ca.crt`.
    ///
    /// # Panics
    /// If openssl fails.
    pub fn new() -> Self {
        let this = Self(tempfile::tempdir().unwrap());
        // Without the extensions that a machine's own configuration would add.
        this.write("openssl.cnf", "[req]\ndistinguished_name = name\n[name]\n");
        this.request("ca", &["-subj", "/CN=authority", "-addext", "basicConstraints=critical,CA:TRUE"]);
        this
    }

    /// Returns the directory of its files.
    pub fn directory(&self) -> &Path {
        self.0.path()
    }

    /// Returns the path of one of its files.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Creates `<file>.crt` and `<file>.key`, a certificate for a DNS name and 127.0.0.1.
    ///
    /// # Panics
    /// If openssl fails.
    pub fn sign(&self, file: &str, name: &str) {
        let names = format!("subjectAltName=DNS:{name},IP:127.0.0.1");
        let subject = format!("/CN={name}");
        let signer = ["-CA", "ca.crt", "-CAkey", "ca.key", "-addext", "basicConstraints=critical,CA:FALSE"];
        self.request(file, &[&["-subj", &subject, "-addext", &names], &signer[..]].concat());
    }

    /// Writes a file with mode 0600. A program that reads it at the same time gets the former one or the new one.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn write(&self, name: &str, text: &str) {
        let new = format!("{name}.new");
        fs::write(self.path(&new), text).unwrap();
        self.set_private(&new);
        self.replace(name);
    }

    fn replace(&self, name: &str) {
        fs::rename(self.path(&format!("{name}.new")), self.path(name)).unwrap();
    }

    fn request(&self, file: &str, more: &[&str]) {
        let (certificate, key) = (format!("{file}.crt"), format!("{file}.key"));
        let [new_certificate, new_key] = [&certificate, &key].map(|name| format!("{name}.new"));
        let output = Command::new("openssl")
            .args([
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
                "-days",
                "2",
            ])
            .args(["-config", "openssl.cnf", "-out", &new_certificate, "-keyout", &new_key])
            .args(more)
            .current_dir(self.directory())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        self.set_private(&new_key);
        // openssl takes a while between the two.
        self.replace(&key);
        self.replace(&certificate);
    }

    fn set_private(&self, name: &str) {
        fs::set_permissions(self.path(name), Permissions::from_mode(0o600)).unwrap();
    }
}

impl Default for OpensslCa {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the bcrypt hash of a password, computed by crypt(3).
///
/// # Panics
/// If perl fails.
pub fn hash(password: &str, cost: u32) -> String {
    let salt = format!("$2y${cost:02}$abcdefghijklmnopqrstuu");
    let output =
        Command::new("perl").args(["-e", "print crypt($ARGV[0], $ARGV[1])", password, &salt]).output();
    let hash = String::from_utf8(output.unwrap().stdout).unwrap();
    assert!(hash.len() == 60, "perl's crypt does not support bcrypt: {hash:?}");
    hash
}
