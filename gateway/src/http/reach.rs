//! For which of the caller's projects a service is asked. An internal token names few of them, however many the caller has: the
//! one that the request is about, or else one part of them after the other.
use http::StatusCode;
use prost_reflect::DynamicMessage;
use uuid::Uuid;

use crate::app::App;
use crate::auth::sessions::{MAX_PROJECTS, Session};
use crate::contract::route::Route;
use crate::error::ApiError;
use crate::policy::{Grant, named_project, names_a_project};
use crate::upstream::{self, Authorization, Envelope, Messages};

/// The projects that a service is asked for, at most [`MAX_PROJECTS`] at a time.
pub fn reach(route: &Route, grant: &Grant, message: &DynamicMessage) -> Vec<Vec<Uuid>> {
    if let Some(project) = grant.granted_project(message) {
        return vec![vec![project]];
    }
    let all = &grant.projects;
    if let Some(Ok(named)) = named_project(message) {
        // of what is not the caller's the service says that there is none
        let own = all.iter().copied().filter(|project| *project == named);
        return vec![own.collect()];
    }
    let mut parts = all.chunks(MAX_PROJECTS).map(<[Uuid]>::to_vec);
    let by_id = route.group.is_of_a_project() && !names_a_project(route);
    if by_id && all.len() > MAX_PROJECTS {
        return parts.collect();
    }
    // who has several and may name one has to: the service says so when it matters
    vec![parts.next().unwrap_or_default()]
}

/// A request to a service, but for the token.
pub struct Outgoing<'a> {
    /// What every request needs.
    pub app: &'a App,
    /// The method.
    pub route: &'a Route,
    /// Who calls.
    pub session: &'a Session,
    /// What [`reach`] has found.
    pub reach: Vec<Vec<Uuid>>,
    /// What travels beside the message and the token.
    pub envelope: Envelope,
}

impl Outgoing<'_> {
    /// Calls the route's method, until the service finds what the request is about.
    ///
    /// # Errors
    /// What the service answers last.
    pub async fn call(&self, message: &DynamicMessage) -> Result<DynamicMessage, ApiError> {
        let mut answer = Err(ApiError::internal());
        for projects in &self.reach {
            let (peers, token) = (&self.app.peers, self.token(projects)?);
            answer = upstream::call(peers, self.route, message, &self.envelope, token).await;
            if is_found(&answer) {
                break;
            }
        }
        answer
    }

    /// Opens the stream of the route's method, in the same way.
    ///
    /// # Errors
    /// What the service answers last.
    pub async fn open(&self, message: &DynamicMessage) -> Result<Messages, ApiError> {
        let mut answer = Err(ApiError::internal());
        for projects in &self.reach {
            let (peers, token) = (&self.app.peers, self.token(projects)?);
            answer = upstream::open(peers, self.route, message, &self.envelope, token).await;
            if is_found(&answer) {
                break;
            }
        }
        answer
    }

    fn token(&self, projects: &[Uuid]) -> Result<Authorization, ApiError> {
        let now = jiff::Timestamp::now().as_second();
        let minter = &self.app.minter;
        self.session
            .internal_token(minter, self.route, projects, now)
    }
}

fn is_found<T>(answer: &Result<T, ApiError>) -> bool {
    !matches!(answer, Err(error) if error.http_status() == StatusCode::NOT_FOUND)
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::contract::route::Lookup;

    #[test]
    fn a_request_reaches_its_own_project_or_all_of_them_in_parts() {
        let routes = crate::routes().expect("served");
        let id = |number: usize| Uuid::from_u128(number as u128 + 1);
        for (path, projects, named, parts) in [
            ("/api/v1/allocations", 3, Some(2), vec![1]),
            ("/api/v1/allocations", 3, Some(9), vec![0]),
            ("/api/v1/allocations", 3, None, vec![3]),
            ("/api/v1/allocations", 500, Some(499), vec![1]),
            ("/api/v1/allocations", 500, None, vec![200]),
            ("/api/v1/allocations/a", 0, None, vec![0]),
            ("/api/v1/allocations/a", 200, None, vec![200]),
            ("/api/v1/allocations/a", 500, None, vec![200, 200, 100]),
            ("/api/v1/skus", 500, None, vec![200]),
        ] {
            let Lookup::Found(route, _) = routes.lookup(&Method::GET, path) else {
                panic!("{path} is a route");
            };
            let grant = Grant::of((0..projects).map(id).collect());
            let mut message = DynamicMessage::new(route.method.input());
            if let Some(named) = named {
                let named = prost_reflect::Value::String(id(named).to_string());
                message.set_field_by_name("project_id", named);
            }
            let reached = reach(route, &grant, &message);
            let lengths: Vec<_> = reached.iter().map(Vec::len).collect();
            assert_eq!(lengths, parts, "{path} {projects} {named:?}");
            if parts.len() > 1 {
                assert_eq!(reached.concat(), grant.projects);
            }
        }
    }
}
