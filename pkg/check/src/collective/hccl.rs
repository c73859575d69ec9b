//! The output of `hccl_test`: a table with bars.

use super::CurvePoint;

/// Parses the table and returns its points, ordered by message size.
///
/// # Errors
/// A message if a time or a bandwidth is not a positive, finite number.
pub fn parse(text: &str) -> Result<Vec<CurvePoint>, String> {
    let mut lines = text.lines().skip_while(|line| !line.trim_start().starts_with("data_size"));
    lines.next();
    lines.filter_map(|line| row(line).transpose()).collect()
}

/// Parses a line like `8192 | 12.50 | 18.25 | success`. Older versions print no bars. Returns `None` for other lines.
fn row(line: &str) -> Result<Option<CurvePoint>, String> {
    let words: Vec<&str> = line.split(['|', ' ', '\t']).filter(|word| !word.is_empty()).collect();
    let [size, time, bandwidth, check] = words[..] else { return Ok(None) };
    let Ok(size) = size.parse::<u64>() else { return Ok(None) };
    let number = |word: &str, what: &str| {
        let number = word.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
        number.ok_or_else(|| format!("invalid {what} for {size} bytes: {word}"))
    };
    let correct = match check {
        "success" => Some(true),
        "failed" => Some(false),
        _ => None, // NULL: not checked
    };
    Ok(Some(CurvePoint {
        size,
        time_us: number(time, "time")?,
        algorithm_gbs: number(bandwidth, "bandwidth")?,
        bus_gbs: None,
        correct,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The layout of hccl_test with made-up numbers.
    const TABLE: &str = "\
the minbytes is 8192, maxbytes is 65536, iters is 20, warmup_iters is 5
data_size(Bytes): | aveg_time(us): | alg_bandwidth(GB/s): | check_result:
8192              | 45.50          | 0.18004              | success
16384             | 46.00          | 0.35617              | NULL
32768             | 47.20          | 0.69424              | failed
";

    #[test]
    fn the_table_is_parsed() {
        let points = parse(TABLE).unwrap();
        assert_eq!(points.iter().map(|point| point.size).collect::<Vec<_>>(), [8192, 16384, 32768]);
        assert_eq!((points[0].time_us, points[0].algorithm_gbs, points[0].bus_gbs), (45.5, 0.18004, None));
        assert_eq!(
            points.iter().map(|point| point.correct).collect::<Vec<_>>(),
            [Some(true), None, Some(false)]
        );
    }

    #[test]
    fn a_table_without_bars_is_parsed_and_other_lines_are_skipped() {
        assert_eq!(parse(&TABLE.replace(" |", "  ")).unwrap(), parse(TABLE).unwrap());
        assert_eq!(parse(&format!("{TABLE}[INFO] done\n")).unwrap().len(), 3);
        assert_eq!(parse("8192 | 1 | 1 | success").unwrap(), [], "no table begins");
    }

    #[test]
    fn values_that_are_not_positive_numbers_are_refused() {
        for bad in ["nan", "inf", "0.00000", "-"] {
            assert!(parse(&TABLE.replace("0.18004", bad)).is_err(), "{bad}");
        }
    }
}
