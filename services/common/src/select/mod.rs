//! What a caller selects of a list: one language of filters, and one of orders, for all lists (a subset of AIP-160 and AIP-132).
//!
//! A list has a [`Catalog`]: the fields that a filter may name, and the SQL of each. A request's texts are parsed against it, so a
//! [`Selection`] holds no name that the catalog does not have, and no value that is not of its field's type; values become bound
//! parameters, and nothing that a caller writes becomes SQL. Pages are by keyset in any order, and a page token belongs to its
//! filter and its order.
//!
//! The language: comparisons `field = value` with `=`, `!=`, `<`, `<=`, `>`, `>=` (numbers and times) and `:` (contains, ignoring
//! case; a label; `field:*` is set); `NOT`, `AND`, `OR` and parentheses. `AND` and `OR` beside each other need parentheses:
//! AIP-160 and SQL bind them differently, and nobody should have to know. A comparison with a value that is not set is false, and
//! its `NOT` true.
mod order;
mod page;
mod parse;
mod sql;
mod words;

pub use page::{Statement, Wanted};

use jiff::Timestamp;
use uuid::Uuid;

use crate::error::{Error, Result};

/// Longest filter, and longest order, in characters.
pub const MAX_CHARS: usize = 1000;
/// Most comparisons in a filter.
pub const MAX_COMPARISONS: usize = 32;
/// Deepest nesting of parentheses and `NOT`.
pub const MAX_DEPTH: usize = 8;
/// Most fields of an order.
pub const MAX_ORDER: usize = 3;

/// What values a field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any text; `:` is a part of it.
    Text,
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// A UUID.
    Id,
    /// A whole number, SQL `bigint`.
    Number,
    /// A time, as RFC 3339 writes it, or a day in UTC.
    Time,
    /// `true` or `false`.
    Flag,
    /// Texts by key, SQL `jsonb`: `labels.team = "ml"`, `labels:team`.
    Labels,
}

/// A field that a filter may name.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name for callers.
    pub name: &'static str,
    /// What values it has.
    pub kind: Kind,
    /// Its expression over the columns of the list's statement.
    pub sql: &'static str,
    /// Whether an order may name it: then it is never NULL.
    pub sortable: bool,
}

impl Field {
    /// A field that an order may name, too.
    pub const fn sortable(name: &'static str, kind: Kind, sql: &'static str) -> Self {
        Self {
            name,
            kind,
            sql,
            sortable: true,
        }
    }

    /// A field of filters only.
    pub const fn new(name: &'static str, kind: Kind, sql: &'static str) -> Self {
        Self {
            name,
            kind,
            sql,
            sortable: false,
        }
    }
}

/// What one list can be selected by.
#[derive(Clone, Copy, Debug)]
pub struct Catalog {
    /// The fields, in the order in which errors list them.
    pub fields: &'static [Field],
    /// What tells rows apart: the last field of every order.
    pub key: Field,
    /// The order when a request has none; empty: that of the key.
    pub order: &'static str,
}

/// A value of a comparison or of a page's last row.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Text(String),
    Id(Uuid),
    Number(i64),
    Time(Timestamp),
    Flag(bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    AtMost,
    Greater,
    AtLeast,
    Has,
}

/// What a comparison asks of its field.
#[derive(Clone, Debug, PartialEq)]
enum Requested {
    Compare(Operator, Value),
    /// The text has this part.
    Contains(String),
    /// It has a value.
    IsSet,
}

#[derive(Clone, Debug)]
struct Comparison {
    field: &'static Field,
    /// Of labels.
    key: Option<String>,
    requested: Requested,
}

#[derive(Clone, Debug)]
enum Expression {
    Is(Comparison),
    Not(Box<Expression>),
    All(Vec<Expression>),
    Any(Vec<Expression>),
}

#[derive(Clone, Copy, Debug)]
struct Term {
    field: &'static Field,
    descending: bool,
}

/// What a request selects, checked.
#[derive(Clone, Debug)]
pub struct Selection {
    catalog: &'static Catalog,
    filter: Option<Expression>,
    order: Vec<Term>,
    texts: [String; 2],
}

impl Selection {
    /// From a request's `filter` and `order_by`; empty ones select all, in the list's own order.
    ///
    /// # Errors
    /// `FIELD_INVALID` that names `filter` or `order_by`, and says what is wrong at which character.
    pub fn parse(catalog: &'static Catalog, filter: &str, order_by: &str) -> Result<Self> {
        let bounded = |name: &str, text: &str| {
            if text.chars().count() > MAX_CHARS {
                let rule = format!("must be at most {MAX_CHARS} characters");
                return Err(Error::invalid(name, rule));
            }
            Ok(())
        };
        bounded("filter", filter)?;
        bounded("order_by", order_by)?;
        let order = match order_by.trim() {
            "" => catalog.order,
            order => order,
        };
        Ok(Self {
            catalog,
            filter: parse::filter(catalog, filter)?,
            order: order::parse(catalog, order)?,
            texts: [filter.trim().to_owned(), order.to_owned()],
        })
    }

    /// Whether the filter names a field.
    #[must_use]
    pub fn names(&self, field: &str) -> bool {
        self.filter
            .as_ref()
            .is_some_and(|filter| filter.names(field))
    }

    /// Whether the order begins with the largest value.
    #[must_use]
    pub fn is_descending(&self) -> bool {
        self.order.first().is_some_and(|term| term.descending)
    }

    /// What a page token has to belong to.
    #[must_use]
    pub fn texts(&self) -> [&str; 2] {
        self.texts.each_ref().map(String::as_str)
    }
}

impl Expression {
    fn names(&self, field: &str) -> bool {
        match self {
            Self::Is(comparison) => comparison.field.name == field,
            Self::Not(inner) => inner.names(field),
            Self::All(inner) | Self::Any(inner) => inner.iter().any(|one| one.names(field)),
        }
    }
}

impl Catalog {
    /// The field of a name.
    fn find(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Names for an error.
    fn names(&self, wanted: impl Fn(&Field) -> bool) -> String {
        let names = self.fields.iter().filter(|field| wanted(field));
        names.map(|field| field.name).collect::<Vec<_>>().join(", ")
    }
}
