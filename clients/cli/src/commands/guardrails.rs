//! `organisation guardrail`: what the owners of an organisation forbid in all of its projects.
use gpuaas_proto::gpuaas::identity::v1::{
    AllowedNames, GetOrganisationGuardrailsRequest, OrganisationGuardrails,
    UpdateOrganisationGuardrailsRequest,
};

use crate::failure::Failure;
use crate::organisation;
use crate::output::{print_json, print_table};
use crate::session::Session;

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Show the guardrails of an organisation.
    Show {
        /// Slug or id.
        organisation: String,
    },
    /// Change guardrails of an organisation that you own; others do not change. Changes apply within seconds.
    Set(Changes),
}

/// What is changed.
#[derive(Debug, clap::Args)]
pub struct Changes {
    /// Slug or id.
    organisation: String,
    #[command(flatten)]
    flags: Flags,
}

/// At least one of them.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true)]
struct Flags {
    /// Forbid terminals and SSH through the platform; open ones end.
    #[arg(long, value_name = "BOOL")]
    terminals_disabled: Option<bool>,
    /// Forbid reading serial logs.
    #[arg(long, value_name = "BOOL")]
    serial_logs_disabled: Option<bool>,
    /// Forbid new ingress mappings; existing ones stay.
    #[arg(long, value_name = "BOOL")]
    ingress_mappings_disabled: Option<bool>,
    /// Disable all webhooks of the organisation and its projects, and forbid creating and enabling webhooks.
    #[arg(long, value_name = "BOOL")]
    webhooks_disabled: Option<bool>,
    /// Forbid creating and rotating API keys, and refuse calls with API keys, except SCIM.
    #[arg(long, value_name = "BOOL")]
    api_keys_disabled: Option<bool>,
    /// Maximum lifetime of new API keys in days; 0: no limit.
    #[arg(long, value_name = "DAYS")]
    max_api_key_days: Option<u32>,
    /// Allowed regions for launches and reservations, separated by commas; "": all.
    #[arg(long, value_name = "CODES")]
    allowed_regions: Option<String>,
    /// Allowed SKUs for launches and reservations, separated by commas; "": all.
    #[arg(long, value_name = "SLUGS")]
    allowed_skus: Option<String>,
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::Show { organisation } => {
            let request = GetOrganisationGuardrailsRequest {
                organisation_id: organisation::id(&session.api, &organisation).await?,
            };
            let answer = session.api.call(&request).await?;
            if session.json() {
                print_json(&answer.json);
            } else {
                print(answer.message);
            }
            Ok(())
        }
        Command::Set(Changes {
            organisation,
            flags,
        }) => {
            let request = UpdateOrganisationGuardrailsRequest {
                organisation_id: organisation::id(&session.api, &organisation).await?,
                etag: String::new(),
                terminals_disabled: flags.terminals_disabled,
                serial_logs_disabled: flags.serial_logs_disabled,
                ingress_mappings_disabled: flags.ingress_mappings_disabled,
                webhooks_disabled: flags.webhooks_disabled,
                api_keys_disabled: flags.api_keys_disabled,
                max_api_key_days: flags.max_api_key_days,
                allowed_regions: flags.allowed_regions.as_deref().map(names),
                allowed_skus: flags.allowed_skus.as_deref().map(names),
            };
            let answer = session.api.apply(&request, &session.key).await?;
            if session.json() {
                print_json(&answer.json);
            } else {
                print(answer.message);
            }
            Ok(())
        }
    }
}

fn names(text: &str) -> AllowedNames {
    let names = text.split(',').map(str::trim).filter(|it| !it.is_empty());
    AllowedNames {
        names: names.map(str::to_owned).collect(),
    }
}

fn print(guardrails: OrganisationGuardrails) {
    let word = |on: bool| on.to_string();
    let list = |names: Vec<String>| match names.is_empty() {
        true => "all".to_owned(),
        false => names.join(", "),
    };
    let days = match guardrails.max_api_key_days {
        0 => "no limit".to_owned(),
        days => days.to_string(),
    };
    let rows = [
        ("terminals_disabled", word(guardrails.terminals_disabled)),
        (
            "serial_logs_disabled",
            word(guardrails.serial_logs_disabled),
        ),
        (
            "ingress_mappings_disabled",
            word(guardrails.ingress_mappings_disabled),
        ),
        ("webhooks_disabled", word(guardrails.webhooks_disabled)),
        ("api_keys_disabled", word(guardrails.api_keys_disabled)),
        ("max_api_key_days", days),
        ("allowed_regions", list(guardrails.allowed_regions)),
        ("allowed_skus", list(guardrails.allowed_skus)),
    ];
    let rows = rows.map(|(name, value)| [name.to_owned(), value]);
    print_table(["GUARDRAIL", "VALUE"], rows.to_vec());
}
