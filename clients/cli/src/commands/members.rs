//! `member`: who belongs to a project, and invitations into it.
use reqwest::Method;
use serde_json::{Value, json};

use super::Session;
use super::select::Selected;
use crate::failure::Failure;
use crate::output::{print_json, print_table, time};
use crate::{project, suggest};

/// Roles of members, the strongest first.
pub const ROLES: [&str; 4] = ["owner", "member", "viewer", "billing"];

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List the members with their roles.
    List {
        #[command(flatten)]
        of: Of,
        #[command(flatten)]
        selected: Selected,
    },
    /// Add somebody who is in the organisation; invite others.
    Add {
        /// Principal, for example user:alice.
        principal: String,
        /// Role.
        #[arg(long, default_value = "member", value_parser = ROLES)]
        role: String,
        #[command(flatten)]
        of: Of,
    },
    /// Change the role of a member.
    SetRole {
        /// Principal, for example user:alice, or the id of the member.
        member: String,
        /// Role.
        #[arg(value_parser = ROLES)]
        role: String,
        #[command(flatten)]
        of: Of,
    },
    /// Remove a member. Its open terminals and streams end.
    Remove {
        /// Principal, for example user:alice, or the id of the member.
        member: String,
        #[command(flatten)]
        of: Of,
    },
    /// Invite somebody by email. The token is printed once; send it to them.
    Invite {
        /// Email address; only who signs in with it can accept.
        email: String,
        /// Role.
        #[arg(long, default_value = "member", value_parser = ROLES)]
        role: String,
        #[command(flatten)]
        of: Of,
    },
    /// List the invitations.
    Invitations(Of),
    /// Revoke an invitation.
    Revoke {
        /// Id of the invitation.
        invitation: String,
    },
    /// Accept an invitation that you got; the token is read from standard input.
    Accept,
}

/// The project of a command.
#[derive(Debug, clap::Args)]
pub struct Of {
    /// Project [default: your only one].
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,
}

impl Of {
    /// Its id; without the flag the only project of the caller.
    ///
    /// # Errors
    /// The caller belongs to none, or to several.
    pub async fn id(self, session: &Session) -> Result<String, Failure> {
        if let Some(id) = project::given(&session.api, self.project).await? {
            return Ok(id);
        }
        let own = project::own(&session.api).await;
        match own.as_slice() {
            [one] => Ok(one.id.clone()),
            [] => Err(Failure::Usage("you belong to no project".to_owned())),
            several => {
                let slugs: Vec<&str> = several.iter().map(|one| one.slug.as_str()).collect();
                Err(Failure::Usage(format!(
                    "choose a project with --project: {}",
                    slugs.join(", ")
                )))
            }
        }
    }
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::List { of, selected } => {
            let project = of.id(session).await?;
            print(session, &members(session, &project, &selected).await?);
            Ok(())
        }
        Command::Add {
            principal,
            role,
            of,
        } => {
            let id = of.id(session).await?;
            let body = json!({ "principal": principal, "role": role });
            let answer = session
                .api
                .change(
                    Method::POST,
                    &["projects", &id, "members"],
                    &body,
                    &session.key,
                )
                .await?;
            super::done(session, &answer, &format!("{principal} is {role}."));
            Ok(())
        }
        Command::SetRole { member, role, of } => {
            let id = of.id(session).await?;
            let found = find(session, &id, &member).await?;
            let body = json!({ "role": role, "etag": text(&found, "etag") });
            let path = ["projects", &id, "members", &text(&found, "member_id")];
            let answer = session
                .api
                .change(Method::PATCH, &path, &body, &session.key)
                .await?;
            super::done(session, &answer, &format!("{member} is {role}."));
            Ok(())
        }
        Command::Remove { member, of } => {
            let id = of.id(session).await?;
            let found = find(session, &id, &member).await?;
            let path = ["projects", &id, "members", &text(&found, "member_id")];
            let query = [("etag", text(&found, "etag"))];
            let answer = session.api.delete(&path, &query, &session.key).await?;
            super::done(session, &answer, &format!("Removed {member}."));
            Ok(())
        }
        Command::Invite { email, role, of } => {
            let id = of.id(session).await?;
            let body = json!({ "email": email, "role": role });
            let path = ["projects", &id, "invitations"];
            let answer = session
                .api
                .change(Method::POST, &path, &body, &session.key)
                .await?;
            invited(session, &answer, &email);
            Ok(())
        }
        Command::Invitations(of) => invitations(session, &of.id(session).await?).await,
        Command::Revoke { invitation } => {
            let path = ["invitations", &format!("{invitation}:revoke")];
            let answer = session
                .api
                .change(Method::POST, &path, &json!({}), &session.key)
                .await?;
            super::done(session, &answer, "Revoked.");
            Ok(())
        }
        Command::Accept => {
            note!("Paste the token of the invitation, then Enter:");
            let mut token = String::new();
            std::io::stdin()
                .read_line(&mut token)
                .map_err(|error| Failure::Usage(format!("cannot read the token: {error}")))?;
            // people paste the whole link
            let token = token.trim();
            let token = token.split_once("/join#").map_or(token, |(_, token)| token);
            let body = json!({ "token": token });
            let answer = session
                .api
                .change(Method::POST, &["invitations:accept"], &body, &session.key)
                .await?;
            let sentence = format!(
                "You are {} of {}.",
                text(&answer, "role"),
                text(&answer, "target")
            );
            super::done(session, &answer, &sentence);
            Ok(())
        }
    }
}

