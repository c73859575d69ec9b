//! Verifies passwords one at a time, because bcrypt is slow by design, and fairly among sources.

use std::{net::IpAddr, sync::Arc};

use tokio::task::spawn_blocking;
use webconfig::{BasicCredentials, WebConfig};

use super::fair_queue::FairQueue;

/// The queue of logins. Cached logins do not wait.
#[derive(Debug, Clone)]
pub(super) struct LoginQueue {
    queue: FairQueue,
}

impl LoginQueue {
    pub(super) fn new() -> Self {
        Self { queue: FairQueue::new(1) }
    }

    /// Whether the `Authorization` header contains a valid login. Always true if no users are configured.
    pub(super) async fn authenticate(
        &self,
        web: &Arc<WebConfig>,
        header: Option<&[u8]>,
        source: IpAddr,
    ) -> bool {
        let Some(users) = &web.users else { return true };
        let Some(login) = header.and_then(BasicCredentials::from_header) else { return false };
        users.is_cached(&login) || self.verify_password(web.clone(), login, source).await
    }

    async fn verify_password(&self, web: Arc<WebConfig>, login: BasicCredentials, source: IpAddr) -> bool {
        let Some(permit) = self.queue.acquire(source).await else { return false };
        let verify = move || {
            let _permit = permit; // held even if the client disconnects meanwhile
            web.users.as_ref().is_some_and(|users| users.is_cached(&login) || users.verify(&login))
        };
        spawn_blocking(verify).await.unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, net::Ipv4Addr, sync::Mutex};

    use super::*;

    /// The hash of the password "secret", by libxcrypt.
    const HASH: &str = "$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW";

    fn web() -> Arc<WebConfig> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), format!("basic_auth_users: {{alice: {HASH}}}\n")).unwrap();
        Arc::new(WebConfig::load(file.path()).unwrap())
    }

    fn source(last: u8) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, last).into()
    }

    /// `alice:secret` and `alice:guess`.
    const RIGHT: &[u8] = b"Basic YWxpY2U6c2VjcmV0";
    const WRONG: &[u8] = b"Basic YWxpY2U6Z3Vlc3M=";

    #[tokio::test]
    async fn an_address_that_tries_many_passwords_delays_only_itself() {
        let (web, logins) = (web(), LoginQueue::new());
        let order = Arc::new(Mutex::new(Vec::new()));
        let permit = logins.queue.acquire(source(9)).await.unwrap();
        let attempts = [(1, WRONG); 10].into_iter().chain([(2, RIGHT)]);
        let tasks: Vec<_> = attempts
            .map(|(from, header)| {
                let (web, logins, order) = (web.clone(), logins.clone(), order.clone());
                tokio::spawn(async move {
                    let is_right = logins.authenticate(&web, Some(header), source(from)).await;
                    order.lock().unwrap().push((from, is_right));
                })
            })
            .collect();
        for _ in 0..100 {
            tokio::task::yield_now().await; // until all of them are queued
        }
        drop(permit);
        for task in tasks {
            task.await.unwrap();
        }
        let order = order.lock().unwrap().clone();
        // After one login of the other source, plus scheduling delays.
        let position = order.iter().position(|it| *it == (2, true));
        assert!(order.len() == 11 && position.is_some_and(|position| position < 5), "{order:?}");
        // A cached login does not wait.
        let _permit = logins.queue.acquire(source(9)).await.unwrap();
        assert!(logins.authenticate(&web, Some(RIGHT), source(1)).await);
    }

    #[tokio::test]
    async fn without_users_every_request_is_accepted_and_with_users_a_login_is_required() {
        let logins = LoginQueue::new();
        assert!(logins.authenticate(&Arc::default(), None, source(1)).await);
        assert!(!logins.authenticate(&web(), None, source(1)).await);
        assert!(!logins.authenticate(&web(), Some(b"Bearer secret"), source(1)).await);
    }
}
