//! From queued deliveries to other people's endpoints.
use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use gpuaas_common::time::backoff;
use gpuaas_common::{audit, db};
use jiff::{SignedDuration, Timestamp};
use opentelemetry::KeyValue;
use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode};
use serde_json::json;
use tokio::sync::Semaphore;

use super::address::{self, NotPublic, PublicOnly};
use super::message::digested;
use super::secret::{Secret, signature};
use super::settings::WebhookSettings;
use super::work::Work;
use crate::store::{self, Attempted, DeliveryLimits, Group, Next, Taken};

/// What a gateway needs of a lease beside twice the time of an attempt, in seconds. A result that is noted later counts as well,
/// unless another gateway has begun anew.
const LEASE_MARGIN: f64 = 2.0;
/// Who disables a webhook, in the audit trail.
const ITSELF: &str = "gateway";

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Status(u16),
    Failed(&'static str),
}

/// Delivers what is due, for ever.
pub(super) async fn run(work: Arc<Work>, poll: Duration) {
    let client = match client(&work.settings) {
        Ok(client) => client,
        Err(error) => {
            tracing::error!("deliver no webhooks: {error}");
            return std::future::pending().await;
        }
    };
    let most = work.settings.max_concurrent.max(1);
    let places = Arc::new(Semaphore::new(most));
    // one half is left for endpoints that answer
    let of_failing = Arc::new(Semaphore::new(most.div_ceil(2)));
    let mut trouble = false;
    loop {
        // no more is taken than can be attempted at once
        let available = DeliveryLimits {
            all: places.available_permits() as i64,
            failing: of_failing.available_permits() as i64,
        };
        let lease = 2.0 * work.settings.timeout_seconds + LEASE_MARGIN;
        let taken = match available.all {
            0 => Ok(Vec::new()),
            _ => {
                let take = store::take_deliveries(&work.pool, available, lease);
                db::within(db::PASS, take).await
            }
        };
        if let (Err(error), false) = (&taken, trouble) {
            tracing::warn!("wait with webhooks: {error}");
        }
        trouble = taken.is_err();
        let taken = taken.unwrap_or_default();
        let found = !taken.is_empty();
        for one in taken {
            let Ok(place) = places.clone().acquire_owned().await else {
                return;
            };
            let failing = one.failing_time.is_some();
            // it may have begun to fail since a place was free
            let place_of_failing = failing.then(|| of_failing.clone().try_acquire_owned());
            let (work, client) = (work.clone(), client.clone());
            tokio::spawn(async move {
                attempt(&work, &client, one).await;
                drop((place, place_of_failing));
                // the next one of the same object
                work.webhooks.due.notify_one();
            });
        }
        if !found {
            let _ = tokio::time::timeout(poll, work.webhooks.due.notified()).await;
        }
    }
}

fn client(settings: &WebhookSettings) -> reqwest::Result<Client> {
    let timeout = Duration::from_secs_f64(settings.timeout_seconds.max(0.01));
    Client::builder()
        .user_agent("gpuaas-webhooks/1")
        .timeout(timeout)
        .redirect(Policy::none())
        .no_proxy()
        .https_only(!settings.allow_insecure)
        .dns_resolver(PublicOnly {
            allow_insecure: settings.allow_insecure,
        })
        // a name is looked up for each delivery anew
        .pool_max_idle_per_host(0)
        .build()
}