/// The answer to an invitation. The token is the one thing that must be printed: nobody sees it again.
fn invited(session: &Session, answer: &Value, email: &str) {
    if session.json() {
        print_json(answer);
        return;
    }
    let token = text(answer, "token");
    if token.is_empty() {
        say!("{email} was invited before with this idempotency key; the token is not shown again.");
        return;
    }
    let mut link = session.api.base().clone();
    link.set_path("/join");
    link.set_fragment(Some(&token));
    say!("{email} is invited. Send this link; it works once and is not shown again:\n{link}");
}

async fn members(
    session: &Session,
    project: &str,
    selected: &Selected,
) -> Result<Vec<Value>, Failure> {
    let path = ["projects", project, "members"];
    session.api.list(&path, &selected.query(), "members").await
}

async fn find(session: &Session, project: &str, given: &str) -> Result<Value, Failure> {
    let all = members(session, project, &Selected::default()).await?;
    let names = all.iter().filter_map(|one| one["principal"].as_str());
    let message = format!("no member is {given:?}; see: gpuaas member list");
    let missing = suggest::with_nearest(message, given, names);
    all.iter()
        .find(|one| one["principal"] == given || one["member_id"] == given)
        .cloned()
        .ok_or(Failure::NotFound(missing))
}

/// Prints the members of a project or an organisation.
pub fn print(session: &Session, found: &[Value]) {
    if session.json() {
        print_json(&json!({ "members": found }));
        return;
    }
    let rows = found.iter().map(|one| {
        let disabled = one["disabled"].as_bool().unwrap_or_default();
        [
            text(one, "principal"),
            text(one, "display_name"),
            text(one, "role"),
            text(one, "email"),
            match (disabled, one["scim"] == true) {
                (true, true) => "disabled, scim",
                (true, false) => "disabled",
                (false, true) => "scim",
                (false, false) => "",
            }
            .to_owned(),
            time(text(one, "create_time").parse::<jiff::Timestamp>().ok()),
        ]
    });
    print_table(
        ["PRINCIPAL", "NAME", "ROLE", "EMAIL", "STATE", "SINCE"],
        rows.collect(),
    );
}

async fn invitations(session: &Session, project: &str) -> Result<(), Failure> {
    let path = ["projects", project, "invitations"];
    let found = session.api.list(&path, &[], "invitations").await?;
    if session.json() {
        print_json(&json!({ "invitations": found }));
        return Ok(());
    }
    if found.is_empty() {
        say!("No invitations. Invite somebody: gpuaas member invite EMAIL");
        return Ok(());
    }
    let rows = found.iter().map(|one| {
        [
            text(one, "email"),
            text(one, "role"),
            text(one, "state"),
            time(text(one, "expire_time").parse::<jiff::Timestamp>().ok()),
            text(one, "id"),
        ]
    });
    print_table(["EMAIL", "ROLE", "STATE", "EXPIRES", "ID"], rows.collect());
    Ok(())
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}
