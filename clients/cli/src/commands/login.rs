//! `login`, `logout` and `whoami`.
use std::io::IsTerminal as _;
use std::process::Stdio;

use gpuaas_proto::gpuaas::identity::v1::{Caller, GetCallerRequest, Project, Role};
use serde_json::json;
use url::Url;

use crate::api::Api;
use crate::failure::Failure;
use crate::formats::Format;
use crate::global::Global;
use crate::http;
use crate::output::{print_json, print_line, time, word};
use crate::profile::{self, Target};
use crate::session::Session;
use crate::sign_in::contexts::{Context, ContextFile};
use crate::sign_in::credential::Credential;
use crate::sign_in::oauth::{self, Configuration, Device, Issuer};

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Identity provider, by its name or address [default: the only one].
    #[arg(long, value_name = "NAME")]
    issuer: Option<String>,
}

/// Signs in by device authorization.
///
/// # Errors
/// See [`Failure`].
pub async fn login(global: &Global, flags: &Flags) -> Result<(), Failure> {
    let file = ContextFile::of_user()?;
    let api = profile::address(global, &file.read()?)?;
    let name = global.context.clone().unwrap_or_else(|| name_of(&api));
    let client = http::client()?;
    let mut url = api.clone();
    url.set_path(&format!(
        "{}/.well-known/gpuaas-configuration",
        api.path().trim_end_matches('/')
    ));
    let configuration: Configuration = oauth::read(&client, url).await?;
    let (issuer, client_id) = choose(configuration, flags.issuer.as_deref())?;
    let found = oauth::discover(&client, &issuer.issuer).await?;
    let endpoint = found
        .device_authorization_endpoint
        .as_ref()
        .ok_or_else(|| {
            let issuer = &issuer.issuer;
            Failure::SignIn(format!(
                "the identity provider {issuer} has no device authorization"
            ))
        })?;
    let device = oauth::begin(&client, &issuer, &client_id, endpoint).await?;
    invite(&device);
    let tokens = oauth::wait(&client, &issuer, &client_id, &found.token_endpoint, &device).await?;
    let caller = whoami_of(&api, &tokens.access_token).await?;
    let context = Context {
        api,
        issuer: issuer.issuer,
        client_id,
        token_endpoint: found.token_endpoint,
        revocation_endpoint: found.revocation_endpoint,
        parameters: issuer.parameters,
        principal: caller.principal.clone(),
        is_admin: caller.roles().any(|role| role == Role::PlatformAdmin),
        tokens: Some(tokens),
        project: None,
    };
    let locked = file.lock()?;
    let mut contexts = locked.read()?;
    let before = contexts.contexts.remove(&name);
    let context = Context {
        project: before
            .filter(|one| one.api == context.api && one.principal == context.principal)
            .and_then(|one| one.project),
        ..context
    };
    contexts.contexts.insert(name.clone(), context);
    contexts.current = Some(name.clone());
    locked.write(&contexts)?;
    match global.format() {
        Format::Table => say!("Signed in as {} (context {name}).", caller.principal),
        _ => print_json(&json!({ "context": name, "principal": caller.principal })),
    }
    if let Some(winner) = profile::wins_over_contexts(global) {
        note!("{winner} is set and wins over this sign-in; unset it to use the sign-in.");
    }
    Ok(())
}

