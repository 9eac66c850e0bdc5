//! Launches that are under way, and projects that are being closed: a launch is noted before the project closes, and keeps it
//! open, or comes after, and is refused (function `begin_launch` of the schema).
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

/// What a project says of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// It is noted.
    Noted,
    /// Nothing new begins in the project.
    Suspended,
    /// The project is being closed.
    Closing,
    /// The project is closed.
    Closed,
    /// There is no such project.
    Unknown,
}

/// Notes a launch for so many seconds; `even_suspended`: also in a suspended project.
///
/// # Errors
/// Database errors.
pub async fn begin_launch(
    pool: &PgPool,
    launch: Uuid,
    project: Uuid,
    seconds: f64,
    even_suspended: bool,
) -> sqlx::Result<Begun> {
    let state: Option<String> = sqlx::query_scalar("SELECT begin_launch($1, $2, $3, $4)")
        .bind(launch)
        .bind(project)
        .bind(seconds)
        .bind(even_suspended)
        .fetch_one(pool)
        .await?;
    Ok(match state.as_deref() {
        None => Begun::Unknown,
        Some("active") => Begun::Noted,
        Some("suspended") if even_suspended => Begun::Noted,
        Some("suspended") => Begun::Suspended,
        Some("closing") => Begun::Closing,
        Some(_) => Begun::Closed,
    })
}

/// Forgets a launch that a service has answered.
///
/// # Errors
/// Database errors.
pub async fn end_launch(pool: &PgPool, launch: Uuid) -> sqlx::Result<()> {
    sqlx::query("DELETE FROM project_launches WHERE id = $1")
        .bind(launch)
        .execute(pool)
        .await?;
    Ok(())
}

/// How many launches into a project have no answer yet.
///
/// # Errors
/// Database errors.
pub async fn launches_under_way(conn: &mut PgConnection, project: Uuid) -> sqlx::Result<i64> {
    sqlx::query_scalar(
        "SELECT count(*) FROM project_launches WHERE project_id = $1 AND expire_time > clock_timestamp()",
    )
    .bind(project)
    .fetch_one(conn)
    .await
}

/// Lets nothing begin in a project for so many seconds; forgets what has expired.
///
/// # Errors
/// Database errors.
pub async fn begin_closing(
    conn: &mut PgConnection,
    closing: Uuid,
    project: Uuid,
    seconds: f64,
) -> sqlx::Result<()> {
    for statement in [
        "DELETE FROM project_launches WHERE project_id = $1 AND expire_time <= clock_timestamp()",
        "DELETE FROM project_closings WHERE project_id = $1 AND expire_time <= clock_timestamp()",
    ] {
        sqlx::query(statement)
            .bind(project)
            .execute(&mut *conn)
            .await?;
    }
    sqlx::query(
        "INSERT INTO project_closings (id, project_id, expire_time)
         VALUES ($1, $2, clock_timestamp() + make_interval(secs => $3))",
    )
    .bind(closing)
    .bind(project)
    .bind(seconds)
    .execute(conn)
    .await?;
    Ok(())
}

/// Ends what [`begin_closing`] began; `false` when its time was over already.
///
/// # Errors
/// Database errors.
pub async fn end_closing(conn: &mut PgConnection, closing: Uuid) -> sqlx::Result<bool> {
    let in_time: Option<bool> = sqlx::query_scalar(
        "DELETE FROM project_closings WHERE id = $1 RETURNING expire_time > clock_timestamp()",
    )
    .bind(closing)
    .fetch_optional(conn)
    .await?;
    Ok(in_time.unwrap_or(false))
}
