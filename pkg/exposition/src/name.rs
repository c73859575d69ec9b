//! Legal metric names.

/// Converts a driver's counter name into a legal metric name of lower-case letters, digits and single underscores.
/// `RxECNMrkd` becomes `rx_ecn_mrkd`, `ip4InOctets` becomes `ip4_in_octets`, `DRIVER_x,y` becomes `driver_x_y`.
///
/// Different counter names can result in the same metric name. The caller must detect this.
pub fn metric_name(word: &str) -> String {
    let mut name = String::with_capacity(word.len() + 4);
    let bytes = word.as_bytes();
    for (i, &byte) in bytes.iter().enumerate() {
        let before = i.checked_sub(1).map(|i| bytes[i]);
        if byte.is_ascii_uppercase() && starts_word(before, bytes.get(i + 1).copied()) {
            push_underscore(&mut name);
        }
        if byte.is_ascii_alphanumeric() {
            name.push(byte.to_ascii_lowercase().into());
        } else {
            push_underscore(&mut name);
        }
    }
    name.truncate(name.trim_end_matches('_').len());
    name
}

/// Whether a capital letter starts a word: after a lower-case letter or a digit, or before a lower-case letter (`ECNMrkd`).
fn starts_word(before: Option<u8>, after: Option<u8>) -> bool {
    match before {
        Some(before) if before.is_ascii_lowercase() || before.is_ascii_digit() => true,
        Some(before) if before.is_ascii_uppercase() => after.is_some_and(|after| after.is_ascii_lowercase()),
        _ => false,
    }
}

fn push_underscore(name: &mut String) {
    if !name.is_empty() && !name.ends_with('_') {
        name.push('_');
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn counter_names_of_all_drivers_become_snake_case() {
        for (word, name) in [
            ("out_of_sequence", "out_of_sequence"),
            ("ip4InOctets", "ip4_in_octets"),
            ("RxECNMrkd", "rx_ecn_mrkd"),
            ("InSegs", "in_segs"),
            ("RxUDP", "rx_udp"),
            ("cnpHandled", "cnp_handled"),
            ("iwInRdmaReads", "iw_in_rdma_reads"),
            ("VL15_dropped", "vl15_dropped"),
            ("DRIVER_SwCreditLimit,3", "driver_sw_credit_limit_3"),
            ("  odd--name ", "odd_name"),
            ("größe", "gr_e"),
            ("__", ""),
        ] {
            assert_eq!(metric_name(word), name);
        }
    }

    proptest! {
        #[test]
        fn any_text_becomes_a_legal_name(word in any::<String>()) {
            let name = metric_name(&word);
            prop_assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'));
            prop_assert!(!name.starts_with('_') && !name.ends_with('_') && !name.contains("__"));
            prop_assert_eq!(metric_name(&name), name);
        }
    }
}
