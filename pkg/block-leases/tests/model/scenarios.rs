//! The scenarios that are searched.

use std::time::Instant;

use block_leases::BlockOwner;
use ipam::IpBlock;
use testkit::Share;

use crate::{
    actors::{DaemonStep, daemon, deletion, off_and_on, pod, reclaim},
    schedule::{Actor, Budget, run, run_once},
    search::{Choices, every, random},
    world::View,
};

fn block(name: &str) -> IpBlock {
    name.parse().unwrap()
}

/// Four addresses of 10.0.0.0-24, and eight that contain them.
pub(crate) fn small() -> IpBlock {
    block("10.0.0.0-31")
}

pub(crate) fn large() -> IpBlock {
    block("10.0.0.0-30")
}

fn node(machine: usize) -> (&'static str, &'static str) {
    [("node-a", "uid-a"), ("node-b", "uid-b")][machine]
}

fn daemon_on(name: &'static str, machine: usize, steps: &[DaemonStep]) -> Actor {
    let steps = steps.to_vec();
    let start = move |view: View| -> std::pin::Pin<Box<dyn Future<Output = ()>>> {
        let (node, uid) = node(machine);
        Box::pin(daemon(view, node, uid, steps.clone()))
    };
    Actor { name, machine, start: Box::new(start), restarts: true, after: None, is_on_machine: true }
}

fn pod_on(name: &'static str, machine: usize, ends: bool) -> Actor {
    let start =
        move |view: View| -> std::pin::Pin<Box<dyn Future<Output = ()>>> { Box::pin(pod(view, ends)) };
    Actor { name, machine, start: Box::new(start), restarts: false, after: None, is_on_machine: true }
}

pub(crate) fn outside<F: Future<Output = ()> + 'static>(
    name: &'static str,
    machine: usize,
    start: impl Fn(View) -> F + 'static,
) -> Actor {
    let start = move |view: View| -> std::pin::Pin<Box<dyn Future<Output = ()>>> { Box::pin(start(view)) };
    Actor { name, machine, start: Box::new(start), restarts: false, after: None, is_on_machine: false }
}

fn after(name: &'static str, actor: Actor) -> Actor {
    Actor { after: Some(name), ..actor }
}

/// Searches all choices within a few budgets, larger ones with `LEASE_MODEL=deep`, and then some choices without: of both the
/// share of this run.
fn search(actors: &[Actor]) {
    let budgets: &[_] = match std::env::var("LEASE_MODEL").as_deref() {
        Ok("deep") => &[(3, 0, 0), (2, 1, 0), (2, 0, 1), (1, 1, 1)],
        // The fewer take part, the more can be searched in the same time.
        _ if actors.len() <= 4 => &[(2, 0, 0), (1, 0, 1), (0, 1, 1)],
        _ => &[(2, 0, 0), (0, 1, 0), (0, 0, 1)],
    };
    let (share, list) = (Share::of_run(), format!("{actors:?}"));
    for &(switches, kills, faults) in budgets {
        let budget = Budget { switches, kills, faults };
        let began = Instant::now();
        let runs = every(share, &list, |choices| run(2, actors, budget, choices));
        println!("{actors:?}, {budget:?}: {runs} runs, {:?}", began.elapsed());
    }
    let unlimited = Budget { switches: usize::MAX, kills: 2, faults: 3 };
    random(share, &list, 30_000, |choices| run(2, actors, unlimited, choices));
}

use DaemonStep::{Lease, Release, Sync, Uid};

#[test]
fn two_nodes_want_one_block() {
    let actors = [
        daemon_on("daemon a", 0, &[Lease(small())]),
        daemon_on("daemon b", 1, &[Lease(small())]),
        after("daemon a", pod_on("pod a", 0, false)),
        after("daemon b", pod_on("pod b", 1, false)),
    ];
    search(&actors);
}

/// Also what edits of a pool do: it does not contain the block any more, while its addresses may be in use, and then does again.
#[test]
fn a_block_is_released_and_leased_by_another_node() {
    for steps in
        [&[Lease(small()), Release(small()), Sync][..], &[Lease(small()), Release(small()), Lease(small())]]
    {
        let actors = [
            daemon_on("daemon a", 0, steps),
            daemon_on("daemon b", 1, &[Lease(small())]),
            pod_on("pod a", 0, false),
            after("daemon b", pod_on("pod b", 1, false)),
        ];
        search(&actors);
    }
}

