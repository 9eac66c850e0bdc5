//! The tree of paths: each leaf a text, each folder the list of what is in it.
use serde_json::json;

use super::instance::Instance;

/// Folder of SSH keys, whose list names each key as tools expect it.
const KEYS: &str = "latest/meta-data/public-keys/";

/// What a path holds; none: there is no such path. A folder is read with and without the slash at its end.
pub fn read(instance: &Instance, path: &str) -> Option<String> {
    let path = path.trim_start_matches('/');
    let leaves = leaves(instance);
    if let Some((_, text)) = leaves.iter().find(|(leaf, _)| leaf == path) {
        return Some(text.clone());
    }
    let folder = match path.trim_end_matches('/') {
        "" => String::new(),
        path => format!("{path}/"),
    };
    let mut entries: Vec<String> = Vec::new();
    for rest in leaves
        .iter()
        .filter_map(|(leaf, _)| leaf.strip_prefix(&folder))
    {
        let entry = match rest.split_once('/') {
            Some((name, _)) if folder == KEYS => format!("{name}=key-{name}"),
            Some((name, _)) => format!("{name}/"),
            None => rest.to_owned(),
        };
        if !entries.contains(&entry) {
            entries.push(entry);
        }
    }
    (!entries.is_empty()).then(|| entries.join("\n"))
}

fn leaves(instance: &Instance) -> Vec<(String, String)> {
    let id = instance.id.to_string();
    let texts = [
        ("meta-data/hostname", instance.hostname.clone()),
        ("meta-data/instance-id", id.clone()),
        ("meta-data/local-hostname", instance.hostname.clone()),
        ("meta-data/local-ipv4", instance.ip.to_string()),
        ("meta-data/mac", instance.mac.to_string()),
        ("meta-data/placement/region", instance.region.clone()),
    ];
    let mut leaves: Vec<(String, String)> = texts
        .into_iter()
        .filter(|(_, text)| !text.is_empty())
        .map(|(path, text)| (format!("latest/{path}"), text))
        .collect();
    if !instance.user_data.is_empty() {
        leaves.push(("latest/user-data".to_owned(), instance.user_data.clone()));
    }
    let keys = instance.keys.iter().enumerate();
    leaves.extend(keys.map(|(at, key)| (format!("{KEYS}{at}/openssh-key"), key.clone())));
    let document = json!({
        "instance_id": id,
        "hostname": instance.hostname,
        "region": instance.region,
        "local_ipv4": instance.ip.to_string(),
        "mac": instance.mac.to_string(),
        "ssh_public_keys": instance.keys,
    });
    leaves.push(("latest/instance".to_owned(), document.to_string()));
    leaves
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance() -> Instance {
        Instance {
            id: "0192f0c1-aaaa-7bbb-8ccc-0123456789ab".parse().unwrap(),
            ip: "10.100.0.10".parse().unwrap(),
            mac: "52:54:00:10:00:0a".parse().unwrap(),
            hostname: "train".to_owned(),
            region: "eu-north".to_owned(),
            keys: vec!["ssh-ed25519 AAAA".to_owned(), "ssh-rsa BBBB".to_owned()],
            user_data: String::new(),
        }
    }

    /// Paths and lists as tools of the field expect them.
    #[test]
    fn a_vm_reads_what_it_is() {
        for (path, text) in [
            (
                "/latest/meta-data/instance-id",
                "0192f0c1-aaaa-7bbb-8ccc-0123456789ab",
            ),
            ("/latest/meta-data/hostname", "train"),
            ("/latest/meta-data/local-ipv4", "10.100.0.10"),
            ("/latest/meta-data/mac", "52:54:00:10:00:0a"),
            ("/latest/meta-data/placement/region", "eu-north"),
            ("/latest/meta-data/placement/", "region"),
            ("/latest/meta-data/public-keys/", "0=key-0\n1=key-1"),
            ("/latest/meta-data/public-keys/1/", "openssh-key"),
            (
                "/latest/meta-data/public-keys/1/openssh-key",
                "ssh-rsa BBBB",
            ),
            ("/latest/", "meta-data/\ninstance"),
            ("/", "latest/"),
            (
                "/latest/meta-data",
                "hostname\ninstance-id\nlocal-hostname\nlocal-ipv4\nmac\nplacement/\npublic-keys/",
            ),
        ] {
            assert_eq!(read(&instance(), path).as_deref(), Some(text), "{path}");
        }
        let document: serde_json::Value =
            serde_json::from_str(&read(&instance(), "/latest/instance").unwrap()).unwrap();
        assert_eq!(document["region"], "eu-north");
        assert_eq!(document["ssh_public_keys"][0], "ssh-ed25519 AAAA");
    }

    /// As its tenant sent it: the platform's part of the seed, with the host key in it, is not among what is read.
    #[test]
    fn a_vm_reads_its_own_user_data() {
        let instance = Instance {
            user_data: "#!/bin/sh\n".to_owned(),
            ..instance()
        };
        let read = |path| read(&instance, path);
        assert_eq!(read("/latest/user-data").as_deref(), Some("#!/bin/sh\n"));
        assert_eq!(
            read("/latest/").as_deref(),
            Some("meta-data/\nuser-data\ninstance")
        );
        assert!(!read("/latest/instance").unwrap().contains("bin/sh"));
    }

    #[test]
    fn what_is_not_there_is_not_there() {
        for path in [
            "/latest/meta-data/instance-id/",
            "/latest/meta-data/inst",
            "/latest/user-data",
            "/latest/meta-data/../instance",
            "/latest/meta-data/public-keys/2/openssh-key",
            "/1.0/meta-data/",
            "/latest//meta-data",
        ] {
            assert_eq!(read(&instance(), path), None, "{path}");
        }
        // of a VM whose launch the journal does not know
        let unknown = Instance {
            hostname: String::new(),
            region: String::new(),
            keys: Vec::new(),
            ..instance()
        };
        let listed = read(&unknown, "/latest/meta-data/").unwrap();
        assert_eq!(listed, "instance-id\nlocal-ipv4\nmac");
        assert_eq!(read(&unknown, "/latest/meta-data/placement/region"), None);
    }
}
