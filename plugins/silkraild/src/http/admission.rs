//! Who is let in: who has a login of the web configuration, or a token that the Kubernetes API lets read. Where neither is asked
//! for, everybody is.

use std::{net::IpAddr, sync::Arc};

use tokenreview::AccessDecision;
use webconfig::WebConfig;

use super::{
    login_queue::LoginQueue,
    token_review_queue::{self, TokenReviewQueue, Undecided},
};

/// What is asked of clients.
#[derive(Debug, Clone)]
pub(super) struct Authenticator {
    logins: LoginQueue,
    tokens: Option<TokenReviewQueue>,
}

/// Whether somebody is let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AuthDecision {
    Yes,
    /// They have to say who they are, in one of these ways.
    Unauthenticated {
        login: bool,
        token: bool,
    },
    /// They may not read this.
    Forbidden,
    /// Nobody can say now.
    Unknown,
    /// Nobody asks now.
    TooOften,
}

impl Authenticator {
    pub(super) fn new(tokens: Option<TokenReviewQueue>) -> Self {
        Self { logins: LoginQueue::new(), tokens }
    }

    /// Whether who asks for a path may have it.
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
