//! The kubelets that watch the devices of a resource.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// The streams by which kubelets watch the devices of a resource. There are two while a kubelet replaces one.
#[derive(Debug, Clone)]
pub(crate) struct Watchers(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    streams: usize,
    /// When the last one ended, or when the kubelet was asked for one.
    idle_since: Instant,
}

/// A stream; it has ended when this is dropped.
#[derive(Debug)]
pub(crate) struct Watcher(Watchers);

impl Watchers {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(State { streams: 0, idle_since: Instant::now() })))
    }

    /// Adds a stream.
    pub(crate) fn add(&self) -> Watcher {
        self.state().streams += 1;
        Watcher(self.clone())
    }

    /// Notes that a kubelet was asked for a stream.
    pub(crate) fn expect(&self) {
        self.state().idle_since = Instant::now();
    }

    /// Returns for how long there has been no stream.
    pub(crate) fn idle(&self) -> Duration {
        let state = self.state();
        if state.streams > 0 { Duration::ZERO } else { state.idle_since.elapsed() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.streams -= 1;
        state.idle_since = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubelet_watches_as_long_as_one_of_its_streams_is_open() {
        let watchers = Watchers::new();
        let (former, new) = (watchers.add(), watchers.add());
        drop(former);
        assert_eq!(watchers.idle(), Duration::ZERO);
        let before = Instant::now();
        drop(new);
        let state = || watchers.state().idle_since;
        assert!(state() >= before, "it is idle since the last stream ended");
        let ended = state();
        watchers.expect();
        assert!(state() > ended);
    }
}
