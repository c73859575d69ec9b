//! Compares the store with a plain map: random operations, damage and kills.

use std::{cell::RefCell, collections::BTreeMap, fs, mem};

use proptest::prelude::*;

use super::*;
use crate::{ClaimOwner, ReleaseOutcome, store::kill_point::killable};

#[derive(Debug, Clone)]
enum StoreStep {
    Claim {
        pool: usize,
        owner: u8,
    },
    /// A claim whose address cannot be recorded in the journal.
    ClaimUnnoted {
        pool: usize,
        owner: u8,
    },
    /// A release by `owner`, or by the current owner if `None`; with or without the name of a pool.
    Release {
        address: u8,
        owner: Option<u8>,
        pool: Option<usize>,
    },
    Reassign {
        address: u8,
        from: Option<u8>,
        to: u8,
    },
    /// The pool gets other ranges under the same name.
    ChangeRanges {
        pool: usize,
        variant: usize,
    },
    DeleteMap {
        pool: usize,
    },
    DamageMap {
        pool: usize,
        at: usize,
        flip: u8,
    },
    TruncateMap {
        pool: usize,
        len: usize,
    },
    /// A claim, release or reassignment that is killed before its n-th change of a file.
    Killed {
        at: u32,
        step: Box<StoreStep>,
    },
    /// Sets a bit without a claim, as a claim and a release through another pool do.
    SetBitOnly {
        pool: usize,
        ordinal: u8,
    },
}

fn call() -> impl Strategy<Value = StoreStep> {
    let (pool, owner, address) = (0..2_usize, 0..40_u8, 0..24_u8);
    let someone = prop::option::weighted(0.4, owner.clone());
    prop_oneof![
        6 => (pool.clone(), owner.clone()).prop_map(|(pool, owner)| StoreStep::Claim { pool, owner }),
        6 => (address.clone(), someone.clone(), prop::option::of(pool))
            .prop_map(|(address, owner, pool)| StoreStep::Release { address, owner, pool }),
        3 => (address, someone, owner).prop_map(|(address, from, to)| StoreStep::Reassign { address, from, to }),
    ]
}

fn step() -> impl Strategy<Value = StoreStep> {
    let (pool, owner, address) = (0..2_usize, 0..40_u8, 0..24_u8);
    prop_oneof![
        24 => call(),
        6 => (0..12_u32, call()).prop_map(|(at, step)| StoreStep::Killed { at, step: Box::new(step) }),
        2 => (pool.clone(), owner).prop_map(|(pool, owner)| StoreStep::ClaimUnnoted { pool, owner }),
        1 => (pool.clone(), 0..3_usize).prop_map(|(pool, variant)| StoreStep::ChangeRanges { pool, variant }),
        1 => pool.clone().prop_map(|pool| StoreStep::DeleteMap { pool }),
        2 => (pool.clone(), 0..140_usize, 1..=255_u8).prop_map(|(pool, at, flip)| StoreStep::DamageMap { pool, at, flip }),
        1 => (pool.clone(), 0..140_usize).prop_map(|(pool, len)| StoreStep::TruncateMap { pool, len }),
        2 => (pool, address).prop_map(|(pool, ordinal)| StoreStep::SetBitOnly { pool, ordinal }),
    ]
}

fn variant(pool_index: usize, variant: usize) -> Pool {
    let ips: &[&[&str]] = match pool_index {
        0 => &[&["10.0.0.0-10.0.0.9"], &["10.0.0.5-10.0.0.12", "10.0.0.0-10.0.0.2"], &["10.0.0.3"]],
        _ => &[&["10.0.0.8-10.0.0.19"], &["10.0.0.12-10.0.0.23", "10.0.0.1"], &["10.0.0.8-10.0.0.11"]],
    };
    pool(["a", "b"][pool_index], ips[variant])
}

struct StoreModel {
    node: StoreFixture,
    pools: [Pool; 2],
    model: BTreeMap<IpAddr, String>,
    /// The addresses that `note` was called with during the latest claim.
    recorded: RefCell<Vec<IpAddr>>,
}

fn name(owner: u8) -> String {
    format!("c{owner}@net1")
}

fn named(owner: Option<u8>) -> String {
    name(owner.unwrap_or_default())
}

fn nth(address: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, address])
}

impl StoreModel {
    /// Returns the step with the current owner in place of `None`.
    fn with_owner(&self, step: &StoreStep) -> StoreStep {
        let holder = |address| {
            let name = self.model.get(&nth(address));
            Some(
                name.and_then(|name| name.strip_prefix('c')?.strip_suffix("@net1")?.parse().ok())
                    .unwrap_or(0),
            )
        };
        match *step {
            StoreStep::Release { address, owner, pool } => {
                StoreStep::Release { address, owner: owner.or_else(|| holder(address)), pool }
            }
            StoreStep::Reassign { address, from, to } => {
                StoreStep::Reassign { address, from: from.or_else(|| holder(address)), to }
            }
            ref other => other.clone(),
        }
    }

