//! Whether the Kubernetes API lets the bearer of a token read a path: as the kubelet and kube-rbac-proxy decide.
//!
//! A `TokenReview` says whose a token is, and a `SubjectAccessReview` whether they may `get` a path that is no resource: a
//! ClusterRole with `nonResourceURLs` says so. Whoever asks needs the role `system:auth-delegator`. What the API has decided is
//! remembered for a while ([`TokenReviewer::cached`]).

#![forbid(unsafe_code)]

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

/// How long the API server may take for both questions.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(5);

/// What the API has decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessDecision {
    /// They may read it.
    Allowed,
    /// The token is nobody's, or not any more.
    Unauthenticated,
    /// They may not read this.
    Forbidden,
}

/// Why the API has not decided.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be reached, or does not let us ask.
    #[error("{what} was not answered: {why}; is this account bound to the role system:auth-delegator?")]
    Refused {
        /// What was asked.
        what: &'static str,
        /// What went wrong, without a word of its answer.
        why: String,
    },
    /// It takes too long.
    #[error("the API server did not answer within {REVIEW_TIMEOUT:?}")]
    Timeout,
    /// There are no random numbers to remember tokens by.
    #[error("the kernel has no random numbers")]
    NoRandom,
}

/// Asks the API about tokens.
pub struct TokenReviewer {
    client: Client,
    memory: DecisionCache,
}

impl TokenReviewer {
    /// Nothing is asked yet.
    ///
    /// # Errors
    /// [`Error::NoRandom`].
    pub fn new(client: Client) -> Result<Self, Error> {
        Ok(Self { client, memory: DecisionCache::new().ok_or(Error::NoRandom)? })
    }

    /// What was decided about a token and a path not long ago.
    pub fn cached(&self, token: &str, path: &str) -> Option<AccessDecision> {
        self.memory.find(token, path)
    }

    /// Whether the API let the bearer of a token get a path not long ago, and has not said otherwise since. That lets nobody
    /// in; but whoever limits how often is asked can tell them from strangers.
    pub fn has_let_in(&self, token: &str, path: &str) -> bool {
        self.memory.knows(token, path)
    }

    /// Has the API decide whether the bearer of a token may get a path.
    ///
    /// # Errors
    /// That it did not: nobody is to be let in then.
    pub async fn review(&self, token: &str, path: &str) -> Result<AccessDecision, Error> {
        let verdict = timeout(REVIEW_TIMEOUT, quietly(self.decide(token, path)))
            .await
            .map_err(|_| Error::Timeout)??;
        self.memory.insert(token, path, verdict);
        Ok(verdict)
    }

    async fn decide(&self, token: &str, path: &str) -> Result<AccessDecision, Error> {
        let Some(user) = self.user(token).await? else { return Ok(AccessDecision::Unauthenticated) };
        Ok(if self.may_get(user, path).await? { AccessDecision::Allowed } else { AccessDecision::Forbidden })
    }

    /// Whose the token is.
    async fn user(&self, token: &str) -> Result<Option<UserInfo>, Error> {
        let spec = TokenReviewSpec { token: Some(token.to_owned()), ..TokenReviewSpec::default() };
        let review = TokenReview { spec, ..TokenReview::default() };
        let asked = Api::all(self.client.clone()).create(&PostParams::default(), &review).await;
        let answer: TokenReview = asked.map_err(refused("a TokenReview"))?;
        let status = answer.status.unwrap_or_default();
        Ok(status.user.filter(|_| status.authenticated == Some(true)))
    }

    async fn may_get(&self, user: UserInfo, path: &str) -> Result<bool, Error> {
        let asked_for = NonResourceAttributes { path: Some(path.to_owned()), verb: Some("get".to_owned()) };
        let spec = SubjectAccessReviewSpec {
            user: user.username,
            uid: user.uid,
            groups: user.groups,
            extra: user.extra,
            non_resource_attributes: Some(asked_for),
            ..SubjectAccessReviewSpec::default()
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let asked = Api::all(self.client.clone()).create(&PostParams::default(), &review).await;
        let answer: SubjectAccessReview = asked.map_err(refused("a SubjectAccessReview"))?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }
}

fn refused(what: &'static str) -> impl Fn(kube::Error) -> Error {
    move |error| Error::Refused { what, why: why(&error) }
}

/// What goes into a log. An answer does not: it repeats what was asked, the token too, and so does what is said of it where it
/// cannot be read.
fn why(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("the API server answers with status {}, not 201", status.code),
        kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => {
            "the API server's answer is no review".into()
        }
        other => with_causes(other),
    }
}

impl fmt::Debug for TokenReviewer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reviews").finish_non_exhaustive()
    }
}
