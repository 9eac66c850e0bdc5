//! A launch as the JSON that the HTTP API takes, and its answer as a type of this crate: all that a Rust program needs
//! besides an HTTP client of its choice.
//!
//! `cargo run -p gpuaas-proto --features json --example launch`
use gpuaas_proto::call::http_request;
use gpuaas_proto::gpuaas::allocation::v1::{Allocation, AllocationState, CreateAllocationRequest};
use gpuaas_proto::json::{Enumeration as _, JsonError, from_json};

fn main() -> Result<(), JsonError> {
    let launch = CreateAllocationRequest {
        name: "from-rust".to_owned(),
        region_code: "lab-1".to_owned(),
        sku: "lab-slice".to_owned(),
        gpu_count: 1,
        image: "lab-mini".to_owned(),
        ssh_public_keys: vec!["ssh-ed25519 AAAA… you@example.com".to_owned()],
        ..CreateAllocationRequest::default()
    };
    let sent = http_request(&launch);
    println!(
        "{} /{} with X-Idempotency-Key and {:#}",
        sent.verb,
        sent.path.join("/"),
        sent.body.unwrap_or_default()
    );

    let answer = serde_json::json!({
        "id": "0193", "status": {"state": "active"}, "metadata": {"revision": "7"}, "of_a_later_version": true,
    });
    let allocation: Allocation = from_json(&answer)?;
    let state = allocation.status.unwrap_or_default().state();
    println!("{} is {}", allocation.id, state.word());
    assert_eq!(state, AllocationState::Active);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_is_written_and_its_answer_read() {
        main().expect("the example runs");
        let launch = CreateAllocationRequest {
            name: "a".to_owned(),
            gpu_count: 2,
            ..CreateAllocationRequest::default()
        };
        let sent = http_request(&launch);
        assert_eq!(
            (sent.verb, sent.path.join("/").as_str()),
            ("POST", "api/v1/allocations")
        );
        assert_eq!(
            sent.body,
            Some(serde_json::json!({"name": "a", "gpu_count": 2}))
        );
    }
}