    fn take(&mut self, step: &StoreStep) {
        match self.with_owner(step) {
            StoreStep::Claim { pool, owner } => self.claim(pool, owner),
            StoreStep::ClaimUnnoted { pool, owner } => {
                let unnoted = || StoreError::BootId(String::new());
                let owner = attachment(&name(owner));
                let outcome = self.node.store.claim(&self.pools[pool], &owner, soon(), |_| Err(unnoted()));
                assert!(matches!(outcome, Err(StoreError::BootId(_) | StoreError::Exhausted { .. })));
            }
            StoreStep::Release { address, owner, pool } => self.release(nth(address), &named(owner), pool),
            StoreStep::Reassign { address, from, to } => self.reassign(nth(address), &named(from), &name(to)),
            StoreStep::ChangeRanges { pool, variant: index } => self.pools[pool] = variant(pool, index),
            StoreStep::DeleteMap { pool } => drop(fs::remove_file(self.node.map_path(&self.pools[pool]))),
            StoreStep::DamageMap { pool, at, flip } => self.damage(pool, |bytes| {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= flip;
                }
            }),
            StoreStep::TruncateMap { pool, len } => self.damage(pool, |bytes| bytes.resize(len, 0)),
            StoreStep::Killed { at, step } => {
                let step = self.with_owner(&step);
                if killable(at, || self.take(&step)).is_none() {
                    self.adopt_killed(&step);
                }
            }
            StoreStep::SetBitOnly { pool, ordinal } => self.damage(pool, |bytes| {
                if let Some(byte) = bytes.iter_mut().rev().nth(7 - usize::from(ordinal / 8)) {
                    *byte |= 1 << (ordinal % 8);
                }
            }),
        }
    }

    fn claim(&mut self, pool: usize, owner: u8) {
        let (pool, owner) = (&self.pools[pool], name(owner));
        self.recorded.borrow_mut().clear();
        let note = |address| {
            self.recorded.borrow_mut().push(address);
            Ok(())
        };
        match self.node.store.claim(pool, &attachment(&owner), soon(), note) {
            Ok(address) => {
                assert_eq!(self.recorded.borrow().last(), Some(&address), "allocated and not recorded");
                assert!(pool.ranges.contains(address));
                let former = self.model.insert(address, owner.clone());
                assert!(former.is_none_or(|former| former == owner), "{address} was allocated twice");
            }
            Err(StoreError::Exhausted { .. }) => {
                let free = (0..pool.ranges.len()).filter_map(|ordinal| pool.ranges.nth(ordinal));
                let free: Vec<_> = free.filter(|address| !self.model.contains_key(address)).collect();
                assert_eq!(free, [] as [IpAddr; 0], "free and not found");
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn release(&mut self, address: IpAddr, owner: &str, pool: Option<usize>) {
        let pool = pool.map(|pool| ["a", "b"][pool]);
        let outcome = self.node.store.release(pool, address, &attachment(owner)).unwrap();
        let expected = match self.model.get(&address) {
            None => ReleaseOutcome::Absent,
            Some(ours) if ours == owner => ReleaseOutcome::Released,
            Some(other) => ReleaseOutcome::NotOurs(ClaimOwner::Attachment(attachment(other))),
        };
        assert_eq!(outcome, expected);
        if outcome == ReleaseOutcome::Released {
            self.model.remove(&address);
        }
    }

    fn reassign(&mut self, address: IpAddr, from: &str, to: &str) {
        let outcome = self.node.store.reassign(address, &attachment(from), &attachment(to));
        match self.model.get_mut(&address) {
            Some(owner) if owner == from || owner == to => {
                outcome.unwrap();
                *owner = to.to_owned();
            }
            _ => assert!(matches!(outcome, Err(StoreError::NotOwner { .. }))),
        }
    }

    fn damage(&self, pool: usize, change: impl FnOnce(&mut Vec<u8>)) {
        let path = self.node.map_path(&self.pools[pool]);
        if let Ok(mut bytes) = fs::read(&path)
            && bytes.len() >= 8
        {
            change(&mut bytes);
            fs::write(path, bytes).unwrap();
            // A stale set bit is corrected only if the claims have changed since the last listing.
            self.node.touch_claims();
        }
    }

    /// Checks that a killed call has completed its own change or changed nothing, and adopts the result.
    fn adopt_killed(&mut self, step: &StoreStep) {
        let now = self.claims();
        let before = mem::replace(&mut self.model, now);
        for (address, owner) in &self.model {
            let former = before.get(address);
            let may = match *step {
                StoreStep::Claim { owner: by, .. } => {
                    former.is_none() && *owner == name(by) && self.recorded.borrow().contains(address)
                }
                StoreStep::Reassign { address: of, from, to } => {
                    *address == nth(of) && former == Some(&named(from)) && *owner == name(to)
                }
                _ => false,
            };
            assert!(
                former == Some(owner) || may,
                "{address} of {former:?} is {owner}'s after a killed {step:?}"
            );
        }
        for (address, owner) in before.iter().filter(|(address, _)| !self.model.contains_key(address)) {
            let StoreStep::Release { address: of, owner: by, .. } = *step else {
                panic!("{address} was released by {step:?}")
            };
            assert_eq!((*address, owner), (nth(of), &named(by)), "released by {step:?}");
        }
    }

    fn claims(&self) -> BTreeMap<IpAddr, String> {
        let claims = self.node.store.claims().unwrap();
        claims.into_iter().map(|claim| (claim.address, claim.owner.to_string())).collect()
    }

    fn check(&self) {
        assert_eq!(self.claims(), self.model);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn the_store_behaves_as_a_plain_map(steps in prop::collection::vec(step(), 1..120)) {
        let pools = [variant(0, 0), variant(1, 0)];
        let mut world = StoreModel { node: StoreFixture::new(), pools, model: BTreeMap::new(), recorded: RefCell::default() };
        for step in &steps {
            world.take(step);
            world.check();
        }
    }
}
