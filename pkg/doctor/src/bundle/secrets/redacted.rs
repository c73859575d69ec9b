//! What a bundle shows instead of a secret.

/// The replacement for a secret.
pub(super) const REDACTED: &str = "[secret]";
