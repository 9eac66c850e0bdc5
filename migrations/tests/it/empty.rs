//! A database of its own without any migration.
use gpuaas_migrations::{OWNER_ROLE, create_database};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};

/// A database without any migration; dropped by [`Empty::drop_it`].
pub struct Empty {
    pub superuser: PgConnection,
    pub name: String,
    pub server: gpuaas_dev::postgres::Server,
}

impl Empty {
    pub async fn new() -> Self {
        // makes the roles and proves that the server answers
        let made = gpuaas_dev::postgres::TestDb::create().await;
        let server = made.server().clone();
        let mut superuser = server.superuser("postgres").await.expect("superuser");
        let name = format!("{}_empty", made.name());
        assert!(
            create_database(&mut superuser, &name)
                .await
                .expect("create")
        );
        assert!(!create_database(&mut superuser, &name).await.expect("again"));
        Self {
            superuser,
            name,
            server,
        }
    }

    pub async fn owner(&self) -> PgConnection {
        PgConnection::connect_with(&self.server.options(OWNER_ROLE, &self.name))
            .await
            .expect("owner connects")
    }

    pub async fn drop_it(mut self) {
        self.superuser
            .execute(AssertSqlSafe(format!(
                "DROP DATABASE {} WITH (FORCE)",
                self.name
            )))
            .await
            .expect("drop");
    }
}
