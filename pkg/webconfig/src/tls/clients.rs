//! The verification of client certificates.

use std::sync::Arc;

use rustls::{
    RootCertStore,
    crypto::CryptoProvider,
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use serde_saphyr::Spanned;

use super::pem_text::pem;
use crate::{
    error::LineError,
    san_verifier::SanVerifier,
    trusted_files::{ReadAccess, TrustedFiles},
    web_config_file::{TlsServerConfig, VERIFIED},
};

/// `client_auth_type`: whether a client must send a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientAuthType {
    No,
    IfGiven,
    Yes,
}

/// Returns the verifier of client certificates.
pub(super) fn verifier(
    written: &Spanned<TlsServerConfig>,
    files: &mut TrustedFiles,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, LineError> {
    let tls = &written.value;
    let line = tls.client_auth_type.as_ref().map_or(written.referenced, |kind| kind.referenced).line();
    let wanted = wanted(tls)?;
    let authorities =
        pem(("client_ca", &tls.client_ca), ("client_ca_file", &tls.client_ca_file), ReadAccess::All, files)?;
    if let (Some(_), true) = (&tls.client_allowed_sans, wanted != ClientAuthType::Yes) {
        return Err(LineError::at(
            line,
            "client_allowed_sans: expected client_auth_type RequireAndVerifyClientCert",
        ));
    }
    let authorities = match (wanted, authorities) {
        (ClientAuthType::No, None) => return Ok(WebPkiClientVerifier::no_client_auth()),
        (ClientAuthType::No, Some(found)) => {
            return Err(found.invalid("is not used: expected client_auth_type RequireAndVerifyClientCert"));
        }
        (_, None) => {
            return Err(LineError::at(line, "the CA of client certificates is missing: client_ca_file"));
        }
        (_, Some(found)) => found,
    };
    let mut roots = RootCertStore::empty();
    for certificate in authorities.certificates()? {
        roots.add(certificate).map_err(|error| authorities.invalid(error))?;
    }
    let mut builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    if wanted == ClientAuthType::IfGiven {
        builder = builder.allow_unauthenticated();
    }
    let verifier = builder.build().map_err(|error| authorities.invalid(error))?;
    match &tls.client_allowed_sans {
        Some(names) => Ok(Arc::new(SanVerifier::new(verifier, names)?)),
        None => Ok(verifier),
    }
}

fn wanted(tls: &TlsServerConfig) -> Result<ClientAuthType, LineError> {
    let Some(written) = &tls.client_auth_type else { return Ok(ClientAuthType::No) };
    match written.value.as_str() {
        "" | "NoClientCert" => Ok(ClientAuthType::No),
        "VerifyClientCertIfGiven" => Ok(ClientAuthType::IfGiven),
        VERIFIED => Ok(ClientAuthType::Yes),
        unverified @ ("RequestClientCert" | "RequireAnyClientCert" | "RequireClientCert") => {
            Err(LineError::at(
                written.referenced.line(),
                format!("{unverified}: does not verify the certificate; expected RequireAndVerifyClientCert"),
            ))
        }
        other => Err(LineError::at(
            written.referenced.line(),
            format!(
                "{other:?}: expected NoClientCert, VerifyClientCertIfGiven or RequireAndVerifyClientCert"
            ),
        )),
    }
}
