//! What takes part: daemons, plugins, people, and the one that reclaims the blocks of nodes that are gone.

use block_leases::{BlockLeases, BlockOwner, LeaseOutcome, remove_parent, remove_record};
use ipam::IpBlock;

use crate::world::{Request, View};

/// A step of a daemon.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DaemonStep {
    Lease(IpBlock),
    Release(IpBlock),
    /// Uses this UID from now on.
    Uid(&'static str),
    Sync,
}

/// A daemon, which does these steps, each whatever became of the one before. The first is always a sync.
pub(crate) async fn daemon(view: View, node: &'static str, uid: &'static str, steps: Vec<DaemonStep>) {
    let owner = |uid: &str| BlockOwner { node: node.to_owned(), uid: uid.to_owned() };
    let mut leases = BlockLeases::new(view.clone(), view, owner(uid));
    let _ = leases.sync().await;
    for step in steps {
        match step {
            DaemonStep::Lease(block) => {
                // As the real one: it tries a block of the size that it was told.
                if let Ok(LeaseOutcome::OtherSize(size)) = leases.lease(block).await {
                    let _ = leases.lease(IpBlock::containing(block.range().first(), size)).await;
                }
            }
            DaemonStep::Release(block) => drop(leases.release(block).await),
            DaemonStep::Uid(uid) => {
                leases.set_owner(owner(uid));
                let _ = leases.sync().await;
            }
            DaemonStep::Sync => drop(leases.sync().await),
        }
    }
}

/// An ADD as in the store of the plugins: it claims an address of an offered block, then confirms that it is offered still.
/// With `ends`, a DEL follows.
pub(crate) async fn pod(view: View, ends: bool) {
    let offered = view.local("ADD", |machine| machine.offered.clone()).await;
    for block in offered {
        for address in block.addresses() {
            if !view.local(("claim", address), |machine| machine.claimed.insert(address)).await {
                continue;
            }
            let confirm = |machine: &mut crate::world::Machine| {
                let is_offered = machine.offered.contains(&block);
                is_offered && machine.used.insert(address)
            };
            if view.local(("confirm", address), confirm).await {
                if ends {
                    view.local(("DEL", address), |machine| machine.used.remove(&address)).await;
                    view.local(("unclaim", address), |machine| machine.claimed.remove(&address)).await;
                }
                return;
            }
            view.local(("unclaim", address), |machine| machine.claimed.remove(&address)).await;
        }
    }
}

/// Someone who deletes a record, as with `kubectl delete`.
pub(crate) async fn deletion(view: View, block: IpBlock) {
    view.step(("kubectl delete", block), |world| {
        let version = world.records.get(&block).map(|record| record.version.clone());
        version.map(|version| world.execute(&Request::Terminate(block, version)).is_ok())
    })
    .await;
}

/// Removes what no node removes: the records of a node whose object is gone, if its machine is off, and terminating parents.
pub(crate) async fn reclaim(view: View, gone: &'static [(&'static str, &'static str)], machine: usize) {
    let records = view.step("list", |world| world.records.values().cloned().collect::<Vec<_>>()).await;
    for record in records {
        let is_gone = |(node, uid): &(&str, &str)| {
            record.is_of(&BlockOwner { node: (*node).to_owned(), uid: (*uid).to_owned() })
        };
        if gone.iter().any(is_gone) {
            // Without this, nothing proves that the machine is not in use.
            let is_off = view.step("hold-down", |world| world.machines[machine].is_off).await;
            if is_off {
                let _ = remove_record(&view, &record).await;
            }
        } else {
            let _ = remove_parent(&view, &record).await;
        }
    }
}

/// Switches a machine off and on again: its memory is lost, and with it its pods.
pub(crate) async fn off_and_on(view: View, is_on_again: bool) {
    view.local("off", |machine| {
        *machine = crate::world::Machine { is_off: true, ..Default::default() };
    })
    .await;
    if is_on_again {
        view.local("on", |machine| machine.is_off = false).await;
    }
}
