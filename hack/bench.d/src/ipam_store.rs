//! Address stores with many addresses in use, and directories of pool files.

use std::{
    error::Error,
    fs,
    net::Ipv4Addr,
    path::Path,
    time::{Duration, Instant},
};

use ipam::{LocalStore, Pools};
use serde_json::{Value, json};

/// The network name of every configuration here.
pub(crate) const NETWORK: &str = "bench";

const POOL: &str = "rail0";

/// Returns a pool of 131,070 addresses.
pub(crate) fn pool() -> Value {
    json!({"name": POOL, "subnet": "10.0.0.0/8", "ips": ["10.0.0.1-10.1.255.254"]})
}

/// Claims `taken` addresses of a pool in the store below `state`.
pub(crate) fn fill(state: &Path, pool: &Value, taken: u32) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(state)?;
    let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let store = LocalStore::open(state, boot_id.trim())?;
    let pools = Pools::from_inline(&json!([pool]))?;
    let pool = pools.get(POOL).ok_or("no pool")?;
    let deadline = Instant::now() + Duration::from_secs(600);
    for number in 0..taken {
        let owner = format!("other{number}@net1").parse()?;
        store.claim(pool, &owner, deadline, |_| Ok::<_, ipam::StoreError>(()))?;
    }
    Ok(())
}

/// Writes pool files in the form of exports from Spiderpool: 26 addresses of each are in use, with 3 KB of status.
pub(crate) fn pool_files(dir: &Path, files: u32) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(dir)?;
    for number in 0..files {
        let subnet = format!("10.{}.{}", number / 250 + 1, number % 250);
        let pod = |host| {
            format!(
                r#""{subnet}.{host}":{{"pod":"default/pod-{number}-{host}-abcdef","podUid":"{host:08}-1111-2222-3333-{number:012}"}}"#
            )
        };
        let given: Vec<_> = (10..36).map(pod).collect();
        let text = format!(
            "apiVersion: spiderpool.spidernet.io/v2beta1\nkind: SpiderIPPool\nmetadata: {{name: pool-{number}}}\n\
             spec: {{subnet: {subnet}.0/24, gateway: {subnet}.1, ips: [{subnet}.10-{subnet}.250]}}\n\
             status: {{allocatedIPs: '{{{}}}'}}\n",
            given.join(",")
        );
        fs::write(dir.join(format!("pool-{number}.yaml")), text)?;
    }
    Ok(())
}

/// Claims `taken` addresses as host-local does: one file per address.
pub(crate) fn fill_host_local(state: &Path, taken: u32) -> Result<(), Box<dyn Error>> {
    let dir = state.join(NETWORK);
    fs::create_dir_all(&dir)?;
    for number in 1..=taken {
        let address = Ipv4Addr::from_bits(Ipv4Addr::new(10, 0, 0, 0).to_bits() + number);
        fs::write(dir.join(address.to_string()), format!("other{number}\r\nnet1"))?;
    }
    let last = Ipv4Addr::from_bits(Ipv4Addr::new(10, 0, 0, 0).to_bits() + taken);
    fs::write(dir.join("last_reserved_ip.0"), last.to_string())?;
    Ok(())
}
