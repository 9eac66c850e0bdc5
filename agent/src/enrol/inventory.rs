//! Calls to inventory by a host that has no valid certificate to show, and which answers of inventory are final.
use std::future::Future;
use std::time::Duration;

use anyhow::Context as _;
use gpuaas_common::config::Settings as CommonSettings;
use gpuaas_common::identity;
use gpuaas_proto::gpuaas::internal::inventory::v1::host_service_client::HostServiceClient;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Response, Status};

use crate::host::blocking;

/// Between two tries to reach inventory.
pub const RETRY: Duration = Duration::from_secs(2);
/// Longest wait for a connection, and for an answer.
const CONNECT: Duration = Duration::from_secs(5);
const ANSWER: Duration = Duration::from_secs(30);

/// A client that shows no certificate and verifies inventory's.
///
/// # Errors
/// No URL where inventory enrols hosts, or no authority.
pub fn stranger(common: &CommonSettings) -> anyhow::Result<HostServiceClient<Channel>> {
    let url = common
        .peers
        .get("inventory-enrolment")
        .context("setting peers.inventory-enrolment is missing")?;
    let ca = blocking::here(|| std::fs::read_to_string(&common.tls.ca_file));
    let ca = ca.context("cannot read tls.ca_file")?;
    let tls = ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(ca))
        .domain_name(identity::service_dns("inventory"));
    let channel = Endpoint::from_shared(url.clone())?
        .tls_config(tls)?
        .connect_timeout(CONNECT)
        .timeout(ANSWER)
        .connect_lazy();
    Ok(HostServiceClient::new(channel))
}

/// Whether inventory has decided. Everything else may pass: nothing answered, the answer was lost, the database
/// decided to try again. All calls of a host may be repeated.
pub fn is_final(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::Unimplemented
    )
}

/// Asks until inventory has decided, with pauses of about `retry` between.
///
/// # Errors
/// Its refusal.
pub async fn until_decided<T, F>(
    what: &str,
    retry: Duration,
    mut request: impl FnMut() -> F,
) -> Result<T, Status>
where
    F: Future<Output = Result<Response<T>, Status>>,
{
    let mut reported = false;
    loop {
        match request().await {
            Ok(response) => return Ok(response.into_inner()),
            Err(status) if is_final(&status) => return Err(status),
            Err(status) => {
                if !reported {
                    tracing::warn!(code = ?status.code(), message = status.message(), "{what} waits for inventory");
                    reported = true;
                }
                // hosts that were refused together do not come back together
                tokio::time::sleep(retry.mul_f64(0.5 + super::chance::chance())).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_may_pass_is_retried_and_a_decision_is_final() {
        let passing = [
            Code::Unavailable,
            Code::Aborted,
            Code::DeadlineExceeded,
            Code::Cancelled,
            Code::ResourceExhausted,
            Code::Unknown,
            Code::Internal,
        ];
        let mut answers: Vec<Code> = passing.to_vec();
        let decided = until_decided("enrolment", Duration::from_millis(1), || {
            let answer = answers.pop();
            async move {
                match answer {
                    Some(code) => Err(Status::new(code, "")),
                    None => Ok(Response::new(7)),
                }
            }
        });
        assert_eq!(decided.await.unwrap(), 7);
        let refused = until_decided("enrolment", Duration::from_millis(1), || async {
            Err::<Response<()>, _>(Status::unauthenticated("used"))
        });
        assert_eq!(refused.await.unwrap_err().code(), Code::Unauthenticated);
    }
}
