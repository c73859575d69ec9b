//! A certificate authority for tests.

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, SanType,
};

/// A certificate authority that only these tests trust.
pub(crate) struct TestCa(CertifiedIssuer<'static, KeyPair>);

impl TestCa {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// Signs a certificate with these names, for servers and clients. Returns it with its key.
    pub(crate) fn sign(&self, names: &[&str]) -> (Certificate, KeyPair) {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.subject_alt_names = names.iter().map(|name| san(name)).collect();
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.0).unwrap(), key)
    }
}

fn san(name: &str) -> SanType {
    match name.parse() {
        Ok(address) => SanType::IpAddress(address),
        Err(_) if name.contains("://") => SanType::URI(name.try_into().unwrap()),
        Err(_) => SanType::DnsName(name.try_into().unwrap()),
    }
}
