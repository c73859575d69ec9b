//! Verification of the Subject Alternative Names of client certificates.

use std::{net::IpAddr, sync::Arc};

use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::danger::{ClientCertVerified, ClientCertVerifier},
};
use serde_saphyr::Spanned;

use crate::error::LineError;

/// A Subject Alternative Name of `client_allowed_sans`.
#[derive(Debug)]
enum SubjectAltName {
    /// A DNS name or a URI, compared exactly.
    Text(String),
    Address(IpAddr),
}

/// Accepts certificates that another verifier accepts and that have one of the names.
#[derive(Debug)]
pub(crate) struct SanVerifier {
    inner: Arc<dyn ClientCertVerifier>,
    names: Vec<SubjectAltName>,
}

impl SanVerifier {
    pub(crate) fn new(
        inner: Arc<dyn ClientCertVerifier>,
        names: &[Spanned<String>],
    ) -> Result<Self, LineError> {
        let names = names.iter().map(SubjectAltName::read).collect::<Result<_, _>>()?;
        Ok(Self { inner, names })
    }
}

impl SubjectAltName {
    fn read(written: &Spanned<String>) -> Result<Self, LineError> {
        let (text, line) = (&written.value, written.referenced.line());
        if text.contains('@') && !text.contains("://") {
            let why = format!(
                "{text:?}: e-mail addresses are not supported; expected a DNS name, a URI or an IP address"
            );
            return Err(LineError::at(line, why));
        }
        if text.is_empty() {
            return Err(LineError::at(line, "a name must not be empty"));
        }
        Ok(text.parse().map_or_else(|_| Self::Text(text.clone()), Self::Address))
    }

    fn is_of(&self, certificate: &webpki::EndEntityCert<'_>) -> bool {
        match self {
            Self::Text(text) => {
                certificate.valid_dns_names().chain(certificate.valid_uri_names()).any(|name| name == text)
            }
            Self::Address(address) => {
                certificate.verify_is_valid_for_subject_name(&ServerName::from(*address)).is_ok()
            }
        }
    }
}

impl ClientCertVerifier for SanVerifier {
    fn offer_client_auth(&self) -> bool {
        self.inner.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.inner.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.inner.verify_client_cert(end_entity, intermediates, now)?;
        let certificate = webpki::EndEntityCert::try_from(end_entity)
            .map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
        if self.names.iter().any(|name| name.is_of(&certificate)) {
            Ok(verified)
        } else {
            Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
