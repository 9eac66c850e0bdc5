//! The quick start of docs/how-to/sdk.md: launch, wait, release. GPUAAS_API, GPUAAS_TOKEN_FILE and SSH_KEY say where and as whom.
use anyhow::{Context as _, bail};
use gpuaas_proto::call::{HttpRequest, Streaming, Unary, http_request};
use gpuaas_proto::gpuaas::allocation::v1::watch_allocation_response::Event;
use gpuaas_proto::gpuaas::allocation::v1::{
    AllocationState, CreateAllocationRequest, ReleaseAllocationRequest, WatchAllocationRequest,
};
use gpuaas_proto::gpuaas::scheduler::v1::ListSkusRequest;
use gpuaas_proto::json::{Enumeration as _, from_json};
use reqwest::{RequestBuilder, Url};
use serde_json::Value;

struct Api {
    http: reqwest::Client,
    base: Url,
    token: String,
}

impl Api {
    fn request(&self, request: &HttpRequest) -> anyhow::Result<RequestBuilder> {
        let mut url = self.base.clone();
        // percent-encodes each segment
        url.path_segments_mut()
            .expect("http")
            .pop_if_empty()
            .extend(&request.path);
        let mut sent = self
            .http
            .request(request.verb.parse()?, url)
            .query(&request.query)
            .bearer_auth(&self.token);
        if let Some(body) = &request.body {
            sent = sent.json(body);
        }
        Ok(sent)
    }

    /// Repeat a change that failed with the same key.
    async fn call<C: Unary>(&self, call: &C, key: &str) -> anyhow::Result<C::Response> {
        let request = http_request(call);
        let mut sent = self.request(&request)?;
        if request.verb != "GET" {
            sent = sent.header("X-Idempotency-Key", key);
        }
        let answer = sent.send().await?;
        let (status, json) = (answer.status(), answer.json::<Value>().await?);
        if !status.is_success() {
            let details = json["error"]["details"].as_array();
            let reason = details.and_then(|all| all.iter().find_map(|one| one["reason"].as_str()));
            bail!("{}: {}", reason.unwrap_or("?"), json["error"]["message"]);
        }
        Ok(from_json(&json)?)
    }

    /// Reads a stream until something in it is what is waited for.
    async fn follow<C: Streaming, T>(
        &self,
        call: &C,
        mut found: impl FnMut(C::Response) -> Option<T>,
    ) -> anyhow::Result<T> {
        let sent = self
            .request(&http_request(call))?
            .header("Accept", "application/x-ndjson");
        let mut stream = sent.send().await?.error_for_status()?;
        let mut begun = Vec::new();
        while let Some(part) = stream.chunk().await? {
            for byte in part {
                if byte != b'\n' {
                    begun.push(byte);
                } else if let Some(found) = found(from_json(&serde_json::from_slice(
                    &std::mem::take(&mut begun),
                )?)?) {
                    return Ok(found);
                }
            }
        }
        bail!("the stream of {} has ended", C::METHOD)
    }

    /// Waits for a state, which an allocation that has ended does not reach any more.
    async fn wait(&self, id: &str, wanted: AllocationState) -> anyhow::Result<()> {
        let watch = WatchAllocationRequest {
            allocation_id: id.to_owned(),
            ..Default::default()
        };
        let reached = self.follow(&watch, |message| match message.event? {
            Event::Change(change) => {
                let state = change.allocation?.status?.state();
                let ended = [AllocationState::Failed, AllocationState::Released].contains(&state);
                (state == wanted || ended).then_some(state)
            }
            _ => None,
        });
        let state = reached.await?;
        println!("{} is {}", id, state.word());
        if state != wanted {
            bail!("it will not be {}", wanted.word());
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let of = |name: &str| std::env::var(name).with_context(|| format!("{name} is not set"));
    let api = Api {
        http: reqwest::Client::new(),
        base: of("GPUAAS_API")?.parse()?,
        token: std::fs::read_to_string(of("GPUAAS_TOKEN_FILE")?)?
            .trim()
            .to_owned(),
    };
    for sku in api.call(&ListSkusRequest::default(), "").await?.skus {
        println!("SKU {}", sku.code);
    }
    let launch = CreateAllocationRequest {
        name: "from-rust".to_owned(),
        region_code: "lab-1".to_owned(),
        sku: "lab-slice".to_owned(),
        gpu_count: 1,
        image: "lab-mini".to_owned(),
        ssh_public_keys: vec![of("SSH_KEY")?],
        ..Default::default()
    };
    let typo = CreateAllocationRequest {
        sku: "no-such-sku".to_owned(),
        ..launch.clone()
    };
    let key = || uuid::Uuid::now_v7().to_string();
    if let Err(refused) = api.call(&typo, &key()).await {
        println!("refused: {refused}");
    }
    let id = api.call(&launch, &key()).await?.id;
    let active = api.wait(&id, AllocationState::Active).await;
    api.call(
        &ReleaseAllocationRequest {
            allocation_id: id.clone(),
        },
        &key(),
    )
    .await?;
    active?;
    api.wait(&id, AllocationState::Released).await
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_guide_shows_this_program() {
        let program = include_str!("quickstart.rs");
        let (program, _) = program.split_once("\n#[cfg(test)]").expect("these tests");
        let guide = include_str!("../../docs/how-to/sdk.md");
        assert!(guide.contains(&format!("```rust\n{program}```\n")));
    }
}
