//! Authentication of requests: by a login of the web configuration, or by a token that the Kubernetes API accepts. If neither
//! is configured, every request is accepted.

use std::{net::IpAddr, sync::Arc};

use tokenreview::AccessDecision;
use webconfig::WebConfig;

use super::{
    login_queue::LoginQueue,
    token_review_queue::{self, TokenReviewQueue, Undecided},
};

/// Authenticates requests by the configured methods.
#[derive(Debug, Clone)]
pub(super) struct Authenticator {
    logins: LoginQueue,
    tokens: Option<TokenReviewQueue>,
}

/// The result of the authentication and authorization of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AuthDecision {
    Yes,
    /// No valid credentials; these methods are configured. Status 401.
    Unauthenticated {
        login: bool,
        token: bool,
    },
    /// The token is valid, but its user cannot get the path. Status 403.
    Forbidden,
    /// The API server did not review the token. Status 503.
    Unknown,
    /// The rate limit of token reviews is reached. Status 429.
    TooOften,
}

impl Authenticator {
    pub(super) fn new(tokens: Option<TokenReviewQueue>) -> Self {
        Self { logins: LoginQueue::new(), tokens }
    }

    /// Decides whether a request for a path is accepted. `header` is the value of `Authorization`.
    pub(super) async fn authenticate(
        &self,
        web: &Arc<WebConfig>,
        header: Option<&[u8]>,
        path: &str,
        source: IpAddr,
    ) -> AuthDecision {
        let (login, token) = (web.users.is_some(), self.tokens.is_some());
        if !login && !token {
            return AuthDecision::Yes;
        }
        if let (Some(tokens), Some(token)) = (&self.tokens, header.and_then(token_review_queue::from_header))
        {
            match tokens.decide(token, path, source).await {
                Ok(AccessDecision::Allowed) => return AuthDecision::Yes,
                Ok(AccessDecision::Forbidden) => return AuthDecision::Forbidden,
                Ok(AccessDecision::Unauthenticated) => {}
                Err(Undecided::Unanswered) => return AuthDecision::Unknown,
                Err(Undecided::TooOften) => return AuthDecision::TooOften,
            }
        } else if login && self.logins.authenticate(web, header, source).await {
            return AuthDecision::Yes;
        }
        AuthDecision::Unauthenticated { login, token }
    }
}
