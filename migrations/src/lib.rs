//! The database as the services expect it: roles, schemas, tables, grants.
//!
//! Every bounded context owns one schema and reaches it with its own role; [`SCHEMAS`] is the map. The SQL
//! lies in the folders of this crate and is embedded into the program. Migrations only go forward: a script
//! that was applied never changes, its checksum is compared on every run. Each schema records what was
//! applied in its own table `_sqlx_migrations`, the common scripts in `_sqlx_migrations_common`.
//!
//! Order on an empty cluster: [`roles::bootstrap_roles`] and [`roles::create_database`] as superuser, then
//! [`apply_all`] as [`OWNER_ROLE`].
use std::borrow::Cow;

use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::{AssertSqlSafe, Executor as _, PgConnection, SqlSafeStr as _};

pub mod roles;

pub use roles::{bootstrap_roles, create_database};

/// Version, description, SQL.
type Script = (i64, &'static str, &'static str);

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// Role that owns all schemas and runs migrations; no service connects with it.
pub const OWNER_ROLE: &str = "gpuaas_owner";

/// Key of the advisory lock that serialises migrators of one database.
const LOCK: i64 = 0x6d69_6772_6174;

/// One schema and the service roles that work in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schema {
    /// Name of the schema and of its folder of scripts.
    pub name: &'static str,
    /// Roles whose `search_path` is this schema.
    pub roles: &'static [&'static str],
}

/// All schemas. Two services share `placement`: claims, slots, allocations and events commit together.
pub const SCHEMAS: [Schema; 6] = [
    Schema {
        name: "placement",
        roles: &["gpuaas_scheduler", "gpuaas_allocation"],
    },
    Schema {
        name: "inventory",
        roles: &["gpuaas_inventory"],
    },
    Schema {
        name: "images",
        roles: &["gpuaas_images"],
    },
    Schema {
        name: "terminal",
        roles: &["gpuaas_terminal"],
    },
    Schema {
        name: "billing",
        roles: &["gpuaas_billing"],
    },
    Schema {
        name: "edge",
        roles: &["gpuaas_edge"],
    },
];

/// Why the database could not be prepared.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The schema is not one of [`SCHEMAS`].
    #[error("unknown schema {0:?}")]
    UnknownSchema(String),
    /// No password was given for a role.
    #[error("no password given for role {0}")]
    PasswordMissing(&'static str),
    /// A name is not a plain identifier.
    #[error("{0:?} is not a plain lower-case identifier")]
    BadIdentifier(String),
    /// A script failed, or one that was applied has changed since.
    #[error("migrate schema {schema}")]
    Migrate {
        /// Schema that was being migrated.
        schema: &'static str,
        /// What went wrong.
        #[source]
        source: MigrateError,
    },
    /// The database refused a statement.
    #[error("prepare the database")]
    Database(#[from] sqlx::Error),
}

/// Applies what is missing in every schema. Run as [`OWNER_ROLE`]; safe to repeat and to run concurrently.
///
/// # Errors
/// [`Error::Migrate`] when a script fails or an applied one has changed.
pub async fn apply_all(conn: &mut PgConnection) -> Result<(), Error> {
    for schema in SCHEMAS {
        apply(conn, schema.name).await?;
    }
    Ok(())
}

/// Applies what is missing in one schema: the common scripts, then its own.
///
/// # Errors
/// [`Error::UnknownSchema`], or [`Error::Migrate`] when a script fails or an applied one has changed.
pub async fn apply(conn: &mut PgConnection, schema: &str) -> Result<(), Error> {
    let schema = find(schema)?;
    let search_path: String = sqlx::query_scalar("SELECT current_setting('search_path')")
        .fetch_one(&mut *conn)
        .await?;
    // sqlx locks each run of its own; the grants between two runs need the lock as well.
    sqlx::query("SELECT pg_advisory_lock($1)")
        .bind(LOCK)
        .execute(&mut *conn)
        .await?;
    let outcome = apply_in(conn, schema).await;
    sqlx::query("SELECT pg_advisory_unlock($1)")
        .bind(LOCK)
        .execute(&mut *conn)
        .await?;
    // Put back also after a failure: the connection may be the caller's pooled one.
    sqlx::query("SELECT set_config('search_path', $1, false)")
        .bind(search_path)
        .execute(conn)
        .await?;
    outcome
}

async fn apply_in(conn: &mut PgConnection, schema: Schema) -> Result<(), Error> {
    let name = schema.name;
    sqlx::query("SELECT set_config('search_path', $1, false)")
        .bind(name)
        .execute(&mut *conn)
        .await?;
    let failed = |source| Error::Migrate {
        schema: name,
        source,
    };
    migrator("common", format!("{name}._sqlx_migrations_common"), name)
        .run_direct(None, conn, false)
        .await
        .map_err(failed)?;
    grant_common(conn, schema).await?;
    migrator(name, format!("{name}._sqlx_migrations"), name)
        .run_direct(None, conn, false)
        .await
        .map_err(failed)
}

/// What every service role may do in its schema; everything else is granted by the schema's own scripts.
async fn grant_common(conn: &mut PgConnection, schema: Schema) -> Result<(), Error> {
    let name = schema.name;
    for role in schema.roles {
        conn.execute(AssertSqlSafe(format!(
            "GRANT USAGE ON SCHEMA {name} TO {role};
             GRANT SELECT, INSERT, DELETE ON {name}.idempotency TO {role};
             REVOKE INSERT ON {name}.audit FROM {role};
             GRANT SELECT ON {name}.audit TO {role};
             GRANT INSERT (id, principal, action, resource, resource_id, request_id, detail, address, user_agent, region)
                 ON {name}.audit TO {role};
             GRANT UPDATE (position, digest) ON {name}.audit TO {role};
             GRANT SELECT ON {name}.audit_checkpoint TO {role};
             GRANT EXECUTE ON FUNCTION {name}.retire_audit(integer, integer) TO {role};
             GRANT SELECT ON {name}._sqlx_migrations_common TO {role}"
        )))
        .await?;
    }
    Ok(())
}

/// Highest version of a schema's own scripts that this program knows; 0 when it has none.
///
/// # Errors
/// [`Error::UnknownSchema`].
pub fn latest_version(schema: &str) -> Result<i64, Error> {
    let schema = find(schema)?;
    Ok(scripts(schema.name)
        .iter()
        .map(|(version, ..)| *version)
        .max()
        .unwrap_or(0))
}

/// Digest of every script of every folder, names and order included: two programs with the same value make the
/// same database. Development tools name their template databases by it.
pub fn fingerprint() -> String {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hasher = DefaultHasher::new();
    EMBEDDED.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

fn find(name: &str) -> Result<Schema, Error> {
    SCHEMAS
        .into_iter()
        .find(|schema| schema.name == name)
        .ok_or_else(|| Error::UnknownSchema(name.to_owned()))
}

fn scripts(folder: &str) -> &'static [Script] {
    EMBEDDED
        .iter()
        .find(|(name, _)| *name == folder)
        .map_or(&[], |(_, scripts)| *scripts)
}

fn migrator(folder: &str, table: String, schema: &'static str) -> Migrator {
    let migrations = scripts(folder)
        .iter()
        .map(|(version, description, sql)| {
            Migration::new(
                *version,
                Cow::Borrowed(*description),
                MigrationType::Simple,
                sql.into_sql_str(),
                false,
            )
        })
        .collect();
    let mut migrator = Migrator::with_migrations(migrations);
    migrator.dangerous_set_table_name(table);
    migrator.create_schema(schema);
    migrator
}
