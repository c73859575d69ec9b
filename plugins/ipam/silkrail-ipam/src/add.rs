//! ADD: allocates one address of each family for which there are pools.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    thread,
    time::Duration,
};

use cni::{AddRequest, AddResult, IpConfig, ResultRoute};
use ipam::{IpFamily, LocalStore, Pool, PoolSelection, StoreError};
use ipnetwork::IpNetwork;
use journal::{Journal, JournalHeader, boot_id};
use plugin_runtime::{
    Error, Node,
    attachment::{self, JournalSpec},
};

use crate::{
    change::{Change, ClaimedAddress},
    cluster::ClusterPools,
    conf::{IpamConf, NAME},
    error::IpamError,
    pod_interface_note::PodInterfaceNote,
    pool_full, reclaim, requested, sandbox_restart, stable_addresses,
};

/// The timeout for the lock of a pool's map, which is normally held for microseconds.
const POOL_LOCK_TIMEOUT: Duration = Duration::from_secs(20);

/// How often a block is requested: others may take its addresses first.
const BLOCK_ATTEMPTS: u32 = 20;
/// The delay before the second request; that before each later one is longer by as much.
const BLOCK_RETRY_DELAY: Duration = Duration::from_millis(5);

pub(crate) fn add(node: &Node, request: &AddRequest<'_>) -> Result<AddResult, cni::Error> {
    let conf = IpamConf::of_pod(node, request)?;
    let spec = JournalSpec::without_pod(NAME, request);
    let is_same_pod =
        |head: &JournalHeader| head.netns.zip(spec.netns).is_none_or(|(former, now)| former.is(now));
    let journal = match attachment::begin(node, &spec) {
        Ok(journal) => journal,
        // A main plugin that was killed and called again gets the same result.
        Err(Error::Journal(journal::Error::Exists { head, .. })) if is_same_pod(&head) => {
            return repeat_result(node, request, &conf);
        }
        Err(error) => return Err(error.into()),
    };
    attachment::run_or_revert(journal, node, |journal| allocate(journal, node, request, &conf))
}

fn allocate(
    journal: &mut Journal<Change>,
    node: &Node,
    request: &AddRequest<'_>,
    conf: &IpamConf,
) -> Result<AddResult, Error> {
    let requested = requested::addresses(&request.common)?;
    let selection = conf.select(&request.common, request.attachment.ifname.as_str())?;
    let store = LocalStore::open(node.state.root(), boot_id()?)?;
    let note = PodInterfaceNote::of(&request.attachment, request.common.args.get("K8S_POD_UID"));
    let reserved = conf.reserved(request.attachment.ifname.as_str(), &selection);
    let can_keep = |claim: &ClaimedAddress| {
        let is_reserved = reserved.iter().any(|(_, address)| *address == claim.address);
        is_requested_or_any(claim, &requested) && (is_reserved || is_in_pools(claim, &selection))
    };
    let kept = sandbox_restart::take_over_addresses(journal, node, &store, request, note.as_ref(), can_keep)?;
    let mut allocation = AddressAllocation { journal, node, store: &store, request, conf };
    let claims = allocation.claims(&selection, &requested, &reserved, kept)?;
    stable_addresses::reserve(node, &store, request, conf, &claims)?;
    if let Some(note) = note {
        journal.record_and_apply(Change::Note(note.clone()), |_| note.write(node))?;
    }
    result(&claims, conf)
}

/// Whether this ADD could allocate the address of the pod's former sandbox from its pools.
fn is_in_pools(claim: &ClaimedAddress, selection: &PoolSelection<'_>) -> bool {
    let pools = selection.of(IpFamily::of(claim.address)).iter();
    pools.filter(|pool| pool.name.as_str() == claim.pool).any(|pool| pool.ranges.contains(claim.address))
}

/// Whether the address of the pod's former sandbox is requested, or none of its family is.
fn is_requested_or_any(claim: &ClaimedAddress, requested: &[IpAddr]) -> bool {
    let family = IpFamily::of(claim.address);
    let mut asked = requested.iter().filter(|address| IpFamily::of(**address) == family).peekable();
    asked.peek().is_none() || asked.any(|address| *address == claim.address)
}

/// The allocation of the addresses of one ADD.
struct AddressAllocation<'a> {
    journal: &'a mut Journal<Change>,
    node: &'a Node,
    store: &'a LocalStore,
    request: &'a AddRequest<'a>,
    conf: &'a IpamConf,
}

