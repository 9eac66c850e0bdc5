//! The table of `make status`.

use std::fmt::Write as _;

use crate::error::Result;
use crate::process::Process;
use crate::stack::{GATEWAY, SERVICES, Stack};

/// One part.
#[derive(Debug, Clone)]
pub struct Row {
    /// Name of the part.
    pub part: String,
    /// Its process, if it runs.
    pub process: Option<Process>,
    /// Where it answers.
    pub address: String,
    /// "ok", or what is wrong.
    pub health: String,
}

impl Stack {
    /// Every part with its process and health.
    ///
    /// # Errors
    /// A pid file or folder cannot be read.
    pub async fn status(&self) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        let (postgres, redis) = (self.postgres()?, self.redis()?);
        let (registry, pushes) = (self.registry()?, self.push_registry()?);
        let database = postgres.superuser("postgres").await.is_ok();
        for (part, process, address, answers) in [
            (
                "postgres",
                postgres.running(),
                format!("127.0.0.1:{}", postgres.port()),
                database,
            ),
            ("redis", redis.running(), redis.address(), redis.answers()),
            (
                "registry",
                registry.running(),
                registry.host(),
                registry.answers(),
            ),
            (
                "registry-push",
                pushes.running(),
                pushes.host(),
                pushes.answers(),
            ),
        ] {
            let health = answers.then_some(()).ok_or_else(|| "no answer".to_owned());
            rows.push(row(part, process, address, health));
        }
        for kind in SERVICES.into_iter().chain([GATEWAY]) {
            let part = self.service(kind, 1)?;
            let health = part.health(self.health()).await;
            rows.push(row(
                &part.name,
                part.running(),
                part.address.clone(),
                health,
            ));
        }
        for number in 0..self.lab_hosts() {
            let lab = self.lab_numbered(number);
            let part = lab.part();
            let health = part.health(self.health()).await;
            rows.push(row(
                &part.name,
                part.running(),
                lab.host_address().to_string(),
                health,
            ));
            let health = match lab.agent_probe() {
                Some(probe) => self.health().check(&probe).await,
                None => Err("not enrolled".to_owned()),
            };
            rows.push(row(
                &lab.part_name("agent"),
                lab.agent_process(),
                lab.agent_address().to_string(),
                health,
            ));
        }
        Ok(rows)
    }
}

fn row(part: &str, process: Option<Process>, address: String, health: Result<(), String>) -> Row {
    let health = match (&process, health) {
        (None, _) => "down".to_owned(),
        (Some(_), Ok(())) => "ok".to_owned(),
        (Some(_), Err(reason)) => reason,
    };
    Row {
        part: part.to_owned(),
        process,
        address,
        health,
    }
}

/// The rows as a table for people.
pub fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<17} {:>7} {:>8}  {:<19} {}\n",
        "PART", "PID", "MEMORY", "ADDRESS", "HEALTH"
    );
    for row in rows {
        let pid = row
            .process
            .as_ref()
            .map_or("-".to_owned(), |process| process.pid.to_string());
        let memory = row.process.as_ref().and_then(Process::memory);
        let memory = memory.map_or("-".to_owned(), |bytes| format!("{} MB", bytes / 1_000_000));
        // writing to a string cannot fail
        let _ = writeln!(
            text,
            "{:<17} {pid:>7} {memory:>8}  {:<19} {}",
            row.part, row.address, row.health
        );
    }
    text
}
