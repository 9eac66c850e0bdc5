//! Cached images: what their files were when this host computed their digests, and when they were used.
use rusqlite::{OptionalExtension, params};

use super::{Journal, corrupt};
use crate::error::HostResult;
use crate::ids::Digest;

impl Journal {
    /// The fingerprint of the file whose digest was computed, if it was.
    pub fn image_fingerprint(&self, digest: &Digest) -> HostResult<Option<String>> {
        self.with(|connection| {
            let sql = "SELECT fingerprint FROM images WHERE digest = ?1";
            let found = connection.query_row(sql, params![digest.as_str()], |row| row.get(0));
            Ok(found.optional()?)
        })
    }

    /// The digests that were computed, in order, each with the fingerprint of its file.
    pub fn images(&self) -> HostResult<Vec<(Digest, String)>> {
        self.images_by("SELECT digest, fingerprint FROM images ORDER BY digest")
    }

    /// The same, in the order of their last use, the longest ago first.
    pub fn images_by_use(&self) -> HostResult<Vec<(Digest, String)>> {
        self.images_by("SELECT digest, fingerprint FROM images ORDER BY used_ms, digest")
    }

    fn images_by(&self, sql: &str) -> HostResult<Vec<(Digest, String)>> {
        self.with(|connection| {
            let mut statement = connection.prepare(sql)?;
            let rows = statement.query_map([], |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
            })?;
            let mut found = Vec::new();
            for row in rows {
                let (digest, fingerprint) = row?;
                let digest = digest.parse().map_err(|_| corrupt("digest"))?;
                found.push((digest, fingerprint));
            }
            Ok(found)
        })
    }

    /// Records that a file with this fingerprint has this digest.
    pub fn record_image(&self, digest: &Digest, fingerprint: &str) -> HostResult<()> {
        self.with(|connection| {
            connection.execute(
                "INSERT INTO images (digest, fingerprint) VALUES (?1, ?2)
                 ON CONFLICT (digest) DO UPDATE SET fingerprint = excluded.fingerprint",
                params![digest.as_str(), fingerprint],
            )?;
            Ok(())
        })
    }

    /// Records that an image was used; `at_ms` is the host's time since 1970. One that is not recorded stays so.
    pub fn use_image(&self, digest: &Digest, at_ms: i64) -> HostResult<()> {
        self.with(|connection| {
            let sql = "UPDATE images SET used_ms = ?2 WHERE digest = ?1";
            connection.execute(sql, params![digest.as_str(), at_ms])?;
            Ok(())
        })
    }

    /// Forgets an image whose file is gone.
    pub fn forget_image(&self, digest: &Digest) -> HostResult<()> {
        self.with(|connection| {
            let sql = "DELETE FROM images WHERE digest = ?1";
            connection.execute(sql, params![digest.as_str()])?;
            Ok(())
        })
    }
}
