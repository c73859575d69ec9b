//! PFs, whose RDMA devices the node uses: for storage, and for pods in shared networks.

use plugin_runtime::Error;
use sysfs::{Function, Sysfs};

use crate::error::RdmaError;

/// Checks that a function is not a PF with VFs, or with a link on the node. A plugin before this one may have moved the link of a PF
/// without VFs to the pod.
///
/// # Errors
/// [`RdmaError::PfInUse`].
pub(crate) fn refuse_in_use(sysfs: &Sysfs, function: &Function) -> Result<(), Error> {
    let Some(pf) = function.pci() else { return Ok(()) };
    if sysfs.pf_of(pf)?.is_some() {
        return Ok(());
    }
    let why = match (sysfs.num_vfs(pf)?, sysfs.links(function)?.first()) {
        (0, None) => return Ok(()),
        (0, Some(link)) => format!("whose link {link} is on the node"),
        (vfs, _) => format!("with {vfs} VFs"),
    };
    Err(RdmaError::PfInUse { pf, why }.into())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_device_of_a_pf_is_the_nodes_unless_its_only_link_is_in_the_pod() {
        let tree = tempfile::tempdir().unwrap();
        let devices = tree.path().join("bus/pci/devices");
        let write = |path: &str, text: &str| {
            fs::create_dir_all(devices.join(path).parent().unwrap()).unwrap();
            fs::write(devices.join(path), text).unwrap();
        };
        write("0000:af:00.0/net/p0/ifindex", "3\n");
        write("0000:b0:00.0/sriov_numvfs", "0\n");
        write("0000:c0:00.0/sriov_numvfs", "8\n");
        write("0000:c0:00.2/net/v0/ifindex", "4\n");
        std::os::unix::fs::symlink("../0000:c0:00.0", devices.join("0000:c0:00.2/physfn")).unwrap();
        let refusal = |function: &str| {
            let refused = refuse_in_use(&Sysfs::at(tree.path()), &function.parse().unwrap());
            refused.err().map(|error| cni::Error::from(error).msg)
        };
        assert!(refusal("0000:af:00.0").unwrap().contains("whose link p0 is on the node"));
        assert!(refusal("0000:c0:00.0").unwrap().contains("with 8 VFs"));
        for allowed in ["0000:b0:00.0", "0000:c0:00.2", "mlx5_core.sf.2"] {
            assert_eq!(refusal(allowed), None, "{allowed}");
        }
    }
}
