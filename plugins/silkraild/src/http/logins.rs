//! Whose passwords are looked at: one at a time, for that is meant to take long, and each address in its turn.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use tokio::{sync::Semaphore, task::spawn_blocking};
use webconfig::{Login, WebConfig};

/// The queue of those who log in. A login that was right once does not wait.
#[derive(Debug, Clone)]
pub(super) struct Logins {
    turn: Arc<Semaphore>,
    /// One of each address is in the queue; the others wait for that.
    sources: Arc<Mutex<HashMap<IpAddr, Weak<Semaphore>>>>,
}

impl Logins {
    pub(super) fn new() -> Self {
        Self { turn: Arc::new(Semaphore::new(1)), sources: Arc::default() }
    }

    /// Whether who asks may do so: everybody, where there are no users.
    pub(super) async fn admit(&self, web: &Arc<WebConfig>, header: Option<&[u8]>, source: IpAddr) -> bool {
        let Some(users) = &web.users else { return true };
        let Some(login) = header.and_then(Login::from_header) else { return false };
        users.remembers(&login) || self.look(web.clone(), login, source).await
    }

    async fn look(&self, web: Arc<WebConfig>, login: Login, source: IpAddr) -> bool {
        let first = self.of(source);
        let Ok(_first) = first.acquire().await else { return false };
        let Ok(turn) = self.turn.clone().acquire_owned().await else { return false };
        let look = move || {
            let _turn = turn; // also if who asked goes away meanwhile
            web.users.as_ref().is_some_and(|users| users.remembers(&login) || users.are_right(&login))
        };
        spawn_blocking(look).await.unwrap_or(false)
    }

    fn of(&self, source: IpAddr) -> Arc<Semaphore> {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources.retain(|_, first| first.strong_count() > 0);
        if let Some(first) = sources.get(&source).and_then(Weak::upgrade) {
            return first;
        }
        let first = Arc::new(Semaphore::new(1));
        sources.insert(source, Arc::downgrade(&first));
        first
    }
}
