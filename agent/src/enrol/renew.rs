//! Renewal of the host's certificate: in time, for the same key and the same instance, while the agent serves.
//!
//! A certificate is renewed when about two thirds of its life are over. Hosts that enrolled together are jittered over a
//! tenth of it. When a renewal came too late, because host or inventory were down, the host proves its key instead
//! of showing a certificate, and stays the instance it is.
use std::time::Duration;

use anyhow::bail;
use gpuaas_common::config::Settings as CommonSettings;
use gpuaas_common::time::backoff;
use gpuaas_common::{CancellationToken, Context};
use gpuaas_proto::gpuaas::internal::inventory::v1 as pb;
use gpuaas_proto::gpuaas::internal::inventory::v1::host_service_client::HostServiceClient;
use jiff::{SignedDuration, Timestamp};
use rcgen::KeyPair;
use tonic::Status;

use super::files::{Files, Identity, Validity, csr};
use super::inventory::{RETRY, stranger, until_decided};
use crate::node::Node;

/// Part of a certificate's lifetime after which it is renewed, and the jitter between hosts.
const DUE_AFTER: f64 = 0.62;
const SPREAD: f64 = 0.1;
/// Between two readings of the clock, which may be set.
const CLOCK_INTERVAL: Duration = Duration::from_secs(600);
/// First and longest pause after a renewal that failed.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// By what a host gets another certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proof {
    /// The certificate it has.
    Certificate,
    /// Its key alone.
    Key,
}

/// What is to be done about a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Wait(Duration),
    Renew(Proof),
}

/// Decides. `spread` is between 0 and 1 and differs between hosts.
fn next(validity: Option<Validity>, now: Timestamp, spread: f64) -> Next {
    let Some(validity) = validity.filter(|validity| now < validity.ends) else {
        return Next::Renew(Proof::Key);
    };
    let lifetime = validity.ends.duration_since(validity.begins).as_secs_f64();
    let due = SignedDuration::try_from_secs_f64(lifetime * (DUE_AFTER + SPREAD * spread))
        .unwrap_or(SignedDuration::ZERO);
    let left = due - now.duration_since(validity.begins);
    match Duration::try_from(left) {
        Ok(left) if !left.is_zero() => Next::Wait(left.min(CLOCK_INTERVAL)),
        _ => Next::Renew(Proof::Certificate),
    }
}

/// Whether a certificate that was just renewed is not due again.
fn lasts(validity: Option<Validity>) -> bool {
    matches!(next(validity, Timestamp::now(), 0.0), Next::Wait(_))
}

/// Pause after so many failures in a row: doubled each time, with jitter, so that hosts do not come back together.
fn pause(failures: u32, spread: f64) -> Duration {
    backoff(failures, FIRST_PAUSE, LONGEST_PAUSE).mul_f64(0.5 + spread / 2.0)
}

/// Between 0 and 1. Without randomness hosts come together, which is no reason not to come.
fn random() -> f64 {
    let mut bytes = [0_u8; 4];
    match getrandom::fill(&mut bytes) {
        Ok(()) => f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX),
        Err(_) => 0.5,
    }
}