#[test]
fn someone_deletes_a_block_that_is_in_use() {
    let actors = [
        daemon_on("daemon a", 0, &[Lease(small()), Sync]),
        pod_on("pod a", 0, true),
        outside("deletion", 0, |view| deletion(view, small())),
        daemon_on("daemon b", 1, &[Lease(small())]),
        after("daemon b", pod_on("pod b", 1, false)),
    ];
    search(&actors);
}

#[test]
fn a_block_whose_record_is_gone_is_not_offered_any_more() {
    let removal = |view: View| async move {
        view.step("removal of the finalizer by hand", |world| world.records.clear()).await;
    };
    let actors = [
        daemon_on("daemon a", 0, &[Lease(small())]),
        after("daemon a", outside("removal", 0, removal)),
        after("removal", daemon_on("later daemon a", 0, &[])),
    ];
    let budget = Budget { switches: 0, kills: 0, faults: 0 };
    let world = run_once(1, &actors, budget, &mut Choices::default(), None);
    assert!(world.machines[0].offered.is_empty(), "{:?}", world.machines);
}

#[test]
fn the_size_of_blocks_is_changed() {
    let actors = [
        daemon_on("daemon a", 0, &[Lease(small())]),
        outside("deletion", 0, |view| deletion(view, small().parent())),
        outside("reclaim", 0, |view| reclaim(view, &[], 0)),
        daemon_on("daemon b", 1, &[Lease(large())]),
        after("daemon a", pod_on("pod a", 0, false)),
        after("daemon b", pod_on("pod b", 1, false)),
    ];
    search(&actors);
}

#[test]
fn all_addresses_of_a_parent_are_leased_as_one_block() {
    let actors = [
        daemon_on("daemon a", 0, &[Lease(small()), Release(small())]),
        outside("deletion", 0, |view| deletion(view, small().parent())),
        outside("reclaim", 0, |view| reclaim(view, &[], 0)),
        daemon_on("daemon b", 1, &[Lease(small().parent()), Lease(small().parent())]),
        pod_on("pod a", 0, false),
        after("daemon b", pod_on("pod b", 1, false)),
    ];
    search(&actors);
}

#[test]
fn the_object_of_a_node_is_created_again() {
    let actors = [
        daemon_on("daemon a", 0, &[Lease(small()), Uid("uid-a2"), Sync]),
        pod_on("pod a", 0, false),
        outside("off", 0, |view| off_and_on(view, true)),
        outside("reclaim", 0, |view| reclaim(view, &[("node-a", "uid-a")], 0)),
        daemon_on("daemon b", 1, &[Lease(small())]),
        after("daemon b", pod_on("pod b", 1, false)),
    ];
    search(&actors);
}

#[test]
fn a_block_is_draining_while_the_object_of_its_node_is_created_again() {
    let actors = [
        daemon_on("daemon a", 0, &[Lease(small()), Sync, Uid("uid-a2"), Sync]),
        pod_on("pod a", 0, true),
        outside("deletion", 0, |view| deletion(view, small())),
        outside("reclaim", 0, |view| reclaim(view, &[("node-a", "uid-a")], 0)),
        daemon_on("daemon b", 1, &[Lease(small())]),
        after("daemon b", pod_on("pod b", 1, false)),
    ];
    search(&actors);
    // At the end nothing of the former object is left, in any order of the steps.
    let budget = Budget { switches: 1, kills: 1, faults: 0 };
    every(Share::ALL, "", |choices| {
        let world = run_once(2, &actors[..3], budget, choices, Some(Vec::new()));
        let former = BlockOwner { node: "node-a".to_owned(), uid: "uid-a".to_owned() };
        let left = world.records.values().find(|record| record.is_of(&former));
        left.map(|left| format!("{left:?}\n{}", world.trace.unwrap_or_default().join("\n")))
    });
}

#[test]
fn the_blocks_of_a_node_that_is_gone_are_reclaimed() {
    let actors = [
        daemon_on("daemon a", 0, &[Lease(small()), Release(small())]),
        pod_on("pod a", 0, false),
        outside("off", 0, |view| off_and_on(view, false)),
        outside("reclaim", 0, |view| reclaim(view, &[("node-a", "uid-a")], 0)),
        daemon_on("daemon b", 1, &[Lease(small())]),
        after("daemon b", pod_on("pod b", 1, false)),
    ];
    search(&actors);
}
