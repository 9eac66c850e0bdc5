//! The operator's parity check as an operator runs it: the script, over SSH to the lab host, with what the platform knows of the
//! node by the gateway that runs (I-01..I-23, H-10).
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use gpuaas_dev::lab::Lab;
use gpuaas_dev::{paths, process};
use gpuaas_tests::api::text;
use gpuaas_tests::runner::{Case, Place};
use gpuaas_tests::system::{System, TIMEOUT};
use gpuaas_tests::until::{until, until_ok};
use serde_json::json;
use uuid::Uuid;

/// The tests of this file, with the seconds that each usually takes.
pub fn cases() -> Vec<Case> {
    gpuaas_tests::cases![Place::System;
        i_01_i_18_i_21_a_host_is_checked_over_ssh_with_what_the_platform_knows_of_it: 10,
    ]
}

const SCRIPT: &str = "scripts/ops/gpuaas_slice_host_parity_check.sh";
/// The user of the documents' example.
const USER: &str = "hpcadmin";
const PORT: u16 = 2222;

/// An SSH server on the lab host, for a user who becomes root by `sudo`, with the agent's program where a package puts it: found
/// by its name. The lab host shares the files of this machine, so user, `sudo` and names are the server's alone.
struct SshServer<'a> {
    lab: &'a Lab,
    folder: PathBuf,
}

impl<'a> SshServer<'a> {
    async fn start(system: &System, lab: &'a Lab) -> Self {
        let folder = system.stack.options().root.join("parity");
        let _absent_is_fine = std::fs::remove_dir_all(&folder);
        for sub in ["home/.ssh", "server", "client"] {
            paths::ensure_dir(&folder.join(sub)).expect("a folder");
        }
        let server = Self { lab, folder };
        server.write("home/.ssh/authorized_keys", &system.public_key, 0o600);
        for private in ["home", "home/.ssh"] {
            mode(&server.path(private), 0o700);
        }
        let users = std::fs::read_to_string("/etc/passwd").expect("users");
        let home = server.path("home").display().to_string();
        let user = format!("{USER}:x:0:0::{home}:/bin/sh\n");
        server.write("passwd", &format!("{}\n{user}", users.trim_end()), 0o644);
        // this machine has none, and the user is root already
        let sudo = "#!/bin/sh\n[ \"$1\" != -n ] || shift\nexec \"$@\"\n";
        server.write("server/sudo", sudo, 0o755);
        let agent = system.stack.program("gpuaas-node-agent");
        std::os::unix::fs::symlink(agent, server.path("server/gpuaas-node-agent")).expect("a link");
        let programs = server.path("server").display().to_string();
        let login = format!(
            "#!/bin/sh\nPATH={programs}:$PATH\nexport PATH\nexec /bin/sh -c \"$SSH_ORIGINAL_COMMAND\"\n"
        );
        server.write("login", &login, 0o755);
        server.listen();
        server.client(&system.key_file);
        until("the SSH server to listen", TIMEOUT, async || {
            TcpStream::connect(server.address()).ok()
        })
        .await;
        server
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::new(self.lab.host_address(), PORT)
    }

    fn path(&self, below: &str) -> PathBuf {
        self.folder.join(below)
    }

    fn write(&self, below: &str, text: &str, permissions: u32) {
        let path = self.path(below);
        std::fs::write(&path, text).expect("a file");
        mode(&path, permissions);
    }

    fn listen(&self) {
        let key = self.path("host_key").display().to_string();
        process::run("dropbearkey", &["-t", "ed25519", "-f", &key]).expect("a host key");
        let line = format!(
            "mount --bind {passwd} /etc/passwd && exec dropbear -s -m -j -k -r {key} -P {pid} -p {address} -c {login} \
             > {log} 2>&1 < /dev/null",
            passwd = self.path("passwd").display(),
            pid = self.path("pid").display(),
            address = self.address(),
            login = self.path("login").display(),
            log = self.path("log").display(),
        );
        let started = ["--mount", "--propagation", "private", "sh", "-c", &line];
        self.lab.exec("unshare", &started).expect("an SSH server");
    }

