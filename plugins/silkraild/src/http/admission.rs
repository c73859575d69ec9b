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

#[cfg(test)]
mod tests {
    use std::{fs, net::Ipv4Addr};

    use serde_json::{Value, json};
    use tokenreview::TokenReviewer;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
    };

    use super::*;

    const USERS: &str =
        "basic_auth_users: {alice: $2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW}\n";

    fn web(text: &str) -> Arc<WebConfig> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        Arc::new(WebConfig::load(file.path()).unwrap())
    }

    /// Replies to one review: the token `good` is valid, and its user can get `/metrics`.
    async fn reply(mut stream: TcpStream) {
        let (mut request, mut part) = (Vec::new(), [0; 4096]);
        let spec = loop {
            let length = stream.read(&mut part).await.unwrap();
            request.extend_from_slice(&part[..length]);
            let body = request.windows(4).position(|end| end == b"\r\n\r\n").map(|at| &request[at + 4..]);
            if let Some(review) = body.and_then(|body| serde_json::from_slice::<Value>(body).ok()) {
                break review["spec"].clone();
            }
            assert!(length > 0, "the request is incomplete");
        };
        let status = match spec["token"].as_str() {
            Some("good") => json!({"authenticated": true, "user": {"username": "prometheus"}}),
            Some(_) => json!({"user": {}}),
            None => json!({"allowed": spec["nonResourceAttributes"]["path"] == "/metrics"}),
        };
        let body = json!({"metadata": {}, "spec": spec, "status": status}).to_string();
        let head = "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nConnection: close\r\n";
        let text = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(text.as_bytes()).await.unwrap();
    }

    /// Returns a queue of reviews by an API server in this process.
    async fn tokens() -> TokenReviewQueue {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(reply(stream));
            }
        });
        let kubeconfig = tempfile::NamedTempFile::new().unwrap();
        let text = format!(
            "current-context: a\ncontexts: [{{name: a, context: {{cluster: a, user: a}}}}]\n\
             clusters: [{{name: a, cluster: {{server: 'http://{address}'}}}}]\nusers: [{{name: a, user: {{token: t}}}}]\n"
        );
        fs::write(kubeconfig.path(), text).unwrap();
        let client = kubeapi::connect_with(kubeconfig.path()).await.unwrap();
        TokenReviewQueue::new(TokenReviewer::new(client).unwrap())
    }

    /// `alice:secret` and `alice:guess`.
    const LOGIN: &str = "Basic YWxpY2U6c2VjcmV0";
    const GUESS: &str = "Basic YWxpY2U6Z3Vlc3M=";

    #[tokio::test]
    async fn each_configured_method_is_sufficient_and_no_other_one_is() {
        use AuthDecision::{Forbidden, Yes};
        let denied = |login, token| AuthDecision::Unauthenticated { login, token };
        let tokens = tokens().await;
        let (open, users) = (Arc::default(), web(USERS));
        for (web, tokens, decisions) in [
            (&open, None, [Yes; 6]),
            (
                &users,
                None,
                [
                    Yes,
                    denied(true, false),
                    denied(true, false),
                    denied(true, false),
                    denied(true, false),
                    denied(true, false),
                ],
            ),
            (
                &open,
                Some(&tokens),
                [
                    denied(false, true),
                    denied(false, true),
                    Yes,
                    Forbidden,
                    denied(false, true),
                    denied(false, true),
                ],
            ),
            (
                &users,
                Some(&tokens),
                [Yes, denied(true, true), Yes, Forbidden, denied(true, true), denied(true, true)],
            ),
        ] {
            let authenticator = Authenticator::new(tokens.cloned());
            let requests = [
                (Some(LOGIN), "/metrics"),
                (Some(GUESS), "/metrics"),
                (Some("Bearer good"), "/metrics"),
                (Some("Bearer good"), "/api/v1/node"),
                (Some("Bearer bad"), "/metrics"),
                (None, "/metrics"),
            ];
            for ((header, path), decision) in requests.into_iter().zip(decisions) {
                let source = Ipv4Addr::LOCALHOST.into();
                let decided = authenticator.authenticate(web, header.map(str::as_bytes), path, source).await;
                assert_eq!(
                    decided,
                    decision,
                    "{header:?} {path} of {:?}",
                    (web.users.is_some(), tokens.is_some())
                );
            }
        }
    }
}
