//! From owner to owner, up to the top.

use std::{sync::Arc, time::Instant};

use tokio::{task::JoinSet, time::sleep_until};

use crate::{
    owner_lookup::{OwnerLookup, fetch_owner},
    owner_ref::NamespacedOwnerRef,
    workload_watcher::WatcherShared,
};

/// How many questions are under way at once: one that hangs must not hold up the others.
const MAX_CONCURRENT_REQUESTS: usize = 4;

/// Asks for every owner that is not known yet, for ever.
pub(crate) async fn resolve_owners(shared: &Arc<WatcherShared>) {
    let mut asked = JoinSet::new();
    loop {
        let due = spawn_fetches(shared, &mut asked);
        let has_room = asked.len() < MAX_CONCURRENT_REQUESTS;
        tokio::select! {
            () = shared.changed.notified() => {}
            Some(done) = asked.join_next(), if !asked.is_empty() => {
                if let Ok((claim, answer)) = done {
                    shared.register().answer(&claim, answer, Instant::now());
                }
            }
            () = sleep_until(due.unwrap_or_else(Instant::now).into()), if due.is_some() && has_room => {}
        }
    }
}

/// Asks for as many as there is room for. Tells when the next ones are due.
fn spawn_fetches(
    shared: &Arc<WatcherShared>,
    asked: &mut JoinSet<(NamespacedOwnerRef, OwnerLookup)>,
) -> Option<Instant> {
    let mut register = shared.register();
    while asked.len() < MAX_CONCURRENT_REQUESTS {
        let Some(claim) = register.next(Instant::now()) else { break };
        let shared = shared.clone();
        asked.spawn(async move {
            let answer = fetch_owner(&shared.client, &shared.kinds, &claim, shared.patience.answer).await;
            (claim, answer)
        });
    }
    register.next_retry()
}
