//! `terminal-session` and `admin terminal-session`: who opened a terminal where, what was recorded, and its end.
use std::io::{Write as _, stdout};

use gpuaas_proto::gpuaas::terminal::v1::{
    EndTenantTerminalSessionRequest, EndTerminalSessionRequest, GetTerminalRecordingRequest,
    ListAllocationTerminalSessionsRequest, ListTerminalSessionsRequest, TerminalSession,
};
use serde_json::Value;

use super::Session;
use super::select::{Selected, SelectedOf};
use crate::allocation::AllocationRef;
use crate::failure::Failure;
use crate::output::{print_json, print_table, size, time, word, written};

/// Commands of a member.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List the terminal sessions of an allocation, newest first.
    List {
        #[command(flatten)]
        of: AllocationRef,
        #[command(flatten)]
        selected: SelectedOf<ListAllocationTerminalSessionsRequest>,
    },
    /// Print the recording of a session, as asciicast v3.
    Recording {
        /// Id of the session.
        session: String,
    },
    /// End a terminal or tunnel that you opened, within seconds.
    End {
        #[command(flatten)]
        of: AllocationRef,
        /// Id of the session.
        session: String,
    },
}

/// Commands of an operator.
#[derive(Debug, clap::Subcommand)]
pub enum AdminCommand {
    /// List the terminal sessions of all projects, newest first.
    List {
        /// Only sessions of the allocation with this id.
        #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
        allocation: String,
        #[command(flatten)]
        selected: SelectedOf<ListTerminalSessionsRequest>,
    },
    /// End a terminal or tunnel of any user, within seconds. The user and the members of the project see the reason, unless
    /// the end was already requested.
    End {
        /// Id of the session.
        session: String,
        /// Reason, which the user and the members of the project see.
        #[arg(long)]
        reason: String,
    },
}

/// `terminal-session`.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::List { of, selected } => {
            let request = ListAllocationTerminalSessionsRequest {
                allocation_id: of.id(&session.api).await?,
                filter: selected.filter(),
                order_by: selected.order_by(),
                ..ListAllocationTerminalSessionsRequest::default()
            };
            let listed = session.api.call_all_pages(&request, "sessions").await?;
            print(session, listed.message.sessions, &listed.json, &selected);
            Ok(())
        }
        Command::Recording { session: id } => recording(session, id).await,
        Command::End { of, session: id } => {
            let request = EndTerminalSessionRequest {
                allocation_id: of.id(&session.api).await?,
                session_id: id,
            };
            let answer = session.api.apply(&request, &session.key).await?;
            super::done(session, &answer.json, &ended(&answer.message));
            Ok(())
        }
    }
}

/// `admin terminal-session`.
///
/// # Errors
/// See [`Failure`].
pub async fn admin(session: &Session, command: AdminCommand) -> Result<(), Failure> {
    match command {
        AdminCommand::List {
            allocation,
            selected,
        } => {
            let request = ListTerminalSessionsRequest {
                allocation_id: allocation,
                filter: selected.filter(),
                order_by: selected.order_by(),
                ..ListTerminalSessionsRequest::default()
            };
            let listed = session.api.call_all_pages(&request, "sessions").await?;
            print(session, listed.message.sessions, &listed.json, &selected);
        }
        AdminCommand::End {
            session: session_id,
            reason,
        } => {
            let request = EndTenantTerminalSessionRequest { session_id, reason };
            let answer = session.api.apply(&request, &session.key).await?;
            super::done(session, &answer.json, &ended(&answer.message));
        }
    }
    Ok(())
}

/// What became of a session that was to end.
fn ended(session: &TerminalSession) -> String {
    match session.close_time {
        None => format!("The session of {} ends within seconds.", session.principal),
        closed => format!(
            "The session of {} has ended at {}: {}.",
            session.principal,
            time(closed),
            session.close_reason
        ),
    }
}

/// The parts of all pages are the file.
async fn recording(session: &Session, session_id: String) -> Result<(), Failure> {
    let mut request = GetTerminalRecordingRequest {
        session_id,
        page_token: String::new(),
    };
    loop {
        let part = session.api.call(&request).await?.message;
        written(stdout().write_all(part.asciicast.as_bytes()));
        if part.next_page_token.is_empty() {
            return Ok(());
        }
        request.page_token = part.next_page_token;
    }
}

fn print(session: &Session, sessions: Vec<TerminalSession>, json: &Value, selected: &Selected) {
    if session.json() {
        print_json(json);
        return;
    }
    if sessions.is_empty() {
        say!(
            "{}",
            match selected.narrows() {
                true => "No session matches the filter.",
                false => "Nobody opened a terminal there.",
            }
        );
        return;
    }
    let rows = sessions.into_iter().map(|one| {
        let closed = match one.close_time {
            None => "open".to_owned(),
            at => time(at),
        };
        let recorded = match one.recorded {
            true => size(one.recording_bytes),
            false => "no".to_owned(),
        };
        [
            one.principal.clone(),
            word(one.kind()),
            time(one.open_time),
            closed,
            one.close_reason.clone(),
            recorded,
            one.allocation_id.clone(),
            one.id,
        ]
    });
    print_table(
        [
            "PRINCIPAL",
            "KIND",
            "OPENED",
            "CLOSED",
            "REASON",
            "RECORDED",
            "ALLOCATION",
            "ID",
        ],
        rows.collect(),
    );
}
