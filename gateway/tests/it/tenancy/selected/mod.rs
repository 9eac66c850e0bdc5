//! Filters and orders of organisations, projects, members, invitations, principals, service accounts, their keys, SSH keys,
//! grants, webhooks and their deliveries; and the fields of an answer that are wanted.
mod deliveries;
mod invitations;
mod masks;
mod principals;
mod scim_groups;
mod tenants;

use serde_json::Value;

use crate::world::World;

/// One field of everything that a list answers, page by page.
async fn listed(world: &World, subject: &str, target: &str, list: &str, name: &str) -> Vec<String> {
    let (mut all, mut token) = (Vec::new(), String::new());
    loop {
        let target = format!("{target}&page_size=2&page_token={token}");
        let (status, body) = world.get(subject, &target).await;
        assert_eq!(status, 200, "{target}: {body}");
        let found = body[list].as_array().expect("a list");
        assert!(found.len() <= 2, "{body}");
        let text = |one: &Value| one[name].as_str().expect("a text").to_owned();
        all.extend(found.iter().map(text));
        body["next_page_token"]
            .as_str()
            .unwrap_or_default()
            .clone_into(&mut token);
        if token.is_empty() {
            return all;
        }
    }
}

/// Who asks which list, the name of the list and of a field, the query, and the field's values that are expected.
type Case<'a> = (&'a str, &'a str, &'a str, &'a str, &'a str, &'a [&'a str]);
