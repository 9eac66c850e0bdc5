//! The route table: every method with HTTP options that people may call, and how its request is bound.
use gpuaas_common::access::{Group, group_of};
use http::Method;
use http::uri::PathAndQuery;
use prost_reflect::{DescriptorPool, DynamicMessage, MethodDescriptor};

use super::access::{Access, Audience, access_of, http_rule_of};
use super::deprecation::Deprecation;
use super::template::{PathVariables, RawPath, Segment, Template, TemplateError};

/// The resource of methods on an organisation.
const ORGANISATION: &str = "organisation";

/// Which part of the request message the HTTP body fills.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// No body.
    None,
    /// The whole message.
    Whole,
    /// One field.
    Field(String),
}

/// One HTTP binding of one method.
#[derive(Clone, Debug)]
pub struct Route {
    /// The HTTP method.
    pub http_method: Method,
    /// The template as written in the contract.
    pub pattern: String,
    /// The parsed template.
    pub template: Template,
    /// What the body binds.
    pub body: Body,
    /// The RPC.
    pub method: MethodDescriptor,
    /// Its path.
    pub method_path: PathAndQuery,
    /// Who may call it.
    pub access: Access,
    /// Its action by the name that policies have for it: those of administrators begin with "admin.", those on an
    /// organisation with "organisation".
    pub action: String,
    /// The group of the action.
    pub group: Group,
    /// Since when it is not to be used in new programs, if so.
    pub deprecation: Option<Deprecation>,
    /// Name of the service that serves it, for example "image-catalog".
    pub service: &'static str,
}

/// Why the contract cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum RouteError {
    /// A method has an HTTP option but no complete access option.
    #[error("{method} has an HTTP rule but no access option")]
    NoAccess {
        /// Full name.
        method: String,
    },
    /// An HTTP rule on a method that is not for people.
    #[error("{method} has an HTTP rule but is not for users or administrators")]
    NotPublic {
        /// Full name.
        method: String,
    },
    /// The rule uses something the gateway does not serve.
    #[error("{method}: {problem}")]
    Rule {
        /// Full name.
        method: String,
        /// What is wrong.
        problem: String,
    },
    /// The path template is bad.
    #[error("{method}")]
    Template {
        /// Full name.
        method: String,
        /// What is wrong.
        #[source]
        source: TemplateError,
    },
    /// No service is known for the package.
    #[error("{method} is in a package that no service serves")]
    NoService {
        /// Full name.
        method: String,
    },
}

/// All routes, in the order of the contract.
#[derive(Clone, Debug)]
pub struct RouteTable {
    routes: Vec<Route>,
}

/// What a request's method and path lead to.
#[derive(Debug)]
pub enum Lookup<'a> {
    /// A route and its path variables.
    Found(&'a Route, PathVariables),
    /// The path exists with these other methods.
    WrongMethod(Vec<Method>),
    /// Nothing there.
    Unknown,
}

/// The name that the route table has for this process.
pub const GATEWAY: &str = "gateway";

/// The service that serves a proto package of the public contract.
pub fn service_of(package: &str) -> Option<&'static str> {
    Some(match package {
        "gpuaas.inventory.v1" => "inventory",
        "gpuaas.scheduler.v1" => "scheduler",
        "gpuaas.allocation.v1" => "allocation",
        "gpuaas.images.v1" => "image-catalog",
        "gpuaas.terminal.v1" => "terminal-gateway",
        "gpuaas.billing.v1" => "billing",
        "gpuaas.identity.v1" | "gpuaas.audit.v1" | "gpuaas.events.v1" => GATEWAY,
        _ => return None,
    })
}

impl Route {
    /// Its name in the OpenAPI document.
    pub fn operation_id(&self) -> String {
        format!(
            "{}_{}",
            self.method.parent_service().name(),
            self.method.name()
        )
    }
}

impl RouteTable {
    /// Builds the table from the contract. `service_of` names the service behind a package.
    ///
    /// # Errors
    /// When a rule cannot be served, or is on a method that is not for people.
    pub fn build(
        pool: &DescriptorPool,
        service_of: impl Fn(&str) -> Option<&'static str>,
    ) -> Result<Self, RouteError> {
        let mut routes = Vec::new();
        for service in pool.services() {
            for method in service.methods() {
                let Some(rule) = http_rule_of(&method) else {
                    continue;
                };
                let name = method.full_name().to_owned();
                let access = access_of(&method).ok_or_else(|| RouteError::NoAccess {
                    method: name.clone(),
                })?;
                if !access.audience.is_public() {
                    return Err(RouteError::NotPublic { method: name });
                }
                let target =
                    service_of(service.package_name()).ok_or_else(|| RouteError::NoService {
                        method: name.clone(),
                    })?;
                for rule in with_additional(&rule) {
                    routes.push(route(&method, &rule, access.clone(), target)?);
                }
            }
        }
        Ok(Self { routes })
    }

    /// The routes.
    pub fn routes(&self) -> &[Route] {
        &self.routes
    }

