//! Who is let in: who has a login of the web configuration, or a token that the Kubernetes API lets read. Where neither is asked
//! for, everybody is.

use std::{net::IpAddr, sync::Arc};

use tokenreview::Verdict;
use webconfig::WebConfig;

use super::{
    logins::Logins,
    tokens::{self, Tokens, Undecided},
};

/// What is asked of clients.
#[derive(Debug, Clone)]
pub(super) struct Admission {
    logins: Logins,
    tokens: Option<Tokens>,
}

/// Whether somebody is let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admitted {
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

impl Admission {
    pub(super) fn new(tokens: Option<Tokens>) -> Self {
        Self { logins: Logins::new(), tokens }
    }

    /// Whether who asks for a path may have it.
    pub(super) async fn admit(
        &self,
        web: &Arc<WebConfig>,
        header: Option<&[u8]>,
        path: &str,
        source: IpAddr,
    ) -> Admitted {
        let (login, token) = (web.users.is_some(), self.tokens.is_some());
        if !login && !token {
            return Admitted::Yes;
        }
        if let (Some(tokens), Some(token)) = (&self.tokens, header.and_then(tokens::from_header)) {
            match tokens.decide(token, path, source).await {
                Ok(Verdict::Allowed) => return Admitted::Yes,
                Ok(Verdict::Forbidden) => return Admitted::Forbidden,
                Ok(Verdict::Unauthenticated) => {}
                Err(Undecided::Unanswered) => return Admitted::Unknown,
                Err(Undecided::TooOften) => return Admitted::TooOften,
            }
        } else if login && self.logins.admit(web, header, source).await {
            return Admitted::Yes;
        }
        Admitted::Unauthenticated { login, token }
    }
}
