//! The time of each message of a latency test, which perftest prints with `-H`: its long name in the help does not exist.

/// Returns the times in microseconds: lines like `17, 1.94`.
pub fn samples(printed: &str) -> Vec<f64> {
    let sample = |line: &str| {
        let (number, time) = line.trim().split_once(", ")?;
        number.parse::<u32>().ok()?;
        time.parse::<f64>().ok().filter(|time| time.is_finite() && *time >= 0.0)
    };
    printed.lines().filter_map(sample).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TestKind, perftest::parse};

    #[test]
    fn the_samples_are_between_the_header_and_the_line_of_the_table() {
        let table = include_str!("../../golden/25.01.0+0.80/write_lat_n.txt");
        let header = table.find("#bytes").unwrap();
        let (head, row) = table.split_at(header + table[header..].find('\n').unwrap() + 1);
        let printed = format!("{head}#, usec\n1, 1.94\n2, 2.01\n3, nan\n4, -1\n{row}");
        assert_eq!(samples(&printed), [1.94, 2.01]);
        assert_eq!(parse(TestKind::Latency, &printed), parse(TestKind::Latency, table));
        assert!(samples(table).is_empty());
    }
}
