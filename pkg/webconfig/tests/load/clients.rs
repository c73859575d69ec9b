//! Which clients come in.

use std::sync::Arc;

use rustls::{
    ClientConfig, ClientConnection, Error, RootCertStore, ServerConfig, ServerConnection,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

use super::{TLS, TlsDir, authority::TestCa};

/// A client of the directory's server that shows a certificate of these names, by an authority.
fn client(directory: &TlsDir, shows: Option<(&TestCa, &[&str])>) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(directory.authority.pem().as_bytes()).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    match shows {
        None => builder.with_no_client_auth(),
        Some((authority, names)) => {
            let (cert, key) = authority.sign(names);
            let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
            builder.with_client_auth_cert(vec![cert.der().clone()], key).unwrap()
        }
    }
}

/// The server's word on a client.
fn shake_hands(server: &Arc<ServerConfig>, client: ClientConfig) -> Result<(), Error> {
    let mut server = ServerConnection::new(server.clone()).unwrap();
    let mut client = ClientConnection::new(Arc::new(client), "localhost".try_into().unwrap()).unwrap();
    while client.is_handshaking() || server.is_handshaking() {
        let mut wire = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut wire).unwrap();
        }
        let mut rest = &wire[..];
        while !rest.is_empty() {
            server.read_tls(&mut rest).unwrap();
            server.process_new_packets()?;
        }
        let mut wire = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut wire).unwrap();
        }
        let mut rest = &wire[..];
        while !rest.is_empty() {
            client.read_tls(&mut rest).unwrap();
            client.process_new_packets()?;
        }
    }
    Ok(())
}

fn server(directory: &TlsDir, more: &str) -> Arc<ServerConfig> {
    directory.load(&format!("{TLS}{more}")).unwrap().tls.unwrap()
}

const VERIFIED: &str = "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n";

#[test]
fn a_certificate_that_is_wanted_has_to_be_of_the_authority() {
    let directory = TlsDir::new();
    let other = TestCa::new();
    let ours = &directory.authority;
    let if_given = VERIFIED.replace("RequireAndVerifyClientCert", "VerifyClientCertIfGiven");
    for (more, without, with_anothers) in
        [("", true, true), (VERIFIED, false, false), (&if_given, true, false)]
    {
        let server = server(&directory, more);
        let is_let_in = |shows| shake_hands(&server, client(&directory, shows)).is_ok();
        assert!(is_let_in(Some((ours, &["a"]))), "{more}");
        assert_eq!(is_let_in(None), without, "{more}");
        assert_eq!(is_let_in(Some((&other, &["a"]))), with_anothers, "{more}");
    }
}

#[test]
fn of_several_names_one_has_to_be_the_certificates() {
    let directory = TlsDir::new();
    let sans = "  client_allowed_sans: [prometheus.monitoring, spiffe://cluster/prometheus, 10.0.0.7]\n";
    let server = server(&directory, &format!("{VERIFIED}{sans}"));
    for (names, is_let_in) in [
        (&["prometheus.monitoring"][..], true),
        (&["else", "prometheus.monitoring"], true),
        (&["spiffe://cluster/prometheus"], true),
        (&["10.0.0.7"], true),
        (&["10.0.0.8"], false),
        (&["prometheus.monitoring.evil"], false),
        (&["spiffe://cluster/prometheus/evil"], false),
        (&[], false),
    ] {
        let word = shake_hands(&server, client(&directory, Some((&directory.authority, names))));
        assert_eq!(word.is_ok(), is_let_in, "{names:?}: {word:?}");
    }
    assert!(shake_hands(&server, client(&directory, None)).is_err());
    let other = TestCa::new();
    let word = shake_hands(&server, client(&directory, Some((&other, &["prometheus.monitoring"]))));
    assert!(word.is_err(), "the name alone is nothing");
}

#[test]
fn versions_and_ciphers_are_those_that_are_listed() {
    let directory = TlsDir::new();
    let client_of = |version| {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(directory.authority.pem().as_bytes()).unwrap()).unwrap();
        ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth()
    };
    for (more, with_12, with_13) in [
        ("", true, true),
        ("  min_version: TLS13\n", false, true),
        ("  max_version: TLS12\n", true, false),
        ("  cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256]\n", true, true),
        // The server's key is no RSA key.
        ("  cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]\n", false, true),
        ("  curve_preferences: [CurveP384, X25519]\n  prefer_server_cipher_suites: false\n", true, true),
    ] {
        let server = server(&directory, more);
        assert_eq!(shake_hands(&server, client_of(&rustls::version::TLS12)).is_ok(), with_12, "{more}");
        assert_eq!(shake_hands(&server, client_of(&rustls::version::TLS13)).is_ok(), with_13, "{more}");
    }
}