impl AddressAllocation<'_> {
    /// Claims the requested addresses of each family, or else the one that is reserved for the pod, or else one address of the first
    /// pool that has a free one. Addresses that the pod has `kept` count.
    fn claims(
        &mut self,
        selection: &PoolSelection<'_>,
        requested: &[IpAddr],
        reserved: &[(Pool, IpAddr)],
        kept: Vec<ClaimedAddress>,
    ) -> Result<Vec<ClaimedAddress>, Error> {
        // Check all requested addresses before the first one is claimed.
        let pool_of = |address: &IpAddr| {
            let is_reserved = |(_, reserved): &&(Pool, IpAddr)| reserved == address;
            let of_pod = reserved.iter().find(is_reserved).map(|(pool, _)| pool);
            let pool = of_pod.or_else(|| selection.pool_of(*address));
            Ok((pool.ok_or_else(|| self.unavailable_error(*address))?, *address))
        };
        let requested: Vec<(&Pool, IpAddr)> = requested.iter().map(pool_of).collect::<Result<_, Error>>()?;
        let mut claims = Vec::new();
        for family in IpFamily::ALL {
            let of_family = |address: &IpAddr| IpFamily::of(*address) == family;
            let asked: Vec<_> = requested.iter().filter(|(_, address)| of_family(address)).collect();
            let before = claims.len();
            claims.extend(kept.iter().filter(|claim| of_family(&claim.address)).cloned());
            for (pool, address) in &asked {
                if !claims.iter().any(|claim: &ClaimedAddress| claim.address == *address) {
                    claims.push(self.claim_requested(pool, *address)?);
                }
            }
            let pools = selection.of(family);
            if claims.len() > before || pools.is_empty() {
                continue;
            }
            let reserved = reserved.iter().find(|(_, address)| of_family(address));
            let claimed = match reserved {
                Some((pool, address)) => {
                    stable_addresses::unless_it_cannot_move(self.claim_requested(pool, *address), *address)?
                }
                None => None,
            };
            claims.push(match claimed {
                Some(claimed) => claimed,
                None => self.claim_any(pools)?,
            });
        }
        Ok(claims)
    }

    /// Claims any free address of the pools. If they are full, first reclaims the addresses of pods that no longer exist.
    fn claim_any(&mut self, pools: &[&Pool]) -> Result<ClaimedAddress, Error> {
        let refusal = match self.conf.cluster {
            Some(_) => match self.claim_of_cluster(pools) {
                Err(error) => error,
                claimed => return claimed,
            },
            None => match self.first_free(pools)? {
                Some(claimed) => return Ok(claimed),
                None => self.pools_full(pools),
            },
        };
        if reclaim::from_pools(self.node, self.store, pools)? > 0
            && let Some(claimed) = self.first_free(pools)?
        {
            return Ok(claimed);
        }
        Err(refusal)
    }

    /// Claims an address of the blocks of the node. If those of the first pool have none, the node gets a block of the first pool
    /// that has one in the cluster. If it gets none at present, addresses of its blocks of the other pools are used, too.
    fn claim_of_cluster(&mut self, pools: &[&Pool]) -> Result<ClaimedAddress, Error> {
        if let Some(claimed) = self.first_free(pools.get(..1).unwrap_or_default())? {
            return Ok(claimed);
        }
        match self.claim_of_new_block(pools) {
            Err(error) => self.first_free(pools)?.ok_or(error),
            claimed => claimed,
        }
    }

    /// Claims an address of a block that the node gets for it. Other ADDs take addresses of it, too, so it may need several.
    fn claim_of_new_block(&mut self, pools: &[&Pool]) -> Result<ClaimedAddress, Error> {
        for attempt in 0..BLOCK_ATTEMPTS {
            thread::sleep(BLOCK_RETRY_DELAY * attempt);
            let chosen = match &self.conf.cluster {
                Some(cluster) => cluster.request_block_of(self.node, pools)?,
                None => Vec::new(),
            };
            if let Some(claimed) = self.first_free(&chosen)? {
                return Ok(claimed);
            }
        }
        let text = "other pods took the free addresses of this node, or its pools were just changed; try again later";
        Err(IpamError::BlockUnavailable(text.to_owned()).into())
    }

    fn unavailable_error(&self, address: IpAddr) -> Error {
        match self.conf.select_knowing_all(&self.request.common, self.request.attachment.ifname.as_str()) {
            Ok((selection, pools)) => {
                IpamError::Refused(selection.reason_unavailable(address, pools).to_string()).into()
            }
            Err(error) => error,
        }
    }

    fn pools_full(&self, pools: &[&Pool]) -> Error {
        let ifname = self.request.attachment.ifname.as_str();
        let family = pools.first().map_or(IpFamily::V4, |pool| pool.family());
        match self.conf.select_knowing_all(&self.request.common, ifname) {
            Ok((selection, all)) => {
                pool_full::error(self.node, self.store, ifname, selection.of(family), &all.unusable())
            }
            Err(_) => pool_full::error(self.node, self.store, ifname, pools, ""),
        }
    }

    /// Claims a free address of the first pool that has one; `None` if all are full.
    fn first_free(&mut self, pools: &[&Pool]) -> Result<Option<ClaimedAddress>, Error> {
        let on_node;
        let on_node: Vec<&Pool> = match self.conf.cluster {
            Some(_) => {
                on_node = ClusterPools::on_node(self.store, pools)?;
                on_node.iter().collect()
            }
            None => pools.to_vec(),
        };
        let (journal, owner) = (&mut *self.journal, &self.request.attachment);
        let deadline = self.node.budget.until("the lock of a pool", POOL_LOCK_TIMEOUT);
        let claimed = self.store.claim_first(&on_node, owner, deadline.at(), |pool, address| {
            let claim = ClaimedAddress { owner: owner.clone(), pool: pool.to_string(), address };
            journal.record(Change::Claim(claim)).map_err(Error::from)
        });
        match claimed {
            Ok((pool, address)) => {
                Ok(Some(ClaimedAddress { owner: owner.clone(), pool: pool.name.to_string(), address }))
            }
            Err(Error::Address(StoreError::Exhausted { .. } | StoreError::AllExhausted { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Claims a requested address. If its owner's pod no longer exists, reclaims the address first.
    fn claim_requested(&mut self, pool: &Pool, address: IpAddr) -> Result<ClaimedAddress, Error> {
        let owner = &self.request.attachment;
        let on_node;
        let pool = match &self.conf.cluster {
            Some(cluster) => {
                if !self.store.blocks()?.iter().any(|block| block.contains(address)) {
                    cluster.request_block_with(self.node, pool, address)?;
                }
                on_node = pool.in_blocks(&self.store.blocks()?);
                &on_node
            }
            None => pool,
        };
        let claim = ClaimedAddress { owner: owner.clone(), pool: pool.name.to_string(), address };
        self.journal.record(Change::Claim(claim.clone()))?;
        match self.store.claim_address(pool, address, owner) {
            Err(StoreError::Taken { .. }) if reclaim::address(self.node, self.store, address)? > 0 => {
                self.store.claim_address(pool, address, owner)?;
            }
            claimed => claimed?,
        }
        Ok(claim)
    }
}

/// Returns the result of an attachment that already has its addresses.
fn repeat_result(node: &Node, request: &AddRequest<'_>, conf: &IpamConf) -> Result<AddResult, cni::Error> {
    let journal = attachment::find::<Change>(node, NAME, &request.attachment)?;
    let changes = journal.as_ref().map(|journal| journal.changes()).unwrap_or_default();
    // An address may have been recorded in the journal and then claimed by another process: skip it.
    let claims = changes.iter().filter_map(|change| match change {
        Change::Claim(claim) => Some(claim),
        Change::Note(_) | Change::Agent(_) => None,
    });
    let claims: Vec<ClaimedAddress> = claims.filter(|claim| claim.verify(node).is_ok()).cloned().collect();
    Ok(result(&claims, conf)?)
}

fn result(claims: &[ClaimedAddress], conf: &IpamConf) -> Result<AddResult, Error> {
    let mut result = AddResult::default();
    for claim in claims {
        let Some(pool) = conf.pool(&claim.pool)? else {
            let msg = format!(
                "address {} was allocated from pool {}, which is no longer configured",
                claim.address, claim.pool
            );
            return Err(cni::Error::config(msg).with_details("DEL the attachment, then ADD it again").into());
        };
        add_address(&mut result, pool, claim.address, conf)?;
    }
    Ok(result)
}

fn add_address(result: &mut AddResult, pool: &Pool, address: IpAddr, conf: &IpamConf) -> Result<(), Error> {
    let wrong = |e: ipnetwork::IpNetworkError| cni::Error::config(format!("pool {}: {e}", pool.name));
    let address = IpNetwork::new(address, pool.subnet.prefix()).map_err(wrong)?;
    result.ips.push(IpConfig { address, gateway: pool.gateway, interface: None });
    // A pod can have several addresses of one pool.
    let routes = pool.routes.iter().chain(conf.pod_routes(pool));
    for route in routes.map(|route| ResultRoute::new(route.dst, Some(route.gw))) {
        if !result.routes.contains(&route) {
            result.routes.push(route);
        }
    }
    if let Some(gateway) = pool.gateway.filter(|_| !conf.clean_gateway()) {
        // Only one default route of each family: the first gateway is used.
        let everywhere =
            if gateway.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let route = ResultRoute::new(IpNetwork::new(everywhere, 0).map_err(wrong)?, Some(gateway));
        if !result.routes.iter().any(|there| there.dst == route.dst) {
            result.routes.push(route);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tests::call;

    #[test]
    fn a_former_address_is_kept_unless_another_of_its_family_is_requested() {
        let claim = |address: &str| {
            let address = address.parse().unwrap();
            ClaimedAddress { owner: "a@net1".parse().unwrap(), pool: "a".to_owned(), address }
        };
        let requested: Vec<IpAddr> = ["10.0.0.6", "10.0.0.5"].map(|text| text.parse().unwrap()).into();
        for (address, expected) in [("10.0.0.5", true), ("10.0.0.7", false), ("fd00::5", true)] {
            assert_eq!(is_requested_or_any(&claim(address), &requested), expected, "{address}");
            assert!(is_requested_or_any(&claim(address), &[]));
        }
        let six = json!({"name": "six", "subnet": "fd00::/64", "ips": ["fd00::5"]});
        let pools = [("a", "10.0.0.1-10.0.0.5"), ("b", "10.0.0.6")]
            .map(|(name, ips)| json!({"name": name, "subnet": "10.0.0.0/24", "ips": [ips]}));
        let conf =
            IpamConf::of_network(&call(&json!({"ipam": {"pools": [pools[0], pools[1], six]}}), "")).unwrap();
        let selection = conf.select_for_any_pod().unwrap();
        let is_there =
            ["10.0.0.5", "10.0.0.6", "fd00::5"].map(|address| is_in_pools(&claim(address), &selection));
        assert_eq!(is_there, [true, false, false], "of the pool that it was claimed from");
    }

    #[test]
    fn a_result_has_each_route_and_one_default_route_of_each_family_once() {
        let pool = |name: &str, subnet: &str, ips: &str, gateway: &str, route: (&str, &str)| {
            let route = json!({"dst": route.0, "gw": route.1});
            json!({"name": name, "subnet": subnet, "ips": [ips], "gateway": gateway, "routes": [route]})
        };
        let pools = [
            pool("a", "10.0.0.0/24", "10.0.0.5-10.0.0.9", "10.0.0.1", ("10.9.0.0/16", "10.0.0.2")),
            pool("b", "10.1.0.0/16", "10.1.0.5", "10.1.0.1", ("10.9.0.0/16", "10.1.0.2")),
            pool("six", "fd00::/64", "fd00::5", "fd00::1", ("fd09::/64", "fd00::2")),
        ];
        let claims = [("a", "10.0.0.5"), ("a", "10.0.0.6"), ("b", "10.1.0.5"), ("six", "fd00::5")].map(
            |(pool, address)| {
                let address = address.parse().unwrap();
                ClaimedAddress { owner: "a@net1".parse().unwrap(), pool: pool.to_owned(), address }
            },
        );
        for clean in [false, true] {
            let ipam = json!({"pools": pools, "clean_gateway": clean});
            let conf = IpamConf::of_network(&call(&json!({ "ipam": ipam }), "")).unwrap();
            let found = result(&claims, &conf).unwrap();
            let ips: Vec<_> =
                found.ips.iter().map(|ip| format!("{} {}", ip.address, ip.gateway.unwrap())).collect();
            assert_eq!(
                ips,
                [
                    "10.0.0.5/24 10.0.0.1",
                    "10.0.0.6/24 10.0.0.1",
                    "10.1.0.5/16 10.1.0.1",
                    "fd00::5/64 fd00::1"
                ]
            );
            let routes: Vec<_> =
                found.routes.iter().map(|route| format!("{} {}", route.dst, route.gw.unwrap())).collect();
            let mut expected = vec![
                "10.9.0.0/16 10.0.0.2",
                "0.0.0.0/0 10.0.0.1",
                "10.9.0.0/16 10.1.0.2",
                "fd09::/64 fd00::2",
                "::/0 fd00::1",
            ];
            if clean {
                expected.retain(|route| !route.contains("/0 "));
            }
            assert_eq!(routes, expected);
        }
    }
}