async fn attempt(work: &Work, client: &Client, taken: Taken) {
    let opened: Result<Vec<Secret>, _> = taken
        .secrets
        .iter()
        .map(|sealed| work.webhooks.sealer.open(taken.webhook, sealed))
        .collect();
    let outcome = match opened {
        Ok(secrets) => {
            let answer = send(work, client, &taken, &secrets).await;
            judge(&work.settings, &taken, answer, Timestamp::now(), jitter())
        }
        Err(_) => Attempted {
            status: 0,
            error: "the secret cannot be read".to_owned(),
            next: Next::Disable(
                "Its secret cannot be read: rotate it, and enable the webhook.".to_owned(),
            ),
        },
    };
    let label = match &outcome.next {
        Next::Done => "delivered",
        Next::Again(_) => "retry",
        Next::Never => "failed",
        Next::Disable(_) => "disabled",
    };
    let labels = [KeyValue::new("outcome", label)];
    work.meters.attempts.add(1, &labels);
    // what is not noted is attempted again when the lease ends
    if let Err(error) = db::within(db::PASS, note(work, &taken, &outcome)).await {
        tracing::warn!(delivery = %taken.id, "note a webhook delivery: {error}");
    }
}

async fn note(work: &Work, taken: &Taken, outcome: &Attempted) -> gpuaas_common::Result<()> {
    let mut tx = work.pool.begin().await?;
    let before = match &outcome.next {
        Next::Disable(_) => store::find_webhook(&mut tx, taken.webhook).await?,
        _ => None,
    };
    let disabled = store::note_attempt(&mut tx, taken, outcome).await?;
    if disabled {
        let after = store::find_webhook(&mut tx, taken.webhook).await?;
        let url = reqwest::Url::parse(&taken.url).ok();
        let host = url.as_ref().and_then(|url| url.host_str());
        let mut detail =
            json!({ "reason": outcome_reason(outcome), "host": host, "delivery": taken.id });
        if let Some(Group::Project(project)) = before.as_ref().map(|row| row.group) {
            detail = audit::in_project(detail, project);
        }
        let (before, after) = (before.map(digested), after.map(digested));
        let detail = audit::with_digests(detail, before.as_ref(), after.as_ref());
        let entry = audit::Entry {
            principal: ITSELF,
            action: "webhook.disable",
            resource: "webhook",
            resource_id: &taken.webhook.to_string(),
            request_id: &taken.id.to_string(),
            detail,
        };
        audit::record(&mut tx, entry).await?;
        tracing::warn!(webhook = %taken.webhook, "disable webhook");
    }
    tx.commit().await?;
    Ok(())
}

fn outcome_reason(outcome: &Attempted) -> &str {
    match &outcome.next {
        Next::Disable(reason) => reason,
        _ => "",
    }
}

async fn send(work: &Work, client: &Client, taken: &Taken, secrets: &[Secret]) -> Answer {
    // names are checked when they are looked up, addresses here: the setting may have been another one
    let Ok(url) = address::parse(&taken.url, work.settings.allow_insecure) else {
        return Answer::Failed("the URL does not lead to a public address by HTTPS");
    };
    let timestamp = Timestamp::now().as_second();
    let request = client
        .post(url)
        .header("content-type", "application/json")
        .header("webhook-id", taken.id.to_string())
        .header("webhook-timestamp", timestamp.to_string())
        .header(
            "webhook-signature",
            signature(secrets, taken.id, timestamp, &taken.body),
        )
        .body(taken.body.clone());
    match request.send().await {
        // its body is not read: nobody sees it, and it may be without end
        Ok(response) => Answer::Status(response.status().as_u16()),
        Err(error) => Answer::Failed(why(&error)),
    }
}

/// Why there was no answer, in words that repeat nothing of the URL.
fn why(error: &reqwest::Error) -> &'static str {
    let mut cause = error.source();
    while let Some(one) = cause {
        if one.is::<NotPublic>() {
            return "the host has no public address";
        }
        cause = one.source();
    }
    if error.is_timeout() {
        "no answer in time"
    } else if error.is_connect() {
        "the connection, or its TLS handshake, failed"
    } else {
        "the connection broke before an answer"
    }
}

/// Between 0.8 and 1.2, so that deliveries which failed together are not repeated together.
fn jitter() -> f64 {
    let byte = uuid::Uuid::new_v4().as_bytes()[0];
    0.8 + 0.4 * f64::from(byte) / 255.0
}

