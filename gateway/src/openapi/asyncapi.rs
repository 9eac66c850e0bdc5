//! The AsyncAPI 3.0 document of what webhooks deliver (H-19), from the same types and descriptors that bodies are written from.
use gpuaas_proto::pool;

use super::schema::Schemas;
use crate::json::{Json, object};
use crate::webhooks::event_types::EVENT_TYPES;
use crate::webhooks::events::PING;

const PINGED: &str = "gpuaas.events.v1.PingEvent";

/// Builds the document.
pub fn document() -> Json {
    let mut schemas = Schemas::default();
    let mut payload = |name: &str, kind: &str| {
        let described = pool().get_message_by_name(name);
        let schema = described.map_or(Json::Bool(true), |message| schemas.message(&message));
        let own = object([(
            "properties",
            object([("type", object([("const", Json::from(kind))]))]),
        )]);
        object([("allOf", Json::List(vec![schema, own]))])
    };
    let types = EVENT_TYPES
        .iter()
        .map(|one| (one.name, one.meaning, one.message));
    let ping = (
        PING,
        "Somebody has asked for a delivery, to see whether it arrives.",
        PINGED,
    );
    let all: Vec<_> = types.chain([ping]).collect();
    let messages: Vec<(String, Json)> = all
        .iter()
        .map(|(kind, meaning, name)| {
            let message = object([
                ("name", Json::from(*kind)),
                ("summary", Json::from(*meaning)),
                ("contentType", "application/json".into()),
                ("headers", reference("#/components/schemas/Headers")),
                ("payload", payload(name, kind)),
            ]);
            ((*kind).to_owned(), message)
        })
        .collect();
    let named = |at: &str| -> Vec<(String, Json)> {
        all.iter()
            .map(|(kind, ..)| ((*kind).to_owned(), reference(&format!("{at}{kind}"))))
            .collect()
    };
    let of_channel = named("#/channels/webhook/messages/").into_iter();
    let of_channel = of_channel.map(|(_, one)| one).collect();
    let mut components = match schemas.alone() {
        Json::Object(entries) => entries,
        _ => Vec::new(),
    };
    components.push(("Headers".to_owned(), headers()));
    object([
        ("asyncapi", "3.0.0".into()),
        (
            "info",
            object([
                ("title", "GPUaaS events".into()),
                ("version", "v1".into()),
                ("description", INTRODUCTION.into()),
                ("license", object([("name", "Apache-2.0".into())])),
            ]),
        ),
        ("defaultContentType", "application/json".into()),
        (
            "channels",
            object([(
                "webhook",
                object([
                    // the owner of the webhook says where
                    ("address", Json::Null),
                    ("title", "Webhook".into()),
                    (
                        "description",
                        "The HTTPS endpoint of a webhook, by POST.".into(),
                    ),
                    ("messages", Json::Object(named("#/components/messages/"))),
                ]),
            )]),
        ),
        (
            "operations",
            object([(
                "deliver",
                object([
                    ("action", "send".into()),
                    ("channel", reference("#/channels/webhook")),
                    ("messages", Json::List(of_channel)),
                ]),
            )]),
        ),
        (
            "components",
            object([
                ("messages", Json::Object(messages)),
                ("schemas", Json::Object(components)),
            ]),
        ),
    ])
}

fn reference(to: &str) -> Json {
    object([("$ref", Json::from(to))])
}

/// The headers of every delivery.
fn headers() -> Json {
    let header = |description: &str| {
        object([
            ("type", "string".into()),
            ("description", Json::from(description)),
        ])
    };
    object([
        ("type", "object".into()),
        (
            "required",
            Json::List(
                ["webhook-id", "webhook-timestamp", "webhook-signature"]
                    .map(Json::from)
                    .into(),
            ),
        ),
        (
            "properties",
            object([
                (
                    "webhook-id",
                    header("Of the delivery; the same with every attempt. Take each once."),
                ),
                (
                    "webhook-timestamp",
                    header("Seconds since 1970 of this attempt. Refuse one that is minutes off."),
                ),
                (
                    "webhook-signature",
                    header(
                        "One or two signatures, separated by a space: `v1,` and the base64 of HMAC-SHA256 over `webhook-id.webhook-timestamp.body`. One that is good is enough.",
                    ),
                ),
            ]),
        ),
    ])
}

const INTRODUCTION: &str = "What happens to allocations, organisations, projects and who may do what in them, delivered to \
webhooks as Standard Webhooks (https://www.standardwebhooks.com). A delivery is made at least once, and repeated with growing \
pauses until the endpoint answers 2xx or it is a day old. Events of one object arrive in order, those of an allocation by \
`revision`; those of several objects may not. New fields and new types may come at any time: ignore what you do not know.";
