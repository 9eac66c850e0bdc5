//! Keeps the rules in force: what another hand changed, or a restart of the switch forgot, is put back and reported.
use std::time::Duration;

use gpuaas_common::CancellationToken;
use opentelemetry::metrics::{Counter, Meter};

use super::NetworkRules;
use crate::error::HostResult;

/// Between two checks.
const INTERVAL: Duration = Duration::from_secs(3);

/// What Prometheus gets of the checks.
struct Counters {
    failed: Counter<u64>,
    put_back: Counter<u64>,
}

impl Counters {
    fn of(meter: &Meter) -> Self {
        let counter = |name, text| meter.u64_counter(name).with_description(text).build();
        let counters = Self {
            failed: counter(
                "agent_wire_checks_failed_total",
                "Comparisons of the guests' network with its rules that failed, so that nothing is known of it",
            ),
            put_back: counter(
                "agent_network_rules_restored_total",
                "Comparisons that found rules of the guests' network changed by another hand, and put them back",
            ),
        };
        // an alert on growth needs the series before the first failure
        counters.failed.add(0, &[]);
        counters.put_back.add(0, &[]);
        counters
    }

    fn count(&self, outcome: &HostResult<Vec<&'static str>>) {
        match outcome {
            Ok(altered) if altered.is_empty() => {}
            Ok(_) => self.put_back.add(1, &[]),
            Err(_) => self.failed.add(1, &[]),
        }
    }
}

/// Checks until `shutdown`.
pub async fn watch(rules: &NetworkRules, meter: &Meter, shutdown: CancellationToken) {
    let counters = Counters::of(meter);
    let mut failing = false;
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
        let outcome = rules.put().await;
        counters.count(&outcome);
        match outcome {
            Ok(altered) => {
                for what in altered {
                    tracing::warn!(
                        "put back rules of the guests' network: {what} not as they must be"
                    );
                }
                failing = false;
            }
            // once: it is said again by every report of readiness
            Err(error) if !failing => {
                tracing::error!(%error, "cannot put the rules of the guests' network in force");
                failing = true;
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::HostError;

    #[test]
    fn p11_checks_that_fail_and_rules_that_were_put_back_are_counted_apart() {
        let (meter, _meters, registry) = gpuaas_common::telemetry::meter("agent").unwrap();
        let counters = Counters::of(&meter);
        let shows = |failed: u64, put_back: u64| {
            let text = prometheus::TextEncoder::new()
                .encode_to_string(&registry.gather())
                .unwrap();
            for (name, value) in [
                ("wire_checks_failed", failed),
                ("network_rules_restored", put_back),
            ] {
                let line = format!("agent_{name}_total{{otel_scope_name=\"agent\"}} {value}\n");
                assert!(text.contains(&line), "{line} in {text}");
            }
        };
        shows(0, 0);
        counters.count(&Ok(Vec::new()));
        shows(0, 0);
        counters.count(&Err(HostError::internal("the switch does not answer")));
        counters.count(&Err(HostError::internal("the switch does not answer")));
        counters.count(&Ok(vec!["the switch's flows are"]));
        shows(2, 1);
    }
}
