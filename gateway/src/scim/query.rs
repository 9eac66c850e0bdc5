//! What a request asks for: which resources, in which order, and which of their attributes (RFC 7644, 3.4.2).
use serde_json::{Map, Value, json};

use super::error::{Result, ScimError};
use super::filter::Filter;
use super::patch::member;
use super::schema::without_schema;
use crate::store::Page;

/// Resources of one page, when nothing is asked for.
const PAGE: i64 = 100;
/// Most resources of one page.
pub const MAX_PAGE: i64 = 500;
/// What every answer has.
const ALWAYS: [&str; 2] = ["schemas", "id"];

/// Which attributes to answer with. Names are in lower case and without their schema.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    only: Option<Vec<String>>,
    without: Vec<String>,
}

impl Shape {
    /// From the parameters of a request.
    ///
    /// # Errors
    /// Both lists at once.
    pub fn of_query(query: &str) -> Result<Self> {
        let mut shape = Self::default();
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            shape.take(&name, value.split(','));
        }
        shape.checked()
    }

    fn take<'a>(&mut self, name: &str, values: impl Iterator<Item = &'a str>) {
        let values = values.map(str::trim).filter(|one| !one.is_empty());
        let plain = values.map(|one| without_schema(one).unwrap_or(one).to_ascii_lowercase());
        if name.eq_ignore_ascii_case("attributes") {
            self.only.get_or_insert_default().extend(plain);
        } else if name.eq_ignore_ascii_case("excludedAttributes") {
            self.without.extend(plain);
        }
    }

    fn checked(mut self) -> Result<Self> {
        self.only = self.only.filter(|only| !only.is_empty());
        if self.only.is_some() && !self.without.is_empty() {
            let rule = "and excludedAttributes exclude each other";
            return Err(ScimError::invalid_value("attributes", rule));
        }
        Ok(self)
    }

    /// Whether an attribute is asked for, or a part of it; `name` is in lower case.
    pub fn wants(&self, name: &str) -> bool {
        let within = |one: &String| one.split('.').next() == Some(name);
        match &self.only {
            Some(only) => only.iter().any(within),
            None => !self.without.iter().any(|one| one == name),
        }
    }

    /// What is asked for of a resource.
    pub fn apply(&self, resource: Map<String, Value>) -> Map<String, Value> {
        let mut shaped = Map::new();
        for (name, value) in resource {
            let lower = name.to_ascii_lowercase();
            if ALWAYS.contains(&lower.as_str()) {
                shaped.insert(name, value);
            } else if self.wants(&lower) {
                shaped.insert(name, self.parts_of(&lower, value));
            }
        }
        shaped
    }

    fn parts_of(&self, name: &str, value: Value) -> Value {
        let of = |list: &[String]| -> Vec<String> {
            let parts = list.iter().filter_map(|one| one.split_once('.'));
            parts
                .filter(|(of, _)| *of == name)
                .map(|(_, part)| part.to_owned())
                .collect()
        };
        let keep: Box<dyn Fn(&str) -> bool> = match &self.only {
            Some(only) if only.iter().any(|one| one == name) => return value,
            Some(only) => {
                let parts = of(only);
                Box::new(move |part| parts.iter().any(|one| one == part))
            }
            None => {
                let parts = of(&self.without);
                if parts.is_empty() {
                    return value;
                }
                Box::new(move |part| !parts.iter().any(|one| one == part))
            }
        };
        let pick = |value: Value| match value {
            Value::Object(parts) => Value::Object(
                parts
                    .into_iter()
                    .filter(|(part, _)| keep(&part.to_ascii_lowercase()))
                    .collect(),
            ),
            other => other,
        };
        match value {
            Value::Array(values) => Value::Array(values.into_iter().map(pick).collect()),
            one => pick(one),
        }
    }
}

/// Which resources to answer with.
#[derive(Clone, Debug)]
pub struct List {
    /// Only those for which it holds.
    pub filter: Option<Filter>,
    /// Which of them.
    pub page: Page,
    /// Which of their attributes.
    pub shape: Shape,
}

