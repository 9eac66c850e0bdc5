//! One page of a selection: filtered, in order, after the last row of the page before.
use jiff::Timestamp;
use serde_json::Value as Json;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::{Arguments as _, Encode, FromRow, PgConnection, Postgres, QueryBuilder, Row as _, Type};

use super::{Field, Kind, Selection, Value, sql};
use crate::error::Result;
use crate::page;

/// Which page.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Of the request; empty for the first page.
    pub page_token: &'a str,
    /// Rows of a page.
    pub size: i64,
    /// What else of the request selects rows.
    pub query: &'a [&'a str],
}

/// The statement of a list, without filter, order and limit, and its parameters.
#[derive(Debug)]
pub struct Statement {
    parts: &'static [&'static str],
    arguments: PgArguments,
}

impl Statement {
    /// From its parts; it has the columns of the list's catalog, each once.
    #[must_use]
    pub fn new(parts: &'static [&'static str]) -> Self {
        Self {
            parts,
            arguments: PgArguments::default(),
        }
    }

    /// Its next parameter.
    #[must_use]
    pub fn bind<'t, T: Encode<'t, Postgres> + Type<Postgres>>(mut self, value: T) -> Self {
        self.arguments
            .add(value)
            .expect("ids, texts and numbers can be encoded");
        self
    }
}

impl Selection {
    /// The rows of a page, and the token of the next one; empty when there is none.
    ///
    /// # Errors
    /// `PAGE_TOKEN_INVALID`; those of the database.
    pub async fn page<T>(
        &self,
        conn: &mut PgConnection,
        statement: Statement,
        wanted: Wanted<'_>,
    ) -> Result<(Vec<T>, String)>
    where
        T: for<'r> FromRow<'r, PgRow>,
    {
        let (rows, more) = self.rows(conn, statement, wanted).await?;
        let token = match rows.last() {
            Some(last) if more => self.token_after(last, wanted)?,
            _ => String::new(),
        };
        let rows = rows.iter().map(T::from_row).collect::<sqlx::Result<_>>()?;
        Ok((rows, token))
    }

    /// The rows of a page, each with the token of the page after it, and whether there is more: for a list that is merged with
    /// another one, and may end after any row of the page.
    ///
    /// # Errors
    /// Those of [`Self::page`].
    pub async fn page_with_tokens<T>(
        &self,
        conn: &mut PgConnection,
        statement: Statement,
        wanted: Wanted<'_>,
    ) -> Result<(Vec<(T, String)>, bool)>
    where
        T: for<'r> FromRow<'r, PgRow>,
    {
        let (rows, more) = self.rows(conn, statement, wanted).await?;
        let rows = rows
            .iter()
            .map(|row| Ok((T::from_row(row)?, self.token_after(row, wanted)?)))
            .collect::<Result<_>>()?;
        Ok((rows, more))
    }

    /// What a token has to belong to.
    fn parts<'a>(&'a self, wanted: Wanted<'a>) -> Vec<&'a str> {
        let query = wanted.query.iter().copied();
        query.chain(self.texts()).collect()
    }

    fn token_after(&self, row: &PgRow, wanted: Wanted<'_>) -> Result<String> {
        let position: Json = row.try_get("list_position")?;
        Ok(page::encode(&position, &self.parts(wanted)))
    }

    /// The rows of a page, and whether there are more.
    async fn rows(
        &self,
        conn: &mut PgConnection,
        statement: Statement,
        wanted: Wanted<'_>,
    ) -> Result<(Vec<PgRow>, bool)> {
        let after = page::decode::<Vec<Json>>(wanted.page_token, &self.parts(wanted))?;
        let after = after.map(|values| self.position(&values)).transpose()?;

        let mut query =
            QueryBuilder::<Postgres>::with_arguments("SELECT listed.*, ", statement.arguments);
        self.push_position(&mut query);
        query.push(" AS list_position FROM (");
        for part in statement.parts {
            query.push(part);
        }
        query.push(") AS listed WHERE true");
        self.push_filter(&mut query);
        if let Some(after) = &after {
            query.push(" AND ");
            self.push_after(&mut query, after);
        }
        self.push_order(&mut query);
        // one more than requested shows whether there is a next page
        query.push(" LIMIT ").push_bind(wanted.size + 1);
        let mut rows = query.build().fetch_all(conn).await?;

        let size = usize::try_from(wanted.size).unwrap_or(usize::MAX);
        let more = rows.len() > size;
        rows.truncate(size);
        Ok((rows, more))
    }

