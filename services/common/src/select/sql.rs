//! An expression as SQL. Every value is a bound parameter; every other text is from a catalog.
use jiff_sqlx::ToSqlx as _;
use sqlx::{Postgres, QueryBuilder};

use super::{Comparison, Expression, Kind, Operator, Requested, Value};

/// Writes the condition. `NOT` is moved to the comparisons, where "IS NOT TRUE" counts what is not set as different.
pub(super) fn push(query: &mut QueryBuilder<Postgres>, expression: &Expression, negated: bool) {
    match expression {
        Expression::Is(comparison) => push_comparison(query, comparison, negated),
        Expression::Not(inner) => push(query, inner, !negated),
        Expression::All(parts) | Expression::Any(parts) => {
            let is_all = matches!(expression, Expression::All(_));
            let joint = if is_all == negated { " OR " } else { " AND " };
            query.push("(");
            for (index, part) in parts.iter().enumerate() {
                if index > 0 {
                    query.push(joint);
                }
                push(query, part, negated);
            }
            query.push(")");
        }
    }
}

fn push_comparison(query: &mut QueryBuilder<Postgres>, comparison: &Comparison, negated: bool) {
    let differs = matches!(
        comparison.requested,
        Requested::Compare(Operator::NotEqual, _)
    );
    let negated = negated != differs;
    query.push(if negated { "((" } else { "(" });
    match &comparison.requested {
        Requested::Compare(operator, value) => {
            push_field(query, comparison);
            query.push(match operator {
                Operator::NotEqual => Operator::Equal.symbol(),
                other => other.symbol(),
            });
            push_value(query, value);
        }
        Requested::Contains(part) => {
            query.push("strpos(lower(");
            push_field(query, comparison);
            query
                .push("), lower(")
                .push_bind(part.clone())
                .push(")) > 0");
        }
        Requested::IsSet => match (&comparison.key, comparison.field.kind) {
            (Some(key), _) => {
                query.push(comparison.field.sql).push(" ? ");
                query.push_bind(key.clone());
            }
            (None, Kind::Text | Kind::OneOf(_)) => {
                query.push(comparison.field.sql).push(" <> ''");
            }
            (None, Kind::Labels) => {
                query.push(comparison.field.sql).push(" <> '{}'");
            }
            (None, _) => {
                query.push(comparison.field.sql).push(" IS NOT NULL");
            }
        },
    }
    query.push(if negated { ") IS NOT TRUE)" } else { ")" });
}

fn push_field(query: &mut QueryBuilder<Postgres>, comparison: &Comparison) {
    query.push(comparison.field.sql);
    if let Some(key) = &comparison.key {
        query.push(" ->> ").push_bind(key.clone());
    }
}

pub(super) fn push_value(query: &mut QueryBuilder<Postgres>, value: &Value) {
    match value {
        Value::Text(text) => query.push_bind(text.clone()),
        Value::Id(id) => query.push_bind(*id),
        Value::Number(number) => query.push_bind(*number),
        Value::Time(at) => query.push_bind(at.to_sqlx()),
        Value::Flag(flag) => query.push_bind(*flag),
    };
}
