//! Brings a database to the state this release expects. Runs before any service.
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Parser;
use sqlx::{Connection as _, PgConnection};

/// Applies the migrations of all schemas. URLs and passwords come from files only, so that they are in no
/// process list and no shell history.
#[derive(Parser)]
#[command(name = "gpuaas-migrate", version)]
struct Arguments {
    /// File with the connection URL of the owner role.
    #[arg(long)]
    url_file: PathBuf,
    /// Only this schema.
    #[arg(long)]
    schema: Option<String>,
    /// First make roles and database: file with the URL of a superuser, connected to the database `postgres`.
    #[arg(long, requires = "passwords_file", requires = "database")]
    superuser_url_file: Option<PathBuf>,
    /// TOML file with one line per role: `gpuaas_owner = "…"`.
    #[arg(long)]
    passwords_file: Option<PathBuf>,
    /// Database to create.
    #[arg(long)]
    database: Option<String>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if let (Some(url_file), Some(passwords_file), Some(database)) = (
        &arguments.superuser_url_file,
        &arguments.passwords_file,
        &arguments.database,
    ) {
        let mut conn = connect(url_file).await?;
        let passwords: BTreeMap<String, String> =
            toml::from_str(&read(passwords_file)?).map_err(|_| {
                anyhow::anyhow!(
                    "{}: want lines `role = \"password\"`",
                    passwords_file.display()
                )
            })?;
        gpuaas_migrations::bootstrap_roles(&mut conn, &passwords)
            .await
            .context("make roles")?;
        let created = gpuaas_migrations::create_database(&mut conn, database)
            .await
            .context("make the database")?;
        println!(
            "roles are in place; database {database} {}",
            if created { "created" } else { "kept" }
        );
    }
    let mut conn = connect(&arguments.url_file).await?;
    match &arguments.schema {
        Some(schema) => gpuaas_migrations::apply(&mut conn, schema).await?,
        None => gpuaas_migrations::apply_all(&mut conn).await?,
    }
    println!("migrations are applied");
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))
}

async fn connect(url_file: &Path) -> anyhow::Result<PgConnection> {
    let url = read(url_file)?;
    // The source error is dropped on purpose: a malformed URL would be quoted with its password.
    PgConnection::connect(url.trim())
        .await
        .map_err(|error| match error {
            sqlx::Error::Configuration(_) => {
                anyhow::anyhow!("{}: not a PostgreSQL URL", url_file.display())
            }
            other => anyhow::Error::new(other)
                .context(format!("connect with the URL of {}", url_file.display())),
        })
}
