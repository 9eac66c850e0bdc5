//! A browser without a screen for the pages of identity providers that nobody here wrote: it keeps cookies, follows
//! redirects, and sends every form with what it was given to fill in.
use std::collections::BTreeMap;

use reqwest::{Method, Response, StatusCode};
use url::Url;

/// The browser.
pub struct Visitor {
    http: reqwest::Client,
    cookies: BTreeMap<String, String>,
    /// What it writes into fields of these names.
    answers: Vec<(&'static str, String)>,
}

/// Where a visit has ended.
#[derive(Debug)]
pub enum Ended {
    /// At an address that is the client's.
    At(Url),
    /// At a page without a form.
    Page(String),
}

/// Pages that one visit may have.
const MOST: usize = 25;

impl Visitor {
    /// One that fills in fields of these names.
    pub fn new(answers: &[(&'static str, &str)]) -> Self {
        let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
        Self {
            http: http.build().expect("client"),
            cookies: BTreeMap::new(),
            answers: answers
                .iter()
                .map(|(name, value)| (*name, (*value).to_owned()))
                .collect(),
        }
    }

    /// Opens an address and answers what it is asked until it is led to the client, or nothing is asked any more.
    pub async fn visit(&mut self, address: &str, client: &str) -> Ended {
        let mut url: Url = address.parse().expect("an address");
        let mut form = None;
        for _ in 0..MOST {
            if url.as_str().starts_with(client) {
                return Ended::At(url);
            }
            let response = self.send(&url, form.take()).await;
            let status = response.status();
            if status.is_redirection() {
                let location = response.headers()["location"].to_str().expect("text");
                url = url.join(location).expect("an address");
                continue;
            }
            let page = response.text().await.expect("text");
            assert_eq!(status, StatusCode::OK, "{url}: {page}");
            let Some((action, fields)) = self.filled(&page) else {
                return Ended::Page(page);
            };
            url = url.join(&action).expect("an address");
            form = Some(fields);
        }
        panic!("{address} leads nowhere: {url}");
    }

    async fn send(&mut self, url: &Url, form: Option<String>) -> Response {
        let cookies: Vec<String> = self
            .cookies
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let method = if form.is_some() {
            Method::POST
        } else {
            Method::GET
        };
        let mut request = self.http.request(method, url.clone());
        request = request.header("cookie", cookies.join("; "));
        if let Some(form) = form {
            request = request
                .header("content-type", "application/x-www-form-urlencoded")
                .header("referer", url.as_str())
                .body(form);
        }
        let response = request.send().await.expect("answer");
        for cookie in response.headers().get_all("set-cookie") {
            let text = cookie.to_str().expect("text");
            let pair = text.split(';').next().unwrap_or_default();
            if let Some((name, value)) = pair.split_once('=') {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        response
    }

    /// Where the page's form goes, and what with.
    fn filled(&self, page: &str) -> Option<(String, String)> {
        let (_, rest) = page.split_once("<form")?;
        let (form, _) = rest.split_once("</form>")?;
        let (head, _) = form.split_once('>')?;
        let action = attribute(head, "action").unwrap_or_default();
        let mut fields = BTreeMap::new();
        for input in form.split("<input").skip(1) {
            let input = input.split('>').next().unwrap_or_default();
            if let Some(name) = attribute(input, "name") {
                fields.insert(name, attribute(input, "value").unwrap_or_default());
            }
        }
        for (name, value) in &self.answers {
            fields.insert((*name).to_owned(), value.clone());
        }
        let form = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(fields)
            .finish();
        Some((action, form))
    }
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let (_, rest) = tag.split_once(&format!("{name}=\""))?;
    let (value, _) = rest.split_once('"')?;
    Some(value.replace("&amp;", "&"))
}
