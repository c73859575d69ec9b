//! The requests for the owners of pods, up to the top-level owner.

use std::{sync::Arc, time::Instant};

use tokio::{task::JoinSet, time::sleep_until};

use crate::{
    owner_lookup::{OwnerLookup, fetch_owner},
    owner_ref::NamespacedOwnerRef,
    watcher_shared::WatcherShared,
};

/// Concurrent requests: one that hangs must not delay the others.
const MAX_CONCURRENT_REQUESTS: usize = 4;

/// Gets every owner that is not known yet, forever.
pub(crate) async fn resolve_owners(shared: &Arc<WatcherShared>) {
    let mut requests = JoinSet::new();
    loop {
        let due = spawn_fetches(shared, &mut requests);
        let has_room = requests.len() < MAX_CONCURRENT_REQUESTS;
        tokio::select! {
            () = shared.changed.notified() => {}
            Some(done) = requests.join_next(), if !requests.is_empty() => {
                if let Ok((owner, lookup)) = done {
                    shared.cache().record(&owner, lookup, Instant::now());
                }
            }
            () = sleep_until(due.unwrap_or_else(Instant::now).into()), if due.is_some() && has_room => {}
        }
    }
}

/// Starts requests up to the limit. Returns when the next retry is due.
fn spawn_fetches(
    shared: &Arc<WatcherShared>,
    requests: &mut JoinSet<(NamespacedOwnerRef, OwnerLookup)>,
) -> Option<Instant> {
    let mut cache = shared.cache();
    while requests.len() < MAX_CONCURRENT_REQUESTS {
        let Some(owner) = cache.next(Instant::now()) else { break };
        let shared = shared.clone();
        requests.spawn(async move {
            let lookup =
                fetch_owner(&shared.client, &shared.kinds, &owner, shared.retry_policy.request_timeout).await;
            (owner, lookup)
        });
    }
    cache.next_retry()
}
