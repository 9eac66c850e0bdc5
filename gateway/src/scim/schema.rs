//! The attributes of users and groups, as data: the schemas that are published, what a request may say, and where a filter or
//! a change may point (RFC 7643).
use gpuaas_common::text::is_deceptive;
use serde_json::{Map, Value, json};

use super::error::{Result, ScimError};

/// Of users.
pub const USER: &str = "urn:ietf:params:scim:schemas:core:2.0:User";
/// Of groups.
pub const GROUP: &str = "urn:ietf:params:scim:schemas:core:2.0:Group";
/// What identity providers send of people beside it; nothing of it is kept.
const ENTERPRISE: &str = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User";
/// Common to all resources.
pub const EXTERNAL_ID: &str = "externalId";
/// Most characters of a name that is unique.
const MAX_NAME: usize = 256;
/// Most characters of other text.
const MAX_TEXT: usize = 1024;
/// Most values of an attribute that is kept whole.
const MAX_VALUES: usize = 50;
/// Attributes of RFC 7643 that identity providers send and that are not kept.
const NOT_KEPT: [&str; 15] = [
    "nickname",
    "profileurl",
    "title",
    "usertype",
    "preferredlanguage",
    "locale",
    "timezone",
    "phonenumbers",
    "ims",
    "photos",
    "addresses",
    "entitlements",
    "roles",
    "x509certificates",
    "password",
];

/// Type of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    String,
    /// True or false.
    Boolean,
    /// Has attributes of its own.
    Complex,
    /// Address of something.
    Reference,
}

/// An attribute.
#[derive(Clone, Copy, Debug)]
pub struct Attribute {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// It has any number of values.
    pub multi: bool,
    /// A resource has it.
    pub required: bool,
    /// Only the server says it.
    pub read_only: bool,
    /// Once set it stays.
    pub immutable: bool,
    /// Two texts that differ in case alone differ.
    pub case_exact: bool,
    /// Of the server, or none.
    pub uniqueness: &'static str,
    /// What it says.
    pub description: &'static str,
    /// Usual values.
    pub canonical: &'static [&'static str],
    /// Kinds of what it refers to.
    pub references: &'static [&'static str],
    /// Of a complex one.
    pub sub: &'static [Attribute],
}

impl Attribute {
    /// Whether its values are few, one of which may be primary, and are kept as they are.
    pub fn is_kept_whole(&self) -> bool {
        self.sub.iter().any(|sub| sub.name == "primary")
    }
}

const TEXT: Attribute = Attribute {
    name: "",
    kind: Kind::String,
    multi: false,
    required: false,
    read_only: false,
    immutable: false,
    case_exact: false,
    uniqueness: "none",
    description: "",
    canonical: &[],
    references: &[],
    sub: &[],
};

const fn text(name: &'static str, description: &'static str) -> Attribute {
    Attribute {
        name,
        description,
        ..TEXT
    }
}

const NAME: [Attribute; 3] = [
    text("formatted", "The whole name."),
    text("familyName", "The family name."),
    text("givenName", "The given name."),
];

const EMAIL: [Attribute; 4] = [
    text("value", "The address."),
    text("display", "How it is shown."),
    Attribute {
        canonical: &["work", "home", "other"],
        ..text("type", "What it is for.")
    },
    Attribute {
        kind: Kind::Boolean,
        ..text("primary", "Whether it is the one to use.")
    },
];

const GROUP_OF_USER: [Attribute; 3] = [
    Attribute {
        read_only: true,
        ..text("value", "The id of the group.")
    },
    Attribute {
        kind: Kind::Reference,
        read_only: true,
        references: &["Group"],
        ..text("$ref", "The address of the group.")
    },
    Attribute {
        read_only: true,
        ..text("display", "The name of the group.")
    },
];

