//! From owner to owner, up to the top.

use std::{sync::Arc, time::Instant};

use tokio::{task::JoinSet, time::sleep_until};

use crate::{
    ask::{Answer, ask},
    reference::Claim,
    workloads::Shared,
};

/// How many questions are under way at once: one that hangs must not hold up the others.
const AT_ONCE: usize = 4;

/// Asks for every owner that is not known yet, for ever.
pub(crate) async fn keep_climbing(shared: &Arc<Shared>) {
    let mut asked = JoinSet::new();
    loop {
        let due = ask_more(shared, &mut asked);
        let has_room = asked.len() < AT_ONCE;
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
fn ask_more(shared: &Arc<Shared>, asked: &mut JoinSet<(Claim, Answer)>) -> Option<Instant> {
    let mut register = shared.register();
    while asked.len() < AT_ONCE {
        let Some(claim) = register.next(Instant::now()) else { break };
        let shared = shared.clone();
        asked.spawn(async move {
            let answer = ask(&shared.client, &shared.kinds, &claim, shared.patience.answer).await;
            (claim, answer)
        });
    }
    register.due()
}
