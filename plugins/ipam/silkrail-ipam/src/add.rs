//! ADD: one address for each family that the pools cover.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::{Duration, Instant},
};

use cni::{Add, AddResult, IpConfig, Route};
use ipam::{LocalStore, Pool};
use ipnetwork::IpNetwork;
use journal::{Journal, boot_id};
use netns::NetNs;
use plugin::{
    Error, Node,
    attachment::{self, Beginning},
};

use crate::{
    ITSELF, NAME,
    change::{Change, Claim},
    conf::Conf,
    note::Note,
    restart,
};

/// How long another process may hold a pool's lock. It normally does for microseconds.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn add(request: &Add<'_>) -> Result<AddResult, cni::Error> {
    let conf = Conf::of(&request.common)?;
    let node = Node::of(&request.common, &ITSELF)?;
    let beginning = Beginning {
        plugin: NAME,
        attachment: &request.attachment,
        network: &request.common.conf.name,
        netns_path: &request.netns,
        netns: NetNs::open(&request.netns).ok().map(|netns| netns.id()),
    };
    let journal = match attachment::begin(&node, &beginning) {
        Ok(journal) => journal,
        // A main plugin that was killed and asks again gets what it got.
        Err(Error::Journal(journal::Error::Exists { .. })) => return again(&node, request, &conf),
        Err(error) => return Err(error.into()),
    };
    attachment::all_or_nothing(journal, &node, |journal| fresh(journal, &node, request, &conf))
}

fn fresh(
    journal: &mut Journal<Change>,
    node: &Node,
    request: &Add<'_>,
    conf: &Conf,
) -> Result<AddResult, Error> {
    let store = LocalStore::open(node.state.root(), boot_id()?)?;
    let note = Note::of(&request.attachment, request.common.args.get("K8S_POD_UID"));
    let claims = match restart::take_over(journal, node, &store, request, note.as_ref())? {
        Some(claims) => claims,
        None => claim(journal, &store, request, conf)?,
    };
    if let Some(note) = note {
        journal.make(Change::Note(note.clone()), |_| note.write(node))?;
    }
    result(&claims, conf)
}

fn claim(
    journal: &mut Journal<Change>,
    store: &LocalStore,
    request: &Add<'_>,
    conf: &Conf,
) -> Result<Vec<Claim>, Error> {
    let owner = &request.attachment;
    let selection = conf.select(&request.common, owner.ifname.as_str())?;
    let deadline = Instant::now() + PATIENCE;
    let mut claims = Vec::new();
    for pools in [selection.ipv4, selection.ipv6] {
        if pools.is_empty() {
            continue;
        }
        let (pool, address) = store.claim_first(&pools, owner, deadline, |pool, address| {
            let claim = Claim { owner: owner.clone(), pool: pool.to_string(), address };
            journal.note(Change::Claim(claim)).map_err(Error::from)
        })?;
        claims.push(Claim { owner: owner.clone(), pool: pool.name.to_string(), address });
    }
    Ok(claims)
}

/// The result of an attachment that has its addresses.
fn again(node: &Node, request: &Add<'_>, conf: &Conf) -> Result<AddResult, cni::Error> {
    let journal = attachment::find::<Change>(node, NAME, &request.attachment)?;
    let changes = journal.as_ref().map(|journal| journal.changes()).unwrap_or_default();
    // An address that was noted and taken by another in the same moment is not ours.
    let claims = changes.iter().filter_map(|change| match change {
        Change::Claim(claim) => Some(claim),
        Change::Note(_) => None,
    });
    let claims: Vec<Claim> = claims.filter(|claim| claim.verify(node).is_ok()).cloned().collect();
    Ok(result(&claims, conf)?)
}

fn result(claims: &[Claim], conf: &Conf) -> Result<AddResult, Error> {
    let mut result = AddResult::default();
    for claim in claims {
        let Some(pool) = conf.pools.get(&claim.pool) else {
            let msg = format!(
                "{} came from pool {}, which the configuration does not have any more",
                claim.address, claim.pool
            );
            return Err(cni::Error::config(msg).with_details("DEL the attachment, then ADD it again").into());
        };
        add_address(&mut result, pool, claim.address, conf.clean_gateway)?;
    }
    Ok(result)
}

fn add_address(result: &mut AddResult, pool: &Pool, address: IpAddr, clean: bool) -> Result<(), Error> {
    let wrong = |e: ipnetwork::IpNetworkError| cni::Error::config(format!("pool {}: {e}", pool.name));
    let address = IpNetwork::new(address, pool.subnet.prefix()).map_err(wrong)?;
    result.ips.push(IpConfig { address, gateway: pool.gateway, interface: None });
    result.routes.extend(pool.routes.iter().map(|route| Route::new(route.dst, Some(route.gw))));
    if let Some(gateway) = pool.gateway.filter(|_| !clean) {
        let everywhere =
            if gateway.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        result.routes.push(Route::new(IpNetwork::new(everywhere, 0).map_err(wrong)?, Some(gateway)));
    }
    Ok(())
}
