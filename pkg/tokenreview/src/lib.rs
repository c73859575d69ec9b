//! Authentication and authorization of bearer tokens by the Kubernetes API, as the kubelet and kube-rbac-proxy do it.
//!
//! A `TokenReview` returns the user of a token. A `SubjectAccessReview` returns whether the user can `get` a non-resource path,
//! which a ClusterRole with `nonResourceURLs` allows. The account of this process needs the role `system:auth-delegator`.
//! Decisions are cached for a while ([`TokenReviewer::cached`]).

#![forbid(unsafe_code)]

mod access_decision;
mod decision_cache;

use std::{fmt, time::Duration};

use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, api::PostParams};
use kubeapi::{quietly, with_causes};
use tokio::time::timeout;

use crate::decision_cache::DecisionCache;

pub use crate::access_decision::AccessDecision;

/// Timeout for both reviews together.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(5);

/// Why there is no decision.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server cannot be reached, or does not allow the review.
    #[error("{what} failed: {why}; is this account bound to the role system:auth-delegator?")]
    Refused {
        /// The kind of review: `TokenReview` or `SubjectAccessReview`.
        what: &'static str,
        /// The cause, without any text of the response.
        why: String,
    },
    /// The reviews took longer than 5 s.
    #[error("the API server did not respond within {REVIEW_TIMEOUT:?}")]
    Timeout,
    /// The key of the cache could not be generated.
    #[error("failed to get random numbers from the kernel")]
    NoRandom,
}

/// Reviews tokens, with a cache of decisions.
pub struct TokenReviewer {
    client: Client,
    cache: DecisionCache,
}

impl TokenReviewer {
    /// Returns a reviewer that uses the client. Sends no request yet.
    ///
    /// # Errors
    /// [`Error::NoRandom`].
    pub fn new(client: Client) -> Result<Self, Error> {
        Ok(Self { client, cache: DecisionCache::new().ok_or(Error::NoRandom)? })
    }

    /// Returns the cached decision about a token and a path.
    pub fn cached(&self, token: &str, path: &str) -> Option<AccessDecision> {
        self.cache.find(token, path)
    }

    /// Whether the API server has recently allowed the token to get the path, and has not denied it since. This is no
    /// authorization: it lets rate limits distinguish known clients from unknown ones.
    pub fn has_let_in(&self, token: &str, path: &str) -> bool {
        self.cache.knows(token, path)
    }

    /// Sends both reviews to the API server and caches the decision.
    ///
    /// # Errors
    /// [`Error`]: there is no decision, and the request must not be accepted.
    pub async fn review(&self, token: &str, path: &str) -> Result<AccessDecision, Error> {
        let decision = timeout(REVIEW_TIMEOUT, quietly(self.decide(token, path)))
            .await
            .map_err(|_| Error::Timeout)??;
        self.cache.insert(token, path, decision);
        Ok(decision)
    }

    async fn decide(&self, token: &str, path: &str) -> Result<AccessDecision, Error> {
        let Some(user) = self.user(token).await? else { return Ok(AccessDecision::Unauthenticated) };
        Ok(if self.can_get(user, path).await? { AccessDecision::Allowed } else { AccessDecision::Forbidden })
    }

    /// Returns the user of the token; `None` if it is not valid.
    async fn user(&self, token: &str) -> Result<Option<UserInfo>, Error> {
        let spec = TokenReviewSpec { token: Some(token.to_owned()), ..TokenReviewSpec::default() };
        let review = TokenReview { spec, ..TokenReview::default() };
        let result = Api::all(self.client.clone()).create(&PostParams::default(), &review).await;
        let response: TokenReview = result.map_err(refused("TokenReview"))?;
        let status = response.status.unwrap_or_default();
        Ok(status.user.filter(|_| status.authenticated == Some(true)))
    }

    async fn can_get(&self, user: UserInfo, path: &str) -> Result<bool, Error> {
        let attributes = NonResourceAttributes { path: Some(path.to_owned()), verb: Some("get".to_owned()) };
        let spec = SubjectAccessReviewSpec {
            user: user.username,
            uid: user.uid,
            groups: user.groups,
            extra: user.extra,
            non_resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let result = Api::all(self.client.clone()).create(&PostParams::default(), &review).await;
        let response: SubjectAccessReview = result.map_err(refused("SubjectAccessReview"))?;
        Ok(response.status.is_some_and(|status| status.allowed))
    }
}

fn refused(what: &'static str) -> impl Fn(kube::Error) -> Error {
    move |error| Error::Refused { what, why: why(&error) }
}

/// Returns the text for the log. It contains nothing of the response, which repeats the request with the token; errors of the
/// parser may quote it too.
fn why(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => {
            format!("the API server responded with status {}, expected 201", status.code)
        }
        kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => {
            "the response of the API server is not a valid review".into()
        }
        other => with_causes(other),
    }
}

impl fmt::Debug for TokenReviewer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenReviewer").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
