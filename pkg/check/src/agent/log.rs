//! What an agent tells of its connections: never more lines than somebody could read.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use ratelimit::{RateLimit, TokenBucket};

/// Of connections that have not shaken hands: anybody can make them.
const UNAUTHENTICATED_LOG_RATE: RateLimit = RateLimit { burst: 10, each: Duration::from_secs(6) };

/// Of clients.
const CLIENT_LOG_RATE: RateLimit = RateLimit { burst: 60, each: Duration::from_secs(1) };

/// What stands behind the number of connections that nothing was told of.
pub(super) const STRANGERS_LEFT_OUT: &str =
    " more connections were closed before they had shaken hands; no line was written for each";

/// What stands behind the number of lines about clients that were not written.
pub(super) const CLIENTS_LEFT_OUT: &str = " more lines about tests were left out";

/// Lines, and how many were left out.
pub(super) struct ConnectionLog<'a> {
    write: &'a (dyn Fn(&str) + Sync),
    strangers: Mutex<LogLimiter>,
    clients: Mutex<LogLimiter>,
}

#[derive(Debug)]
struct LogLimiter {
    bucket: TokenBucket,
    left_out: u64,
    what: &'static str,
}

impl<'a> ConnectionLog<'a> {
    /// One that is written so.
    pub(super) fn new(write: &'a (dyn Fn(&str) + Sync)) -> Self {
        let ration = |rate, what| {
            Mutex::new(LogLimiter { bucket: TokenBucket::full(rate, Instant::now()), left_out: 0, what })
        };
        let strangers = ration(UNAUTHENTICATED_LOG_RATE, STRANGERS_LEFT_OUT);
        Self { write, strangers, clients: ration(CLIENT_LOG_RATE, CLIENTS_LEFT_OUT) }
    }

    /// Of a connection that has not shaken hands.
    pub(super) fn log_unauthenticated(&self, line: &str) {
        self.line(&self.strangers, line);
    }

    /// Of a connection that was closed at once.
    pub(super) fn log_rejected(&self) {
        self.strangers.lock().unwrap_or_else(PoisonError::into_inner).left_out += 1;
    }

    /// Of a client, or of a test.
    pub(super) fn log_client(&self, line: &str) {
        self.line(&self.clients, line);
    }

    /// How many were left out, as soon as there may be a line again; at the end at once.
    pub(super) fn log_dropped(&self, is_end: bool) {
        for ration in [&self.strangers, &self.clients] {
            let rest = ration.lock().unwrap_or_else(PoisonError::into_inner).rest(Instant::now(), is_end);
            if let Some(rest) = rest {
                (self.write)(&rest);
            }
        }
    }

    fn line(&self, ration: &Mutex<LogLimiter>, line: &str) {
        let may_be = ration.lock().unwrap_or_else(PoisonError::into_inner).take(Instant::now());
        if may_be {
            (self.write)(line);
        }
    }
}

impl LogLimiter {
    fn take(&mut self, now: Instant) -> bool {
        let taken = self.bucket.take(now);
        if !taken {
            self.left_out += 1;
        }
        taken
    }

    fn rest(&mut self, now: Instant, is_end: bool) -> Option<String> {
        if self.left_out == 0 || !(is_end || self.bucket.take(now)) {
            return None;
        }
        Some(format!("{}{}", std::mem::take(&mut self.left_out), self.what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_written_or_counted_and_strangers_do_not_silence_clients() {
        let lines = Mutex::new(Vec::new());
        let write = |line: &str| lines.lock().unwrap().push(line.to_owned());
        let log = ConnectionLog::new(&write);
        for _ in 0..1000 {
            log.log_unauthenticated("a stranger");
            log.log_rejected();
        }
        log.log_client("a test");
        log.log_dropped(true);
        log.log_dropped(true);
        let lines = lines.into_inner().unwrap();
        let told = lines.iter().filter(|line| *line == "a stranger").count();
        // A slow machine may take long enough for a line more.
        assert!((10..20).contains(&told), "{lines:?}");
        assert_eq!(lines[told..], ["a test".to_owned(), format!("{}{STRANGERS_LEFT_OUT}", 2000 - told)]);
    }

    #[test]
    fn what_was_left_out_is_told_when_there_may_be_a_line_again() {
        let now = Instant::now();
        let mut ration = LogLimiter {
            bucket: TokenBucket::full(UNAUTHENTICATED_LOG_RATE, now),
            left_out: 0,
            what: " more",
        };
        assert_eq!((0..12).filter(|_| ration.take(now)).count(), 10);
        assert_eq!(ration.rest(now, false), None);
        assert_eq!(ration.rest(now + UNAUTHENTICATED_LOG_RATE.each, false).unwrap(), "2 more");
        assert_eq!(ration.rest(now + 9 * UNAUTHENTICATED_LOG_RATE.each, false), None);
    }
}