/// The context's name when none is given: where the API is.
fn name_of(api: &Url) -> String {
    let host = api.host_str().unwrap_or_default();
    match api.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

fn choose(configuration: Configuration, wanted: Option<&str>) -> Result<(Issuer, String), Failure> {
    let mut usable: Vec<(Issuer, String)> = configuration
        .issuers
        .into_iter()
        .filter_map(|issuer| {
            let client_id = issuer.cli_client_id.clone()?;
            Some((issuer, client_id))
        })
        .collect();
    let names: Vec<String> = usable
        .iter()
        .map(|(issuer, _)| format!("{:?}", issuer.display_name))
        .collect();
    if let Some(wanted) = wanted {
        usable.retain(|(one, _)| {
            one.issuer == wanted || one.display_name.eq_ignore_ascii_case(wanted)
        });
    }
    match (usable.len(), names.is_empty()) {
        (1, _) => Ok(usable.remove(0)),
        (_, true) => Err(Failure::SignIn(
            "this API has no identity provider for the command line; use a token file".to_owned(),
        )),
        (0, _) => Err(Failure::Usage(format!(
            "no identity provider is {:?}; there are: {}",
            wanted.unwrap_or_default(),
            names.join(", ")
        ))),
        _ => Err(Failure::Usage(format!(
            "choose an identity provider with --issuer: {}",
            names.join(", ")
        ))),
    }
}

/// Tells the person what to do, and shows the page where there is a browser to show it in.
fn invite(device: &Device) {
    let Device {
        user_code,
        verification_uri,
        verification_uri_complete,
        ..
    } = device;
    let page = verification_uri_complete
        .as_ref()
        .unwrap_or(verification_uri);
    complain!(
        "To sign in, open this page:\n\n  {page}\n\nand check that it shows the code {user_code}."
    );
    if page != verification_uri {
        complain!("On another device open {verification_uri} and type the code.");
    }
    let has_screen = ["DISPLAY", "WAYLAND_DISPLAY"]
        .into_iter()
        .any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
    let is_page = Url::parse(page).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
    if has_screen && is_page && std::io::stderr().is_terminal() {
        // without a browser the page is opened by hand
        let _ = std::process::Command::new("xdg-open")
            .arg(page)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
    }
    complain!("Waiting …");
}

async fn whoami_of(api: &Url, token: &str) -> Result<Caller, Failure> {
    let api = Api::new(Target {
        api: api.clone(),
        credential: Credential::Given(token.to_owned()),
        project: None,
        identity: None,
    })?;
    Ok(api.call(&GetCallerRequest {}).await?.message)
}

/// Ends the sign-in of a context, here and at the identity provider.
///
/// # Errors
/// See [`Failure`].
pub async fn logout(global: &Global) -> Result<(), Failure> {
    let locked = ContextFile::of_user()?.lock()?;
    let mut contexts = locked.read()?;
    let name = global.context.clone().or_else(|| contexts.current.clone());
    let Some(name) = name else {
        return Err(Failure::NotFound(
            "you are not signed in anywhere".to_owned(),
        ));
    };
    contexts.find(&name)?;
    let context = contexts.contexts.get_mut(&name);
    let (context, tokens) = match context {
        Some(context) => (context.clone(), context.tokens.take()),
        None => return Ok(()),
    };
    // first here: whatever the provider says, this machine forgets the tokens
    locked.write(&contexts)?;
    if let (Some(tokens), Some(endpoint)) = (&tokens, &context.revocation_endpoint) {
        let revoked = oauth::revoke(&http::client()?, &context, endpoint, tokens).await;
        if let Err(failure) = revoked {
            note!(
                "The identity provider did not revoke the sign-in: {failure}. Its own session may continue."
            );
        }
    }
    match global.format() {
        Format::Table => say!("Signed out of {name}."),
        _ => print_json(&json!({ "context": name })),
    }
    Ok(())
}

/// Shows who the API takes the caller for.
///
/// # Errors
/// See [`Failure`].
pub async fn whoami(session: &Session) -> Result<(), Failure> {
    let answer = session.api.call(&GetCallerRequest {}).await?;
    if session.whole() {
        print_json(&answer.json);
        return Ok(());
    }
    if session.json() {
        // what an invitation and a role are for; nothing where nobody has registered the identity
        print_json(&answer.json["principal"]);
        return Ok(());
    }
    let caller = answer.message;
    let roles: Vec<String> = caller.roles().map(word).collect();
    let projects: Vec<String> = caller
        .projects
        .iter()
        .map(
            |Project {
                 slug, organisation, ..
             }| format!("{slug} ({organisation})"),
        )
        .collect();
    print_line("Principal", &caller.principal);
    if caller.display_name != caller.principal {
        print_line("Name", &caller.display_name);
    }
    print_line("Roles", &roles.join(", "));
    print_line("Projects", &projects.join(", "));
    print_line("Issuer", &caller.issuer);
    print_line("Token ends", &time(caller.expire_time));
    print_line("API", session.api.base().as_str());
    Ok(())
}
