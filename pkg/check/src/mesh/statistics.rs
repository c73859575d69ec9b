//! Order statistics.

/// Returns the median; `None` without values.
pub(super) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let values = sorted(values);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

/// Returns the values in ascending order.
pub(super) fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Returns the value below or at which `percent` of the sorted values are (nearest rank); `None` without values.
pub(super) fn percentile(sorted: &[f64], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let values = sorted((1..=200).rev().map(f64::from));
        assert_eq!(
            [1, 50, 99, 100].map(|percent| percentile(&values, percent)),
            [2.0, 100.0, 198.0, 200.0].map(Some)
        );
        assert_eq!((percentile(&[7.0], 1), percentile(&[], 50)), (Some(7.0), None));
        assert_eq!((median([3.0, 1.0, 2.0, 10.0]), median([])), (Some(2.5), None));
    }
}
