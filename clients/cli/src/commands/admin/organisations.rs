//! `admin organisation`: the organisations of the platform.
use reqwest::Method;
use serde_json::{Value, json};

use super::{Session, done};
use crate::commands::given;
use crate::commands::select::Selected;
use crate::failure::Failure;
use crate::output::{print_json, print_table, time};
use crate::resolve::unique;
use crate::suggest;

const PATH: [&str; 2] = ["admin", "organisations"];
const LIST: &str = "gpuaas admin organisation list";
const STATES: [&str; 3] = ["active", "suspended", "closed"];

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List the organisations of the platform.
    List {
        /// Only those in this state.
        #[arg(long, value_parser = STATES)]
        state: Option<String>,
        #[command(flatten)]
        selected: Selected,
    },
    /// Show an organisation and its projects.
    #[command(visible_alias = "show")]
    Describe {
        /// Slug, id, or unique prefix of the id.
        organisation: String,
    },
    /// Create an organisation.
    Create {
        /// Slug: lower-case letters, digits and hyphens.
        slug: String,
        /// Name for people [default: the slug].
        #[arg(long)]
        name: Option<String>,
        /// Principal who becomes its owner, for example user:alice [default: nobody yet].
        #[arg(long, value_name = "PRINCIPAL")]
        owner: Option<String>,
    },
    /// Suspend an organisation: nothing can be launched or started in its projects. What runs continues.
    Suspend(Change),
    /// Resume a suspended organisation.
    Resume {
        /// Slug, id, or unique prefix of the id.
        organisation: String,
    },
    /// Close an organisation for good. All of its projects must be closed.
    Close(Change),
}

#[derive(Debug, clap::Args)]
pub struct Change {
    /// Slug, id, or unique prefix of the id.
    organisation: String,
    /// Reason, which its members see.
    #[arg(long, default_value = "")]
    reason: String,
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::List { state, selected } => list(session, state, &selected).await,
        Command::Describe { organisation } => describe(session, &organisation).await,
        Command::Create { slug, name, owner } => {
            let mut body = json!({ "slug": slug });
            for (field, value) in [("display_name", name), ("owner", owner)] {
                if let Some(value) = value {
                    body[field] = json!(value);
                }
            }
            let answer = session
                .api
                .change(Method::POST, &PATH, &body, &session.key)
                .await?;
            done(session, &answer, &format!("Created {slug}."));
            Ok(())
        }
        Command::Suspend(change) => state(session, "suspend", &change, "is suspended").await,
        Command::Close(change) => state(session, "close", &change, "is closed").await,
        Command::Resume { organisation } => {
            let reason = String::new();
            let change = Change {
                organisation,
                reason,
            };
            state(session, "resume", &change, "is active").await
        }
    }
}

async fn list(
    session: &Session,
    state: Option<String>,
    selected: &Selected,
) -> Result<(), Failure> {
    let mut query = given([("state", state)]);
    query.extend(selected.query());
    let found = session.api.list(&PATH, &query, "organisations").await?;
    if session.json() {
        print_json(&json!({ "organisations": found }));
        return Ok(());
    }
    if found.is_empty() {
        say!("No organisation matches.");
        return Ok(());
    }
    let rows = found.iter().map(|one| {
        [
            text(one, "slug"),
            text(one, "display_name"),
            text(one, "state"),
            text(one, "state_reason"),
            time(text(one, "create_time").parse::<jiff::Timestamp>().ok()),
            text(one, "id"),
        ]
    });
    let head = ["ORGANISATION", "NAME", "STATE", "REASON", "CREATED", "ID"];
    print_table(head, rows.collect());
    Ok(())
}

async fn describe(session: &Session, given: &str) -> Result<(), Failure> {
    let id = resolve(session, given).await?;
    let one = session.api.get(&["organisations", &id], &[]).await?;
    if session.json() {
        print_json(&one);
        return Ok(());
    }
    let all = session
        .api
        .list(
            &["admin", "projects"],
            &[("organisation_id", id.clone())],
            "projects",
        )
        .await?;
    let projects: Vec<String> = all
        .iter()
        .map(|project| match project["state"].as_str() {
            None | Some("active") => text(project, "slug"),
            Some(state) => format!("{} ({state})", text(project, "slug")),
        })
        .collect();
    let state = match text(&one, "state_reason") {
        reason if reason.is_empty() => text(&one, "state"),
        reason => format!("{}: {reason}", text(&one, "state")),
    };
    let rows = [
        ("Organisation", text(&one, "slug")),
        ("Name", text(&one, "display_name")),
        ("State", state),
        ("Projects", projects.join(", ")),
        (
            "Created",
            time(text(&one, "create_time").parse::<jiff::Timestamp>().ok()),
        ),
        (
            "Changed",
            time(text(&one, "update_time").parse::<jiff::Timestamp>().ok()),
        ),
        ("Id", id),
    ];
    for (name, value) in rows {
        say!("{:<14}{value}", format!("{name}:"));
    }
    Ok(())
}

async fn state(
    session: &Session,
    verb: &str,
    change: &Change,
    sentence: &str,
) -> Result<(), Failure> {
    let id = resolve(session, &change.organisation).await?;
    let last = format!("{id}:{verb}");
    let body = match verb {
        "resume" => json!({}),
        _ => json!({ "reason": change.reason }),
    };
    let path = [PATH[0], PATH[1], &last];
    let answer = session
        .api
        .change(Method::POST, &path, &body, &session.key)
        .await?;
    let sentence = format!("{} {sentence}.", change.organisation);
    done(session, &answer, &sentence);
    Ok(())
}

/// The id of an organisation by its slug, its id, or a unique prefix of the id.
async fn resolve(session: &Session, given: &str) -> Result<String, Failure> {
    if uuid::Uuid::parse_str(given).is_ok() {
        return Ok(given.to_owned());
    }
    let found = session.api.list(&PATH, &[], "organisations").await?;
    if let Some(one) = found.iter().find(|one| one["slug"] == given) {
        return Ok(text(one, "id"));
    }
    let ids = found.iter().filter_map(|one| one["id"].as_str());
    unique("organisation", given, ids, LIST).map_err(|failure| match failure {
        Failure::NotFound(message) => {
            let slugs = found.iter().filter_map(|one| one["slug"].as_str());
            Failure::NotFound(suggest::with_nearest(message, given, slugs))
        }
        other => other,
    })
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}
