//! What is tried again, and when. Pure: the clock and the dice are arguments.

use std::time::{Duration, SystemTime};

/// The rules of retrying.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts in all.
    pub attempts: u32,
    /// Wait after the first attempt; doubles from there.
    pub base: Duration,
    /// Longest wait that we choose ourselves.
    pub cap: Duration,
    /// Longest wait that we accept from the server; a longer one ends the call with a message.
    pub longest_asked: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: 3,
            base: Duration::from_millis(500),
            cap: Duration::from_secs(8),
            longest_asked: Duration::from_secs(60),
        }
    }
}

/// What the server says about trying again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RetryHints {
    /// `x-should-retry`, which beats everything else.
    pub(super) should_retry: Option<bool>,
    /// `retry-after-ms` or `retry-after`: a lower bound.
    pub(super) wait: Option<Duration>,
}

impl RetryHints {
    /// Reads the headers through a lookup by name.
    pub(super) fn read<'a>(header: impl Fn(&str) -> Option<&'a str>, now: SystemTime) -> Self {
        let should_retry = match header("x-should-retry") {
            Some("true") => Some(true),
            Some("false") => Some(false),
            Some(_) | None => None,
        };
        let millis = header("retry-after-ms").and_then(|value| value.trim().parse::<f64>().ok());
        let wait = millis
            .and_then(|millis| Duration::try_from_secs_f64(millis / 1000.0).ok())
            .or_else(|| header("retry-after").and_then(|value| retry_after(value.trim(), now)));
        Self { should_retry, wait }
    }
}

/// `Retry-After`: seconds, or an HTTP date.
fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

impl RetryPolicy {
    /// The wait before the next attempt; `None` when there must be none. `attempt` is the one that failed,
    /// from 1; `dice` is a random number that shortens our own wait by up to a quarter.
    pub(super) fn wait(&self, attempt: u32, hints: RetryHints, dice: u32) -> Option<Duration> {
        let asked = hints.wait.unwrap_or_default();
        if attempt >= self.attempts || asked > self.longest_asked {
            return None;
        }
        let doublings = attempt.saturating_sub(1).min(16);
        let full = self.base.saturating_mul(1 << doublings).min(self.cap);
        let quarter = full.checked_div(4).unwrap_or_default();
        let jitter = quarter.mul_f64(f64::from(dice) / f64::from(u32::MAX));
        Some(full.saturating_sub(jitter).max(asked))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hints(headers: &[(&str, &str)]) -> RetryHints {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let find = |name: &str| {
            headers
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| *value)
        };
        RetryHints::read(find, now)
    }

    type Headers = &'static [(&'static str, &'static str)];

    #[test]
    fn headers_are_read_in_the_order_of_their_precision() {
        let seconds = |seconds: f64| Some(Duration::from_secs_f64(seconds));
        let cases: [(Headers, Option<Duration>); 8] = [
            (&[], None),
            (&[("retry-after", "3")], seconds(3.0)),
            (&[("retry-after", " 1.5 ")], seconds(1.5)),
            (
                &[("retry-after-ms", "250"), ("retry-after", "9")],
                seconds(0.25),
            ),
            (
                &[("retry-after", "Sun, 06 Nov 1994 08:49:47 GMT")],
                seconds(10.0),
            ),
            (
                &[("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT")],
                seconds(0.0),
            ),
            (&[("retry-after", "-1")], None),
            (&[("retry-after", "soon")], None),
        ];
        for (headers, expected) in cases {
            assert_eq!(hints(headers).wait, expected, "{headers:?}");
        }
        assert_eq!(
            hints(&[("x-should-retry", "false")]).should_retry,
            Some(false)
        );
        assert_eq!(hints(&[("x-should-retry", "maybe")]).should_retry, None);
    }

    #[test]
    fn waits_double_up_to_the_cap_and_jitter_only_shortens() {
        let policy = RetryPolicy {
            attempts: 9,
            ..RetryPolicy::default()
        };
        let waits: Vec<u64> = (1..9)
            .map(|attempt| {
                let longest = policy.wait(attempt, RetryHints::default(), 0).unwrap();
                let shortest = policy
                    .wait(attempt, RetryHints::default(), u32::MAX)
                    .unwrap();
                assert_eq!(shortest, longest * 3 / 4);
                u64::try_from(longest.as_millis()).unwrap()
            })
            .collect();
        assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 8000, 8000, 8000]);
        assert_eq!(policy.wait(9, RetryHints::default(), 0), None);
    }

    #[test]
    fn the_servers_wait_is_a_lower_bound_up_to_a_minute() {
        let policy = RetryPolicy::default();
        let asked = |seconds| RetryHints {
            wait: Some(Duration::from_secs(seconds)),
            ..RetryHints::default()
        };
        assert_eq!(policy.wait(1, asked(60), 0), Some(Duration::from_secs(60)));
        assert_eq!(
            policy.wait(1, asked(0), 0),
            Some(Duration::from_millis(500))
        );
        assert_eq!(policy.wait(1, asked(61), 0), None);
        assert_eq!(policy.wait(1, asked(11180), 0), None);
    }
}
