//! The results, as text and as JSON.

use std::{fmt::Write as _, time::Duration};

use bench::race::CallTimes;
use serde_json::json;

use crate::{
    CHECKS, RatioLimit,
    node::{ADDRESSES, LINKS},
};

pub(crate) fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

pub(crate) fn table(times: &[CallTimes], ratios: &[f64; CHECKS.len()], rounds: usize) -> String {
    let mut text =
        format!("VF and RDMA device with sriov, IPAM and rdma; all processes, {rounds} rounds, ms\n");
    let _ = writeln!(text, "  {:<28}{:>10}{:>8}{:>10}{:>8}", "", "ADD p50", "p95", "DEL p50", "p95");
    for CallTimes { name, add, del } in times {
        let [a, b, c, d] = [add.median(), add.p95(), del.median(), del.p95()].map(ms);
        let _ = writeln!(text, "  {name:<28}{a:>10.1}{b:>8.1}{c:>10.1}{d:>8.1}");
    }
    for (ratio, RatioLimit { what, at_most, .. }) in ratios.iter().zip(CHECKS) {
        let _ = writeln!(text, "  {what:<28}{ratio:>10.2} (at most {at_most})");
    }
    let _ = writeln!(text, "  crowded: {ADDRESSES} addresses, {LINKS} links, 64 more RDMA devices");
    text
}

pub(crate) fn in_json(times: &[CallTimes], ratios: &[f64; CHECKS.len()], rounds: usize) -> String {
    let calls: serde_json::Map<_, _> = times
        .iter()
        .map(|CallTimes { name, add, del }| {
            let [a, b, c, d] = [add.median(), add.p95(), del.median(), del.p95()].map(ms);
            (
                name.clone(),
                json!({"add": {"median_ms": a, "p95_ms": b}, "del": {"median_ms": c, "p95_ms": d}}),
            )
        })
        .collect();
    let ratios: serde_json::Map<_, _> =
        CHECKS.iter().zip(ratios).map(|(check, ratio)| (check.what.to_owned(), json!(ratio))).collect();
    format!("{:#}\n", json!({"rounds": rounds, "chain": calls, "ratios": ratios}))
}
