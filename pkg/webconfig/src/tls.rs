//! The TLS configuration of the server. Versions older than 1.2 are not compiled in.

mod clients;
mod pem_text;
mod suites;

use std::sync::Arc;

use rustls::{
    ServerConfig, SupportedProtocolVersion,
    crypto::{CryptoProvider, ring},
    pki_types::{PrivateKeyDer, pem::PemObject},
    server::NoServerSessionStorage,
    version::{TLS12, TLS13},
};
use serde_saphyr::Spanned;

use self::pem_text::pem;
use crate::{
    error::LineError,
    trusted_files::{ReadAccess, TrustedFiles},
    web_config_file::TlsServerConfig,
};

/// Builds the configuration of rustls from `tls_server_config`.
pub(crate) fn server(
    written: &Spanned<TlsServerConfig>,
    files: &mut TrustedFiles,
) -> Result<Arc<ServerConfig>, LineError> {
    let (tls, line) = (&written.value, written.referenced.line());
    let provider = Arc::new(CryptoProvider {
        cipher_suites: suites::ciphers(tls)?,
        kx_groups: suites::groups(tls)?,
        ..ring::default_provider()
    });
    let cert = pem(("cert", &tls.cert), ("cert_file", &tls.cert_file), ReadAccess::All, files)?;
    let cert = cert.ok_or_else(|| LineError::at(line, "a certificate is missing: cert_file"))?;
    let key = pem(("key", &tls.key), ("key_file", &tls.key_file), ReadAccess::Few, files)?;
    let key = key.ok_or_else(|| LineError::at(line, "a private key is missing: key_file"))?;
    let chain = cert.certificates()?;
    let private = PrivateKeyDer::from_pem_slice(&key.bytes).map_err(|error| {
        let remedy = "expected an unencrypted key in PEM";
        key.invalid(format!("has no private key: {error}; {remedy}"))
    })?;
    let unfit = |error: rustls::Error| cert.invalid(format!("cannot be used with the key: {error}"));
    let mut config = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&versions(tls)?)
        .map_err(|error| LineError::at(line, error.to_string()))?
        .with_client_cert_verifier(clients::verifier(written, files, provider)?)
        .with_single_cert(chain, private)
        .map_err(unfit)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.ignore_client_order = tls.prefer_server_cipher_suites.unwrap_or(true);
    // No session resumption: a client must send its certificate again, which may no longer be trusted.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

fn versions(tls: &TlsServerConfig) -> Result<Vec<&'static SupportedProtocolVersion>, LineError> {
    let number = |written: &Option<Spanned<String>>, otherwise| match written {
        None => Ok((otherwise, 0)),
        Some(name) => match name.value.as_str() {
            "TLS12" => Ok((12, name.referenced.line())),
            "TLS13" => Ok((13, name.referenced.line())),
            other => {
                let why = format!("{other:?}: expected TLS12 or TLS13; older versions are not safe");
                Err(LineError::at(name.referenced.line(), why))
            }
        },
    };
    let ((from, _), (to, line)) = (number(&tls.min_version, 12)?, number(&tls.max_version, 13)?);
    if from > to {
        return Err(LineError::at(line, "max_version is older than min_version"));
    }
    let all = [(12, &TLS12), (13, &TLS13)];
    Ok(all
        .into_iter()
        .filter(|(number, _)| (from..=to).contains(number))
        .map(|(_, version)| version)
        .collect())
}
