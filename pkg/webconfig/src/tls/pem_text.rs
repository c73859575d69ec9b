//! PEM text of the configuration or of a file.

use std::path::PathBuf;

use rustls::pki_types::{CertificateDer, pem::PemObject};
use serde_saphyr::Spanned;

use crate::{
    error::LineError,
    trusted_files::{ReadAccess, TrustedFiles},
};

/// PEM text, and the configuration key that it comes from.
pub(super) struct PemText {
    what: String,
    line: u64,
    pub(super) bytes: Vec<u8>,
}

/// Reads the inline text or the named file; both together are an error.
pub(super) fn pem(
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
    pub(super) fn invalid(&self, why: impl std::fmt::Display) -> LineError {
        LineError::at(self.line, format!("{}: {why}", self.what))
    }

    pub(super) fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, LineError> {
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.bytes).collect();
        match read {
            Ok(certificates) if !certificates.is_empty() => Ok(certificates),
            Ok(_) => Err(self.invalid("has no certificate in PEM")),
            Err(error) => Err(self.invalid(format!("is not a certificate in PEM: {error}"))),
        }
    }
}
