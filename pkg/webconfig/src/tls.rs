//! The TLS configuration of the server. Versions older than 1.2 are not compiled in.

mod clients;
mod suites;

use std::{path::PathBuf, sync::Arc};

use rustls::{
    ServerConfig, SupportedProtocolVersion,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::NoServerSessionStorage,
    version::{TLS12, TLS13},
};
use serde_saphyr::Spanned;

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

/// PEM text, and the configuration key that it comes from.
struct PemText {
    what: String,
    line: u64,
    bytes: Vec<u8>,
}

/// Reads the inline text or the named file; both together are an error.
fn pem(
    (key, text): (&str, &Option<Spanned<String>>),
    (file_key, file): (&str, &Option<Spanned<PathBuf>>),
    readers: ReadAccess,
    files: &mut TrustedFiles,
) -> Result<Option<PemText>, LineError> {
    match (text, file) {
        (Some(text), None) => {
            let (line, bytes) = (text.referenced.line(), text.value.clone().into_bytes());
            Ok(Some(PemText { what: key.to_owned(), line, bytes }))
        }
        (None, Some(file)) => {
            let line = file.referenced.line();
            let bytes = files.named(&file.value, readers);
            let bytes = bytes.map_err(|error| LineError::at(line, format!("{file_key} {error}")))?;
            Ok(Some(PemText { what: format!("{file_key} {}", file.value.display()), line, bytes }))
        }
        (None, None) => Ok(None),
        (Some(_), Some(file)) => Err(LineError::at(
            file.referenced.line(),
            format!("{key} and {file_key}: expected only one of them"),
        )),
    }
}

impl PemText {
    fn invalid(&self, why: impl std::fmt::Display) -> LineError {
        LineError::at(self.line, format!("{}: {why}", self.what))
    }

    fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, LineError> {
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.bytes).collect();
        match read {
            Ok(certificates) if !certificates.is_empty() => Ok(certificates),
            Ok(_) => Err(self.invalid("has no certificate in PEM")),
            Err(error) => Err(self.invalid(format!("is not a certificate in PEM: {error}"))),
        }
    }
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
