//! When the condition is updated.

use std::time::Duration;

use tokio::time::Instant;

use crate::NodeCondition;

/// Updates are not closer together.
const MIN_INTERVAL: Duration = Duration::from_secs(60);
/// A condition that has not changed is updated after this time, as a heartbeat.
const HEARTBEAT: Duration = Duration::from_secs(300);

/// What was published, and when the next update is due.
#[derive(Debug, Default)]
pub(crate) struct UpdateSchedule {
    last_attempt: Option<Instant>,
    published: Option<(NodeCondition, Instant)>,
}

impl UpdateSchedule {
    /// Whether a condition has to be published now.
    pub(crate) fn is_due(&self, condition: &NodeCondition, now: Instant) -> bool {
        if self.last_attempt.is_some_and(|last| now.duration_since(last) < MIN_INTERVAL) {
            return false;
        }
        let Some((published, when)) = &self.published else { return true };
        published != condition || now.duration_since(*when) >= HEARTBEAT
    }

    pub(crate) fn attempted(&mut self, now: Instant) {
        self.last_attempt = Some(now);
    }

    pub(crate) fn published(&mut self, condition: NodeCondition, now: Instant) {
        self.published = Some((condition, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ConditionStatus;

    fn condition(reason: &str) -> NodeCondition {
        NodeCondition { status: ConditionStatus::True, reason: reason.into(), message: String::new() }
    }

    #[test]
    fn a_change_is_published_after_a_minute_and_a_heartbeat_after_five() {
        let (mut schedule, start) = (UpdateSchedule::default(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        assert!(schedule.is_due(&condition("A"), start));
        schedule.attempted(start);
        schedule.published(condition("A"), start);
        for (reason, seconds, is_due) in
            [("A", 60, false), ("A", 299, false), ("A", 300, true), ("B", 59, false), ("B", 60, true)]
        {
            assert_eq!(schedule.is_due(&condition(reason), after(seconds)), is_due, "{reason} {seconds}");
        }
    }

    #[test]
    fn a_failed_update_is_repeated_after_a_minute() {
        let (mut schedule, start) = (UpdateSchedule::default(), Instant::now());
        schedule.attempted(start);
        assert!(!schedule.is_due(&condition("A"), start + Duration::from_secs(59)));
        assert!(schedule.is_due(&condition("A"), start + Duration::from_secs(60)));
    }
}
