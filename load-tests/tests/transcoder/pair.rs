//! Envoy with the service behind it, and the gateway's own routes.
use gpuaas_dev::ports;
use gpuaas_gateway::contract::route::{Lookup, Route, RouteTable};
use gpuaas_gateway::transcode::request::bind;
use gpuaas_load_tests::envoy::Envoy;
use prost_reflect::DynamicMessage;

use crate::requests::Requested;
use crate::stand_in::StandIn;

pub struct Pair {
    envoy: Envoy,
    pub behind: StandIn,
    http: reqwest::Client,
    pub routes: RouteTable,
}

impl Pair {
    pub async fn start(folder: &std::path::Path) -> Self {
        let routes = gpuaas_gateway::routes().expect("served");
        let mut services: Vec<String> = routes.routes().iter().map(service).collect();
        services.sort();
        services.dedup();
        let behind = StandIn::default();
        let port = ports::free().expect("a port");
        let at = std::net::SocketAddr::from(([127, 0, 0, 1], port));
        let server = tonic::transport::Server::builder().add_service(behind.clone());
        tokio::spawn(server.serve(at));
        let folder = folder.to_owned();
        let envoy = tokio::task::spawn_blocking(move || {
            Envoy::transcoder_to(&folder, &services, at).expect("Envoy")
        });
        Self {
            envoy: envoy.await.expect("Envoy"),
            behind,
            http: reqwest::Client::new(),
            routes,
        }
    }

    /// What Envoy answers.
    pub async fn send(&self, requested: &Requested) -> (u16, String) {
        let url = format!("http://{}{}", self.envoy.address, requested.target);
        let mut request = self.http.request(requested.method.clone(), url);
        if let Some(body) = &requested.body {
            request = request
                .header("content-type", "application/json")
                .body(body.clone());
        }
        let answer = request.send().await.expect("an answer");
        (answer.status().as_u16(), answer.text().await.expect("text"))
    }

    /// What the gateway makes of a request.
    pub fn bound(&self, requested: &Requested) -> Result<DynamicMessage, String> {
        let (path, query) = match requested.target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (requested.target.as_str(), None),
        };
        let Lookup::Found(route, variables) = self.routes.lookup(&requested.method, path) else {
            return Err(format!("no route {}", requested.target));
        };
        let body = requested.body.as_deref().unwrap_or_default();
        bind(route, &variables, query, body.as_bytes()).map_err(|error| error.message().to_owned())
    }
}

pub fn service(route: &Route) -> String {
    route.method.parent_service().full_name().to_owned()
}
