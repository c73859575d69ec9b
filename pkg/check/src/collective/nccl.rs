//! The output of nccl-tests: the table of every version, and the JSON report of newer versions (`-J FILE`).
//!
//! Each size is measured twice, out of place and in place. The first is used, or the second if it is the only one.

use serde_json::Value;

use super::CurvePoint;

/// Parses a table or a report and returns its points, ordered by message size.
///
/// # Errors
/// A message if a value is not a finite number, or if the report is truncated.
pub fn parse(text: &str) -> Result<Vec<CurvePoint>, String> {
    if text.trim_start().starts_with('{') { report(text) } else { table(text) }
}

fn report(text: &str) -> Result<Vec<CurvePoint>, String> {
    let report: Value =
        serde_json::from_str(text).map_err(|error| format!("the report is not valid JSON: {error}"))?;
    let results = report["results"].as_array().ok_or("the report has no \"results\"")?;
    results.iter().map(of_report).collect()
}

fn of_report(result: &Value) -> Result<CurvePoint, String> {
    let size = result["size"].as_u64().ok_or("a result of the report has no \"size\"")?;
    let measured =
        if result["out_of_place"].is_object() { &result["out_of_place"] } else { &result["in_place"] };
    let time = measured.get("time").or_else(|| measured.get("cpu_time"));
    let number = |value: Option<&Value>, what: &str| {
        value
            .and_then(Value::as_f64)
            .ok_or_else(|| format!("invalid {what} for {size} bytes: expected a number"))
    };
    let wrong = measured["nwrong"].as_f64();
    Ok(CurvePoint {
        size,
        time_us: number(time, "time")?,
        algorithm_gbs: number(measured.get("alg_bw"), "bandwidth")?,
        bus_gbs: Some(number(measured.get("bus_bw"), "bus bandwidth")?),
        correct: wrong.map(|wrong| wrong == 0.0),
    })
}

/// Parses the lines that are not comments. Their columns are size, count, type, redop, root, and then time, algbw, busbw
/// and #wrong once or twice. Older versions have no column root.
fn table(text: &str) -> Result<Vec<CurvePoint>, String> {
    let rows = text.lines().map(str::trim).filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
    let mut points: Vec<CurvePoint> =
        rows.filter_map(|row| of_row(row).transpose()).collect::<Result<_, _>>()?;
    // Before 2.13 the last column is the largest rounding error. The number of wrong values is in a line below the table.
    if text.lines().any(is_head_with_error) {
        let out_of_bounds =
            text.lines().find_map(|line| line.trim().strip_prefix("# Out of bounds values :"));
        let correct =
            out_of_bounds.and_then(|text| Some(text.split_whitespace().next()?.parse::<u64>().ok()? == 0));
        points.iter_mut().for_each(|point| point.correct = correct);
    }
    Ok(points)
}

fn is_head_with_error(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    line.trim().starts_with('#') && ["size", "busbw", "error"].iter().all(|word| words.contains(word))
}

