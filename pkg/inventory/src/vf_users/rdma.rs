//! The users of RDMA devices.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use rdma::resource::ResourceOwner;

use super::evidence::VfUser;
use crate::{Error, NodePaths, pf::ProtectionReason, vf_users::user_space::process};

/// The processes that have RDMA devices of the node's namespace open.
#[derive(Debug, Default)]
pub(crate) struct OpenContexts {
    processes: BTreeMap<String, BTreeSet<String>>,
}

impl OpenContexts {
    pub(crate) fn read(node: &NodePaths) -> Result<Self, Error> {
        let sysfs = node.sysfs();
        if !sysfs.has_rdma()? {
            return Ok(Self::default());
        }
        let rdma = rdma::Handle::open(&sysfs)?;
        let mut processes = BTreeMap::new();
        // A device that a list lacks would look unused.
        let names =
            sysfs.rdma_names().map_err(|source| Error::Io { path: sysfs.root().to_owned(), source })?;
        for device in rdma.devices_named(&names)? {
            let owners = match rdma.contexts(&device) {
                Ok(contexts) => contexts.unwrap_or_default().into_iter().map(|context| context.owner),
                Err(error) if error.is_not_found() => continue,
                Err(error) => return Err(error.into()),
            };
            let names: BTreeSet<_> = owners.map(|owner| owner_name(&node.root, &owner)).collect();
            processes.insert(device.name, names);
        }
        Ok(Self { processes })
    }

    pub(crate) fn of(&self, device: &str) -> impl Iterator<Item = VfUser> {
        let names = self.processes.get(device).into_iter().flatten();
        names.map(move |process| VfUser::Process { device: device.to_owned(), process: process.clone() })
    }
}

fn owner_name(root: &Path, owner: &ResourceOwner) -> String {
    match owner {
        ResourceOwner::Process(thread) => process(root, *thread),
        ResourceOwner::Kernel(module) => module.clone(),
        ResourceOwner::Unknown => "a process that is not visible from here".into(),
    }
}

/// Returns the kernel modules with connections over these devices. Management queue pairs, which every device has, do not
/// count.
pub(crate) fn kernel_users(node: &NodePaths, devices: &[String]) -> Result<Vec<ProtectionReason>, Error> {
    let sysfs = node.sysfs();
    if devices.is_empty() || !sysfs.has_rdma()? {
        return Ok(Vec::new());
    }
    let rdma = rdma::Handle::open(&sysfs)?;
    let mut found = Vec::new();
    for device in rdma.devices_named(devices)? {
        let pairs = match rdma.queue_pairs(&device) {
            Ok(pairs) => pairs.unwrap_or_default(),
            Err(error) if error.is_not_found() => continue,
            Err(error) => return Err(error.into()),
        };
        let modules: BTreeSet<_> = pairs.into_iter().filter_map(|pair| storage(pair.owner)).collect();
        let of = |module| ProtectionReason::Kernel { device: device.name.clone(), module };
        found.extend(modules.into_iter().map(of));
    }
    Ok(found)
}

/// Returns the module if it is a storage module. `ib_core`, drivers and `ib_ipoib` have queue pairs without connections.
fn storage(owner: ResourceOwner) -> Option<String> {
    const STORAGE: [&str; 11] = [
        "nvme_rdma",
        "nvmet_rdma",
        "rpcrdma",
        "ib_iser",
        "ib_isert",
        "ib_srp",
        "ib_srpt",
        "smbdirect",
        "ksmbd",
        "rnbd",
        "rtrs",
    ];
    match owner {
        ResourceOwner::Kernel(module) if STORAGE.iter().any(|known| module.starts_with(known)) => {
            Some(module)
        }
        ResourceOwner::Kernel(_) | ResourceOwner::Process(_) | ResourceOwner::Unknown => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_storage_modules_of_the_kernel_protect_a_device() {
        assert_eq!(storage(ResourceOwner::Kernel("nvme_rdma".into())).as_deref(), Some("nvme_rdma"));
        assert_eq!(storage(ResourceOwner::Kernel("rtrs_client".into())).as_deref(), Some("rtrs_client"));
        assert_eq!(storage(ResourceOwner::Kernel("ib_core".into())), None);
        assert_eq!(storage(ResourceOwner::Process(7)), None);
    }
}