impl List {
    /// From the parameters of a request.
    ///
    /// # Errors
    /// `invalidFilter`, `invalidValue`.
    pub fn of_query(query: &str) -> Result<Self> {
        let mut body = Map::new();
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            let list = name.eq_ignore_ascii_case("attributes")
                || name.eq_ignore_ascii_case("excludedAttributes");
            let value = match list {
                true => json!(value.split(',').collect::<Vec<_>>()),
                false => Value::String(value.into_owned()),
            };
            body.insert(name.into_owned(), value);
        }
        Self::of_body(&Value::Object(body))
    }

    /// From the body of a search.
    ///
    /// # Errors
    /// `invalidFilter`, `invalidValue`.
    pub fn of_body(body: &Value) -> Result<Self> {
        let text = |name: &str| match member(body, name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
            Some(_) => Err(ScimError::invalid_value(name, "must be a string")),
        };
        let number = |name: &str| match member(body, name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Number(number)) => Ok(number.as_i64()),
            Some(Value::String(text)) => text
                .parse()
                .map(Some)
                .map_err(|_| ScimError::invalid_value(name, "must be an integer")),
            Some(_) => Err(ScimError::invalid_value(name, "must be an integer")),
        };
        let mut shape = Shape::default();
        for name in ["attributes", "excludedAttributes"] {
            if let Some(Value::Array(values)) = member(body, name) {
                shape.take(name, values.iter().filter_map(Value::as_str));
            }
        }
        let descending = match text("sortOrder")?.map(str::to_ascii_lowercase).as_deref() {
            None | Some("ascending") => false,
            Some("descending") => true,
            Some(_) => {
                let rule = "must be ascending or descending";
                return Err(ScimError::invalid_value("sortOrder", rule));
            }
        };
        let sort = text("sortBy")?;
        Ok(Self {
            filter: text("filter")?.map(Filter::parse).transpose()?,
            page: Page {
                offset: number("startIndex")?.unwrap_or(1).max(1) - 1,
                limit: number("count")?.unwrap_or(PAGE).clamp(0, MAX_PAGE),
                sort: sort.map(|name| without_schema(name).unwrap_or(name).to_ascii_lowercase()),
                descending,
            },
            shape: shape.checked()?,
        })
    }

    /// The answer.
    pub fn answer(&self, total: i64, resources: &[Map<String, Value>]) -> Value {
        json!({
            "schemas": ["urn:ietf:params:scim:api:messages:2.0:ListResponse"],
            "totalResults": total,
            "startIndex": self.page.offset + 1,
            "itemsPerPage": resources.len(),
            "Resources": resources,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_what_was_asked_for() {
        let user = json!({
            "schemas": ["s"], "id": "1", "userName": "a", "name": { "givenName": "A", "familyName": "B" },
            "emails": [{ "value": "a@b", "type": "work" }], "meta": {},
        });
        let shaped = |query: &str| {
            let shape = Shape::of_query(query).expect(query);
            let resource = user.as_object().expect("an object").clone();
            Value::Object(shape.apply(resource))
        };
        assert_eq!(shaped(""), user);
        let only = "attributes=urn:ietf:params:scim:schemas:core:2.0:User:USERNAME,name.givenName";
        assert_eq!(
            shaped(only),
            json!({ "schemas": ["s"], "id": "1", "userName": "a", "name": { "givenName": "A" } })
        );
        assert_eq!(
            shaped("excludedAttributes=id,name,emails.type,meta"),
            json!({ "schemas": ["s"], "id": "1", "userName": "a", "emails": [{ "value": "a@b" }] })
        );
        assert!(Shape::of_query("attributes=a&excludedAttributes=b").is_err());
    }

    #[test]
    fn a_page_is_within_its_bounds() {
        for (query, offset, limit) in [
            ("", 0, PAGE),
            ("startIndex=0&count=-1", 0, 0),
            ("startIndex=3&count=2", 2, 2),
            ("count=100000", 0, MAX_PAGE),
        ] {
            let list = List::of_query(query).expect(query);
            assert_eq!(
                (list.page.offset, list.page.limit),
                (offset, limit),
                "{query}"
            );
        }
        for bad in ["count=x", "startIndex=1.5", "sortOrder=up", "filter=a"] {
            assert!(List::of_query(bad).is_err(), "{bad}");
        }
    }
}
