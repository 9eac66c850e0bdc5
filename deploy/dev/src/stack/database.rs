//! Roles, database and migrations of a stack.

use std::collections::BTreeMap;
use std::path::Path;

use gpuaas_migrations::OWNER_ROLE;
use sqlx::{Connection as _, PgConnection};

use crate::error::{Error, Result};
use crate::paths;
use crate::postgres::{Server, exists};

/// Makes the roles with their passwords and the database, and applies what is missing of the migrations.
pub async fn prepare(server: &Server, secrets: &Path) -> Result<()> {
    let mut passwords = BTreeMap::new();
    let mut made = false;
    for role in gpuaas_migrations::roles::all() {
        let file = secrets.join(format!("{role}.password"));
        if !file.exists() {
            let password = format!(
                "{}{}",
                uuid::Uuid::new_v4().simple(),
                uuid::Uuid::new_v4().simple()
            );
            paths::write_secret(&file, password.as_bytes())?;
            made = true;
        }
        let password = std::fs::read_to_string(&file).map_err(Error::file("read", &file))?;
        passwords.insert(role.to_owned(), password);
    }
    let refused = |error: gpuaas_migrations::Error| Error::other(crate::error::chain(&error));
    let mut superuser = server.superuser("postgres").await?;
    let exists = exists(&mut superuser, super::DATABASE).await?;
    if made || !exists {
        gpuaas_migrations::bootstrap_roles(&mut superuser, &passwords)
            .await
            .map_err(refused)?;
        gpuaas_migrations::create_database(&mut superuser, super::DATABASE)
            .await
            .map_err(refused)?;
    }
    let mut owner =
        PgConnection::connect_with(&server.options(OWNER_ROLE, super::DATABASE)).await?;
    let applied = gpuaas_migrations::apply_all(&mut owner).await;
    applied.map_err(|error| {
        let why = crate::error::chain(&error);
        if matches!(error, gpuaas_migrations::Error::Migrate { .. }) && exists {
            return Error::other(format!(
                "the database of this stack does not take the migrations: {why}. If it was made by another version \
                 and holds nothing you need, remove it: gpuaas-dev down --purge"
            ));
        }
        Error::other(why)
    })?;
    owner.close().await?;
    Ok(())
}