    /// Adds the filter to a statement that ends in its conditions.
    pub fn push_filter(&self, query: &mut QueryBuilder<Postgres>) {
        if let Some(filter) = &self.filter {
            query.push(" AND ");
            sql::push(query, filter, false);
        }
    }

    /// The fields that rows are in the order of, the key last, each with whether it descends.
    fn keys(&self) -> Vec<(&'static Field, bool)> {
        let terms = self.order.iter();
        let mut keys: Vec<_> = terms.map(|term| (term.field, term.descending)).collect();
        let last = keys.last().is_some_and(|(_, descending)| *descending);
        keys.push((&self.catalog.key, last));
        keys
    }

    /// The values of a row in the order's fields, as a JSON list.
    fn push_position(&self, query: &mut QueryBuilder<Postgres>) {
        query.push("jsonb_build_array(");
        for (index, (field, _)) in self.keys().into_iter().enumerate() {
            query.push(if index == 0 { "" } else { ", " });
            match field.kind {
                Kind::Time => query
                    .push("(extract(epoch FROM ")
                    .push(field.sql)
                    .push(") * 1000000)::bigint"),
                _ => query.push(field.sql),
            };
        }
        query.push(")");
    }

    fn push_order(&self, query: &mut QueryBuilder<Postgres>) {
        for (index, (key, descending)) in self.keys().into_iter().enumerate() {
            query.push(if index == 0 { " ORDER BY " } else { ", " });
            query.push(key.sql);
            query.push(if descending { " DESC" } else { "" });
        }
    }

    /// Rows after a position. Where all fields go one way a comparison of rows says so, which an index can answer.
    fn push_after(&self, query: &mut QueryBuilder<Postgres>, after: &[Value]) {
        let keys = self.keys();
        let beyond = |descending| if descending { " < " } else { " > " };
        if let [(_, first), rest @ ..] = keys.as_slice()
            && rest.iter().all(|(_, descending)| descending == first)
        {
            query.push("(");
            for (index, (key, _)) in keys.iter().enumerate() {
                query.push(if index == 0 { "" } else { ", " }).push(key.sql);
            }
            query.push(")").push(beyond(*first)).push("(");
            for (index, value) in after.iter().enumerate() {
                query.push(if index == 0 { "" } else { ", " });
                sql::push_value(query, value);
            }
            query.push(")");
            return;
        }
        query.push("(");
        for (index, (key, descending)) in keys.iter().enumerate() {
            query.push(if index == 0 { "(" } else { " OR (" });
            for ((equal, _), value) in keys.iter().zip(after).take(index) {
                query.push(equal.sql).push(" = ");
                sql::push_value(query, value);
                query.push(" AND ");
            }
            query.push(key.sql).push(beyond(*descending));
            sql::push_value(query, &after[index]);
            query.push(")");
        }
        query.push(")");
    }

    /// A position of a page token; whoever made the token up is told so.
    fn position(&self, values: &[Json]) -> Result<Vec<Value>> {
        let keys = self.keys();
        let typed = keys.iter().zip(values);
        let typed = typed.map(|((field, _), value)| of_kind(field, value));
        typed
            .collect::<Option<Vec<_>>>()
            .filter(|position| position.len() == keys.len() && values.len() == keys.len())
            .ok_or_else(page::not_ours)
    }
}

fn of_kind(field: &Field, value: &Json) -> Option<Value> {
    Some(match field.kind {
        Kind::Text | Kind::OneOf(_) => Value::Text(value.as_str()?.to_owned()),
        Kind::Id => Value::Id(value.as_str()?.parse().ok()?),
        Kind::Number => Value::Number(value.as_i64()?),
        Kind::Time => {
            let at = Timestamp::from_microsecond(value.as_i64()?).ok()?;
            // the database has no time long before
            Value::Time((at >= Timestamp::UNIX_EPOCH).then_some(at)?)
        }
        Kind::Flag => Value::Flag(value.as_bool()?),
        Kind::Labels => return None,
    })
}