    /// What an operator has in `~/.ssh`: this host's key and port, and his own key.
    fn client(&self, key_file: &Path) {
        let key = self.path("host_key").display().to_string();
        let reported = process::run("dropbearkey", &["-y", "-f", &key]).expect("the host key");
        let reported = reported
            .lines()
            .find(|line| line.starts_with("ssh-ed25519 "));
        let public: Vec<&str> = reported.expect("a public key").split(' ').take(2).collect();
        let host = self.lab.host_address();
        let known = format!("[{host}]:{PORT} {}\n", public.join(" "));
        self.write("known_hosts", &known, 0o600);
        let settings = format!(
            "Host *\n  Port {PORT}\n  IdentityFile {key}\n  IdentitiesOnly yes\n  StrictHostKeyChecking yes\n  \
             UserKnownHostsFile {known}\n  GlobalKnownHostsFile /dev/null\n",
            key = key_file.display(),
            known = self.path("known_hosts").display(),
        );
        self.write("ssh_config", &settings, 0o600);
        // the first folder of the path is this program's own
        let config = self.path("ssh_config").display().to_string();
        let client = format!("#!/bin/sh\nPATH=${{PATH#*:}} exec ssh -F {config} \"$@\"\n");
        self.write("client/ssh", &client, 0o755);
    }

    /// Runs the script on this machine, for the lab host.
    fn check(&self, system: &System, user: &str, more: &[&str]) -> ScriptOutput {
        let path = std::env::var("PATH").expect("a path");
        let output = Command::new(paths::checkout().join(SCRIPT))
            .args(["--host", &self.lab.host_address().to_string()])
            .args(["--user", user])
            .arg("--config")
            .arg(self.lab.agent_config())
            .args(more)
            .env(
                "GPUAAS_NODE_AGENT",
                system.stack.program("gpuaas-node-agent"),
            )
            .env("PATH", format!("{}:{path}", self.path("client").display()))
            .output();
        ScriptOutput::of(&output.expect("the script runs"))
    }
}

impl Drop for SshServer<'_> {
    fn drop(&mut self) {
        let stop = format!("kill $(cat {})", self.path("pid").display());
        // what is left ends with the lab host
        let _best_effort = self.lab.exec("sh", &["-c", &stop]);
    }
}

fn mode(path: &Path, mode: u32) {
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(path, permissions).expect("a mode");
}

/// What the script printed, and how it ended.
struct ScriptOutput {
    text: String,
    status: Option<i32>,
}

impl ScriptOutput {
    fn of(output: &Output) -> Self {
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() || !output.stdout.is_empty(),
            "{errors}"
        );
        Self {
            text: String::from_utf8_lossy(&output.stdout).into_owned(),
            status: output.status.code(),
        }
    }

    /// The one line of a check.
    fn line(&self, check: &str) -> &str {
        let named = format!(" check={check} ");
        let lines: Vec<&str> = self
            .text
            .lines()
            .filter(|line| line.contains(&named))
            .collect();
        assert_eq!(lines.len(), 1, "{check}: {}", self.text);
        lines[0]
    }

    /// By the summary, which is the last line.
    fn failures(&self) -> usize {
        let last = self.text.lines().last().expect("a summary");
        let (rest, failures) = last.rsplit_once(" failures=").expect("a summary");
        assert!(rest.starts_with("GPUAAS_SLICE_PARITY summary "), "{last}");
        let failures = failures.parse().expect("a number");
        let failed = |line: &&str| line.starts_with("GPUAAS_SLICE_PARITY status=FAIL ");
        assert_eq!(self.text.lines().filter(failed).count(), failures);
        assert_eq!(self.status, Some(i32::from(failures > 0)), "{}", self.text);
        failures
    }
}

/// Has the platform inspect the host.
async fn discover(system: &System) {
    let path = format!(
        "/api/v1/admin/nodes/{}/slice-topology/discovery",
        system.node_id
    );
    let begun = system.admin.post(&path, json!({})).await;
    let begun = begun.unwrap_or_else(|refusal| panic!("{}", refusal.body));
    until_ok("the discovery to end", TIMEOUT, async || {
        let now = system.admin.get(&path).await;
        let now = now.map_err(|refusal| refusal.body.to_string())?;
        match now["id"] == begun["id"] && text(&now, "/state") == "completed" {
            true => Ok(()),
            false => Err(now["state"].to_string()),
        }
    })
    .await;
}

