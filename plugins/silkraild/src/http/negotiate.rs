//! The headers by which a client selects format, compression and timeout of a response.

use std::time::Duration;

use exposition::ExpositionFormat;
use hyper::{HeaderMap, header};

/// The timeout of clients that do not send `X-Prometheus-Scrape-Timeout-Seconds`.
const DEFAULT_SCRAPE_TIMEOUT: Duration = Duration::from_secs(10);

/// Part of the scrape timeout that is reserved for the transfer of the response.
const SCRAPE_TIMEOUT_OFFSET: Duration = Duration::from_millis(500);

/// Returns OpenMetrics if the `Accept` header contains it, else the Prometheus text format.
pub(super) fn format(headers: &HeaderMap) -> ExpositionFormat {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut kinds = accepted.flat_map(|value| value.split(','));
    let wants = kinds.any(|kind| {
        let mut parts = kind.split(';').map(str::trim);
        parts.next() == Some("application/openmetrics-text") && !parts.any(|part| part == "q=0")
    });
    if wants { ExpositionFormat::OpenMetrics } else { ExpositionFormat::Text }
}

/// Whether the `Accept-Encoding` header contains gzip.
pub(super) fn takes_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        parts.next() == Some("gzip") && !parts.any(|part| part == "q=0")
    })
}

/// Returns the time within which a response must be ready, from `X-Prometheus-Scrape-Timeout-Seconds`.
pub(super) fn scrape_timeout(headers: &HeaderMap) -> Duration {
    let header_value =
        headers.get("X-Prometheus-Scrape-Timeout-Seconds").and_then(|value| value.to_str().ok());
    let seconds = header_value.and_then(|text| text.parse::<f64>().ok()).filter(|s| *s > 0.0 && *s < 3600.0);
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
    fn openmetrics_is_sent_only_if_accepted() {
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
    fn a_response_is_compressed_if_the_client_accepts_gzip() {
        assert!(takes_gzip(&headers("accept-encoding", "gzip")));
        assert!(takes_gzip(&headers("accept-encoding", "br, gzip;q=0.8")));
        assert!(!takes_gzip(&headers("accept-encoding", "gzip;q=0, identity")));
        assert!(!takes_gzip(&HeaderMap::new()));
    }

    #[test]
    fn the_scrape_timeout_is_read_from_the_header() {
        let of = |value| scrape_timeout(&headers("x-prometheus-scrape-timeout-seconds", value));
        assert_eq!(of("5"), Duration::from_millis(4500));
        assert_eq!(of("0.7"), Duration::from_millis(500));
        assert_eq!(of("0.2"), Duration::from_millis(200));
        assert_eq!(of("3599"), Duration::from_millis(3_598_500));
        for invalid in ["-1", "x", "1e30", "NaN", "0", "3600"] {
            assert_eq!(of(invalid), Duration::from_millis(9500), "{invalid}");
        }
    }
}
