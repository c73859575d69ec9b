//! Statistics of a port whose link is a bond.

use std::{collections::BTreeMap, fs};

use identifiers::LinkName;
use sysfs::Sysfs;

use crate::RawCounters;

/// Returns the summed statistics of a bond's members. The bond of an RDMA device with hardware bonding (LAG) has no driver
/// statistics itself. Fails if the statistics of any member cannot be read.
pub(super) fn statistics(
    socket: &ethtool::EthtoolSocket,
    sysfs: &Sysfs,
    bond: &LinkName,
) -> Result<RawCounters, ethtool::Error> {
    let path = sysfs.root().join("class/net").join(bond.as_str()).join("bonding/slaves");
    let members = fs::read_to_string(path).unwrap_or_default();
    let mut sum: BTreeMap<String, u64> = BTreeMap::new();
    for member in members.split_whitespace().filter_map(|member| member.parse().ok()) {
        for (name, value) in socket.statistics(&member)? {
            let total = sum.entry(name).or_default();
            *total = total.wrapping_add(value);
        }
    }
    Ok(RawCounters { names: sum.keys().cloned().collect(), values: sum.into_values().collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(members: &str) -> Result<RawCounters, ethtool::Error> {
        let root = tempfile::tempdir().unwrap();
        let bonding = root.path().join("class/net/bond0/bonding");
        fs::create_dir_all(&bonding).unwrap();
        fs::write(bonding.join("slaves"), members).unwrap();
        let socket = ethtool::EthtoolSocket::open().unwrap();
        statistics(&socket, &Sysfs::at(root.path()), &"bond0".parse().unwrap())
    }

    #[test]
    fn a_missing_member_is_an_error() {
        assert!(of("lo\n").is_ok());
        let error = of("lo gone0\n").unwrap_err();
        assert!(matches!(&error, ethtool::Error::NoSuchLink { .. }), "{error}");
    }
}
