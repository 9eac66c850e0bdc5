//! Lists of SCIM users and groups by filters: each attribute that may be filtered by is an expression here, and every value
//! that was sent is a parameter.
use jiff_sqlx::ToSqlx as _;
use serde_json::Value;
use sqlx::{PgConnection, Postgres, QueryBuilder};
use uuid::Uuid;

use super::scim::{ScimUserRow, USERS, read_user};
use super::scim_groups::{ScimGroupRow, read_group};
use crate::scim::error::{Result, ScimError};
use crate::scim::filter::{Filter, Operator, wrong};

/// Which of what was found.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Rows to leave out.
    pub offset: i64,
    /// Most rows.
    pub limit: i64,
    /// The attribute to sort by, in lower case and without its schema; none: the order in which they were made.
    pub sort: Option<String>,
    /// From the last to the first.
    pub descending: bool,
}

type Attributes = fn(&str) -> Option<Column>;

/// What an attribute is in SQL.
enum Column {
    /// Text of which case counts.
    Exact(&'static str),
    /// Text of which it does not.
    Text(&'static str),
    /// True or false.
    Boolean(&'static str),
    /// A time.
    Time(&'static str),
    /// An id.
    Id(&'static str),
    /// Values with attributes of their own.
    Values(&'static str, Attributes),
}

fn of_user(name: &str) -> Option<Column> {
    Some(match name {
        "id" => Column::Id("u.id"),
        "externalid" => Column::Exact("u.external_id"),
        "username" => Column::Text("u.user_name"),
        "displayname" => Column::Text("u.attributes->>'displayName'"),
        "name.formatted" => Column::Text("u.attributes->'name'->>'formatted'"),
        "name.familyname" => Column::Text("u.attributes->'name'->>'familyName'"),
        "name.givenname" => Column::Text("u.attributes->'name'->>'givenName'"),
        "active" => Column::Boolean("coalesce(u.active, false)"),
        "emails" => Column::Values(
            "SELECT FROM jsonb_array_elements(coalesce(u.attributes->'emails', '[]')) e WHERE true",
            of_email,
        ),
        "groups" => Column::Values(
            "SELECT FROM scim_group_members m JOIN scim_groups g ON g.id = m.group_id WHERE m.user_id = u.id",
            of_membership,
        ),
        "meta.created" => Column::Time("u.create_time"),
        "meta.lastmodified" => Column::Time("u.update_time"),
        _ => return None,
    })
}

fn of_email(name: &str) -> Option<Column> {
    Some(match name {
        "value" => Column::Text("e->>'value'"),
        "type" => Column::Text("e->>'type'"),
        "display" => Column::Text("e->>'display'"),
        "primary" => Column::Boolean("coalesce((e->>'primary')::boolean, false)"),
        _ => return None,
    })
}

fn of_membership(name: &str) -> Option<Column> {
    Some(match name {
        "value" => Column::Id("g.id"),
        "display" => Column::Text("g.display_name"),
        _ => return None,
    })
}

fn of_group(name: &str) -> Option<Column> {
    Some(match name {
        "id" => Column::Id("g.id"),
        "externalid" => Column::Exact("g.external_id"),
        "displayname" => Column::Text("g.display_name"),
        "members" => Column::Values(
            "SELECT FROM scim_group_members m WHERE m.group_id = g.id",
            of_member,
        ),
        "meta.created" => Column::Time("g.create_time"),
        "meta.lastmodified" => Column::Time("g.update_time"),
        _ => return None,
    })
}

fn of_member(name: &str) -> Option<Column> {
    (name == "value").then_some(Column::Id("m.user_id"))
}

/// Users of an organisation: how many there are, and a page of them.
///
/// # Errors
/// `invalidFilter`; database errors.
pub async fn list_users(
    conn: &mut PgConnection,
    organisation: Uuid,
    filter: Option<&Filter>,
    page: &Page,
) -> Result<(i64, Vec<ScimUserRow>)> {
    let total = count(
        conn,
        "SELECT count(*) FROM scim_users u WHERE u.organisation_id = ",
        organisation,
        (filter, of_user),
    )
    .await?;
    let mut query = select(USERS, organisation, filter, of_user)?;
    push_page(&mut query, page, of_user, "u.id")?;
    let rows = query.build().fetch_all(conn).await?;
    let users = rows.iter().map(read_user).collect::<sqlx::Result<_>>()?;
    Ok((total, users))
}

/// Groups of an organisation: how many there are, and a page of them.
///
/// # Errors
/// `invalidFilter`; database errors.
pub async fn list_groups(
    conn: &mut PgConnection,
    organisation: Uuid,
    filter: Option<&Filter>,
    page: &Page,
) -> Result<(i64, Vec<ScimGroupRow>)> {
    let total = count(
        conn,
        "SELECT count(*) FROM scim_groups g WHERE g.organisation_id = ",
        organisation,
        (filter, of_group),
    )
    .await?;
    let groups = "SELECT g.* FROM scim_groups g WHERE g.organisation_id = ";
    let mut query = select(groups, organisation, filter, of_group)?;
    push_page(&mut query, page, of_group, "g.id")?;
    let rows = query.build().fetch_all(conn).await?;
    let groups = rows.iter().map(read_group).collect::<sqlx::Result<_>>()?;
    Ok((total, groups))
}

async fn count(
    conn: &mut PgConnection,
    sql: &'static str,
    organisation: Uuid,
    (filter, attributes): (Option<&Filter>, Attributes),
) -> Result<i64> {
    let mut query = select(sql, organisation, filter, attributes)?;
    Ok(query.build_query_scalar().fetch_one(conn).await?)
}

fn select(
    sql: &'static str,
    organisation: Uuid,
    filter: Option<&Filter>,
    attributes: Attributes,
) -> Result<QueryBuilder<Postgres>> {
    let mut query = QueryBuilder::new(sql);
    query.push_bind(organisation);
    if let Some(filter) = filter {
        query.push(" AND (");
        push(&mut query, filter, attributes)?;
        query.push(")");
    }
    Ok(query)
}

fn push_page(
    query: &mut QueryBuilder<Postgres>,
    page: &Page,
    attributes: Attributes,
    id: &'static str,
) -> Result<()> {
    query.push(" ORDER BY ");
    if let Some(sort) = &page.sort {
        let column = attributes(sort).ok_or_else(|| {
            ScimError::invalid_value("sortBy", "must be an attribute of one value")
        })?;
        match column {
            Column::Text(sql) => query.push("lower(").push(sql).push(")"),
            Column::Exact(sql) | Column::Boolean(sql) | Column::Time(sql) | Column::Id(sql) => {
                query.push(sql)
            }
            Column::Values(..) => {
                let rule = "must be an attribute of one value";
                return Err(ScimError::invalid_value("sortBy", rule));
            }
        };
        // who has no value comes last upwards, first downwards (RFC 7644, 3.4.2.3)
        query.push(if page.descending { " DESC, " } else { ", " });
    }
    query.push(id).push(" LIMIT ");
    query.push_bind(page.limit).push(" OFFSET ");
    query.push_bind(page.offset);
    Ok(())
}

fn unknown(name: &str) -> ScimError {
    wrong(format!("{name} is no attribute to filter by"))
}

fn push(query: &mut QueryBuilder<Postgres>, filter: &Filter, attributes: Attributes) -> Result<()> {
    match filter {
        Filter::And(one, other) | Filter::Or(one, other) => {
            let both = matches!(filter, Filter::And(..));
            query.push("(");
            push(query, one, attributes)?;
            query.push(if both { " AND " } else { " OR " });
            push(query, other, attributes)?;
            query.push(")");
        }
        Filter::Not(inner) => {
            query.push("((");
            push(query, inner, attributes)?;
            query.push(") IS NOT TRUE)");
        }
        Filter::Within(name, inner) => {
            let Some(Column::Values(from, sub)) = attributes(name) else {
                return Err(unknown(name));
            };
            query.push("EXISTS (").push(from).push(" AND (");
            push(query, inner, sub)?;
            query.push("))");
        }
        Filter::Present(name) => match attributes(name) {
            Some(Column::Text(sql) | Column::Exact(sql)) => {
                query.push("(").push(sql).push(") <> ''");
            }
            Some(Column::Boolean(sql) | Column::Time(sql) | Column::Id(sql)) => {
                query.push("(").push(sql).push(") IS NOT NULL");
            }
            Some(Column::Values(from, _)) => {
                query.push("EXISTS (").push(from).push(")");
            }
            None => of_one_value(query, name, attributes, Filter::Present)?,
        },
        Filter::Compare(name, operator, value) => match attributes(name) {
            // of an attribute with values its value is meant
            Some(Column::Values(..)) => {
                let inner = Filter::Compare("value".to_owned(), *operator, value.clone());
                push(
                    query,
                    &Filter::Within(name.clone(), Box::new(inner)),
                    attributes,
                )?;
            }
            Some(column) => compare(query, name, &column, *operator, value)?,
            None => of_one_value(query, name, attributes, |sub| {
                Filter::Compare(sub, *operator, value.clone())
            })?,
        },
    }
    Ok(())
}

/// `emails.value eq …` is `emails[value eq …]`.
fn of_one_value(
    query: &mut QueryBuilder<Postgres>,
    name: &str,
    attributes: Attributes,
    inner: impl FnOnce(String) -> Filter,
) -> Result<()> {
    let (name, sub) = name.split_once('.').ok_or_else(|| unknown(name))?;
    let filter = Filter::Within(name.to_owned(), Box::new(inner(sub.to_owned())));
    push(query, &filter, attributes)
}

fn compare(
    query: &mut QueryBuilder<Postgres>,
    name: &str,
    column: &Column,
    operator: Operator,
    value: &Value,
) -> Result<()> {
    let not_so = || wrong(format!("{name} is not compared with {value} in this way"));
    match (column, value) {
        (Column::Exact(sql) | Column::Text(sql), Value::String(text)) => {
            if text.contains(char::is_control) {
                return Err(wrong("a text has control characters"));
            }
            let lower = matches!(column, Column::Text(_));
            push_text(query, sql, operator, text, lower);
        }
        (
            Column::Exact(sql)
            | Column::Text(sql)
            | Column::Boolean(sql)
            | Column::Time(sql)
            | Column::Id(sql),
            Value::Null,
        ) => {
            query.push("(").push(*sql).push(match operator {
                Operator::Eq => ") IS NULL",
                Operator::Ne => ") IS NOT NULL",
                _ => return Err(not_so()),
            });
        }
        (Column::Boolean(sql), Value::Bool(value)) => {
            let equal = match operator {
                Operator::Eq => *value,
                Operator::Ne => !value,
                _ => return Err(not_so()),
            };
            query.push("(").push(*sql).push(") = ").push_bind(equal);
        }
        (Column::Id(sql), Value::String(text)) => {
            let is = match operator {
                Operator::Eq => " = ",
                Operator::Ne => " <> ",
                _ => return Err(not_so()),
            };
            // nothing has an id that is none
            let id: Uuid = text.parse().unwrap_or_default();
            query.push(*sql).push(is).push_bind(id);
        }
        (Column::Time(sql), Value::String(text)) => {
            let time: jiff::Timestamp = text.parse().map_err(|_| not_so())?;
            let is = symbol(operator).ok_or_else(not_so)?;
            query.push(*sql).push(is).push_bind(time.to_sqlx());
        }
        _ => return Err(not_so()),
    }
    Ok(())
}

fn symbol(operator: Operator) -> Option<&'static str> {
    Some(match operator {
        Operator::Eq => " = ",
        Operator::Ne => " <> ",
        Operator::Gt => " > ",
        Operator::Ge => " >= ",
        Operator::Lt => " < ",
        Operator::Le => " <= ",
        Operator::Co | Operator::Sw | Operator::Ew => return None,
    })
}

fn push_text(
    query: &mut QueryBuilder<Postgres>,
    sql: &'static str,
    operator: Operator,
    text: &str,
    lower: bool,
) {
    let (open, close) = if lower { ("lower(", ")") } else { ("(", ")") };
    let text = text.to_owned();
    let between = match operator {
        Operator::Co => "strpos(",
        Operator::Sw => "starts_with(",
        Operator::Ew => "right(",
        _ => "",
    };
    query.push(between).push(open).push(sql).push(close);
    match operator {
        Operator::Co => {
            query
                .push(", ")
                .push(open)
                .push_bind(text)
                .push(close)
                .push(") > 0");
        }
        Operator::Sw => {
            query
                .push(", ")
                .push(open)
                .push_bind(text)
                .push(close)
                .push(")");
        }
        Operator::Ew => {
            query
                .push(", length(")
                .push_bind(text.clone())
                .push(")) = ");
            query.push(open).push_bind(text).push(close);
        }
        Operator::Ne => {
            query
                .push(" IS DISTINCT FROM ")
                .push(open)
                .push_bind(text)
                .push(close);
        }
        other => {
            query.push(symbol(other).unwrap_or(" = "));
            query.push(open).push_bind(text).push(close);
        }
    }
}