/// What becomes of a delivery after an attempt.
fn judge(
    settings: &WebhookSettings,
    taken: &Taken,
    answer: Answer,
    now: Timestamp,
    jitter: f64,
) -> Attempted {
    let (status, error) = match answer {
        Answer::Status(status) if (200..300).contains(&status) => {
            return Attempted {
                status,
                error: String::new(),
                next: Next::Done,
            };
        }
        Answer::Status(status @ 300..400) => (
            status,
            format!("the answer was a redirect ({status}), which is not followed"),
        ),
        Answer::Status(status) => (status, format!("the answer was {status}")),
        Answer::Failed(why) => (0, why.to_owned()),
    };
    let hours = |hours: f64| {
        SignedDuration::try_from_secs_f64(hours * 3600.0).unwrap_or(SignedDuration::MAX)
    };
    let failing = taken
        .failing_time
        .map(|since| now.duration_since(since.to_jiff()));
    let next = if status == StatusCode::GONE.as_u16() {
        Next::Disable("The endpoint answered 410 Gone.".to_owned())
    } else if failing.is_some_and(|long| long >= hours(settings.disable_after_hours)) {
        Next::Disable(format!(
            "No delivery has succeeded for {} hours; the last time {error}.",
            settings.disable_after_hours
        ))
    } else if now.duration_since(taken.queue_time.to_jiff()) >= hours(settings.max_age_hours) {
        Next::Never
    } else {
        let first = Duration::from_secs_f64(settings.first_retry_seconds.max(0.0));
        let longest = Duration::from_secs_f64(settings.longest_retry_seconds.max(0.0));
        let failures = u32::try_from(taken.tries).unwrap_or(1);
        Next::Again(backoff(failures, first, longest).as_secs_f64() * jitter)
    };
    Attempted {
        status,
        error,
        next,
    }
}

#[cfg(test)]
mod tests {
    use jiff_sqlx::ToSqlx as _;
    use uuid::Uuid;

    use super::*;

    fn after(hours: i64, failing: Option<i64>, tries: i32, answer: Answer) -> Next {
        let now = Timestamp::from_second(1_000_000_000).expect("time");
        let ago = |hours: i64| (now - SignedDuration::from_hours(hours)).to_sqlx();
        let taken = Taken {
            id: Uuid::nil(),
            webhook: Uuid::nil(),
            attempt: tries,
            tries,
            url: String::new(),
            body: String::new(),
            secrets: Vec::new(),
            queue_time: ago(hours),
            failing_time: failing.map(ago),
        };
        judge(&WebhookSettings::default(), &taken, answer, now, 1.0).next
    }

    #[test]
    fn what_fails_is_repeated_with_growing_pauses_until_it_is_too_old() {
        let bad = Answer::Status(500);
        assert_eq!(after(0, None, 1, Answer::Status(204)), Next::Done);
        assert_eq!(after(0, None, 1, bad), Next::Again(5.0));
        assert_eq!(after(1, Some(1), 4, bad), Next::Again(40.0));
        assert_eq!(
            after(1, Some(1), 40, Answer::Failed("x")),
            Next::Again(3600.0)
        );
        assert_eq!(after(24, Some(24), 9, bad), Next::Never);
        assert_eq!(after(0, None, 1, Answer::Status(302)), Next::Again(5.0));
    }

    #[test]
    fn a_webhook_that_fails_for_days_or_is_gone_is_disabled() {
        let disabled = |next| matches!(next, Next::Disable(_));
        assert!(disabled(after(0, Some(72), 1, Answer::Status(500))));
        assert!(disabled(after(0, None, 1, Answer::Status(410))));
        assert!(!disabled(after(0, Some(71), 1, Answer::Status(500))));
        assert!(!disabled(after(30, Some(100), 1, Answer::Status(200))));
    }

    #[test]
    fn pauses_differ() {
        let all: Vec<f64> = (0..200).map(|_| jitter()).collect();
        assert!(all.iter().all(|one| (0.79..1.21).contains(one)));
        assert!(all.iter().any(|one| (one - all[0]).abs() > 0.01));
    }
}
