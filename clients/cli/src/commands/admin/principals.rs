//! `admin principal`: who may call at all, and who has a role on the platform.
use gpuaas_proto::call::Unary;
use gpuaas_proto::gpuaas::identity::v1::{
    CreatePrincipalRequest, DisablePrincipalRequest, EnablePrincipalRequest, GetPrincipalRequest,
    ListPrincipalsRequest, ListPrincipalsResponse, PlatformRole, Principal, PrincipalKind,
    SetPlatformRoleRequest,
};
use gpuaas_proto::json::Enumeration as _;

use super::{Session, done};
use crate::api::Answer;
use crate::commands::select::SelectedOf;
use crate::failure::Failure;
use crate::output::{print_json, print_table, time, word};
use crate::resolve::unique;

const LIST: &str = "gpuaas admin principal list";
const KINDS: [&str; 2] = ["user", "service-account"];
const ROLES: [&str; 3] = ["admin", "operator", "auditor"];
/// The same, or no role.
const ROLES_OR_NONE: [&str; 4] = ["admin", "operator", "auditor", "none"];

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List the principals, in the order of their registration.
    List {
        /// Only principals of this kind.
        #[arg(long, value_parser = KINDS)]
        kind: Option<String>,
        /// Only principals with this role on the platform.
        #[arg(long, value_parser = ROLES)]
        role: Option<String>,
        /// Only disabled principals.
        #[arg(long)]
        disabled: bool,
        #[command(flatten)]
        selected: SelectedOf<ListPrincipalsRequest>,
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
        /// Subject: the claim `sub` of the principal's tokens.
        #[arg(long)]
        subject: String,
        /// Display name [default: the name].
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
    /// Give a principal a role on the platform, or remove the role.
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
            selected,
        } => {
            let kind = kind.and_then(|kind| PrincipalKind::of_word(&kind.replace('-', "_")));
            let role = role.as_deref().and_then(PlatformRole::of_word);
            let request = ListPrincipalsRequest {
                kind: kind.unwrap_or_default().into(),
                platform_role: role.unwrap_or_default().into(),
                disabled: disabled.then_some(true),
                filter: selected.filter(),
                order_by: selected.order_by(),
                ..ListPrincipalsRequest::default()
            };
            let found = session.api.call_all_pages(&request, "principals").await?;
            list(session, found);
        }
        Command::Describe { principal } => {
            let request = GetPrincipalRequest {
                principal_id: resolve(session, &principal).await?,
            };
            describe(session, session.api.call(&request).await?);
        }
        Command::Create {
            name,
            issuer,
            subject,
            display_name,
            email,
        } => {
            let sentence = format!("Registered {name}.");
            let request = CreatePrincipalRequest {
                name,
                display_name: display_name.unwrap_or_default(),
                issuer,
                subject,
                email: email.unwrap_or_default(),
            };
            change(session, request, &sentence).await?;
        }
        Command::Disable { principal, reason } => {
            let request = DisablePrincipalRequest {
                principal_id: resolve(session, &principal).await?,
                reason: reason.unwrap_or_default(),
                ..DisablePrincipalRequest::default()
            };
            change(session, request, &format!("{principal} is disabled.")).await?;
        }
        Command::Enable { principal } => {
            let request = EnablePrincipalRequest {
                principal_id: resolve(session, &principal).await?,
                ..EnablePrincipalRequest::default()
            };
            change(session, request, &format!("{principal} is enabled.")).await?;
        }
        Command::SetRole { principal, role } => {
            // no word, no role
            let wanted = PlatformRole::of_word(&role).unwrap_or_default();
            let request = SetPlatformRoleRequest {
                principal_id: resolve(session, &principal).await?,
                platform_role: wanted.into(),
                ..SetPlatformRoleRequest::default()
            };
            let sentence = match role.as_str() {
                "none" => format!("{principal} has no role on the platform."),
                role => format!("{principal} has the role {role} on the platform."),
            };
            change(session, request, &sentence).await?;
        }
    }
    Ok(())
}

async fn change(
    session: &Session,
    request: impl Unary<Response = Principal>,
    sentence: &str,
) -> Result<(), Failure> {
    let answer = session.api.apply(&request, &session.key).await?;
    done(session, &answer.json, sentence);
    Ok(())
}

/// The id of a principal; a name has a colon, an id has none.
async fn resolve(session: &Session, principal: &str) -> Result<String, Failure> {
    if uuid::Uuid::parse_str(principal).is_ok() {
        return Ok(principal.to_owned());
    }
    let mut request = ListPrincipalsRequest::default();
    if principal.contains(':') {
        request.name = principal.to_owned();
    }
    let found = session.api.call_all_pages(&request, "principals").await?;
    let found = found.message.principals;
    if let Some(one) = found.iter().find(|one| one.name == principal) {
        return Ok(one.id.clone());
    }
    let ids = found.iter().map(|one| one.id.as_str());
    unique("principal", principal, ids, LIST)
}

fn list(session: &Session, found: Answer<ListPrincipalsResponse>) {
    if session.json() {
        print_json(&found.json);
        return;
    }
    let found = found.message.principals;
    if found.is_empty() {
        say!("No principal matches.");
        return;
    }
    let rows = found.into_iter().map(|one| {
        let (kind, role) = (kind(&one), word(one.platform_role()));
        let state = state(&one).to_owned();
        [
            one.name,
            one.display_name,
            kind,
            role,
            state,
            time(one.create_time),
            one.id,
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

fn describe(session: &Session, answer: Answer<Principal>) {
    if session.json() {
        print_json(&answer.json);
        return;
    }
    let one = answer.message;
    let (kind, role) = (kind(&one), word(one.platform_role()));
    let state = state(&one).to_owned();
    let rows = [
        ("Principal", one.name),
        ("Name", one.display_name),
        ("Email", one.email),
        ("Kind", kind),
        ("Role on the platform", role),
        ("State", state),
        ("Issuer", one.issuer),
        ("Subject", one.subject),
        ("Registered", time(one.create_time)),
        ("Changed", time(one.update_time)),
        ("Id", one.id),
    ];
    for (name, value) in rows {
        say!("{:<22}{value}", format!("{name}:"));
    }
}

fn kind(one: &Principal) -> String {
    word(one.kind()).replace('_', "-")
}

fn state(one: &Principal) -> &'static str {
    match one.disable_time {
        None => "enabled",
        Some(_) => "disabled",
    }
}
