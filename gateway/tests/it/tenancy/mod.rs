//! Organisations, projects, members, invitations, platform roles and SSH keys: who may change them, and what each refusal says.
mod closing;
mod consent;
mod grants;
mod guardrail_names;
mod guardrails;
mod invitations;
mod launches;
mod many;
mod members;
pub mod names;
mod organisation_guardrails;
mod principals;
mod replays;
mod selected;
mod ssh_keys;
mod states;
pub mod suspensions;

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::world::{ISSUER, World, answer};

impl World {
    /// Registers users of these subjects, named after them.
    pub async fn users(&self, subjects: &[&str]) {
        let pool = self.pool().await;
        for subject in subjects {
            sqlx::query(
                "INSERT INTO principals (id, name, issuer, subject, display_name) VALUES ($1, 'user:' || $2, $3, $2, $2)",
            )
            .bind(Uuid::now_v7())
            .bind(subject)
            .bind(ISSUER)
            .execute(&pool)
            .await
            .expect("registered");
        }
    }

    /// A call with a key of its own.
    pub async fn send(
        &self,
        subject: &str,
        method: Method,
        target: &str,
        body: Value,
    ) -> (u16, Value) {
        self.send_as(subject, method, target, body, &Uuid::now_v7().to_string())
            .await
    }

    async fn send_as(
        &self,
        subject: &str,
        method: Method,
        target: &str,
        body: Value,
        key: &str,
    ) -> (u16, Value) {
        let mut request = self
            .http
            .request(method, self.url(target))
            .bearer_auth(self.token(subject))
            .header("x-idempotency-key", key);
        if !body.is_null() {
            request = request.json(&body);
        }
        answer(request.send().await.expect("answer")).await
    }

    pub async fn get(&self, subject: &str, target: &str) -> (u16, Value) {
        self.send(subject, Method::GET, target, Value::Null).await
    }

    pub async fn post_by(&self, subject: &str, target: &str, body: Value) -> (u16, Value) {
        self.send(subject, Method::POST, target, body).await
    }

    /// A call that must do.
    pub async fn made(&self, subject: &str, target: &str, body: Value) -> Value {
        let (status, answer) = self.post_by(subject, target, body).await;
        assert_eq!(status, 200, "{subject} {target}: {answer}");
        answer
    }

    /// An organisation of this owner, who is registered, and its id.
    pub async fn organisation(&self, slug: &str, owner: &str) -> String {
        let body = json!({ "slug": slug, "owner": format!("user:{owner}") });
        id(&self
            .made("admin", "/api/v1/admin/organisations", body)
            .await)
    }

    /// A project of an organisation.
    pub async fn project(&self, organisation: &str, slug: &str, owner: &str) -> String {
        let body = json!({ "organisation_id": organisation, "slug": slug });
        id(&self.made(owner, "/api/v1/projects", body).await)
    }

    /// Makes somebody a member of a project and answers its id. An administrator does it: an owner invites strangers.
    pub async fn member(&self, project: &str, who: &str, role: &str) -> String {
        let target = format!("/api/v1/projects/{project}/members");
        let body = json!({ "principal": format!("user:{who}"), "role": role });
        let member = self.made("admin", &target, body).await;
        member["member_id"].as_str().expect("an id").to_owned()
    }

    /// Rows of the audit trail with this action.
    pub async fn recorded(&self, action: &str) -> i64 {
        sqlx::query_scalar(
            "SELECT count(*) FROM audit WHERE action = $1 AND detail ->> 'outcome' IS NULL",
        )
        .bind(action)
        .fetch_one(&self.pool().await)
        .await
        .expect("audit")
    }

    /// Repeats a call until it is answered so: what a gateway has cached of a caller is dropped when it hears of a change.
    async fn becomes(&self, subject: &str, target: &str, expected: u16) -> Value {
        let started = Instant::now();
        loop {
            let (status, body) = self.get(subject, target).await;
            if status == expected {
                return body;
            }
            assert!(
                started.elapsed() < Duration::from_secs(20),
                "{status}: {body}"
            );
        }
    }
}

fn id(resource: &Value) -> String {
    resource["id"].as_str().expect("an id").to_owned()
}

/// Status and reason; no reason for a success.
fn outcome((status, body): &(u16, Value)) -> (u16, &str) {
    let refused = *status != 200;
    (
        *status,
        if refused {
            crate::world::reason(body)
        } else {
            ""
        },
    )
}

/// The error of an answer without what names the request.
fn refusal(body: &Value) -> String {
    let mut error = body["error"].clone();
    let details = error["details"].as_array_mut().expect("details");
    details.retain(|detail| detail["@type"] != "type.googleapis.com/google.rpc.RequestInfo");
    error.to_string()
}