const MEMBER: [Attribute; 3] = [
    Attribute {
        immutable: true,
        ..text("value", "The id of the user.")
    },
    Attribute {
        kind: Kind::Reference,
        immutable: true,
        references: &["User"],
        ..text("$ref", "The address of the user.")
    },
    Attribute {
        immutable: true,
        canonical: &["User"],
        ..text("type", "Users are members; groups are not.")
    },
];

/// Of users.
pub static USER_ATTRIBUTES: [Attribute; 6] = [
    Attribute {
        required: true,
        uniqueness: "server",
        ..text("userName", "Unique in the organisation.")
    },
    Attribute {
        kind: Kind::Complex,
        sub: &NAME,
        ..text("name", "The parts of the name.")
    },
    text("displayName", "The name that is shown."),
    Attribute {
        kind: Kind::Boolean,
        ..text("active", "Who is not active is put out.")
    },
    Attribute {
        kind: Kind::Complex,
        multi: true,
        sub: &EMAIL,
        ..text("emails", "Addresses.")
    },
    Attribute {
        kind: Kind::Complex,
        multi: true,
        read_only: true,
        sub: &GROUP_OF_USER,
        ..text("groups", "The groups of which the user is a member.")
    },
];

/// Of groups.
pub static GROUP_ATTRIBUTES: [Attribute; 2] = [
    Attribute {
        required: true,
        uniqueness: "server",
        ..text("displayName", "Unique in the organisation.")
    },
    Attribute {
        kind: Kind::Complex,
        multi: true,
        sub: &MEMBER,
        ..text("members", "Users of the organisation.")
    },
];

/// The attribute of a name, whatever its case.
pub fn find<'a>(attributes: &'a [Attribute], name: &str) -> Option<&'a Attribute> {
    let mut all = attributes.iter();
    all.find(|attribute| attribute.name.eq_ignore_ascii_case(name))
}

/// An attribute's name without the schema that may stand before it; `None` for one of a schema that is not kept.
pub fn without_schema(name: &str) -> Option<&str> {
    for schema in [USER, GROUP] {
        let before = name.get(..schema.len());
        if before.is_some_and(|before| before.eq_ignore_ascii_case(schema)) {
            return name[schema.len()..].strip_prefix(':');
        }
    }
    (!name.contains(':')).then_some(name)
}

/// Whether an attribute is one that identity providers may send and that nothing is made of.
pub fn is_ignored(name: &str) -> bool {
    let enterprise = name
        .get(..ENTERPRISE.len())
        .is_some_and(|before| before.eq_ignore_ascii_case(ENTERPRISE));
    enterprise || NOT_KEPT.iter().any(|one| one.eq_ignore_ascii_case(name))
}

/// What a request says of these attributes, under their right names and with values of their types. What is null, what only
/// the server says and what is not kept is left out.
///
/// # Errors
/// `invalidValue`.
pub fn canonical(
    attributes: &[Attribute],
    given: &Map<String, Value>,
) -> Result<Map<String, Value>> {
    let mut known = Map::new();
    for (name, value) in given {
        if value.is_null() {
            continue;
        }
        let Some(name) = without_schema(name) else {
            continue;
        };
        if name.eq_ignore_ascii_case(EXTERNAL_ID) {
            let attribute = text(EXTERNAL_ID, "");
            known.insert(EXTERNAL_ID.to_owned(), single(&attribute, value)?);
            continue;
        }
        let Some(attribute) = find(attributes, name).filter(|found| !found.read_only) else {
            continue;
        };
        let value = value_of(attribute, value)?;
        // an empty list is no value (RFC 7643, 2.5)
        if value.as_array().is_none_or(|values| !values.is_empty()) {
            known.insert(attribute.name.to_owned(), value);
        }
    }
    Ok(known)
}

