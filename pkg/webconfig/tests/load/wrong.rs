//! Errors contain the file, the line, and what was expected.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use webconfig::WebConfig;

use super::{TLS, TlsDir, authority::TestCa};

#[test]
fn errors_contain_the_file_the_line_and_what_was_expected() {
    let directory = TlsDir::new();
    let (_, foreign) = TestCa::new().sign(&["x"]);
    directory.write("foreign.pem", &foreign.serialize_pem());
    directory.write(
        "encrypted.pem",
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
    );
    directory.write("rubbish.pem", "rubbish\n");
    directory.write("cut.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n");
    directory.write("no-der.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    directory.write("open.pem", &fs::read_to_string(directory.path("key.pem")).unwrap());
    fs::set_permissions(directory.path("open.pem"), Permissions::from_mode(0o644)).unwrap();
    for (text, line, part) in [
        ("tls_server_config:\n  cert_file: cert.pem\n", 2, "a private key is missing: key_file"),
        ("tls_server_config:\n  key_file: key.pem\n", 2, "a certificate is missing: cert_file"),
        ("tls_server_config: {}\n", 1, "a certificate is missing"),
        ("tls_server_config:\n  cert_file: none.pem\n  key_file: key.pem\n", 2, "none.pem: No such file"),
        (
            "tls_server_config:\n  cert_file: cert.pem\n  key_file: foreign.pem\n",
            2,
            "cannot be used with the key",
        ),
        ("tls_server_config:\n  cert_file: cert.pem\n  key_file: encrypted.pem\n", 3, "unencrypted key"),
        ("tls_server_config:\n  cert_file: cert.pem\n  key_file: cert.pem\n", 3, "has no private key"),
        (
            "tls_server_config:\n  cert_file: rubbish.pem\n  key_file: key.pem\n",
            2,
            "has no certificate in PEM",
        ),
        ("tls_server_config:\n  cert_file: cut.pem\n  key_file: key.pem\n", 2, "is not a certificate in PEM"),
        ("tls_server_config:\n  cert_file: no-der.pem\n  key_file: key.pem\n", 2, "cert_file no-der.pem"),
        (
            "tls_server_config:\n  cert_file: cert.pem\n  key_file: open.pem\n",
            3,
            "others can read (mode 0644)",
        ),
        (
            "tls_server_config:\n  cert_file: cert.pem\n  cert: x\n  key_file: key.pem\n",
            2,
            "expected only one of them",
        ),
        (&format!("{TLS}  min_version: TLS11\n"), 4, "\"TLS11\": expected TLS12 or TLS13"),
        (&format!("{TLS}  min_version: TLS13\n  max_version: TLS12\n"), 5, "older than min_version"),
        (&format!("{TLS}  cipher_suites:\n  - TLS_RSA_WITH_AES_128_CBC_SHA\n"), 5, "expected one of TLS_"),
        (
            &format!("{TLS}  curve_preferences: [CurveP521]\n"),
            4,
            "expected one of X25519, CurveP256, CurveP384",
        ),
        (&format!("{TLS}  client_auth_type: Maybe\n"), 4, "expected NoClientCert"),
        (&format!("{TLS}  client_auth_type: RequireAnyClientCert\n"), 4, "does not verify the certificate"),
        (&format!("{TLS}  client_auth_type: RequireAndVerifyClientCert\n"), 4, "missing: client_ca_file"),
        (&format!("{TLS}  client_ca_file: ca.pem\n"), 4, "is not used: expected client_auth_type"),
        (&format!("{TLS}  client_allowed_sans: [a]\n"), 2, "expected client_auth_type RequireAndVerify"),
        (
            &format!(
                "{TLS}  client_auth_type: VerifyClientCertIfGiven\n  client_ca_file: ca.pem\n  client_allowed_sans: [a]\n"
            ),
            4,
            "client_allowed_sans: expected client_auth_type RequireAndVerifyClientCert",
        ),
        (
            &format!("{TLS}  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: rubbish.pem\n"),
            5,
            "has no certificate",
        ),
        (
            &format!(
                "{TLS}  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n  client_allowed_sans: [a@b]\n"
            ),
            6,
            "e-mail addresses are not supported",
        ),
        (
            &format!(
                "{TLS}  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n  client_allowed_sans: [a, '']\n"
            ),
            6,
            "a name must not be empty",
        ),
        ("basic_auth_users:\n  alice: secret\n", 2, "not a bcrypt hash"),
        ("http_server_config:\n  headers:\n    X-Powered-By: a\n", 3, "unknown header"),
        ("tls_server_confg: {}\n", 1, "unknown field"),
    ] {
        let error = directory.load(text).unwrap_err().to_string();
        let place = format!("{}: line {line}: ", directory.path("web.yaml").display());
        assert!(error.starts_with(&place) && error.contains(part), "{text}{error}");
        assert!(!error.contains("secret") && !error.contains('\n'), "{error}");
    }
}

#[test]
fn a_file_that_is_missing_or_that_others_can_write_is_refused() {
    let directory = TlsDir::new();
    let path = directory.path("web.yaml");
    let error = || WebConfig::load(&path).unwrap_err().to_string();
    assert!(error().contains("web.yaml: No such file"), "{}", error());
    directory.write("web.yaml", "{}");
    fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    assert!(error().contains("web.yaml: is writable by group or others (mode 0666)"), "{}", error());
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    fs::write(&path, b"\xff").unwrap();
    assert!(error().contains("is not valid UTF-8"), "{}", error());
}