fn of_row(row: &str) -> Result<Option<CurvePoint>, String> {
    let words: Vec<&str> = row.split_whitespace().collect();
    let Some(size) = words.first().and_then(|word| word.parse().ok()) else { return Ok(None) };
    // time, algbw, busbw, #wrong, counted from the end because some versions have no column root.
    let measured = match words.len() {
        12 | 13 => &words[words.len() - 8..][..4],
        8 | 9 => &words[words.len() - 4..],
        _ => return Ok(None), // a line of another program
    };
    let number = |word: &str, what: &str| {
        let number = word.parse::<f64>().ok().filter(|number| number.is_finite());
        number.ok_or_else(|| format!("invalid {what} for {size} bytes: {word}"))
    };
    Ok(Some(CurvePoint {
        size,
        time_us: number(measured[0], "time")?,
        algorithm_gbs: number(measured[1], "bandwidth")?,
        bus_gbs: Some(number(measured[2], "bus bandwidth")?),
        correct: measured[3].parse::<f64>().ok().map(|wrong| wrong == 0.0),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The layout of nccl-tests with made-up numbers.
    const TABLE: &str = "\
# nThread 1 nGpus 1 minBytes 33554432 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1
#  Rank  0 Group  0 Pid   4711 on node-a device  0 [0000:1b:00] a GPU
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
    33554432       8388608     float     sum      -1   2100.5   15.97   29.95      0   2090.4   16.05   30.10      0
    67108864      16777216     float     sum      -1   3000.2   22.37   41.94      0   3010.7   22.29   41.79    N/A
   134217728      33554432     float     sum      -1    15000    8.95   16.78      3   5400.0   24.86   46.60      0
# Out of bounds values : 1 FAILED
# Avg bus bandwidth    : 33.155
";

    #[test]
    fn the_table_is_parsed() {
        let points = parse(TABLE).unwrap();
        assert_eq!(
            points.iter().map(|point| point.size).collect::<Vec<_>>(),
            [33_554_432, 67_108_864, 134_217_728]
        );
        assert_eq!(
            (points[0].time_us, points[0].algorithm_gbs, points[0].bus_gbs),
            (2100.5, 15.97, Some(29.95))
        );
        assert_eq!(
            points.iter().map(|point| point.correct).collect::<Vec<_>>(),
            [Some(true), Some(true), Some(false)]
        );
    }

    #[test]
    fn a_table_without_the_column_root_is_parsed() {
        let old = "    33554432   8388608   float     sum   2100.5   15.97   29.95  0e+00   2090.4   16.05   30.10  N/A\n";
        assert_eq!(parse(old).unwrap()[0].bus_gbs, Some(29.95));
        // Versions that measure each size once.
        for alone in ["8 2 float sum 9.50 1.25 2.50 0", "8 2 float sum -1 9.50 1.25 2.50 3"] {
            let point = parse(alone).unwrap()[0];
            assert_eq!((point.time_us, point.bus_gbs), (9.5, Some(2.5)), "{alone}");
            assert_eq!(point.correct, Some(alone.ends_with('0')), "{alone}");
        }
    }

    #[test]
    fn lines_of_other_programs_are_skipped_and_nan_is_refused() {
        let mixed = format!("10.0.0.1 joined\n2024-01-01 NCCL INFO\n{TABLE}1 more process has sent help\n");
        assert_eq!(parse(&mixed).unwrap().len(), 3);
        let nan = TABLE.replace("15.97", "nan");
        assert_eq!(parse(&nan), Err("invalid bandwidth for 33554432 bytes: nan".into()));
        assert_eq!(parse("").unwrap(), []);
    }

    #[test]
    fn rounding_errors_in_older_tables_are_not_wrong_data() {
        let old = |last_line: &str| {
            format!(
                "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n\
                33554432 8388608 float sum 2100.5 15.97 29.95 2e-07 2090.4 16.05 30.10 2e-07\n{last_line}"
            )
        };
        let correct = |text: &str| parse(&old(text)).unwrap()[0].correct;
        assert_eq!(correct("# Out of bounds values : 0 OK\n"), Some(true));
        assert_eq!(correct("# Out of bounds values : 3 FAILED\n"), Some(false));
        assert_eq!(correct(""), None);
    }

    #[test]
    fn the_report_is_parsed() {
        let result = |size: u64, which: &str| {
            format!(
                r#"{{"size":{size},"count":2,"type":"float","redop":"sum","root":"    -1",{which},"actual_iterations":20}}"#
            )
        };
        let numbers = r#"{"time":2100.5,"alg_bw":15.97,"bus_bw":29.95,"nwrong":0.0}"#;
        let alone =
            r#""out_of_place":null,"in_place":{"cpu_time":9.5,"alg_bw":1.5,"bus_bw":2.5,"nwrong":null}"#;
        let both = format!(r#""out_of_place":{numbers},"in_place":{numbers}"#);
        let report = format!(r#"{{"version":2,"results":[{},{}]}}"#, result(8, &both), result(16, alone));
        let points = parse(&report).unwrap();
        assert_eq!((points[0].bus_gbs, points[0].correct), (Some(29.95), Some(true)));
        assert_eq!((points[1].time_us, points[1].correct), (9.5, None));
        assert!(parse(&report.replace("29.95", "\"nan\"")).is_err());
        assert!(parse(&report[..100]).unwrap_err().starts_with("the report is not valid JSON"));
    }
}
