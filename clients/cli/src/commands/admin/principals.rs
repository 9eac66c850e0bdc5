//! `admin principal`: who may call at all, and who has a role on the platform.
use reqwest::Method;
use serde_json::{Value, json};

use super::{Session, done};
use crate::commands::given;
use crate::failure::Failure;
use crate::output::{print_json, print_table, time};
use crate::resolve::unique;

const PATH: [&str; 2] = ["admin", "principals"];
const LIST: &str = "gpuaas admin principal list";
const KINDS: [&str; 2] = ["user", "service-account"];
const ROLES: [&str; 3] = ["admin", "operator", "auditor"];
/// The same, or no role.
const ROLES_OR_NONE: [&str; 4] = ["admin", "operator", "auditor", "none"];

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List the principals, in the order of their registration.
    List {
        /// Only these.
        #[arg(long, value_parser = KINDS)]
        kind: Option<String>,
        /// Only those with this role on the platform.
        #[arg(long, value_parser = ROLES)]
        role: Option<String>,
        /// Only those that are disabled.
        #[arg(long)]
        disabled: bool,
    },
    /// Show one principal.
    #[command(visible_alias = "show")]
    Describe {
        /// Name, id, or unique prefix of the id.
        principal: String,
    },
    /// Register an identity of a trusted issuer, without an invitation.
    Create {
        /// Name, for example user:alice.
        name: String,
        /// URL of the issuer, exactly as in its tokens.
        #[arg(long, value_name = "URL")]
        issuer: String,
        /// The issuer's name for it: the claim `sub` of its tokens.
        #[arg(long)]
        subject: String,
        /// Name for people [default: the name].
        #[arg(long)]
        display_name: Option<String>,
        /// Email address.
        #[arg(long)]
        email: Option<String>,
    },
    /// Disable a principal: its calls, streams and terminals end within seconds.
    #[command(visible_alias = "suspend")]
    Disable {
        /// Name, id, or unique prefix of the id.
        principal: String,
        /// Reason, for the audit trail.
        #[arg(long)]
        reason: Option<String>,
    },
    /// Enable a disabled principal again.
    #[command(visible_alias = "resume")]
    Enable {
        /// Name, id, or unique prefix of the id.
        principal: String,
    },
    /// Give a principal a role on the platform, or take it.
    SetRole {
        /// Name, id, or unique prefix of the id.
        principal: String,
        /// The role.
        #[arg(value_parser = ROLES_OR_NONE)]
        role: String,
    },
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::List {
            kind,
            role,
            disabled,
        } => {
            let query = given([
                ("kind", kind.map(|kind| kind.replace('-', "_"))),
                ("platform_role", role),
                ("disabled", disabled.then(|| "true".to_owned())),
            ]);
            let found = session.api.list(&PATH, &query, "principals").await?;
            list(session, &found);
        }
        Command::Describe { principal } => {
            let id = resolve(session, &principal).await?;
            let found = session.api.get(&[PATH[0], PATH[1], &id], &[]).await?;
            describe(session, &found);
        }
        Command::Create {
            name,
            issuer,
            subject,
            display_name,
            email,
        } => {
            let mut body = json!({ "name": name, "issuer": issuer, "subject": subject });
            for (field, value) in [("display_name", display_name), ("email", email)] {
                if let Some(value) = value {
                    body[field] = json!(value);
                }
            }
            let answer = session
                .api
                .change(Method::POST, &PATH, &body, &session.key)
                .await?;
            done(session, &answer, &format!("Registered {name}."));
        }
        Command::Disable { principal, reason } => {
            let body = json!({ "reason": reason.unwrap_or_default() });
            let sentence = format!("{principal} is disabled.");
            change(session, &principal, "disable", &body, &sentence).await?;
        }
        Command::Enable { principal } => {
            let sentence = format!("{principal} is enabled.");
            change(session, &principal, "enable", &json!({}), &sentence).await?;
        }
        Command::SetRole { principal, role } => {
            let wanted = match role.as_str() {
                "none" => "unspecified",
                role => role,
            };
            let body = json!({ "platform_role": wanted });
            let sentence = match role.as_str() {
                "none" => format!("{principal} has no role on the platform."),
                role => format!("{principal} has the role {role} on the platform."),
            };
            change(session, &principal, "setPlatformRole", &body, &sentence).await?;
        }
    }
    Ok(())
}

async fn change(
    session: &Session,
    principal: &str,
    verb: &str,
    body: &Value,
    sentence: &str,
) -> Result<(), Failure> {
    let id = resolve(session, principal).await?;
    let last = format!("{id}:{verb}");
    let path = [PATH[0], PATH[1], &last];
    let answer = session
        .api
        .change(Method::POST, &path, body, &session.key)
        .await?;
    done(session, &answer, sentence);
    Ok(())
}

/// The id of a principal; a name has a colon, an id has none.
async fn resolve(session: &Session, principal: &str) -> Result<String, Failure> {
    if uuid::Uuid::parse_str(principal).is_ok() {
        return Ok(principal.to_owned());
    }
    let query = match principal.contains(':') {
        true => vec![("name", principal.to_owned())],
        false => Vec::new(),
    };
    let found = session.api.list(&PATH, &query, "principals").await?;
    if let Some(one) = found.iter().find(|one| one["name"] == principal) {
        return Ok(text(one, "id"));
    }
    let ids = found.iter().filter_map(|one| one["id"].as_str());
    unique("principal", principal, ids, LIST)
}

fn list(session: &Session, found: &[Value]) {
    if session.json() {
        print_json(&json!({ "principals": found }));
        return;
    }
    if found.is_empty() {
        say!("No principal matches.");
        return;
    }
    let rows = found.iter().map(|one| {
        [
            text(one, "name"),
            text(one, "display_name"),
            text(one, "kind").replace('_', "-"),
            role(one),
            state(one).to_owned(),
            time(text(one, "create_time").parse::<jiff::Timestamp>().ok()),
            text(one, "id"),
        ]
    });
    let head = [
        "PRINCIPAL",
        "NAME",
        "KIND",
        "ROLE",
        "STATE",
        "REGISTERED",
        "ID",
    ];
    print_table(head, rows.collect());
}

fn describe(session: &Session, one: &Value) {
    if session.json() {
        print_json(one);
        return;
    }
    let when = |field: &str| time(text(one, field).parse::<jiff::Timestamp>().ok());
    let rows = [
        ("Principal", text(one, "name")),
        ("Name", text(one, "display_name")),
        ("Email", text(one, "email")),
        ("Kind", text(one, "kind").replace('_', "-")),
        ("Role on the platform", role(one)),
        ("State", state(one).to_owned()),
        ("Issuer", text(one, "issuer")),
        ("Subject", text(one, "subject")),
        ("Registered", when("create_time")),
        ("Changed", when("update_time")),
        ("Id", text(one, "id")),
    ];
    for (name, value) in rows {
        say!("{:<22}{value}", format!("{name}:"));
    }
}

fn role(one: &Value) -> String {
    let role = text(one, "platform_role");
    if role == "unspecified" {
        String::new()
    } else {
        role
    }
}

fn state(one: &Value) -> &'static str {
    match text(one, "disable_time").as_str() {
        "" => "enabled",
        _ => "disabled",
    }
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}