/// Keeps the certificate valid until `shutdown`.
///
/// # Errors
/// This host's files are gone or malformed.
pub async fn keep(
    node: &Node,
    context: &Context,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let files = Files::of(&node.settings, &context.settings);
    let Some((identity, key)) = files.enrolled()? else {
        bail!("this host's identity or key is gone");
    };
    let (mut spread, mut failures) = (random(), 0);
    loop {
        let wait = match next(files.validity(&key), Timestamp::now(), spread) {
            Next::Wait(wait) => wait,
            Next::Renew(proof) => {
                let renewed = tokio::select! {
                    () = shutdown.cancelled() => return Ok(()),
                    renewed = renew(&files, context, &identity, &key, proof) => renewed,
                };
                spread = random();
                match renewed {
                    Ok(()) if lasts(files.validity(&key)) => {
                        failures = 0;
                        tracing::info!(
                            instance_id = identity.instance_id,
                            ?proof,
                            "renew certificate"
                        );
                        continue;
                    }
                    // of an authority that ends itself, for example: an immediate retry gives no better one
                    Ok(()) => {
                        failures += 1;
                        tracing::warn!(
                            instance_id = identity.instance_id,
                            failures,
                            "the renewed certificate is due for renewal already"
                        );
                        pause(failures, spread)
                    }
                    Err(error) => {
                        failures += 1;
                        tracing::warn!(
                            instance_id = identity.instance_id,
                            ?proof,
                            failures,
                            "cannot renew the certificate of this host: {error:#}"
                        );
                        pause(failures, spread)
                    }
                }
            }
        };
        tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// Gets another certificate, shows it from now on, and stores it.
async fn renew(
    files: &Files,
    context: &Context,
    identity: &Identity,
    key: &KeyPair,
    proof: Proof,
) -> anyhow::Result<()> {
    let answer = match proof {
        Proof::Certificate => {
            let request = pb::RenewRequest { csr_pem: csr(key)? };
            HostServiceClient::new(context.peers.channel("inventory")?)
                .renew(request)
                .await
        }
        Proof::Key => {
            let request = by_key_request(identity, key)?;
            stranger(&context.settings)?.renew_by_key(request).await
        }
    };
    let certificate = answer.map_err(|status| refusal(&status))?.into_inner();
    files.store_certificate(&certificate.certificate_pem, key)?;
    context.replace_certificate(&certificate.certificate_pem, &key.serialize_pem())
}

/// Gets a certificate for a host that enrolled before and has none that is valid, at its start. Waits for inventory.
///
/// # Errors
/// Inventory refuses, with its reason; files that cannot be written.
pub async fn recover(
    files: &Files,
    common: &CommonSettings,
    identity: &Identity,
    key: &KeyPair,
) -> anyhow::Result<()> {
    let client = stranger(common)?;
    let request = by_key_request(identity, key)?;
    let answer = until_decided("renewal of the certificate", RETRY, || {
        let (mut client, request) = (client.clone(), request.clone());
        async move { client.renew_by_key(request).await }
    });
    let answer = answer.await.map_err(|status| refusal(&status))?;
    files.store_certificate(&answer.certificate_pem, key)
}

fn by_key_request(identity: &Identity, key: &KeyPair) -> anyhow::Result<pb::RenewByKeyRequest> {
    Ok(pb::RenewByKeyRequest {
        node_id: identity.node_id.clone(),
        instance_id: identity.instance_id.clone(),
        csr_pem: csr(key)?,
    })
}

fn refusal(status: &Status) -> anyhow::Error {
    anyhow::anyhow!(
        "inventory answers {:?}: {}",
        status.code(),
        status.message()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_certificate_is_renewed_after_two_thirds_of_its_life_and_by_key_when_it_is_over() {
        let validity = Some(Validity {
            begins: at(0),
            ends: at(10_000),
        });
        let seconds = |seconds| Next::Wait(Duration::from_secs(seconds));
        for (now, spread, expected) in [
            (0, 0.0, seconds(600)),
            (6_000, 0.0, seconds(200)),
            (6_000, 1.0, seconds(600)),
            (6_200, 0.0, Next::Renew(Proof::Certificate)),
            (6_700, 1.0, seconds(500)),
            (7_200, 1.0, Next::Renew(Proof::Certificate)),
            (9_999, 0.5, Next::Renew(Proof::Certificate)),
            (10_000, 0.5, Next::Renew(Proof::Key)),
        ] {
            assert_eq!(next(validity, at(now), spread), expected, "{now} {spread}");
        }
        assert_eq!(next(None, at(0), 0.5), Next::Renew(Proof::Key));
    }

    #[test]
    fn a_renewed_certificate_that_has_ended_is_not_asked_for_again_at_once() {
        let now = Timestamp::now();
        let hour = SignedDuration::from_hours(1);
        let validity = |begins, ends| Some(Validity { begins, ends });
        assert!(lasts(validity(now, now + hour)));
        assert!(!lasts(validity(now - hour, now)));
        assert!(!lasts(None));
    }

    #[test]
    fn pauses_grow_to_a_limit() {
        assert_eq!(pause(1, 1.0), FIRST_PAUSE);
        assert_eq!(pause(2, 1.0), FIRST_PAUSE * 2);
        assert_eq!(pause(2, 0.0), FIRST_PAUSE);
        assert_eq!(pause(40, 1.0), LONGEST_PAUSE);
    }
}
