//! What the API server decides about a token.

/// The decision of the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessDecision {
    /// The user of the token can get the path.
    Allowed,
    /// The token is invalid or expired.
    Unauthenticated,
    /// The token is valid, but its user cannot get the path.
    Forbidden,
}
