//! The texts of a PCI function's files about its PCI Express link and its errors.

/// Parses `current_link_speed` or `max_link_speed`, such as `16.0 GT/s PCIe`, to GT/s per lane; `None` for `Unknown`.
pub fn parse_link_speed(text: &str) -> Option<f64> {
    let (number, unit) = text.trim().split_once(' ')?;
    number.parse().ok().filter(|_| unit.starts_with("GT/s"))
}

/// Parses `current_link_width` or `max_link_width` to a number of lanes; `None` for 0, 63 and 255, which mean unknown.
pub fn parse_link_width(text: &str) -> Option<u32> {
    text.trim().parse().ok().filter(|width| (1..=32).contains(width))
}

/// Returns the total of a file of Advanced Error Reporting, which has a line for each kind of error, and last the total:
/// `TOTAL_ERR_COR 12`.
pub fn parse_aer_total(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_values_are_none() {
        assert_eq!(parse_link_speed("16.0 GT/s PCIe\n"), Some(16.0));
        assert_eq!(["Unknown\n", "", "16.0 MB/s"].map(parse_link_speed), [None; 3]);
        let widths = ["1", "16\n", "32", "0", "63", "255"].map(parse_link_width);
        assert_eq!(widths, [Some(1), Some(16), Some(32), None, None, None]);
        assert_eq!(parse_aer_total("RxErr 3\nTOTAL_ERR_COR 3\n", "TOTAL_ERR_COR"), Some(3));
        assert_eq!(parse_aer_total("RxErr 3\n", "TOTAL_ERR_COR"), None);
    }
}
