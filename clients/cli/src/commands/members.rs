//! `member`: who belongs to a project, and invitations into it.
use gpuaas_proto::gpuaas::identity::v1::{
    AcceptInvitationRequest, AddProjectMemberRequest, CreateProjectInvitationRequest, Invitation,
    ListProjectInvitationsRequest, ListProjectMembersRequest, ListProjectMembersResponse, Member,
    MemberRole, RemoveProjectMemberRequest, RevokeInvitationRequest, UpdateProjectMemberRequest,
};
use gpuaas_proto::json::Enumeration as _;
use serde_json::Value;

use super::Session;
use super::select::Selected;
use crate::api::Answer;
use crate::failure::Failure;
use crate::output::{print_json, print_table, time, word};
use crate::{project, suggest};

/// Roles of members, the strongest first.
pub const ROLES: [&str; 4] = ["owner", "member", "viewer", "billing"];

/// The role of one of these words.
pub fn role(word: &str) -> i32 {
    MemberRole::of_word(word).unwrap_or_default().into()
}

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
            let found = members(session, &project, &selected).await?;
            print(session, &found.json, found.message.members);
            Ok(())
        }
        Command::Add {
            principal,
            role,
            of,
        } => {
            let request = AddProjectMemberRequest {
                project_id: of.id(session).await?,
                principal: principal.clone(),
                role: self::role(&role),
            };
            let answer = session.api.apply(&request, &session.key).await?;
            super::done(session, &answer.json, &format!("{principal} is {role}."));
            Ok(())
        }
        Command::SetRole { member, role, of } => {
            let project_id = of.id(session).await?;
            let found = find(session, &project_id, &member).await?;
            let request = UpdateProjectMemberRequest {
                project_id,
                member_id: found.member_id,
                role: self::role(&role),
                etag: found.etag,
            };
            let answer = session.api.apply(&request, &session.key).await?;
            super::done(session, &answer.json, &format!("{member} is {role}."));
            Ok(())
        }
        Command::Remove { member, of } => {
            let project_id = of.id(session).await?;
            let found = find(session, &project_id, &member).await?;
            let request = RemoveProjectMemberRequest {
                project_id,
                member_id: found.member_id,
                etag: found.etag,
            };
            let answer = session.api.apply(&request, &session.key).await?;
            super::done(session, &answer.json, &format!("Removed {member}."));
            Ok(())
        }
        Command::Invite { email, role, of } => {
            let request = CreateProjectInvitationRequest {
                project_id: of.id(session).await?,
                email: email.clone(),
                role: self::role(&role),
                ..CreateProjectInvitationRequest::default()
            };
            let answer = session.api.apply(&request, &session.key).await?;
            invited(session, &answer, &email);
            Ok(())
        }
        Command::Invitations(of) => invitations(session, of.id(session).await?).await,
        Command::Revoke { invitation } => {
            let request = RevokeInvitationRequest {
                invitation_id: invitation,
            };
            let answer = session.api.apply(&request, &session.key).await?;
            super::done(session, &answer.json, "Revoked.");
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
            let request = AcceptInvitationRequest {
                token: token.to_owned(),
                ..AcceptInvitationRequest::default()
            };
            let answer = session.api.apply(&request, &session.key).await?;
            let role = word(answer.message.role());
            let sentence = format!("You are {role} of {}.", answer.message.target);
            super::done(session, &answer.json, &sentence);
            Ok(())
        }
    }
}

/// The answer to an invitation. The token is the one thing that must be printed: nobody sees it again.
fn invited(session: &Session, answer: &Answer<Invitation>, email: &str) {
    if session.json() {
        print_json(&answer.json);
        return;
    }
    let token = &answer.message.token;
    if token.is_empty() {
        say!("{email} was invited before with this idempotency key; the token is not shown again.");
        return;
    }
    let mut link = session.api.base().clone();
    link.set_path("/join");
    link.set_fragment(Some(token));
    say!("{email} is invited. Send this link; it works once and is not shown again:\n{link}");
}

async fn members(
    session: &Session,
    project: &str,
    selected: &Selected,
) -> Result<Answer<ListProjectMembersResponse>, Failure> {
    let request = ListProjectMembersRequest {
        project_id: project.to_owned(),
        filter: selected.filter(),
        order_by: selected.order_by(),
        ..ListProjectMembersRequest::default()
    };
    session.api.call_all_pages(&request, "members").await
}

async fn find(session: &Session, project: &str, given: &str) -> Result<Member, Failure> {
    let all = members(session, project, &Selected::default()).await?;
    let all = all.message.members;
    let names = all.iter().map(|one| one.principal.as_str());
    let message = format!("no member is {given:?}; see: gpuaas member list");
    let missing = suggest::with_nearest(message, given, names);
    all.into_iter()
        .find(|one| one.principal == given || one.member_id == given)
        .ok_or(Failure::NotFound(missing))
}

/// Prints the members of a project or an organisation.
pub fn print(session: &Session, json: &Value, members: Vec<Member>) {
    if session.json() {
        print_json(json);
        return;
    }
    let rows = members.into_iter().map(|one| {
        let role = word(one.role());
        [
            one.principal,
            one.display_name,
            role,
            one.email,
            match (one.disabled, one.scim) {
                (true, true) => "disabled, scim",
                (true, false) => "disabled",
                (false, true) => "scim",
                (false, false) => "",
            }
            .to_owned(),
            time(one.create_time),
        ]
    });
    print_table(
        ["PRINCIPAL", "NAME", "ROLE", "EMAIL", "STATE", "SINCE"],
        rows.collect(),
    );
}

async fn invitations(session: &Session, project_id: String) -> Result<(), Failure> {
    let request = ListProjectInvitationsRequest {
        project_id,
        ..ListProjectInvitationsRequest::default()
    };
    let found = session.api.call_all_pages(&request, "invitations").await?;
    if session.json() {
        print_json(&found.json);
        return Ok(());
    }
    let found = found.message.invitations;
    if found.is_empty() {
        say!("No invitations. Invite somebody: gpuaas member invite EMAIL");
        return Ok(());
    }
    let rows = found.into_iter().map(|one| {
        let (role, state) = (word(one.role()), word(one.state()));
        [one.email, role, state, time(one.expire_time), one.id]
    });
    print_table(["EMAIL", "ROLE", "STATE", "EXPIRES", "ID"], rows.collect());
    Ok(())
}