    /// The route that reads what a route is on: `GET` at its path without its verb, or at what its path begins with.
    pub fn reader_of(&self, route: &Route) -> Option<&Route> {
        let mut segments = route.template.segments.as_slice();
        while let [.., last] = segments {
            let reader = self.routes.iter().find(|reader| {
                reader.http_method == Method::GET
                    && reader.template.verb.is_none()
                    && reader.template.segments == segments
                    && !reader.method.is_server_streaming()
            });
            if matches!(last, Segment::Variable(_)) && reader.is_some() {
                return reader;
            }
            segments = &segments[..segments.len() - 1];
        }
        None
    }

    /// Finds the route of a request; `path` is still percent-encoded. HEAD is served by GET routes.
    pub fn lookup(&self, method: &Method, path: &str) -> Lookup<'_> {
        let method = if method == Method::HEAD {
            &Method::GET
        } else {
            method
        };
        let Some(path) = RawPath::of(path) else {
            return Lookup::Unknown;
        };
        let mut others = Vec::new();
        for route in &self.routes {
            let Some(bound) = route.template.matches(&path) else {
                continue;
            };
            if route.http_method == *method {
                return Lookup::Found(route, bound);
            }
            others.push(route.http_method.clone());
        }
        if others.is_empty() {
            Lookup::Unknown
        } else {
            Lookup::WrongMethod(others)
        }
    }
}

fn with_additional(rule: &DynamicMessage) -> Vec<DynamicMessage> {
    let mut rules = vec![rule.clone()];
    if let Some(list) = rule.get_field_by_name("additional_bindings") {
        rules.extend(
            list.as_list()
                .unwrap_or_default()
                .iter()
                .filter_map(|v| v.as_message().cloned()),
        );
    }
    rules
}

fn route(
    method: &MethodDescriptor,
    rule: &DynamicMessage,
    access: Access,
    service: &'static str,
) -> Result<Route, RouteError> {
    let name = method.full_name().to_owned();
    let problem = |problem: String| RouteError::Rule {
        method: name.clone(),
        problem,
    };
    let text = |field: &str| {
        rule.get_field_by_name(field)
            .and_then(|v| v.as_str().map(str::to_owned))
            .unwrap_or_default()
    };

    let deprecation = Deprecation::of(method).map_err(problem)?;
    let group = group_of(method).ok_or_else(|| problem("is not for people".to_owned()))?;
    let action = match access.audience {
        Audience::Admin => format!("admin.{}", access.action),
        _ if access.resource == ORGANISATION && !access.action.starts_with(ORGANISATION) => {
            format!("{ORGANISATION}.{}", access.action)
        }
        _ => access.action.clone(),
    };

    let (http_method, pattern) = [
        (Method::GET, "get"),
        (Method::PUT, "put"),
        (Method::POST, "post"),
        (Method::DELETE, "delete"),
        (Method::PATCH, "patch"),
    ]
    .into_iter()
    .find_map(|(http_method, field)| {
        rule.has_field_by_name(field)
            .then(|| (http_method, text(field)))
    })
    .ok_or_else(|| problem("has no HTTP method".to_owned()))?;

    let template = Template::parse(&pattern).map_err(|source| RouteError::Template {
        method: name.clone(),
        source,
    })?;
    let body = match text("body").as_str() {
        "" => Body::None,
        "*" => Body::Whole,
        field => Body::Field(field.to_owned()),
    };
    if let Body::Field(field) = &body
        && method
            .input()
            .get_field_by_name(field)
            .is_none_or(|f| f.is_list() || f.is_map() || f.kind().as_message().is_none())
    {
        return Err(problem(format!("body {field:?} is not a message field")));
    }
    if !text("response_body").is_empty() {
        return Err(problem("response_body is not supported".to_owned()));
    }
    if method.is_client_streaming() {
        return Err(problem(
            "streams of requests are not served over JSON".to_owned(),
        ));
    }
    if method.is_server_streaming() && http_method != Method::GET {
        return Err(problem("a stream is read with GET only".to_owned()));
    }
    for variable in template.variables() {
        if !is_scalar_path(method, variable) {
            return Err(problem(format!(
                "path variable {variable:?} is not a string or integer field"
            )));
        }
    }
    let method_path = format!("/{}/{}", method.parent_service().full_name(), method.name());
    let method_path = PathAndQuery::try_from(method_path)
        .map_err(|error| problem(format!("has no path: {error}")))?;
    Ok(Route {
        http_method,
        pattern,
        template,
        body,
        method: method.clone(),
        method_path,
        access,
        action,
        group,
        deprecation,
        service,
    })
}

fn is_scalar_path(method: &MethodDescriptor, path: &str) -> bool {
    let mut message = method.input();
    let mut parts = path.split('.').peekable();
    while let Some(part) = parts.next() {
        let Some(field) = message
            .get_field_by_name(part)
            .filter(|f| !f.is_list() && !f.is_map())
        else {
            return false;
        };
        match (field.kind().as_message(), parts.peek()) {
            (Some(inner), Some(_)) => message = inner.clone(),
            (None, None) => return true,
            _ => return false,
        }
    }
    false
}
