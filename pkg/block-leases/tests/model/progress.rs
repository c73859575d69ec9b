//! What a daemon achieves when nothing goes wrong: the searches only find addresses that two nodes use.

use block_leases::{
    BlockContent::Parent,
    BlockLeases, BlockOwner,
    LeaseOutcome::{Leased, OtherSize, Taken},
    ReleaseOutcome::InUse,
};
use ipam::IpBlock;

use crate::{
    actors::deletion,
    scenarios::{large, outside, small},
    schedule::{Budget, run_once},
    search::Choices,
    world::{Machine, Request, View},
};

/// Runs a daemon alone, after it has leased [`small`].
fn alone<F: Future<Output = ()> + 'static>(
    steps: impl Fn(View, BlockLeases<View, View>) -> F + Copy + 'static,
) {
    let start = move |view: View| async move {
        let owner = BlockOwner { node: "node-a".to_owned(), uid: "uid-a".to_owned() };
        let mut leases = BlockLeases::new(view.clone(), view.clone(), owner);
        leases.sync().await.unwrap();
        assert_eq!(leases.lease(small()).await.unwrap(), Leased);
        steps(view, leases).await;
    };
    let budget = Budget { switches: 0, kills: 0, faults: 0 };
    run_once(1, &[outside("daemon", 0, start)], budget, &mut Choices::default(), None);
}

fn blocks(leases: &BlockLeases<View, View>) -> Vec<IpBlock> {
    leases.blocks().collect()
}

/// A pod takes the first address of [`small`].
async fn claim(view: &View) {
    view.local("claim", |machine| machine.claimed.insert(small().range().first())).await;
}

/// The daemon was killed after it had withdrawn [`small`].
async fn withdraw(view: &View) {
    let withdraw =
        |machine: &mut Machine| machine.offered.remove(&small()) && machine.withdrawn.insert(small());
    assert!(view.local("withdraw", withdraw).await);
}

/// Someone removes the record of the parent, and divides it into blocks of the size of another one.
async fn divide_again(view: &View, block: IpBlock) {
    let divide = |world: &mut crate::world::World| {
        world.records.remove(&block.parent());
        world.execute(&Request::Create(block.parent(), Parent(block.size()))).unwrap();
    };
    view.step("divide again", divide).await;
}

#[test]
fn a_terminating_block_is_not_offered_again_and_ends_with_its_last_address() {
    alone(|view, mut leases| async move {
        claim(&view).await;
        deletion(view.clone(), small()).await;
        assert_eq!(leases.sync().await.unwrap().draining.len(), 1);
        assert_eq!(leases.release(small()).await.unwrap(), InUse(vec![small().range().first()]));
        assert_eq!(leases.lease(small()).await.unwrap(), Taken);
        assert!(blocks(&leases).is_empty());
        view.local("end", |machine| {
            assert!(machine.offered.is_empty(), "{machine:?}");
            machine.claimed.clear();
        })
        .await;
        leases.sync().await.unwrap();
        assert_eq!(leases.lease(small()).await.unwrap(), Leased, "it is free again");
    });
}

#[test]
fn a_block_that_is_in_use_stays_offered_when_it_is_released() {
    alone(|view, mut leases| async move {
        claim(&view).await;
        assert_eq!(leases.release(small()).await.unwrap(), InUse(vec![small().range().first()]));
        assert_eq!(blocks(&leases), [small()]);
        view.local("look", |machine| assert!(machine.offered.contains(&small()), "{machine:?}")).await;
    });
}

#[test]
fn a_parent_that_was_divided_again_is_read_again() {
    alone(|view, mut leases| async move {
        leases.release(small()).await.unwrap();
        divide_again(&view, large()).await;
        // The size that it knows is outdated, which it finds when it has leased the block.
        assert_eq!(leases.lease(small()).await.unwrap(), Taken);
        assert_eq!(leases.lease(small()).await.unwrap(), OtherSize(large().size()));
        assert_eq!(leases.lease(large()).await.unwrap(), Leased);
    });
}

#[test]
fn a_block_is_offered_again_when_its_parent_is_valid_again() {
    alone(|view, mut leases| async move {
        claim(&view).await;
        withdraw(&view).await;
        divide_again(&view, large()).await;
        assert_eq!(leases.sync().await.unwrap().draining.len(), 1);
        assert!(blocks(&leases).is_empty());
        assert_eq!(leases.lease(small()).await.unwrap(), Taken);
        divide_again(&view, small()).await;
        leases.sync().await.unwrap();
        assert_eq!(blocks(&leases), [small()]);
    });
}