async fn i_01_i_18_i_21_a_host_is_checked_over_ssh_with_what_the_platform_knows_of_it() {
    let system = System::get().await;
    let lab = &system.hosts[0].lab;
    let server = SshServer::start(&system, lab).await;
    let (base, node) = (system.stack.api_url(), system.node_id.clone());
    let tokens = gpuaas_dev::seed::Tokens::of(&system.stack.options().root);
    let [admin, member] = [&tokens.admin, &tokens.user].map(|file| file.display().to_string());
    let api = |token: &str, node: &str| -> Vec<String> {
        let flags = [
            "--api-base",
            &base,
            "--api-token-file",
            token,
            "--node-id",
            node,
        ];
        flags.map(str::to_owned).into()
    };
    let check = |more: &[String]| {
        let more: Vec<&str> = more.iter().map(String::as_str).collect();
        server.check(&system, USER, &more)
    };

    // I-16, I-18: a host that is fit, as host and platform know it
    discover(&system).await;
    let good = check(&api(&admin, &node));
    assert_eq!(good.failures(), 0, "{}", good.text);
    let slots = lab.slots();
    assert_eq!(
        good.line("api_topology"),
        format!(
            "GPUAAS_SLICE_PARITY status=PASS check=api_topology detail=completed,\\ {slots}\\ candidate\\ slots"
        )
    );
    for hard in [
        "node_agent",
        "nat",
        "bridge",
        "dnsmasq",
        "ip_forwarding",
        "libvirt",
    ] {
        let line = good.line(hard);
        assert!(line.contains(" status=PASS "), "{line}");
    }
    assert!(!good.text.contains(" check=ssh "), "{}", good.text);

    // I-19, I-20: the host alone says nothing of the platform
    let local = check(&[]);
    assert_eq!(local.failures(), 0, "{}", local.text);
    let reported = local.line("api_topology");
    assert!(reported.contains(" status=WARN "), "{reported}");

    // H-10: a token of a platform administrator, of a node that there is
    let other = Uuid::now_v7().to_string();
    for (flags, said) in [
        (api(&member, &node), "403"),
        (api(&admin, &other), "no\\ such\\ node"),
    ] {
        let refused = check(&flags);
        assert_eq!(refused.failures(), 1, "{}", refused.text);
        let line = refused.line("api_topology");
        assert!(
            line.contains(" status=FAIL ") && line.contains(said),
            "{line}"
        );
        assert!(line.contains(" remediation="), "{line}");
    }

    // I-12, I-22, I-23: what is broken on the host fails by its name, and the platform's view with the next discovery
    let kept = server.path("rules").display().to_string();
    let take_away = format!("nft list table ip gpuaas > {kept} && nft delete table ip gpuaas");
    let put_back = format!("nft -f {kept}");
    let broken = Rules::taken_away(lab, &take_away, put_back);
    let by_host = check(&api(&admin, &node));
    assert!(by_host.failures() > 0, "{}", by_host.text);
    let line = by_host.line("nat");
    assert!(
        line.contains(" status=FAIL ") && line.contains(" remediation="),
        "{line}"
    );
    assert!(by_host.line("api_topology").contains(" status=PASS "));
    discover(&system).await;
    let by_both = check(&api(&admin, &node));
    assert_eq!(
        by_both.failures(),
        by_host.failures() + 1,
        "{}",
        by_both.text
    );
    let line = by_both.line("api_topology");
    assert!(
        line.contains(" status=FAIL ") && line.contains("nat:"),
        "{line}"
    );
    broken.put_back();
    discover(&system).await;
    let repaired = check(&api(&admin, &node));
    assert_eq!(repaired.failures(), 0, "{}", repaired.text);

    // I-03: who may not log in has checked nothing
    let nobody = server.check(&system, "nobody-at-all", &[]);
    assert!(
        nobody.line("ssh").contains(" status=FAIL "),
        "{}",
        nobody.text
    );
    assert_eq!(nobody.failures(), 1, "{}", nobody.text);

    drop(server);
    system.wait_schedulable(&system.hosts[0]).await;
    system.assert_nothing_left().await;
}

/// The NAT rules while they are away; back at the latest when the test ends.
struct Rules<'a> {
    lab: &'a Lab,
    put_back: String,
}

impl<'a> Rules<'a> {
    fn taken_away(lab: &'a Lab, take_away: &str, put_back: String) -> Self {
        let rules = Self { lab, put_back };
        lab.exec("sh", &["-c", take_away])
            .expect("they are taken away");
        rules
    }

    fn put_back(mut self) {
        let line = std::mem::take(&mut self.put_back);
        self.lab
            .exec("sh", &["-c", &line])
            .expect("they are put back");
    }
}

impl Drop for Rules<'_> {
    fn drop(&mut self) {
        if !self.put_back.is_empty() {
            // a test that failed says why itself; the tests after it need the host
            let _best_effort = self.lab.exec("sh", &["-c", &self.put_back]);
        }
    }
}
