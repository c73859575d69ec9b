//! The GID table of a port, which contains its addresses for RDMA traffic.
//!
//! For RoCE, the kernel adds the IP addresses of the link of the port *and of its upper links* (VLAN, macvlan),
//! twice each: as RoCE v1 and RoCE v2. Entries are removed with the addresses, so the table may have gaps and is
//! read to its end.

use std::{
    fmt, io,
    net::{IpAddr, Ipv6Addr},
    path::PathBuf,
};

use crate::{
    Error, Sysfs,
    root::{names, text, value},
};

/// An entry of a GID table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GidEntry {
    /// The GID index, which applications use to select the entry.
    pub index: u32,
    /// The GID. An IPv4 address is mapped: `::ffff:172.81.0.100`.
    pub gid: Ipv6Addr,
    /// The type of the GID.
    pub kind: GidType,
    /// The link of the address, by its name in its own namespace. InfiniBand has none.
    pub link: Option<String>,
}

/// The type of a GID, which determines the packet format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GidType {
    /// InfiniBand.
    Ib,
    /// RoCE v1: a separate EtherType, not routable.
    RoceV1,
    /// RoCE v2: UDP, routable.
    RoceV2,
}

impl GidType {
    /// Returns the common name: `IB`, `RoCE v1`, `RoCE v2`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ib => "IB",
            Self::RoceV1 => "RoCE v1",
            Self::RoceV2 => "RoCE v2",
        }
    }
}

/// The reason why a port does not support RoCE v2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRoceV2 {
    /// The device is an iWARP device.
    Iwarp,
    /// The device only supports RoCE v1.
    V1Only,
}

impl fmt::Display for NoRoceV2 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Iwarp => "it is an iWARP device, which uses IP addresses instead of GIDs",
            Self::V1Only => "it supports only version 1 of RoCE",
        })
    }
}

impl Sysfs {
    /// Returns why a port cannot have RoCE v2 GIDs; `None` if it can, or if the table is empty, so that it is unknown.
    ///
    /// A RoCE port always has GIDs of the link-local address of its link, one for each version that it supports.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the device or the port is not visible here.
    pub fn lacks_roce_v2(&self, device: &str, port: u32) -> Result<Option<NoRoceV2>, Error> {
        let table = self.gid_table(device, port)?;
        let mut is_empty = true;
        for entry in table.used() {
            match table.kind(entry?.0)? {
                Some(GidType::RoceV2) => return Ok(None),
                Some(GidType::Ib | GidType::RoceV1) => is_empty = false,
                None => {}
            }
        }
        // `4: RNIC`
        let kind = text(&self.rdma_dir(device)?.join("node_type"))?.unwrap_or_default();
        Ok(if kind.ends_with("RNIC") {
            Some(NoRoceV2::Iwarp)
        } else {
            (!is_empty && !table.infiniband).then_some(NoRoceV2::V1Only)
        })
    }

    /// Returns the entries of a GID table that are in use.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the device or the port is not visible here.
    pub fn gids(&self, device: &str, port: u32) -> Result<Vec<GidEntry>, Error> {
        let table = self.gid_table(device, port)?;
        let mut gids = Vec::new();
        for entry in table.used() {
            let (index, gid) = entry?;
            // The entry may have been removed between the two reads.
            if let Some(kind) = table.kind(index)? {
                gids.push(GidEntry { index, gid, kind, link: table.attribute("ndevs", index)? });
            }
        }
        Ok(gids)
    }

