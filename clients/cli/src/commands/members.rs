//! `member`: who belongs to a project or an organisation, and invitations into them.
use std::collections::HashSet;

use gpuaas_proto::gpuaas::identity::v1::{
    AcceptInvitationRequest, AddOrganisationMemberRequest, AddProjectMemberRequest,
    CreateOrganisationInvitationRequest, CreateProjectInvitationRequest, Invitation,
    ListOrganisationInvitationsRequest, ListOrganisationMembersRequest,
    ListProjectInvitationsRequest, ListProjectMembersRequest, Member, MemberRole,
    RemoveOrganisationMemberRequest, RemoveProjectMemberRequest, RevokeInvitationRequest,
    UpdateOrganisationMemberRequest, UpdateProjectMemberRequest,
};
use gpuaas_proto::json::Enumeration as _;
use serde_json::{Value, json};

use super::select::{Selected, SelectedOf};
use super::whose::{Owner, Whose, about};
use crate::api::Answer;
use crate::api_failure::ApiFailure;
use crate::failure::Failure;
use crate::output::{print_json, print_table, time, word};
use crate::session::{Session, done, each, shown_once};
use crate::suggest;

/// Roles of members, the strongest first.
pub const ROLES: [&str; 4] = ["owner", "member", "viewer", "billing"];

/// The role of one of these words.
pub fn role(word: &str) -> i32 {
    MemberRole::of_word(word).unwrap_or_default().into()
}

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List the members with their roles. Members of an organisation have the same role in all of its projects.
    List {
        #[command(flatten)]
        of: Whose,
        #[command(flatten)]
        selected: SelectedOf<ListProjectMembersRequest>,
    },
    /// Add a principal of the organisation to the organisation or to a project. Invite people from outside instead.
    Add {
        /// Principal, for example user:alice.
        principal: String,
        /// Role.
        #[arg(long, default_value = "member", value_parser = ROLES)]
        role: String,
        #[command(flatten)]
        of: Whose,
    },
    /// Change the role of a member.
    SetRole {
        /// Principal, for example user:alice, or the id of the member.
        member: String,
        /// Role.
        #[arg(value_parser = ROLES)]
        role: String,
        #[command(flatten)]
        of: Whose,
    },
    /// Remove members. Their open terminals and streams end. Removing a non-member succeeds.
    Remove {
        /// Principals, for example user:alice, or ids of members.
        #[arg(required = true, value_name = "MEMBER")]
        members: Vec<String>,
        #[command(flatten)]
        of: Whose,
    },
    /// Invite somebody by email. The token is printed only once; send it to the person.
    Invite {
        /// Email address. It must match the address that the identity provider verified; without a verified address, anybody
        /// with the link can accept.
        email: String,
        /// Role.
        #[arg(long, default_value = "member", value_parser = ROLES)]
        role: String,
        #[command(flatten)]
        of: Whose,
    },
    /// Invitations.
    #[command(subcommand)]
    Invitation(InvitationCommand),
    /// The former name of `invitation list`.
    #[command(hide = true)]
    Invitations(InvitationList),
    /// Revoke an invitation.
    Revoke {
        /// Id of the invitation.
        invitation: String,
    },
    /// Accept an invitation. The token is read from standard input.
    Accept,
}

#[derive(Debug, clap::Subcommand)]
pub enum InvitationCommand {
    /// List the invitations.
    List(InvitationList),
}

