//! The agent's log of its connections, with rate limits. Lines over a limit are counted instead of written.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use ratelimit::{RateLimit, TokenBucket};

/// Rate of lines about unauthenticated connections, which every host can open.
const UNAUTHENTICATED_LOG_RATE: RateLimit = RateLimit { burst: 10, each: Duration::from_secs(6) };

/// Rate of lines about clients and their tests.
const CLIENT_LOG_RATE: RateLimit = RateLimit { burst: 60, each: Duration::from_secs(1) };

/// Follows the number of unauthenticated connections that have no line of their own.
pub(super) const UNAUTHENTICATED_DROPPED: &str =
    " more connections were closed before the handshake was complete; they have no log lines of their own";

/// Follows the number of lines about clients that were dropped.
pub(super) const CLIENT_LINES_DROPPED: &str = " more log lines about tests were dropped";

/// Writes log lines through two rate limiters, and counts the dropped lines of each.
pub(super) struct ConnectionLog<'a> {
    write: &'a (dyn Fn(&str) + Sync),
    unauthenticated: Mutex<LogLimiter>,
    clients: Mutex<LogLimiter>,
}

#[derive(Debug)]
struct LogLimiter {
    bucket: TokenBucket,
    dropped: u64,
    what: &'static str,
}

impl<'a> ConnectionLog<'a> {
    /// Creates a log that passes its lines to `write`.
    pub(super) fn new(write: &'a (dyn Fn(&str) + Sync)) -> Self {
        let limiter = |rate, what| {
            Mutex::new(LogLimiter { bucket: TokenBucket::full(rate, Instant::now()), dropped: 0, what })
        };
        let unauthenticated = limiter(UNAUTHENTICATED_LOG_RATE, UNAUTHENTICATED_DROPPED);
        Self { write, unauthenticated, clients: limiter(CLIENT_LOG_RATE, CLIENT_LINES_DROPPED) }
    }

    /// Logs why the handshake of a connection failed.
    pub(super) fn log_unauthenticated(&self, line: &str) {
        self.line(&self.unauthenticated, line);
    }

    /// Counts a connection that was closed immediately, without a line of its own.
    pub(super) fn log_rejected(&self) {
        self.unauthenticated.lock().unwrap_or_else(PoisonError::into_inner).dropped += 1;
    }

    /// Logs a line about a client or a test.
    pub(super) fn log_client(&self, line: &str) {
        self.line(&self.clients, line);
    }

    /// Logs the number of dropped lines once the rate permits a line again, or immediately if `is_end`.
    pub(super) fn log_dropped(&self, is_end: bool) {
        for limiter in [&self.unauthenticated, &self.clients] {
            let rest = limiter.lock().unwrap_or_else(PoisonError::into_inner).rest(Instant::now(), is_end);
            if let Some(rest) = rest {
                (self.write)(&rest);
            }
        }
    }

    fn line(&self, limiter: &Mutex<LogLimiter>, line: &str) {
        let is_within_rate = limiter.lock().unwrap_or_else(PoisonError::into_inner).take(Instant::now());
        if is_within_rate {
            (self.write)(line);
        }
    }
}

impl LogLimiter {
    fn take(&mut self, now: Instant) -> bool {
        let taken = self.bucket.take(now);
        if !taken {
            self.dropped += 1;
        }
        taken
    }

    fn rest(&mut self, now: Instant, is_end: bool) -> Option<String> {
        if self.dropped == 0 || !(is_end || self.bucket.take(now)) {
            return None;
        }
        Some(format!("{}{}", std::mem::take(&mut self.dropped), self.what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_written_or_counted_and_unauthenticated_connections_do_not_silence_clients() {
        let lines = Mutex::new(Vec::new());
        let write = |line: &str| lines.lock().unwrap().push(line.to_owned());
        let log = ConnectionLog::new(&write);
        for _ in 0..1000 {
            log.log_unauthenticated("a handshake");
            log.log_rejected();
        }
        log.log_client("a test");
        log.log_dropped(true);
        log.log_dropped(true);
        let lines = lines.into_inner().unwrap();
        let written = lines.iter().filter(|line| *line == "a handshake").count();
        // On a slow machine the rate may permit further lines.
        assert!((10..20).contains(&written), "{lines:?}");
        let dropped = format!("{}{UNAUTHENTICATED_DROPPED}", 2000 - written);
        assert_eq!(lines[written..], ["a test".to_owned(), dropped]);
    }

    #[test]
    fn lines_about_tests_are_counted_too() {
        let lines = Mutex::new(Vec::new());
        let write = |line: &str| lines.lock().unwrap().push(line.to_owned());
        let log = ConnectionLog::new(&write);
        (0..1000).for_each(|_| log.log_client("a test"));
        log.log_dropped(true);
        let lines = lines.into_inner().unwrap();
        let written = lines.len() - 1;
        assert!((60..70).contains(&written), "{written}");
        assert_eq!(lines[written], format!("{}{CLIENT_LINES_DROPPED}", 1000 - written));
    }

    #[test]
    fn dropped_lines_are_reported_once_the_rate_permits_a_line() {
        let now = Instant::now();
        let mut limiter = LogLimiter {
            bucket: TokenBucket::full(UNAUTHENTICATED_LOG_RATE, now),
            dropped: 0,
            what: " more",
        };
        assert_eq!((0..12).filter(|_| limiter.take(now)).count(), 10);
        assert_eq!(limiter.rest(now, false), None);
        assert_eq!(limiter.rest(now + UNAUTHENTICATED_LOG_RATE.each, false).unwrap(), "2 more");
        assert_eq!(limiter.rest(now + 9 * UNAUTHENTICATED_LOG_RATE.each, false), None);
    }
}
