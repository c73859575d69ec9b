//! The store against a plain map, through random work, damage and kills.

use std::{collections::BTreeMap, fs};

use proptest::prelude::*;

use super::*;
use crate::{Owner, Release};

#[derive(Debug, Clone)]
enum Step {
    Claim {
        pool: usize,
        owner: u8,
    },
    /// The journal cannot be written.
    ClaimUnnoted {
        pool: usize,
        owner: u8,
    },
    /// By an owner, with or without naming a pool.
    Release {
        address: u8,
        owner: u8,
        pool: Option<usize>,
    },
    Reassign {
        address: u8,
        from: u8,
        to: u8,
    },
    /// Another definition of a pool under the same name.
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
    /// Killed between the link and the bit.
    LinkOnly {
        address: u8,
        owner: u8,
    },
    /// Killed between the bit and the unlinking.
    ClearBitOnly {
        pool: usize,
        address: u8,
    },
    /// What another pool's claim and release leave behind.
    SetBitOnly {
        pool: usize,
        ordinal: u8,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let (pool, owner, address) = (0..2_usize, 0..40_u8, 0..24_u8);
    let each = (pool.clone(), owner.clone(), address.clone());
    prop_oneof![
        12 => each.clone().prop_map(|(pool, owner, _)| Step::Claim { pool, owner }),
        2 => each.clone().prop_map(|(pool, owner, _)| Step::ClaimUnnoted { pool, owner }),
        12 => (address.clone(), owner.clone(), prop::option::of(0..2_usize))
            .prop_map(|(address, owner, pool)| Step::Release { address, owner, pool }),
        2 => (address.clone(), owner.clone(), owner).prop_map(|(address, from, to)| Step::Reassign { address, from, to }),
        1 => (pool.clone(), 0..3_usize).prop_map(|(pool, variant)| Step::ChangeRanges { pool, variant }),
        1 => pool.clone().prop_map(|pool| Step::DeleteMap { pool }),
        2 => (pool.clone(), 0..140_usize, 1..=255_u8).prop_map(|(pool, at, flip)| Step::DamageMap { pool, at, flip }),
        1 => (pool.clone(), 0..140_usize).prop_map(|(pool, len)| Step::TruncateMap { pool, len }),
        2 => each.clone().prop_map(|(_, owner, address)| Step::LinkOnly { address, owner }),
        2 => each.prop_map(|(pool, _, address)| Step::ClearBitOnly { pool, address }),
        2 => (pool, address).prop_map(|(pool, ordinal)| Step::SetBitOnly { pool, ordinal }),
    ]
}

fn variant(pool_index: usize, variant: usize) -> Pool {
    let ips: &[&[&str]] = match pool_index {
        0 => &[&["10.0.0.0-10.0.0.9"], &["10.0.0.5-10.0.0.12", "10.0.0.0-10.0.0.2"], &["10.0.0.3"]],
        _ => &[&["10.0.0.8-10.0.0.19"], &["10.0.0.12-10.0.0.23", "10.0.0.1"], &["10.0.0.8-10.0.0.11"]],
    };
    pool(["a", "b"][pool_index], ips[variant])
}

struct World {
    node: Node,
    pools: [Pool; 2],
    model: BTreeMap<IpAddr, String>,
}

fn name(owner: u8) -> String {
    format!("c{owner}@net1")
}

fn nth(address: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, address])
}

impl World {
    fn take(&mut self, step: &Step) {
        match *step {
            Step::Claim { pool, owner } => self.claim(pool, owner),
            Step::ClaimUnnoted { pool, owner } => {
                let unnoted = || StoreError::BootId(String::new());
                let owner = attachment(&name(owner));
                let outcome = self.node.store.claim(&self.pools[pool], &owner, soon(), |_| Err(unnoted()));
                assert!(matches!(outcome, Err(StoreError::BootId(_) | StoreError::Exhausted { .. })));
            }
            Step::Release { address, owner, pool } => self.release(nth(address), &name(owner), pool),
            Step::Reassign { address, from, to } => self.reassign(nth(address), &name(from), &name(to)),
            Step::ChangeRanges { pool, variant: index } => self.pools[pool] = variant(pool, index),
            Step::DeleteMap { pool } => drop(fs::remove_file(self.node.map_path(&self.pools[pool]))),
            Step::DamageMap { pool, at, flip } => self.damage(pool, |bytes| {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= flip;
                }
            }),
            Step::TruncateMap { pool, len } => self.damage(pool, |bytes| bytes.resize(len, 0)),
            Step::LinkOnly { address, owner } => {
                let address = nth(address);
                self.node.store.claims.take(address, &name(owner)).unwrap();
                self.model.entry(address).or_insert_with(|| name(owner));
            }
            Step::ClearBitOnly { pool, address } => self.clear_bit(pool, nth(address)),
            Step::SetBitOnly { pool, ordinal } => self.damage(pool, |bytes| {
                if let Some(byte) = bytes.iter_mut().rev().nth(7 - usize::from(ordinal / 8)) {
                    *byte |= 1 << (ordinal % 8);
                }
            }),
        }
    }

    fn claim(&mut self, pool: usize, owner: u8) {
        let (pool, owner) = (&self.pools[pool], name(owner));
        match self.node.claim(pool, &owner) {
            Ok(address) => {
                assert!(pool.ranges.contains(address));
                let former = self.model.insert(address, owner.clone());
                assert!(former.is_none_or(|former| former == owner), "{address} was given twice");
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
            None => Release::Absent,
            Some(ours) if ours == owner => Release::Released,
            Some(other) => Release::NotOurs(Owner::Attachment(attachment(other))),
        };
        assert_eq!(outcome, expected);
        if outcome == Release::Released {
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
            // A bit that is wrongly set is noticed when claims have come or gone since the last listing.
            self.node.touch_claims();
        }
    }

    fn clear_bit(&self, pool: usize, address: IpAddr) {
        if let Some((map, ordinal)) =
            self.node.store.maps.find(&self.pools[pool].name, address, soon()).unwrap()
        {
            map.clear(ordinal).unwrap();
        }
    }

    fn check(&self) {
        let claims = self.node.store.claims().unwrap();
        let claims: BTreeMap<_, _> =
            claims.into_iter().map(|claim| (claim.address, claim.owner.to_string())).collect();
        assert_eq!(claims, self.model);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn the_store_does_what_a_plain_map_does(steps in prop::collection::vec(step(), 1..120)) {
        let pools = [variant(0, 0), variant(1, 0)];
        let mut world = World { node: Node::new(), pools, model: BTreeMap::new() };
        for step in &steps {
            world.take(step);
            world.check();
        }
    }
}
