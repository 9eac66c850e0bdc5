//! The `user-data` of a seed: the platform's own part, and with a tenant's user data both as a MIME message.
//!
//! cloud-init takes the parts in their order and merges cloud-configs. The tenant's is first. Then come the platform's lists,
//! which are put before the tenant's (users, packages, commands), so that an entry of the tenant that fails stops none of them,
//! and its settings, which replace the tenant's: whatever a cloud-config of the tenant says of SSH or passwords, the platform's
//! user and host key are there. Where one of those keys of the tenant is no list, cloud-init keeps the tenant's; what that and
//! the tenant's programs do in their own VM is theirs.
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gpuaas_common::user_data::UserData;
use sha2::{Digest as _, Sha256};

/// First line of a cloud-config.
const CLOUD_CONFIG: &str = "#cloud-config\n";
/// How the platform's lists join those of the tenant.
const PREPEND: &str = "merge_how: 'dict(no_replace,recurse_list)+list(prepend)+str()'\n";
/// How its settings win over those of the tenant.
const REPLACE: &str = "merge_how: 'dict(replace)+list()+str()'\n";
/// Characters of base64 in a line.
const LINE: usize = 76;

/// The platform's part of a seed, in flat two-space YAML without the first line.
pub struct Own {
    /// Keys whose values are lists.
    pub lists: String,
    /// All other keys.
    pub settings: String,
}

/// The text of `user-data`. `secret` makes the boundary: text that the tenant cannot know.
pub fn text(own: &Own, tenant: Option<&UserData>, secret: &str) -> String {
    let Some(tenant) = tenant else {
        return format!("{CLOUD_CONFIG}{}{}", own.lists, own.settings);
    };
    let boundary = format!("gpuaas-{}", hex::encode(Sha256::digest(secret)));
    let mut text =
        format!("Content-Type: multipart/mixed; boundary=\"{boundary}\"\nMIME-Version: 1.0\n\n");
    text.push_str(&format!("--{boundary}\n"));
    if tenant.is_mime() {
        // a message with its own headers and parts
        text.push_str(tenant.as_str());
    } else {
        // cloud-init tells by its first line what it is
        text.push_str(
            "Content-Type: text/plain; charset=\"utf-8\"\nContent-Transfer-Encoding: base64\n\n",
        );
        let encoded = STANDARD.encode(tenant.as_str());
        for line in encoded.as_bytes().chunks(LINE) {
            text.extend(line.iter().copied().map(char::from));
            text.push('\n');
        }
    }
    for (how, yaml) in [(PREPEND, &own.lists), (REPLACE, &own.settings)] {
        text.push_str(&format!(
            "\n--{boundary}\nContent-Type: text/cloud-config; charset=\"utf-8\"\n\n{CLOUD_CONFIG}{how}{yaml}"
        ));
    }
    text.push_str(&format!("\n--{boundary}--\n"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Own {
        Own {
            lists: "users:\n  - name: u\n".to_owned(),
            settings: "ssh_pwauth: false\n".to_owned(),
        }
    }

    /// The parts between the boundaries, and the boundary.
    fn parts(text: &str) -> (Vec<String>, String) {
        let (_, rest) = text.split_once("boundary=\"").unwrap();
        let boundary = rest.split_once('"').unwrap().0.to_owned();
        let body = text.split_once("\n\n").unwrap().1;
        let body = body.strip_suffix(&format!("\n--{boundary}--\n")).unwrap();
        let body = format!("\n{body}");
        let line = format!("\n--{boundary}\n");
        let split = body.split(&line).skip(1);
        (split.map(str::to_owned).collect(), boundary)
    }

    #[test]
    fn without_user_data_the_seed_is_one_cloud_config() {
        assert_eq!(
            text(&own(), None, "secret"),
            "#cloud-config\nusers:\n  - name: u\nssh_pwauth: false\n"
        );
    }

    #[test]
    fn the_tenants_part_is_first_and_the_platforms_parts_win() {
        let script = format!("#!/bin/sh\nusers: x\n# {}\n", "\u{e4}".repeat(100));
        let data = script.parse().unwrap();
        let whole = text(&own(), Some(&data), "secret");
        let (parts, _) = parts(&whole);
        assert_eq!(parts.len(), 3, "{whole}");
        let (head, body) = parts[0].split_once("\n\n").unwrap();
        assert!(head.contains("text/plain") && head.contains("base64"));
        assert!(body.lines().all(|line| line.len() <= LINE));
        let decoded = STANDARD.decode(body.replace('\n', "")).unwrap();
        assert_eq!(decoded, script.as_bytes());
        assert!(parts[1].ends_with(&format!("{CLOUD_CONFIG}{PREPEND}users:\n  - name: u\n")));
        assert!(parts[2].ends_with(&format!("{CLOUD_CONFIG}{REPLACE}ssh_pwauth: false\n")));
    }

    /// Whatever a tenant writes, it ends no part but its own.
    #[test]
    fn a_message_of_the_tenant_is_nested_and_cannot_end_ours() {
        let mime = "Content-Type: multipart/mixed; boundary=\"b\"\n\n--b\nContent-Type: text/x-shellscript\n\n#!/bin/sh\n--b--\n\n--gpuaas-00--\n";
        let data = mime.parse().unwrap();
        let whole = text(&own(), Some(&data), "secret");
        let (parts, boundary) = parts(&whole);
        assert_eq!((parts.len(), parts[0].as_str()), (3, mime));
        assert!(!mime.contains(&boundary));
        assert!(!text(&own(), Some(&data), "other").contains(&boundary));
    }
}