/// A value of the attribute, or all of them.
///
/// # Errors
/// `invalidValue`.
pub fn value_of(attribute: &Attribute, value: &Value) -> Result<Value> {
    if !attribute.multi {
        return single(attribute, value);
    }
    let values = match value {
        Value::Array(values) => values.iter().collect(),
        one => vec![one],
    };
    let checked: Vec<Value> = values
        .into_iter()
        .map(|value| single(attribute, value))
        .collect::<Result<_>>()?;
    let primary = checked.iter().filter(|one| one["primary"] == true).count();
    if primary > 1 {
        let rule = "must have at most one value that is primary";
        return Err(ScimError::invalid_value(attribute.name, rule));
    }
    if attribute.is_kept_whole() && checked.len() > MAX_VALUES {
        let rule = format!("must have at most {MAX_VALUES} values");
        return Err(ScimError::invalid_value(attribute.name, &rule));
    }
    Ok(Value::Array(checked))
}

fn single(attribute: &Attribute, value: &Value) -> Result<Value> {
    let wrong = |rule: &str| Err(ScimError::invalid_value(attribute.name, rule));
    match (attribute.kind, value) {
        (Kind::Complex, Value::Object(given)) => {
            Ok(Value::Object(canonical(attribute.sub, given)?))
        }
        (Kind::Complex, _) => wrong("must be an object"),
        (Kind::Boolean, Value::Bool(_)) => Ok(value.clone()),
        // as Entra ID sends it
        (Kind::Boolean, Value::String(text)) if text.eq_ignore_ascii_case("true") => {
            Ok(Value::Bool(true))
        }
        (Kind::Boolean, Value::String(text)) if text.eq_ignore_ascii_case("false") => {
            Ok(Value::Bool(false))
        }
        (Kind::Boolean, _) => wrong("must be true or false"),
        (Kind::String | Kind::Reference, Value::String(text)) => {
            let unique = attribute.required || attribute.name == EXTERNAL_ID;
            let most = if unique { MAX_NAME } else { MAX_TEXT };
            if text.chars().count() > most {
                return wrong(&format!("must be at most {most} characters"));
            }
            if text.chars().any(is_deceptive) {
                return wrong("must not contain control characters");
            }
            if unique && text.trim().is_empty() {
                return wrong("must not be empty");
            }
            Ok(value.clone())
        }
        (Kind::String | Kind::Reference, _) => wrong("must be a string"),
    }
}

/// A schema as it is published.
pub fn document(id: &str, name: &str, attributes: &[Attribute], base: &str) -> Value {
    json!({
        "schemas": ["urn:ietf:params:scim:schemas:core:2.0:Schema"],
        "id": id,
        "name": name,
        "description": name,
        "attributes": attributes.iter().map(published).collect::<Vec<_>>(),
        "meta": { "resourceType": "Schema", "location": format!("{base}/Schemas/{id}") },
    })
}

fn published(attribute: &Attribute) -> Value {
    let kind = match attribute.kind {
        Kind::String => "string",
        Kind::Boolean => "boolean",
        Kind::Complex => "complex",
        Kind::Reference => "reference",
    };
    let mutability = match (attribute.read_only, attribute.immutable) {
        (true, _) => "readOnly",
        (_, true) => "immutable",
        _ => "readWrite",
    };
    let mut shown = json!({
        "name": attribute.name,
        "type": kind,
        "multiValued": attribute.multi,
        "description": attribute.description,
        "required": attribute.required,
        "mutability": mutability,
        "returned": "default",
    });
    match attribute.kind {
        Kind::String => {
            shown["caseExact"] = attribute.case_exact.into();
            shown["uniqueness"] = attribute.uniqueness.into();
        }
        Kind::Reference => shown["caseExact"] = true.into(),
        Kind::Boolean | Kind::Complex => {}
    }
    if !attribute.canonical.is_empty() {
        shown["canonicalValues"] = json!(attribute.canonical);
    }
    if !attribute.references.is_empty() {
        shown["referenceTypes"] = json!(attribute.references);
    }
    if !attribute.sub.is_empty() {
        shown["subAttributes"] = attribute.sub.iter().map(published).collect();
    }
    shown
}
