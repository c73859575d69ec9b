//! Addresses of VFs that are the same after each boot.

use identifiers::{MacAddr, VfIndex};
use sha2::{Digest, Sha256};

/// The MAC address of a PF's VF: locally administered, of a single host. `pf` is the PF's own hardware address, which
/// no other card has; two nodes that were cloned from one image still differ.
pub fn stable_mac(pf: &str, vf: VfIndex) -> Option<MacAddr> {
    let mut bytes = [0; 6];
    bytes.copy_from_slice(&hash("mac", pf, vf)[..6]);
    bytes[0] = bytes[0] & 0xfc | 0x02;
    MacAddr::from_bytes(&bytes)
}

/// The GUID of a PF's VF on InfiniBand: locally administered, neither zero nor all ones.
pub fn stable_guid(pf: &str, vf: VfIndex) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&hash("guid", pf, vf)[..8]);
    bytes[0] = bytes[0] & 0xfc | 0x02;
    u64::from_be_bytes(bytes)
}

fn hash(what: &str, pf: &str, vf: VfIndex) -> [u8; 32] {
    // Never changed: VFs would have other addresses after an update.
    Sha256::digest(format!("silkrail {what} {} {vf}", pf.to_ascii_lowercase())).into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// study case V23.
    #[test]
    fn vfs_have_addresses_of_their_own_that_never_change() {
        let pfs: Vec<String> = (0..32).map(|pf| format!("08:c0:eb:00:00:{pf:02x}")).collect();
        let of = |make: &dyn Fn(&str, u32) -> String| -> BTreeSet<String> {
            pfs.iter().flat_map(|pf| (0..64).map(move |vf| make(pf, vf))).collect()
        };
        assert_eq!(of(&|pf, vf| stable_mac(pf, VfIndex(vf)).unwrap().to_string()).len(), 32 * 64);
        assert_eq!(of(&|pf, vf| format!("{:016x}", stable_guid(pf, VfIndex(vf)))).len(), 32 * 64);
        assert_eq!(stable_mac("08:C0:EB:00:00:01", VfIndex(3)), stable_mac("08:c0:eb:00:00:01", VfIndex(3)));
        // What a release once gave must stay.
        assert_eq!(stable_mac("08:c0:eb:01:02:03", VfIndex(0)).unwrap().to_string(), "76:8b:32:e4:ea:15");
    }

    #[test]
    fn the_addresses_are_ones_that_the_kernel_takes() {
        for vf in (0..256).map(VfIndex) {
            let mac = stable_mac("08:c0:eb:01:02:03", vf).unwrap();
            assert!(!mac.is_multicast() && mac.bytes()[0] & 2 == 2, "{mac}");
            let guid = stable_guid("08:c0:eb:01:02:03", vf);
            assert!(guid >> 56 & 3 == 2, "{guid:x}");
        }
    }
}
