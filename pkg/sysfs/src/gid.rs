//! A port's GID table: the addresses by which RDMA traffic finds it.
//!
//! For RoCE the kernel fills the table from the IP addresses of the port's link *and of the links above it*
//! (VLAN, macvlan), twice each: RoCE v1 and RoCE v2. Entries come and go with the addresses, so the table may
//! have holes and is read to its end.

use std::{
    fmt, io,
    net::{IpAddr, Ipv6Addr},
    path::PathBuf,
};

use crate::{
    Error, Sysfs,
    root::{names, text, value},
};

/// One entry of a GID table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GidEntry {
    /// Its place in the table: what applications call the GID index.
    pub index: u32,
    /// The address; an IPv4 address is mapped (`::ffff:172.81.0.100`).
    pub gid: Ipv6Addr,
    /// What packets with it look like.
    pub kind: GidType,
    /// The link it comes from, as its own namespace calls it. InfiniBand has none.
    pub link: Option<String>,
}

/// What packets with a GID look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GidType {
    /// InfiniBand.
    Ib,
    /// RoCE v1: its own EtherType, not routed.
    RoceV1,
    /// RoCE v2: over UDP.
    RoceV2,
}

impl GidType {
    /// What people call it: `IB`, `RoCE v1`, `RoCE v2`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ib => "IB",
            Self::RoceV1 => "RoCE v1",
            Self::RoceV2 => "RoCE v2",
        }
    }
}

/// Why a port has no RoCE v2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRoceV2 {
    /// It is an iWARP device's.
    Iwarp,
    /// Its device knows the first version only.
    V1Only,
}

impl fmt::Display for NoRoceV2 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Iwarp => "it is an iWARP device, whose peers are found by their addresses and not by GIDs",
            Self::V1Only => "it knows only version 1 of RoCE",
        })
    }
}

impl Sysfs {
    /// Why a port can have no RoCE v2 GID, if that is so.
    ///
    /// A port of RoCE has a GID of its link's own address for each version that it knows, as long as its device is there.
    /// A table that is empty says nothing.
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

    /// The entries in use of a port's GID table.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the device or the port is not visible here.
    pub fn gids(&self, device: &str, port: u32) -> Result<Vec<GidEntry>, Error> {
        let table = self.gid_table(device, port)?;
        let mut gids = Vec::new();
        for entry in table.used() {
            let (index, gid) = entry?;
            // The entry may go between the readings.
            if let Some(kind) = table.kind(index)? {
                gids.push(GidEntry { index, gid, kind, link: table.attribute("ndevs", index)? });
            }
        }
        Ok(gids)
    }

    /// The index under which `address` is a RoCE v2 GID of the port.
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

    /// How many entries a port's GID table has room for.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the device or the port is not visible here.
    #[doc(alias = "gid_tbl_len")]
    pub fn gid_table_len(&self, device: &str, port: u32) -> Result<usize, Error> {
        let table = self.gid_table(device, port)?;
        Ok(names(&table.port.join("gids"))?.len())
    }

    /// What is below a port: `Ethernet` or `InfiniBand`.
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
    /// Index and address of each entry in use, up to the table's end. An unused one reads as all zeros.
    fn used(&self) -> impl Iterator<Item = Result<(u32, Ipv6Addr), Error>> {
        let gids = self.port.join("gids");
        let entry = move |index: u32| value::<Ipv6Addr>(&gids.join(index.to_string()), "a GID").transpose();
        let all = (0..).map_while(move |index| Some((index, entry(index)?)));
        all.map(|(index, gid)| Ok((index, gid?)))
            .filter(|entry| !matches!(entry, Ok((_, gid)) if gid.is_unspecified()))
    }

    /// The kernel has one word for InfiniBand and RoCE v1; the port's link layer tells them apart.
    fn kind(&self, index: u32) -> Result<Option<GidType>, Error> {
        Ok(match self.attribute("types", index)?.as_deref() {
            None => None,
            Some("RoCE v2") => Some(GidType::RoceV2),
            Some(_) if self.infiniband => Some(GidType::Ib),
            Some(_) => Some(GidType::RoceV1),
        })
    }

    /// `EINVAL` is the kernel's word for an unused entry, and for an entry without a link.
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
    fn the_table_is_read_past_its_holes() {
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
    fn what_a_port_can_have_is_read_from_what_it_has() {
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
        assert_eq!(lacks(), None, "a table without entries says nothing");
    }

    #[test]
    fn a_device_that_is_not_here_is_named() {
        let tree = SysfsFixture::mlx5();
        let error = tree.sysfs.gids("mlx5_3", 1).unwrap_err();
        assert!(error.is_not_found());
        assert!(error.to_string().starts_with("port 1 of RDMA device mlx5_3: not found"), "{error}");
    }
}
