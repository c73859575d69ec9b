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
    directory::Directory,
    root::{parsed, text},
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

/// A GID table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GidTable {
    /// The number of entries, used or not.
    #[doc(alias = "gid_tbl_len")]
    pub capacity: usize,
    /// The entries in use.
    pub entries: Vec<GidEntry>,
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
        let table = self.gid_table_dir(device, port)?;
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

    /// Reads a GID table.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the device or the port is not visible here.
    pub fn gid_table(&self, device: &str, port: u32) -> Result<GidTable, Error> {
        let dir = self.gid_table_dir(device, port)?;
        let mut table = GidTable::default();
        for entry in dir.all() {
            let (index, gid) = entry?;
            table.capacity += 1;
            if gid.is_unspecified() {
                continue;
            }
            // The entry may have been removed between the two reads.
            if let Some(kind) = dir.kind(index)? {
                table.entries.push(GidEntry { index, gid, kind, link: dir.attribute("ndevs", index)? });
            }
        }
        Ok(table)
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
        let table = self.gid_table_dir(device, port)?;
        for entry in table.used() {
            let (index, gid) = entry?;
            if gid == wanted && table.kind(index)? == Some(GidType::RoceV2) {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    /// Returns the link layer of a port: `Ethernet` or `InfiniBand`.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the device or the port is not visible here.
    pub fn link_layer(&self, device: &str, port: u32) -> Result<String, Error> {
        let path = self.rdma_dir(device)?.join(format!("ports/{port}/link_layer"));
        text(&path)?.ok_or_else(|| no_port(device, port, path))
    }

    fn gid_table_dir(&self, device: &str, port: u32) -> Result<GidTableDir, Error> {
        let infiniband = self.link_layer(device, port)? == "InfiniBand";
        let path = self.rdma_dir(device)?.join(format!("ports/{port}"));
        let port = Directory::open(path.clone())?.ok_or_else(|| no_port(device, port, path))?;
        Ok(GidTableDir { port, infiniband })
    }
}

fn no_port(device: &str, port: u32, path: PathBuf) -> Error {
    Error::NotFound { what: format!("port {port} of RDMA device {device}"), path }
}

struct GidTableDir {
    port: Directory,
    infiniband: bool,
}

impl GidTableDir {
    /// Iterates over index and GID of all entries.
    fn all(&self) -> impl Iterator<Item = Result<(u32, Ipv6Addr), Error>> {
        let entry = |index| self.gid(index).transpose().map(|gid| Ok((index, gid?)));
        (0..).map_while(entry)
    }

    /// Iterates over index and GID of the entries in use. An unused entry is all zeros.
    fn used(&self) -> impl Iterator<Item = Result<(u32, Ipv6Addr), Error>> {
        self.all().filter(|entry| !matches!(entry, Ok((_, gid)) if gid.is_unspecified()))
    }

    /// Returns the GID of an entry; `None` after the last entry.
    fn gid(&self, index: u32) -> Result<Option<Ipv6Addr>, Error> {
        let file = format!("gids/{index}");
        let text = self.port.text(&file)?;
        text.map(|text| parsed(&self.port.path(&file), text, "a GID")).transpose()
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
        match self.port.text(&format!("gid_attrs/{name}/{index}")) {
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
        let GidTable { capacity, entries: gids } = tree.sysfs.gid_table("mlx5_0", 1).unwrap();
        assert_eq!(capacity, 16);
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
    fn an_infiniband_port_has_gids_of_its_own_and_lacks_nothing() {
        let tree = SysfsFixture::mlx5();
        tree.file("class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n");
        for index in [1, 10] {
            tree.file(&format!("class/infiniband/mlx5_0/ports/1/gid_attrs/types/{index}"), "IB/RoCE v1\n");
        }
        assert_eq!(tree.sysfs.lacks_roce_v2("mlx5_0", 1).unwrap(), None);
        let entries = tree.sysfs.gid_table("mlx5_0", 1).unwrap().entries;
        assert!(entries.len() == 4 && entries.iter().all(|entry| entry.kind == GidType::Ib), "{entries:?}");
    }

    #[test]
    fn the_error_of_a_missing_device_contains_its_name() {
        let tree = SysfsFixture::mlx5();
        let error = tree.sysfs.gid_table("mlx5_3", 1).unwrap_err();
        assert!(error.is_not_found());
        assert!(error.to_string().starts_with("port 1 of RDMA device mlx5_3: not found"), "{error}");
    }
}
