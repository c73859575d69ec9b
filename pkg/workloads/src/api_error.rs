//! Why the API server did not answer.

use std::time::Duration;

use exporter::ErrorReason;
use kubeapi::with_causes;

/// Why the API server did not answer, or how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ApiError {
    /// It may not be read.
    Denied(String),
    /// There is no such kind here.
    UnknownKind,
    /// There is no such object, or another one has its name by now.
    Gone,
    /// What was known is too old to go on from there.
    Expired,
    /// No answer came in time.
    Silent(Duration),
    /// The answer makes no sense.
    Malformed(String),
    /// Anything else.
    Refused(String),
}

impl ApiError {
    /// The kind of failure, for counting. `None`: nothing is wrong.
    ///
    /// That one kind of owner may not be read, or is not there, is no failure of the collector: there is an answer,
    /// only not from the top.
    pub(crate) fn reason(&self, of_owner: bool) -> Option<ErrorReason> {
        match self {
            Self::Denied(_) | Self::UnknownKind if of_owner => Some(ErrorReason::Unreadable),
            Self::Denied(_) => Some(ErrorReason::Permission),
            Self::Gone | Self::Expired => None,
            Self::Silent(_) => Some(ErrorReason::Timeout),
            Self::Malformed(_) => Some(ErrorReason::Malformed),
            Self::UnknownKind | Self::Refused(_) => Some(ErrorReason::Refused),
        }
    }

    /// Whether asking again soon makes no sense.
    pub(crate) fn is_definite(&self) -> bool {
        matches!(self, Self::Denied(_) | Self::UnknownKind | Self::Gone)
    }
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Denied(text) | Self::Malformed(text) | Self::Refused(text) => f.write_str(text),
            Self::UnknownKind => f.write_str("the API server has no such kind"),
            Self::Gone => f.write_str("it is gone"),
            Self::Expired => f.write_str("too old"),
            Self::Silent(after) => {
                write!(f, "no answer from the API server within {} s", after.as_secs_f32())
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
    fn an_owner_that_may_not_be_read_is_no_failure_of_the_collector_but_pods_are() {
        assert_eq!(api(403).reason(true), Some(ErrorReason::Unreadable));
        assert!(!ErrorReason::Unreadable.counts_as_failure());
        assert_eq!(api(403).reason(false), Some(ErrorReason::Permission));
        assert_eq!(api(401).reason(false), Some(ErrorReason::Permission));
    }

    #[test]
    fn what_is_gone_is_no_trouble() {
        assert_eq!((api(404), api(404).reason(true)), (ApiError::Gone, None));
        assert_eq!((api(410), api(410).reason(false)), (ApiError::Expired, None));
    }

    #[test]
    fn a_servers_trouble_passes_and_a_refusal_stays() {
        assert!(!api(500).is_definite() && !ApiError::Silent(Duration::from_secs(1)).is_definite());
        assert!(api(403).is_definite() && api(404).is_definite());
        assert_eq!(api(500).to_string(), "said so (500)");
    }
}
