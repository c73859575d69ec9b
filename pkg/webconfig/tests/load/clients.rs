//! Which clients the server accepts.

use std::sync::Arc;

use rustls::{
    ClientConfig, ClientConnection, Error, RootCertStore, ServerConfig, ServerConnection,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

use super::{TLS, TlsDir, authority::TestCa};

/// Returns a client that trusts the directory's authority, and sends a certificate with these names, signed by an authority.
fn client(directory: &TlsDir, certificate: Option<(&TestCa, &[&str])>) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(directory.authority.pem().as_bytes()).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    match certificate {
        None => builder.with_no_client_auth(),
        Some((authority, names)) => {
            let (cert, key) = authority.sign(names);
            let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
            builder.with_client_auth_cert(vec![cert.der().clone()], key).unwrap()
        }
    }
}

/// Does a handshake in memory, and returns the result of the server: the number of certificates that it has sent.
fn handshake(server: &Arc<ServerConfig>, client: ClientConfig) -> Result<usize, Error> {
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
    Ok(client.peer_certificates().map_or(0, <[_]>::len))
}

fn server(directory: &TlsDir, more: &str) -> Arc<ServerConfig> {
    directory.load(&format!("{TLS}{more}")).unwrap().tls.unwrap()
}

const VERIFIED: &str = "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n";

#[test]
fn a_required_certificate_must_be_signed_by_the_authority() {
    let directory = TlsDir::new();
    let other = TestCa::new();
    let ours = &directory.authority;
    let if_given = VERIFIED.replace("RequireAndVerifyClientCert", "VerifyClientCertIfGiven");
    for (more, without, with_other_ca) in
        [("", true, true), (VERIFIED, false, false), (&if_given, true, false)]
    {
        let server = server(&directory, more);
        let is_accepted = |certificate| handshake(&server, client(&directory, certificate)).is_ok();
        assert!(is_accepted(Some((ours, &["a"]))), "{more}");
        assert_eq!(is_accepted(None), without, "{more}");
        assert_eq!(is_accepted(Some((&other, &["a"]))), with_other_ca, "{more}");
    }
}

/// An organization that replaces its authority trusts both for a while; a certificate may need others for its chain.
#[test]
fn each_certificate_of_a_file_is_used() {
    let directory = TlsDir::new();
    let (other, unknown) = (TestCa::new(), TestCa::new());
    directory.write("ca.pem", &format!("{}{}", directory.authority.pem(), other.pem()));
    let pem = std::fs::read_to_string(directory.path("cert.pem")).unwrap();
    directory.write("cert.pem", &format!("{pem}{}", directory.authority.pem()));
    let server = server(&directory, VERIFIED);
    let sent = |authority| handshake(&server, client(&directory, Some((authority, &["a"]))));
    assert_eq!(sent(&directory.authority).unwrap(), 2);
    assert!(sent(&other).is_ok() && sent(&unknown).is_err());
}

#[test]
fn a_session_is_not_resumed_and_the_order_of_the_server_counts() {
    let directory = TlsDir::new();
    let plain = server(&directory, "");
    assert!(plain.ignore_client_order && plain.alpn_protocols == [b"http/1.1"]);
    assert!(plain.send_tls13_tickets == 0 && !plain.session_storage.can_cache());
    assert!(!server(&directory, "  prefer_server_cipher_suites: false\n").ignore_client_order);
    let chosen = server(
        &directory,
        "  curve_preferences: [CurveP384, X25519]\n  cipher_suites: [TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, \
         TLS_AES_128_GCM_SHA256, TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256]\n",
    );
    let provider = chosen.crypto_provider();
    let groups: Vec<_> = provider.kx_groups.iter().map(|group| group.name()).collect();
    assert_eq!(groups, [rustls::NamedGroup::secp384r1, rustls::NamedGroup::X25519]);
    let of_12: Vec<_> = provider.cipher_suites.iter().filter(|suite| suite.tls13().is_none()).collect();
    let names: Vec<_> = of_12.iter().map(|suite| format!("{:?}", suite.suite())).collect();
    assert_eq!(names, ["TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"]);
    assert_eq!(provider.cipher_suites.len() - of_12.len(), 3, "those of TLS 1.3 cannot be chosen");
}

#[test]
fn the_certificate_must_have_one_of_the_allowed_names() {
    let directory = TlsDir::new();
    let sans = "  client_allowed_sans: [prometheus.monitoring, spiffe://cluster/prometheus, spiffe://a@b/c, 10.0.0.7, 'fd00::7']\n";
    let server = server(&directory, &format!("{VERIFIED}{sans}"));
    for (names, is_accepted) in [
        (&["prometheus.monitoring"][..], true),
        (&["else", "prometheus.monitoring"], true),
        (&["spiffe://cluster/prometheus"], true),
        (&["spiffe://a@b/c"], true),
        (&["10.0.0.7"], true),
        (&["fd00::7"], true),
        (&["10.0.0.8"], false),
        (&["fd00::8"], false),
        (&["prometheus.monitoring.evil"], false),
        (&["spiffe://cluster/prometheus/evil"], false),
        (&[], false),
    ] {
        let result = handshake(&server, client(&directory, Some((&directory.authority, names))));
        assert_eq!(result.is_ok(), is_accepted, "{names:?}: {result:?}");
    }
    assert!(handshake(&server, client(&directory, None)).is_err());
    let other = TestCa::new();
    let result = handshake(&server, client(&directory, Some((&other, &["prometheus.monitoring"]))));
    assert!(result.is_err(), "the name alone is not sufficient");
}

#[test]
fn only_listed_versions_and_ciphers_are_offered() {
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
        // The server's key is not an RSA key.
        ("  cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]\n", false, true),
        ("  curve_preferences: [CurveP384, X25519]\n  prefer_server_cipher_suites: false\n", true, true),
    ] {
        let server = server(&directory, more);
        assert_eq!(handshake(&server, client_of(&rustls::version::TLS12)).is_ok(), with_12, "{more}");
        assert_eq!(handshake(&server, client_of(&rustls::version::TLS13)).is_ok(), with_13, "{more}");
    }
}
