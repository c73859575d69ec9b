//! What a client wants.

use std::time::Duration;

use exposition::ExpositionFormat;
use hyper::{HeaderMap, header};

/// How long a scrape may take when Prometheus does not say.
const DEFAULT_SCRAPE_TIMEOUT: Duration = Duration::from_secs(10);

/// What is left of Prometheus' time for the way to it.
const SCRAPE_TIMEOUT_OFFSET: Duration = Duration::from_millis(500);

/// The text a client prefers: OpenMetrics only if it asks for that.
pub(super) fn format(headers: &HeaderMap) -> ExpositionFormat {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut kinds = accepted.flat_map(|value| value.split(','));
    let wants = kinds.any(|kind| {
        let mut parts = kind.split(';').map(str::trim);
        parts.next() == Some("application/openmetrics-text") && !parts.any(|part| part == "q=0")
    });
    if wants { ExpositionFormat::OpenMetrics } else { ExpositionFormat::Text }
}

/// Whether a client takes a compressed answer.
pub(super) fn takes_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        parts.next() == Some("gzip") && !parts.any(|part| part == "q=0")
    })
}

/// How long a client waits: Prometheus says so.
pub(super) fn scrape_timeout(headers: &HeaderMap) -> Duration {
    let said = headers.get("X-Prometheus-Scrape-Timeout-Seconds").and_then(|value| value.to_str().ok());
    let seconds = said.and_then(|text| text.parse::<f64>().ok()).filter(|s| *s > 0.0 && *s < 3600.0);
    let whole = seconds.map_or(DEFAULT_SCRAPE_TIMEOUT, Duration::from_secs_f64);
    whole.saturating_sub(SCRAPE_TIMEOUT_OFFSET).max(SCRAPE_TIMEOUT_OFFSET.min(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(
            header::HeaderName::from_static(name),
            header::HeaderValue::from_static(value),
        )])
    }

    #[test]
    fn openmetrics_is_for_those_who_ask_for_it() {
        for (accept, format) in [
            (
                "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
                ExpositionFormat::OpenMetrics,
            ),
            ("text/plain, application/openmetrics-text; version=0.0.1", ExpositionFormat::OpenMetrics),
            ("application/openmetrics-text;q=0", ExpositionFormat::Text),
            ("text/html,*/*", ExpositionFormat::Text),
        ] {
            assert_eq!(super::format(&headers("accept", accept)), format, "{accept}");
        }
        assert_eq!(super::format(&HeaderMap::new()), ExpositionFormat::Text);
    }

    #[test]
    fn an_answer_is_compressed_for_those_who_take_it() {
        assert!(takes_gzip(&headers("accept-encoding", "gzip")));
        assert!(takes_gzip(&headers("accept-encoding", "br, gzip;q=0.8")));
        assert!(!takes_gzip(&headers("accept-encoding", "gzip;q=0, identity")));
        assert!(!takes_gzip(&HeaderMap::new()));
    }

    #[test]
    fn prometheus_says_how_long_it_waits() {
        let of = |value| scrape_timeout(&headers("x-prometheus-scrape-timeout-seconds", value));
        assert_eq!(of("5"), Duration::from_millis(4500));
        assert_eq!(of("0.7"), Duration::from_millis(500));
        assert_eq!(of("0.2"), Duration::from_millis(200));
        for nonsense in ["-1", "x", "1e30", "NaN"] {
            assert_eq!(of(nonsense), Duration::from_millis(9500), "{nonsense}");
        }
    }
}
