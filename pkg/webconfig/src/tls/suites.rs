//! Cipher suites and curves, by their names in Go's crypto/tls.

use rustls::{
    SupportedCipherSuite,
    crypto::{SupportedKxGroup, ring},
};

use crate::{error::LineError, web_config_file::TlsServerConfig};

/// Curves by name.
const CURVES: [(&str, &dyn SupportedKxGroup); 3] = [
    ("X25519", ring::kx_group::X25519),
    ("CurveP256", ring::kx_group::SECP256R1),
    ("CurveP384", ring::kx_group::SECP384R1),
];

/// Returns the listed cipher suites of TLS 1.2, in their order, and all of TLS 1.3, which are not configurable.
pub(super) fn ciphers(tls: &TlsServerConfig) -> Result<Vec<SupportedCipherSuite>, LineError> {
    let all = ring::ALL_CIPHER_SUITES;
    let Some(listed) = tls.cipher_suites.as_ref().filter(|listed| !listed.is_empty()) else {
        return Ok(all.to_vec());
    };
    let mut chosen: Vec<_> = all.iter().filter(|suite| suite.tls13().is_some()).copied().collect();
    for written in listed {
        let Some(suite) = all.iter().find(|suite| name(suite) == written.value) else {
            let known: Vec<_> = all.iter().map(name).collect();
            let why = format!(
                "unknown or insecure cipher suite {:?}; expected one of {}",
                written.value,
                known.join(", ")
            );
            return Err(LineError::at(written.referenced.line(), why));
        };
        if suite.tls13().is_none() {
            chosen.push(*suite);
        }
    }
    Ok(chosen)
}

/// Returns the listed curves in their order, or all.
pub(super) fn groups(tls: &TlsServerConfig) -> Result<Vec<&'static dyn SupportedKxGroup>, LineError> {
    let Some(listed) = tls.curve_preferences.as_ref().filter(|listed| !listed.is_empty()) else {
        return Ok(ring::ALL_KX_GROUPS.to_vec());
    };
    let group = |name: &str| CURVES.iter().find(|(known, _)| *known == name).map(|(_, group)| *group);
    let found = listed.iter().map(|written| {
        group(&written.value).ok_or_else(|| {
            let known = CURVES.map(|(known, _)| known).join(", ");
            let why = format!("unknown curve {:?}; expected one of {known}", written.value);
            LineError::at(written.referenced.line(), why)
        })
    });
    found.collect()
}

/// Returns the name in Go, which has no version for suites of TLS 1.3.
fn name(suite: &SupportedCipherSuite) -> String {
    format!("{:?}", suite.suite()).replace("TLS13_", "TLS_")
}
