//! The time of each message of a latency test, which perftest prints with `-U` (its long name in the help does not exist).
//!
//! It prints them in the order of time, in some runs without the last two, and then sorted, without the largest two. The latter are those that
//! matter, so the first list is used.

/// Returns the times in microseconds: lines like `17, 1.94` after the first line `#, usec`.
pub fn samples(printed: &str) -> Vec<f64> {
    let sample = |line: &str| {
        let (number, time) = line.trim().split_once(", ")?;
        number.parse::<u32>().ok()?;
        time.parse::<f64>().ok()
    };
    let lines = printed.lines().skip_while(|line| !line.starts_with("#, ")).skip(1);
    let samples = lines.map_while(sample);
    samples.filter(|time| time.is_finite() && *time >= 0.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TestKind, perftest::parse};

    #[test]
    fn the_unsorted_samples_are_used_and_the_table_is_still_found() {
        let table = include_str!("../../golden/25.01.0+0.80/write_lat_n.txt");
        let header = table.find("#bytes").unwrap();
        let (head, row) = table.split_at(header + table[header..].find('\n').unwrap() + 1);
        let both = "#, usec\n1, 1.94\n2, 67123.01\n3, nan\n4, 2.5\n#, usec\n1, 1.94\n2, 2.5\n";
        let printed = format!("{head}{both}{row}");
        assert_eq!(samples(&printed), [1.94, 67123.01, 2.5]);
        assert_eq!(parse(TestKind::Latency, &printed), parse(TestKind::Latency, table));
        assert!(samples(table).is_empty());
    }
}