    /// Returns the index of the RoCE v2 GID of the port for `address`.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the device or the port is not visible here.
    pub fn find_gid(&self, device: &str, port: u32, address: IpAddr) -> Result<Option<u32>, Error> {
        let wanted = match address {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        let table = self.gid_table(device, port)?;
        for entry in table.used() {
            let (index, gid) = entry?;
            if gid == wanted && table.kind(index)? == Some(GidType::RoceV2) {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    /// Returns the number of entries of a GID table, used or not.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the device or the port is not visible here.
    #[doc(alias = "gid_tbl_len")]
    pub fn gid_table_len(&self, device: &str, port: u32) -> Result<usize, Error> {
        let table = self.gid_table(device, port)?;
        Ok(names(&table.port.join("gids"))?.len())
    }

    /// Returns the link layer of a port: `Ethernet` or `InfiniBand`.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the device or the port is not visible here.
    pub fn link_layer(&self, device: &str, port: u32) -> Result<String, Error> {
        let path = self.rdma_dir(device)?.join(format!("ports/{port}/link_layer"));
        text(&path)?
            .ok_or_else(|| Error::NotFound { what: format!("port {port} of RDMA device {device}"), path })
    }

    fn gid_table(&self, device: &str, port: u32) -> Result<GidTableDir, Error> {
        let infiniband = self.link_layer(device, port)? == "InfiniBand";
        Ok(GidTableDir { port: self.rdma_dir(device)?.join(format!("ports/{port}")), infiniband })
    }
}

struct GidTableDir {
    port: PathBuf,
    infiniband: bool,
}

impl GidTableDir {
    /// Iterates over index and GID of the entries in use. An unused entry is all zeros.
    fn used(&self) -> impl Iterator<Item = Result<(u32, Ipv6Addr), Error>> {
        let gids = self.port.join("gids");
        let entry = move |index: u32| value::<Ipv6Addr>(&gids.join(index.to_string()), "a GID").transpose();
        let all = (0..).map_while(move |index| Some((index, entry(index)?)));
        all.map(|(index, gid)| Ok((index, gid?)))
            .filter(|entry| !matches!(entry, Ok((_, gid)) if gid.is_unspecified()))
    }

    /// Returns the type of an entry. The kernel writes `IB/RoCE v1` for two types; the link layer distinguishes them.
    fn kind(&self, index: u32) -> Result<Option<GidType>, Error> {
        Ok(match self.attribute("types", index)?.as_deref() {
            None => None,
            Some("RoCE v2") => Some(GidType::RoceV2),
            Some(_) if self.infiniband => Some(GidType::Ib),
            Some(_) => Some(GidType::RoceV1),
        })
    }

    /// Reads an attribute of an entry. The kernel returns `EINVAL` for an unused entry, and for an entry without a link.
    fn attribute(&self, name: &str, index: u32) -> Result<Option<String>, Error> {
        match text(&self.port.join(format!("gid_attrs/{name}/{index}"))) {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::InvalidInput => Ok(None),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::test_fixture::SysfsFixture;

    #[test]
    fn the_table_is_read_past_its_gaps() {
        let tree = SysfsFixture::mlx5();
        let gids = tree.sysfs.gids("mlx5_0", 1).unwrap();
        let indexes: Vec<u32> = gids.iter().map(|gid| gid.index).collect();
        assert_eq!(indexes, [0, 1, 4, 10]);
        assert_eq!(gids[0].kind, GidType::RoceV1);
        assert_eq!(gids[1].kind, GidType::RoceV2);
        assert_eq!(gids[3].link.as_deref(), Some("net1"));
    }

    #[test]
    fn an_address_is_found_as_roce_v2_only() {
        let tree = SysfsFixture::mlx5();
        let find = |address: &str| tree.sysfs.find_gid("mlx5_0", 1, address.parse().unwrap()).unwrap();
        assert_eq!(find("172.81.0.100"), Some(10));
        assert_eq!(find("fe80::ac0:ebff:fe01:203"), Some(1));
        assert_eq!(find("172.81.0.101"), None);
    }

    #[test]
    fn the_supported_types_are_derived_from_the_entries() {
        let tree = SysfsFixture::mlx5();
        let lacks = || tree.sysfs.lacks_roce_v2("mlx5_0", 1).unwrap();
        assert_eq!(lacks(), None);
        let port = tree.sysfs.root().join("class/infiniband/mlx5_0/ports/1");
        for index in [1, 10] {
            fs::write(port.join(format!("gid_attrs/types/{index}")), "IB/RoCE v1\n").unwrap();
        }
        assert_eq!(lacks(), Some(NoRoceV2::V1Only));
        fs::write(tree.sysfs.root().join("class/infiniband/mlx5_0/node_type"), "4: RNIC\n").unwrap();
        assert_eq!(lacks(), Some(NoRoceV2::Iwarp));
        fs::write(tree.sysfs.root().join("class/infiniband/mlx5_0/node_type"), "1: CA\n").unwrap();
        for index in 0..16 {
            fs::write(port.join(format!("gids/{index}")), "0000:0000:0000:0000:0000:0000:0000:0000\n")
                .unwrap();
        }
        assert_eq!(lacks(), None, "an empty table has no result");
    }

    #[test]
    fn the_error_of_a_missing_device_contains_its_name() {
        let tree = SysfsFixture::mlx5();
        let error = tree.sysfs.gids("mlx5_3", 1).unwrap_err();
        assert!(error.is_not_found());
        assert!(error.to_string().starts_with("port 1 of RDMA device mlx5_3: not found"), "{error}");
    }
}
