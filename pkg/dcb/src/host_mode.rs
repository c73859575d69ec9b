//! How to let the host manage the DCB settings of a card.

/// Returns the command or the setting after which the host manages the DCB settings of a link, and not the card's firmware.
pub fn host_mode_remedy(driver: Option<&str>, link: &str) -> String {
    match driver {
        Some("ice") => format!("ethtool --set-priv-flags {link} fw-lldp-agent off"),
        Some("bnxt_en") => {
            "disable the LLDP agent and DCBX in the card's NVM configuration, and reboot".into()
        }
        _ => format!("dcb dcbx set dev {link} host ieee"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_driver_has_its_own_way() {
        assert_eq!(host_mode_remedy(Some("mlx5_core"), "eth0"), "dcb dcbx set dev eth0 host ieee");
        assert_eq!(host_mode_remedy(Some("ice"), "eth0"), "ethtool --set-priv-flags eth0 fw-lldp-agent off");
        assert!(host_mode_remedy(Some("bnxt_en"), "eth0").contains("NVM"));
    }
}
