//! SCIM 2.0: people and groups that an organisation's identity provider keeps, over HTTP as a provider would.
mod addresses;
mod events;
mod groups;
mod keys;
mod names;
mod renames;
mod rights;
mod tester;
mod users;

use std::time::{Duration, Instant};

use gpuaas_gateway::store::Scope;
use gpuaas_gateway::store::{Role, own_organisation};
use reqwest::Method;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::access::key;
use crate::world::{ISSUER, World, answer};

/// A gateway, and the identity provider of the organisation `lab`, whose owner is `user:demo`.
pub struct Provider {
    pub world: World,
    key: String,
}

/// Status, headers and body of an answer.
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Value,
}

impl Answer {
    fn kind(&self) -> &str {
        self.body["scimType"].as_str().unwrap_or_default()
    }

    pub fn id(&self) -> String {
        assert!(self.status < 300, "{}", self.body);
        self.body["id"].as_str().expect("an id").to_owned()
    }

    fn etag(&self) -> String {
        let etag = self.headers["etag"].to_str().expect("text");
        assert_eq!(self.body["meta"]["version"], etag, "{}", self.body);
        etag.to_owned()
    }
}

impl Provider {
    pub async fn start() -> Self {
        Self::in_world(World::start().await).await
    }

    async fn in_world(world: World) -> Self {
        let pool = world.pool().await;
        let seeded = &world.seeded;
        own_organisation(&pool, seeded.organisation_id, "user:demo")
            .await
            .expect("an owner");
        let key = key(&pool, seeded.project_id, Role::Billing, &[Scope::Scim]).await;
        let provider = Self {
            key: key.reveal().to_owned(),
            world,
        };
        let target = format!(
            "/api/v1/admin/organisations/{}/scim",
            provider.organisation()
        );
        let body = json!({ "issuer": ISSUER, "subject_attribute": "user_name" });
        let (status, made) = provider.api("admin", Method::PUT, &target, body).await;
        assert_eq!(status, 200, "{made}");
        provider
    }

    pub fn organisation(&self) -> Uuid {
        self.world.seeded.organisation_id
    }

    /// A call of the API by a person.
    async fn api(&self, subject: &str, method: Method, target: &str, body: Value) -> (u16, Value) {
        let mut request = self
            .world
            .http
            .request(method, self.world.url(target))
            .bearer_auth(self.world.token(subject))
            .header("x-idempotency-key", Uuid::now_v7().to_string());
        if !body.is_null() {
            request = request.json(&body);
        }
        answer(request.send().await.expect("answer")).await
    }

    /// A call of SCIM.
    pub async fn scim(&self, method: Method, path: &str, body: Value) -> Answer {
        self.scim_with(&self.key, method, path, body, &[]).await
    }

    async fn scim_with(
        &self,
        credential: &str,
        method: Method,
        path: &str,
        body: Value,
        headers: &[(&str, &str)],
    ) -> Answer {
        let url = self.world.url(&format!("/scim/v2{path}"));
        let mut request = self.world.http.request(method, url).bearer_auth(credential);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if !body.is_null() {
            request = request
                .header("content-type", "application/scim+json")
                .body(body.to_string());
        }
        let response = request.send().await.expect("answer");
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await.expect("text");
        let body = match text.as_str() {
            "" => Value::Null,
            text => serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}")),
        };
        if status >= 400 {
            assert_eq!(body["status"], status.to_string(), "{body}");
            let schemas = json!(["urn:ietf:params:scim:api:messages:2.0:Error"]);
            assert_eq!(body["schemas"], schemas, "{body}");
            assert!(!body["detail"].as_str().expect("why").is_empty(), "{body}");
        }
        if !body.is_null() {
            assert_eq!(headers["content-type"], "application/scim+json");
        }
        Answer {
            status,
            headers,
            body,
        }
    }

    pub async fn user(&self, name: &str) -> String {
        let body =
            json!({ "schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"], "userName": name });
        self.scim(Method::POST, "/Users", body).await.id()
    }

    pub async fn group(&self, name: &str, users: &[&str]) -> String {
        let members: Vec<Value> = users.iter().map(|id| json!({ "value": id })).collect();
        let body = json!({ "displayName": name, "members": members });
        self.scim(Method::POST, "/Groups", body).await.id()
    }

    pub async fn patch(&self, path: &str, operation: Value) -> Answer {
        let body = json!({
            "schemas": ["urn:ietf:params:scim:api:messages:2.0:PatchOp"], "Operations": [operation],
        });
        self.scim(Method::PATCH, path, body).await
    }

    /// Maps a group on a role in the project `demo`, as the owner does.
    pub async fn map(&self, group: &str, role: &str) -> String {
        let target = format!(
            "/api/v1/organisations/{}/scim/groups/{group}/mappings",
            self.organisation()
        );
        let body = json!({ "target_project_id": self.world.seeded.project_id, "role": role });
        let (status, made) = self.api("demo", Method::POST, &target, body).await;
        assert_eq!(status, 200, "{made}");
        made["id"].as_str().expect("an id").to_owned()
    }

    /// The role of a person in the project `demo`, and whether it comes from a group.
    async fn role(&self, subject: &str) -> Option<(String, bool)> {
        sqlx::query_as(
            "SELECT m.role, m.scim FROM memberships m JOIN principals p ON p.id = m.principal_id
              WHERE p.issuer = $1 AND p.subject = $2 AND m.project_id = $3",
        )
        .bind(ISSUER)
        .bind(subject)
        .bind(self.world.seeded.project_id)
        .fetch_optional(&self.world.pool().await)
        .await
        .expect("memberships")
    }

    /// Repeats a read until it is answered so: what a gateway has cached of a caller is dropped when it hears of a change.
    async fn becomes(&self, subject: &str, expected: u16) -> Value {
        let started = Instant::now();
        loop {
            let (status, body) = self
                .api(subject, Method::GET, "/api/v1/allocations", Value::Null)
                .await;
            if status == expected {
                return body;
            }
            assert!(
                started.elapsed() < Duration::from_secs(20),
                "{status}: {body}"
            );
        }
    }

    /// Rows of the audit trail with this action.
    async fn recorded(&self, action: &str) -> i64 {
        sqlx::query_scalar(
            "SELECT count(*) FROM audit WHERE action = $1 AND detail ->> 'outcome' IS NULL",
        )
        .bind(action)
        .fetch_one(&self.world.pool().await)
        .await
        .expect("audit")
    }
}
