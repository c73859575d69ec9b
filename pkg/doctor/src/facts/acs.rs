//! PCI Express Access Control Services (ACS): whether bridges redirect peer-to-peer traffic of a card to the root complex.

use std::fs;

use crate::host_root::HostRoot;

/// `PCI_EXT_CAP_ID_ACS`.
const ACS: u16 = 0x000d;
/// `PCI_ACS_RR | PCI_ACS_CR | PCI_ACS_EC`: request and completion redirect, egress control.
const REDIRECT: u16 = 0x2c;
/// Offset of the first extended capability, and the size of the configuration space.
const EXTENDED: usize = 0x100;
const END: usize = 0x1000;

/// Returns the bridges above a function that redirect peer-to-peer traffic.
pub(crate) fn redirecting(tree: &HostRoot, address: &str) -> Vec<String> {
    let device = tree.path(format!("sys/bus/pci/devices/{address}"));
    let Ok(path) = fs::canonicalize(&device) else { return Vec::new() };
    let mut found = Vec::new();
    for above in path.ancestors().skip(1) {
        let name = above.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.parse::<identifiers::PciAddress>().is_err() {
            break;
        }
        let Some(config) =
            tree.bytes(above.join("config").strip_prefix(tree.path("")).unwrap_or(above)).into_option()
        else {
            continue;
        };
        if config.len() <= EXTENDED {
            tree.note_unexamined(
                format!("ACS of the bridge {name}"),
                "only root can read its extended configuration space",
            );
        } else if control(&config).is_some_and(|control| control & REDIRECT != 0) {
            found.push(name);
        }
    }
    found
}

/// Returns the ACS control register. The header of a capability holds its ID in the lower 16 bits and the offset of the
/// next capability in the upper 12 bits.
fn control(config: &[u8]) -> Option<u16> {
    let word = |at: usize| Some(u16::from_le_bytes([*config.get(at)?, *config.get(at + 1)?]));
    let mut at = EXTENDED;
    // A capability has at least 8 bytes. The limit ends a loop of capabilities.
    for _ in 0..(END - EXTENDED) / 8 {
        if word(at)? == ACS {
            return word(at + 6);
        }
        at = usize::from(word(at + 2)? >> 4);
        if !(EXTENDED..END).contains(&at) {
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_control_register_is_found_after_other_capabilities_and_a_loop_terminates() {
        let mut config = vec![0; END];
        config[0x100..0x104].copy_from_slice(&[0x01, 0x00, 0x01, 0x15]); // AER, next at 0x150
        config[0x150..0x158].copy_from_slice(&[0x0d, 0x00, 0x01, 0x00, 0x5f, 0x00, 0x1d, 0x00]);
        assert_eq!(control(&config), Some(0x1d));
        config[0x150..0x154].copy_from_slice(&[0x02, 0x00, 0x01, 0x10]); // back to 0x100
        assert_eq!(control(&config), None);
        assert_eq!(control(&[0; 64]), None);
    }
}
