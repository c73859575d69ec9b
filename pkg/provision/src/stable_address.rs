//! Addresses of VFs that are stable across boots.

use identifiers::{MacAddr, VfIndex};
use sha2::{Digest, Sha256};

/// Returns the MAC address of a PF's VF: unicast and locally administered. `pf` is the PF's own hardware address, which is
/// unique, so nodes that were cloned from one image differ.
pub fn stable_mac(pf: &str, vf: VfIndex) -> Option<MacAddr> {
    let mut bytes = [0; 6];
    bytes.copy_from_slice(&hash("mac", pf, vf)[..6]);
    bytes[0] = bytes[0] & 0xfc | 0x02;
    MacAddr::from_bytes(&bytes)
}

/// Returns the GUID of a PF's VF on InfiniBand: locally administered, neither all zeros nor all ones.
pub fn stable_guid(pf: &str, vf: VfIndex) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&hash("guid", pf, vf)[..8]);
    bytes[0] = bytes[0] & 0xfc | 0x02;
    u64::from_be_bytes(bytes)
}

fn hash(what: &str, pf: &str, vf: VfIndex) -> [u8; 32] {
    // This text must never change, or VFs have other addresses after an update.
    Sha256::digest(format!("silkrail {what} {} {vf}", pf.to_ascii_lowercase())).into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// study case V23.
    #[test]
    fn addresses_of_vfs_are_unique_and_never_change() {
        let pfs: Vec<String> = (0..32).map(|pf| format!("08:c0:eb:00:00:{pf:02x}")).collect();
        let of = |make: &dyn Fn(&str, u32) -> String| -> BTreeSet<String> {
            pfs.iter().flat_map(|pf| (0..64).map(move |vf| make(pf, vf))).collect()
        };
        assert_eq!(of(&|pf, vf| stable_mac(pf, VfIndex(vf)).unwrap().to_string()).len(), 32 * 64);
        assert_eq!(of(&|pf, vf| format!("{:016x}", stable_guid(pf, VfIndex(vf)))).len(), 32 * 64);
        assert_eq!(stable_mac("08:C0:EB:00:00:01", VfIndex(3)), stable_mac("08:c0:eb:00:00:01", VfIndex(3)));
        // The result must be the same in every release.
        assert_eq!(stable_mac("08:c0:eb:01:02:03", VfIndex(0)).unwrap().to_string(), "76:8b:32:e4:ea:15");
        assert_eq!(format!("{:016x}", stable_guid("08:c0:eb:01:02:03", VfIndex(0))), "f2627aff63956dc7");
        assert_eq!(stable_mac("08:c0:eb:01:02:03", VfIndex(12)).unwrap().to_string(), "56:ad:80:ab:6c:be");
    }

    #[test]
    fn the_addresses_are_valid_for_the_kernel() {
        for vf in (0..256).map(VfIndex) {
            let mac = stable_mac("08:c0:eb:01:02:03", vf).unwrap();
            assert!(!mac.is_multicast() && mac.bytes()[0] & 2 == 2, "{mac}");
            let guid = stable_guid("08:c0:eb:01:02:03", vf);
            assert!(guid >> 56 & 3 == 2, "{guid:x}");
        }
    }
}