/// Whose invitations, and which of them.
#[derive(Debug, clap::Args)]
pub struct InvitationList {
    #[command(flatten)]
    of: Whose,
    #[command(flatten)]
    selected: SelectedOf<ListProjectInvitationsRequest>,
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    let (api, key) = (&session.api, &session.key);
    match command {
        Command::List { of, selected } => {
            let (found, json) = members(session, &of.find(session).await?, &selected).await?;
            print(session, &json, found);
            Ok(())
        }
        Command::Add {
            principal,
            role,
            of,
        } => {
            let sentence = format!("{principal} is {role}.");
            let role = self::role(&role);
            let json = about!(
                of.find(session).await?,
                AddProjectMemberRequest | AddOrganisationMemberRequest { principal, role },
                |request| api.apply(&request, key).await?.json
            );
            done(session, &json, &sentence);
            Ok(())
        }
        Command::SetRole { member, role, of } => {
            let owner = of.find(session).await?;
            let Member {
                member_id, etag, ..
            } = find(&everybody(session, &owner).await?, &member)?;
            let sentence = format!("{member} is {role}.");
            let role = self::role(&role);
            let json = about!(
                owner,
                UpdateProjectMemberRequest
                    | UpdateOrganisationMemberRequest {
                        member_id,
                        role,
                        etag,
                    },
                |request| api.apply(&request, key).await?.json
            );
            done(session, &json, &sentence);
            Ok(())
        }
        Command::Remove { members, of } => {
            let owner = of.find(session).await?;
            let all = everybody(session, &owner).await?;
            // nobody is removed where one of them is misspelled
            let (mut found, mut known) = (Vec::new(), HashSet::new());
            for member in &members {
                // who is named beside is not who was meant
                let others = all.iter().filter(|one| !members.contains(&one.principal));
                let names = others.map(|one| one.principal.as_str());
                let is_misspelled = suggest::nearest(member, names).is_some();
                let one = match find(&all, member) {
                    Ok(one) => Some(one),
                    Err(missing) if is_misspelled || !is_principal(member) && !is_id(member) => {
                        return Err(missing);
                    }
                    Err(_) => None,
                };
                // by a name and by an id it is one, which is gone the second time
                let one = one.filter(|one| known.insert(one.member_id.clone()));
                found.push((one, member.clone()));
            }
            let gone = |member: &str| {
                let answer = json!({ "member": member, "gone": true });
                (answer, format!("{member} is no member any more."))
            };
            each(session, "members", found, async |found, member, key| {
                let Some(Member {
                    member_id, etag, ..
                }) = found
                else {
                    return Ok(gone(member));
                };
                let removed = about!(
                    owner.clone(),
                    RemoveProjectMemberRequest
                        | RemoveOrganisationMemberRequest { member_id, etag },
                    |request| api.apply(&request, key).await.map(|answer| answer.json)
                );
                match removed {
                    Ok(json) => Ok((json, format!("Removed {member}."))),
                    // somebody else was quicker
                    Err(Failure::Api(error)) if is_of_field(&error, "member_id") => {
                        Ok(gone(member))
                    }
                    Err(failure) => Err(failure),
                }
            })
            .await
        }
        Command::Invite { email, role, of } => {
            let answer = about!(
                of.find(session).await?,
                CreateProjectInvitationRequest
                    | CreateOrganisationInvitationRequest {
                        email: email.clone(),
                        role: self::role(&role),
                        ..Default::default()
                    },
                |request| api.apply(&request, key).await?
            );
            invited(session, &answer, &email)
        }
        Command::Invitation(InvitationCommand::List(list)) | Command::Invitations(list) => {
            invitations(session, list.of.find(session).await?, &list.selected).await
        }
        Command::Revoke { invitation } => {
            let request = RevokeInvitationRequest {
                invitation_id: invitation,
            };
            let answer = api.apply(&request, key).await?;
            done(session, &answer.json, "Revoked.");
            Ok(())
        }
        Command::Accept => accept(session).await,
    }
}

async fn accept(session: &Session) -> Result<(), Failure> {
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
    done(session, &answer.json, &sentence);
    Ok(())
}

/// The answer to an invitation. The token is the one thing that must be printed: nobody sees it again. For a script it is the
/// link alone.
fn invited(session: &Session, answer: &Answer<Invitation>, email: &str) -> Result<(), Failure> {
    let Invitation { id, token, .. } = &answer.message;
    shown_once(token, &format!("invitation {id} of {email}"), || {
        format!("gpuaas member revoke {id}, then invite again")
    })?;
    if session.whole() {
        print_json(&answer.json);
        return Ok(());
    }
    let is_script = session.json();
    let mut link = session.api.base().clone();
    link.set_path("/join");
    link.set_fragment(Some(token));
    if is_script {
        say!("{link}");
    } else {
        say!("{email} is invited. Send this link; it works once and is not shown again:\n{link}");
    }
    Ok(())
}

/// The members, also as they were sent.
async fn members(
    session: &Session,
    owner: &Owner,
    selected: &Selected,
) -> Result<(Vec<Member>, Value), Failure> {
    about!(
        owner.clone(),
        ListProjectMembersRequest
            | ListOrganisationMembersRequest {
                filter: selected.filter(),
                order_by: selected.order_by(),
                ..Default::default()
            },
        |request| {
            let found = session.api.call_all_pages(&request, "members").await?;
            Ok((found.message.members, found.json))
        }
    )
}

async fn everybody(session: &Session, owner: &Owner) -> Result<Vec<Member>, Failure> {
    Ok(members(session, owner, &Selected::default()).await?.0)
}

/// Whether the API does not know what this field names.
fn is_of_field(error: &ApiFailure, field: &str) -> bool {
    error.http == 404 && error.fields.iter().any(|(name, _)| name == field)
}

/// Whether this can be the name of a principal: `user:alice`.
fn is_principal(given: &str) -> bool {
    let parts = given.split_once(':');
    parts.is_some_and(|(kind, name)| ["user", "service"].contains(&kind) && !name.is_empty())
}

/// Id of a member, one that is gone among them.
fn is_id(given: &str) -> bool {
    uuid::Uuid::parse_str(given).is_ok()
}

fn find(all: &[Member], given: &str) -> Result<Member, Failure> {
    let names = all.iter().map(|one| one.principal.as_str());
    let message = format!("no member is {given:?}; see: gpuaas member list");
    let missing = suggest::with_nearest(message, given, names);
    all.iter()
        .find(|one| one.principal == given || one.member_id == given)
        .cloned()
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

async fn invitations(session: &Session, owner: Owner, selected: &Selected) -> Result<(), Failure> {
    let (found, json) = about!(
        owner,
        ListProjectInvitationsRequest
            | ListOrganisationInvitationsRequest {
                filter: selected.filter(),
                order_by: selected.order_by(),
                ..Default::default()
            },
        |request| {
            let found = session.api.call_all_pages(&request, "invitations").await?;
            (found.message.invitations, found.json)
        }
    );
    if session.json() {
        print_json(&json);
        return Ok(());
    }
    if found.is_empty() && selected.narrows() {
        say!("No invitation matches the filter.");
        return Ok(());
    }
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
