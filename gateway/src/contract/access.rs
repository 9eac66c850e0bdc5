//! The `(gpuaas.options.v1.access)` option of a method and the field options, read from descriptors.
use prost_reflect::{DescriptorPool, DynamicMessage, FieldDescriptor, MethodDescriptor, Value};

/// Which kind of identity an RPC accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// A member of a project.
    User,
    /// A platform administrator.
    Admin,
    /// Another service, by certificate; never routed.
    Service,
    /// An enrolled host, by certificate; never routed.
    Host,
    /// A host without a certificate yet; never routed.
    Enrolment,
}

impl Audience {
    fn from_number(number: i32) -> Option<Self> {
        match number {
            1 => Some(Self::User),
            2 => Some(Self::Admin),
            3 => Some(Self::Service),
            4 => Some(Self::Host),
            5 => Some(Self::Enrolment),
            _ => None,
        }
    }

    /// True when people reach the method through the JSON API.
    pub fn is_public(self) -> bool {
        matches!(self, Self::User | Self::Admin)
    }
}

/// What a method declares about its callers.
#[derive(Clone, Debug)]
pub struct Access {
    /// For example "allocation.create".
    pub action: String,
    /// The kind of resource the action is on.
    pub resource: String,
    /// Who may call.
    pub audience: Audience,
    /// For audience SERVICE: the services that may call.
    pub callers: Vec<String>,
    /// For audience USER: an identity that is proven and not registered may call, too.
    pub unregistered: bool,
    /// A POST that changes nothing, and needs no idempotency key.
    pub no_effect: bool,
}

/// The access option of a method; `None` when it is missing or incomplete.
pub fn access_of(method: &MethodDescriptor) -> Option<Access> {
    let option = extension(
        method.parent_pool(),
        &method.options(),
        "gpuaas.options.v1.access",
    )?;
    let option = option.as_message()?.clone();
    let text = |name: &str| {
        option
            .get_field_by_name(name)
            .and_then(|v| v.as_str().map(str::to_owned))
            .unwrap_or_default()
    };
    let audience = option.get_field_by_name("audience")?.as_enum_number()?;
    let callers = option
        .get_field_by_name("callers")
        .and_then(|v| {
            v.as_list().map(|l| {
                l.iter()
                    .filter_map(Value::as_str)
                    .map(str::to_owned)
                    .collect()
            })
        })
        .unwrap_or_default();
    let flag = |name: &str| {
        option
            .get_field_by_name(name)
            .and_then(|v| v.as_bool())
            .unwrap_or(false)
    };
    let access = Access {
        action: text("action"),
        resource: text("resource"),
        audience: Audience::from_number(audience)?,
        callers,
        unregistered: flag("unregistered"),
        no_effect: flag("no_effect"),
    };
    (!access.action.is_empty() && !access.resource.is_empty()).then_some(access)
}

/// The HTTP rule of a method, when it has one.
pub fn http_rule_of(method: &MethodDescriptor) -> Option<DynamicMessage> {
    extension(method.parent_pool(), &method.options(), "google.api.http")
        .and_then(|v| v.as_message().cloned())
}

/// True when the field carries host detail that a tenant never sees (H-14).
pub fn is_host_sensitive(field: &FieldDescriptor) -> bool {
    extension(
        field.parent_message().parent_pool(),
        &field.options(),
        "gpuaas.options.v1.host_sensitive",
    )
    .and_then(|v| v.as_bool())
    .unwrap_or(false)
}

/// What `google.api.field_behavior` says of a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Behavior {
    /// The caller has to give it.
    pub required: bool,
    /// Only the server sets it; ignored in requests.
    pub output_only: bool,
}

/// The behaviour of a field.
pub fn behavior_of(field: &FieldDescriptor) -> Behavior {
    const REQUIRED: i32 = 2;
    const OUTPUT_ONLY: i32 = 3;
    let Some(value) = extension(
        field.parent_message().parent_pool(),
        &field.options(),
        "google.api.field_behavior",
    ) else {
        return Behavior::default();
    };
    let numbers: Vec<i32> = value
        .as_list()
        .map(|l| l.iter().filter_map(Value::as_enum_number).collect())
        .unwrap_or_default();
    Behavior {
        required: numbers.contains(&REQUIRED),
        output_only: numbers.contains(&OUTPUT_ONLY),
    }
}

/// An option by its full name.
pub(super) fn extension(
    pool: &DescriptorPool,
    options: &DynamicMessage,
    name: &str,
) -> Option<Value> {
    let descriptor = pool.get_extension_by_name(name)?;
    options
        .has_extension(&descriptor)
        .then(|| options.get_extension(&descriptor).into_owned())
}
