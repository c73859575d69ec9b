//! Failures of requests to the API server.

use std::time::Duration;

use exporter::ErrorReason;
use kubeapi::with_causes;

/// Why a request to the API server failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ApiError {
    /// Access is denied: status 401 or 403.
    Denied(String),
    /// The API server does not have the kind.
    UnknownKind,
    /// The object does not exist: status 404, or its name has another UID.
    Gone,
    /// The resourceVersion of the watch is too old: status 410.
    Expired,
    /// The request timed out.
    Timeout(Duration),
    /// The response could not be parsed.
    Malformed(String),
    /// Any other failure.
    Refused(String),
}

impl ApiError {
    /// Returns the reason for the error counters; `None` if it is not an error.
    ///
    /// If a kind of owner cannot be read or does not exist, the collector does not fail: it returns the last known owner
    /// of the chain instead of the top.
    pub(crate) fn reason(&self, of_owner: bool) -> Option<ErrorReason> {
        match self {
            Self::Denied(_) | Self::UnknownKind if of_owner => Some(ErrorReason::Unreadable),
            Self::Denied(_) => Some(ErrorReason::Permission),
            Self::Gone | Self::Expired => None,
            Self::Timeout(_) => Some(ErrorReason::Timeout),
            Self::Malformed(_) => Some(ErrorReason::Malformed),
            Self::UnknownKind | Self::Refused(_) => Some(ErrorReason::Refused),
        }
    }

    /// Whether a retry is unlikely to succeed soon.
    pub(crate) fn is_definite(&self) -> bool {
        matches!(self, Self::Denied(_) | Self::UnknownKind | Self::Gone)
    }
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Denied(text) | Self::Malformed(text) | Self::Refused(text) => f.write_str(text),
            Self::UnknownKind => f.write_str("the API server has no such kind"),
            Self::Gone => f.write_str("the object does not exist"),
            Self::Expired => f.write_str("the resource version is too old"),
            Self::Timeout(after) => {
                write!(f, "no response from the API server within {} s", after.as_secs_f32())
            }
        }
    }
}

impl From<kube::Error> for ApiError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => match status.code {
                401 | 403 => Self::Denied(status.message),
                404 => Self::Gone,
                410 => Self::Expired,
                code => Self::Refused(format!("{} ({code})", status.message)),
            },
            kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => Self::Malformed(with_causes(&error)),
            kube::Error::Service(error) => Self::Refused(with_causes(&*error)),
            other => Self::Refused(with_causes(&other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn api(code: u16) -> ApiError {
        kube::Error::Api(Status::failure("said so", "").with_code(code).boxed()).into()
    }

    #[test]
    fn an_unreadable_owner_is_not_a_failure_but_unreadable_pods_are() {
        assert_eq!(api(403).reason(true), Some(ErrorReason::Unreadable));
        assert!(!ErrorReason::Unreadable.counts_as_failure());
        assert_eq!(api(403).reason(false), Some(ErrorReason::Permission));
        assert_eq!(api(401).reason(false), Some(ErrorReason::Permission));
    }

    #[test]
    fn a_missing_object_is_not_an_error() {
        assert_eq!((api(404), api(404).reason(true)), (ApiError::Gone, None));
        assert_eq!((api(410), api(410).reason(false)), (ApiError::Expired, None));
    }

    #[test]
    fn server_errors_are_temporary_and_denials_are_definite() {
        assert!(!api(500).is_definite() && !ApiError::Timeout(Duration::from_secs(1)).is_definite());
        assert!(api(403).is_definite() && api(404).is_definite());
        assert_eq!(api(500).to_string(), "said so (500)");
    }
}
