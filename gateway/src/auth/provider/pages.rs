//! The pages of the embedded issuer: plain HTML without a script.
use std::fmt::Write as _;

use axum::body::Body;
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use url::Url;

use crate::error::ApiError;
use crate::store::ListedPrincipal;

const STYLE: &str = include_str!("page.css");

/// The style of all pages.
pub fn style() -> Response {
    let mut response = Response::new(Body::from(STYLE));
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/css; charset=utf-8"),
    );
    response
}

/// A form in which somebody chooses who to be.
#[derive(Debug, Default)]
pub struct Choice<'a> {
    /// Title of the page.
    pub title: &'a str,
    /// What will happen, as text.
    pub text: &'a str,
    /// A code to compare with the one that a device shows.
    pub shown: &'a str,
    /// What went wrong before.
    pub problem: &'a str,
    /// Where the form is sent.
    pub action: &'a str,
    /// Names and values that are sent with it.
    pub hidden: &'a [(&'a str, &'a str)],
    /// Whether the stack's code must be typed.
    pub asks_code: bool,
    /// The answer that says no.
    pub refusal: &'a str,
    /// Where the answer leads, when that is another origin.
    pub leads_to: &'a str,
}

impl Choice<'_> {
    /// The page.
    pub fn page(&self, principals: &[ListedPrincipal], status: StatusCode) -> Response {
        let mut html = format!("<p>{}</p>", escape(self.text));
        if !self.shown.is_empty() {
            let _ = write!(html, "<p class=code>{}</p>", escape(self.shown));
        }
        if !self.problem.is_empty() {
            let _ = write!(
                html,
                "<p class=problem role=alert>{}</p>",
                escape(self.problem)
            );
        }
        let _ = write!(
            html,
            "<form method=post action=\"{}\">",
            escape(self.action)
        );
        for (name, value) in self.hidden {
            let _ = write!(
                html,
                "<input type=hidden name=\"{}\" value=\"{}\">",
                escape(name),
                escape(value)
            );
        }
        if self.asks_code {
            html.push_str(
                "<label for=code>Code of this development stack</label>\
                 <input id=code name=code type=password autocomplete=off required aria-describedby=hint>\
                 <p id=hint class=hint><code>make status</code> prints a link with it.</p>",
            );
        }
        html.push_str("<ul>");
        for principal in principals {
            html.push_str(&entry(principal));
        }
        html.push_str("</ul>");
        if principals.is_empty() {
            html.push_str("<p>Nobody is registered yet.</p>");
        }
        if !self.refusal.is_empty() {
            let _ = write!(
                html,
                "<button class=quiet name=deny value=yes formnovalidate>{}</button>",
                escape(self.refusal)
            );
        }
        html.push_str("</form>");
        page(self.title, &html, status, self.leads_to)
    }
}

fn entry(principal: &ListedPrincipal) -> String {
    let projects: Vec<&str> = principal
        .projects
        .iter()
        .map(|(_, slug)| slug.as_str())
        .collect();
    let projects = match projects.is_empty() {
        true => "no project".to_owned(),
        false => projects.join(", "),
    };
    let role = match principal.admin {
        true => " <span class=role>administrator</span>",
        false => "",
    };
    format!(
        "<li><button name=principal value=\"{name}\"><strong>{name}</strong>{role}<small>{}</small></button>",
        escape(&projects),
        name = escape(&principal.name),
    )
}

/// A page that only says something.
pub fn message(title: &str, text: &str, status: StatusCode) -> Response {
    page(title, &format!("<p>{}</p>", escape(text)), status, "")
}

/// A refusal that says what to do.
pub fn refusal(error: &ApiError) -> Response {
    const FAILED: &str = "This sign-in does not work";
    let status = error.http_status();
    // what the API says is for programs
    let (title, text) = match status {
        StatusCode::TOO_MANY_REQUESTS => (
            "Too many requests",
            "Too many requests of your address are open at once.",
        ),
        StatusCode::SERVICE_UNAVAILABLE => {
            (FAILED, "A part of the platform does not answer right now.")
        }
        _ => (FAILED, error.message()),
    };
    let mut html = format!("<p>{}</p>", escape(text));
    let wait = error.retry_after();
    match wait {
        None => {}
        Some(1) => html.push_str("<p>Wait a second, then load this page again.</p>"),
        Some(seconds) => {
            let _ = write!(
                html,
                "<p>Wait {seconds} seconds, then load this page again.</p>"
            );
        }
    }
    let mut response = page(title, &html, status, "");
    if let Some(seconds) = wait {
        let seconds = HeaderValue::from(seconds);
        response.headers_mut().insert(header::RETRY_AFTER, seconds);
    }
    response
}

/// A form for the code that a device shows.
pub fn ask_user_code(problem: &str) -> Response {
    let status = match problem.is_empty() {
        true => StatusCode::OK,
        false => StatusCode::BAD_REQUEST,
    };
    let html = format!(
        "<p class=problem role=alert>{}</p><form method=get action=\"/dev/device\">\
         <label for=user_code>Code that the program shows</label>\
         <input id=user_code name=user_code autocomplete=off autocapitalize=characters spellcheck=false required>\
         <button>Continue</button></form>",
        escape(problem)
    );
    page("Sign in a program", &html, status, "")
}

fn page(title: &str, html: &str, status: StatusCode, leads_to: &str) -> Response {
    let title = escape(title);
    let text = format!(
        "<!doctype html><html lang=en><head><meta charset=utf-8>\
         <meta name=viewport content=\"width=device-width, initial-scale=1\">\
         <title>{title} · GPUaaS</title><link rel=stylesheet href=\"/dev/page.css\"></head>\
         <body><main><p class=stack>Development stack</p><h1>{title}</h1>{html}</main></body></html>"
    );
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/html; charset=utf-8"),
    );
    // the answer to the form leads on, which browsers count as part of sending it
    let origin = Url::parse(leads_to).map(|url| url.origin().ascii_serialization());
    let policy = format!(
        "default-src 'none'; style-src 'self'; form-action 'self' {}; base-uri 'none'; frame-ancestors 'none'",
        origin.unwrap_or_default()
    );
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    // with no-referrer a browser would not say which page sends a form
    headers.insert(
        header::REFERRER_POLICY,
        HeaderValue::from_static("same-origin"),
    );
    response
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
    use tonic::Code;

    use super::*;

    #[test]
    fn no_text_becomes_markup() {
        let hostile = "\"><script>alert('x')</script>&";
        let expected = "&quot;&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;";
        assert_eq!(escape(hostile), expected);
    }

    #[test]
    fn a_refusal_for_now_says_when_to_come_again() {
        let limited = ApiError::new(
            Code::ResourceExhausted,
            ErrorReason::RateLimited,
            "Too many.",
        );
        let after = |seconds| {
            let seconds = HeaderValue::from_static(seconds);
            refusal(&limited.clone().header(header::RETRY_AFTER, seconds))
        };
        for (seconds, response) in [("1", after("1")), ("7", after("7"))] {
            assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
            assert_eq!(response.headers()[header::RETRY_AFTER], seconds);
        }
        let refused = ApiError::new(Code::PermissionDenied, ErrorReason::PermissionDenied, "No.");
        let response = refusal(&refused);
        assert_eq!(response.status(), StatusCode::FORBIDDEN);
        assert!(!response.headers().contains_key(header::RETRY_AFTER));
    }
}
