//! Whose passwords are looked at: one at a time, for that is meant to take long, and each address in its turn.

use std::{net::IpAddr, sync::Arc};

use tokio::task::spawn_blocking;
use webconfig::{BasicCredentials, WebConfig};

use super::fair_queue::FairQueue;

/// The queue of those who log in. A login that was right once does not wait.
#[derive(Debug, Clone)]
pub(super) struct LoginQueue {
    queue: FairQueue,
}

impl LoginQueue {
    pub(super) fn new() -> Self {
        Self { queue: FairQueue::new(1) }
    }

    /// Whether who asks may do so: everybody, where there are no users.
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
        let Some(turn) = self.queue.acquire(source).await else { return false };
        let look = move || {
            let _turn = turn; // also if who asked goes away meanwhile
            web.users.as_ref().is_some_and(|users| users.is_cached(&login) || users.verify(&login))
        };
        spawn_blocking(look).await.unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, net::Ipv4Addr, sync::Mutex};

    use super::*;

    /// Of the password "secret", by libxcrypt.
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
    async fn an_address_that_tries_many_passwords_waits_for_itself() {
        let (web, logins) = (web(), LoginQueue::new());
        let order = Arc::new(Mutex::new(Vec::new()));
        let turn = logins.queue.acquire(source(9)).await.unwrap();
        let asks = [(1, WRONG); 10].into_iter().chain([(2, RIGHT)]);
        let tasks: Vec<_> = asks
            .map(|(from, header)| {
                let (web, logins, order) = (web.clone(), logins.clone(), order.clone());
                tokio::spawn(async move {
                    let is_right = logins.authenticate(&web, Some(header), source(from)).await;
                    order.lock().unwrap().push((from, is_right));
                })
            })
            .collect();
        for _ in 0..100 {
            tokio::task::yield_now().await; // until all of them wait
        }
        drop(turn);
        for task in tasks {
            task.await.unwrap();
        }
        let order = order.lock().unwrap().clone();
        // After one of the other's; it tells of it a little later.
        let place = order.iter().position(|it| *it == (2, true));
        assert!(order.len() == 11 && place.is_some_and(|place| place < 5), "{order:?}");
        // It was right once: nobody is waited for.
        let _turn = logins.queue.acquire(source(9)).await.unwrap();
        assert!(logins.authenticate(&web, Some(RIGHT), source(1)).await);
    }

    #[tokio::test]
    async fn without_users_everybody_is_let_in_and_with_them_nobody_who_says_nothing() {
        let logins = LoginQueue::new();
        assert!(logins.authenticate(&Arc::default(), None, source(1)).await);
        assert!(!logins.authenticate(&web(), None, source(1)).await);
        assert!(!logins.authenticate(&web(), Some(b"Bearer secret"), source(1)).await);
    }
}
