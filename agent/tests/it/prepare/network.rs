//! The network baseline: with played programs, and with real ones in a network namespace.
use std::fs;
use std::process::Command;

use super::{TestHost, agent, repository};

/// The bridge (J-02) of the subnet (J-03), the NAT rule (I-91, J-06) and the link to the card (I-92).
/// A-148
#[test]
fn i_89_i_93_i_100_i_101_the_baseline_is_repaired_and_then_left_alone() {
    let host = TestHost::new();
    fs::create_dir(host.state("links/tmfifo_net0")).unwrap();
    host.unit("openvswitch-switch");
    let first = host.run(&["net-baseline"]);
    assert_eq!(first.code, 0, "{}", first.text);
    let text = |name: &str| fs::read_to_string(host.state(name)).unwrap();
    assert_eq!(text("links/ovsbr0/address"), "10.100.0.1/24\n");
    assert_eq!(
        text("links/tmfifo_net0/address"),
        "192.168.100.1/30\n",
        "I-92"
    );
    // I-91
    assert_eq!(
        text("rules"),
        "-A POSTROUTING -s 10.100.0.0/24 -j MASQUERADE\n"
    );
    assert_eq!(
        text("forward"),
        "-A FORWARD -i ovsbr0 -j ACCEPT\n\
         -A FORWARD -o ovsbr0 -m conntrack --ctstate RELATED,ESTABLISHED,DNAT -j ACCEPT\n"
    );
    assert_eq!(host.read("/proc/sys/net/ipv4/ip_forward"), "1\n");
    assert!(
        host.read("/etc/sysctl.d/90-gpuaas-slice.conf")
            .contains("net.ipv4.ip_forward = 1")
    );
    assert!(
        host.read("/etc/dnsmasq.d/gpu_subnet.conf")
            .contains("interface=ovsbr0")
    );
    // I-221
    for line in [
        "openvswitch-switch=active",
        "dnsmasq=active",
        "rshim=NOT_ACTIVE",
    ] {
        assert!(first.text.lines().any(|own| own == line), "{line}");
    }
    let second = host.run(&["net-baseline"]);
    assert_eq!(
        (second.code, second.steps()),
        (0, Vec::new()),
        "{}",
        second.text
    );

    // a restart of the host: the switch has its bridge, and everything else is gone
    let gone = [
        "links/ovsbr0/address",
        "links/ovsbr0/up",
        "rules",
        "forward",
    ];
    for gone in gone {
        fs::remove_file(host.state(gone)).unwrap();
    }
    let repaired = host.run(&["net-baseline"]);
    assert_eq!(repaired.steps().len(), 5, "{}", repaired.text);
    // two who raced
    let rule = text("rules");
    let forward = text("forward");
    host.state_text("rules", &rule.repeat(3));
    host.state_text("forward", &forward.repeat(2));
    host.run(&["net-baseline"]);
    assert_eq!(text("rules"), rule);
    assert_eq!(text("forward"), forward);
}

/// Sets when a file was written last, in seconds before now.
fn age(path: &std::path::Path, seconds: u64) {
    let at = std::time::SystemTime::now() - std::time::Duration::from_secs(seconds);
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(at).unwrap();
}

/// The command was ended between the file and what makes it count: the file alone says nothing of what runs.
#[test]
fn i_101_i_103_a_restart_that_did_not_come_is_repeated() {
    let host = TestHost::new();
    host.write("/proc/sys/net/core/rmem_max", "212992\n");
    host.write("/proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n");
    let tuned = ["net-baseline", "--network-tuning"];
    let first = host.run(&tuned);
    assert_eq!(first.code, 0, "{}", first.text);
    assert_eq!(host.read("/proc/sys/net/core/rmem_max"), "268435456\n");
    assert_eq!(host.run(&tuned).steps(), Vec::<String>::new());

    // dnsmasq runs since before its configuration was written
    age(&host.state("units/dnsmasq.active"), 60);
    let steps = host.run(&tuned).steps();
    assert_eq!(steps, ["run systemctl restart dnsmasq.service"]);
    assert_eq!(host.run(&tuned).steps(), Vec::<String>::new());
    // and where systemd does not tell since when, the file counts as before
    age(&host.state("units/dnsmasq.active"), 60);
    host.instead(
        "systemctl",
        "case \"$*\" in *InactiveExit*) exit 1 ;; esac\nprintf 'LoadState=loaded\\nActiveState=active\\nUnitFileState=enabled\\n'",
    );
    assert_eq!(host.run(&tuned).steps(), Vec::<String>::new());
    fs::remove_file(host.state("instead/systemctl")).unwrap();
    host.run(&tuned);

    // the kernel has other values than the file
    host.write("/proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n");
    let steps = host.run(&tuned).steps();
    let load = "run sysctl --quiet --load /etc/sysctl.d/91-gpuaas-slice-tuning.conf";
    assert_eq!(steps, [load]);
    assert_eq!(host.run(&tuned).steps(), Vec::<String>::new());
}

#[test]
fn inc_02_i_94_i_95_i_96_the_service_starts_and_enables_no_service() {
    let host = TestHost::new();
    let ran = host.run_with(&["net-baseline"], &[("GPUAAS_SLICE_MANAGE_SYSTEMD", "0")]);
    assert_eq!(ran.code, 0, "{}", ran.text);
    let calls = host.take_calls();
    assert!(
        !calls.iter().any(|call| call.starts_with("systemctl")),
        "{calls:?}"
    );
    // by hand it restarts dnsmasq, and never enables and starts it at once
    let host = TestHost::new();
    host.run(&["net-baseline"]);
    let calls = host.take_calls();
    assert!(calls.contains(&"systemctl restart dnsmasq.service".to_owned()));
    assert!(
        !calls
            .iter()
            .any(|call| call.contains("enable --now dnsmasq")),
        "{calls:?}"
    );

    let unit = repository().join("deploy/deb/gpuaas-slice-network-baseline.service");
    let unit = fs::read_to_string(unit).unwrap();
    assert!(unit.contains("Environment=GPUAAS_SLICE_MANAGE_SYSTEMD=0\n"));
    let after = "ExecStartPost=/usr/bin/systemctl --no-block restart dnsmasq.service\n";
    assert!(unit.contains(after));
    let runs = unit.lines().filter(|line| line.starts_with("Exec"));
    for line in runs {
        assert!(!line.contains("enable"), "{line}");
    }
}

/// L-17, and the half of CON-23 that is about the baseline.
#[test]
fn i_90_no_virtual_function_is_made_and_no_qos_is_set() {
    let host = TestHost::new();
    fs::create_dir(host.state("links/tmfifo_net0")).unwrap();
    let before = host.files();
    let ran = host.run_with(&["net-baseline"], &[("GPUAAS_SLICE_NETWORK_TUNING", "1")]);
    assert_eq!(ran.code, 0, "{}", ran.text);
    for step in ran.steps() {
        for word in ["sriov", "numvfs", "qos", " tc ", "ingress_policing"] {
            assert!(!step.contains(word), "{step}");
        }
    }
    for (path, bytes) in host.files() {
        if path.starts_with(host.path("/sys")) {
            assert_eq!(before.get(&path), Some(&bytes), "{}", path.display());
        }
    }
}

#[test]
fn j_01_a_network_that_the_site_makes_is_left_to_it() {
    let host = TestHost::new();
    let example = fs::read_to_string(repository().join("deploy/deb/node-agent.toml")).unwrap();
    let text = format!("{example}\n[agent.network]\nmode = \"site\"\n");
    host.write("/etc/gpuaas/node-agent.toml", &text);
    let ran = host.run(&["net-baseline"]);
    assert_eq!((ran.code, ran.steps()), (0, Vec::new()), "{}", ran.text);
    assert!(ran.text.contains("the\\ site\\ makes"), "{}", ran.text);
}

/// Real bridge, address, packet filter and dnsmasq's own reading of its configuration.
#[test]
fn i_89_i_91_i_101_a_kernel_is_as_the_plan_says_and_a_second_run_changes_nothing() {
    let host = TestHost::new();
    for path in ["/proc", "/sys"] {
        fs::remove_dir_all(host.path(path)).unwrap();
        std::os::unix::fs::symlink(path, host.path(path)).unwrap();
    }
    let config = host.state("agent.toml");
    let example = fs::read_to_string(repository().join("deploy/deb/node-agent.toml")).unwrap();
    fs::write(
        &config,
        format!(
            "{example}\n[agent.network]\nbridge = \"gpt0\"\nbridge_kind = \"linux\"\n\
             host_services = [\"dhcp\", \"metadata\"]\n"
        ),
    )
    .unwrap();
    let agent = agent();
    let script = r#"
        set -eu
        agent() { "$AGENT" --config "$CONFIG" net-baseline --manage-systemd 0 --root "$TREE" --programs "$PATH" "$@"; }
        agent
        agent --dry-run > "$OUT/second"
        ip -brief address show dev gpt0 > "$OUT/address"
        iptables -t nat -S POSTROUTING > "$OUT/rules"
        cat /proc/sys/net/ipv4/ip_forward > "$OUT/forward"
        ip address flush dev gpt0
        ip link set gpt0 down
        iptables -t nat -F POSTROUTING
        echo 0 > /proc/sys/net/ipv4/ip_forward
        agent
        ip -brief address show dev gpt0 > "$OUT/address-again"
        iptables -t nat -S POSTROUTING > "$OUT/rules-again"
        cat /proc/sys/net/ipv4/ip_forward >> "$OUT/forward"
    "#;
    let output = Command::new("unshare")
        .args(["--net", "sh", "-c", script])
        .env("AGENT", agent.get_program())
        .env("CONFIG", &config)
        .env("TREE", host.tree())
        .env("OUT", host.dir.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = |name: &str| fs::read_to_string(host.state(name)).unwrap();
    assert!(
        text("second").contains("summary command=net-baseline steps=0"),
        "{}",
        text("second")
    );
    for (address, rules) in [("address", "rules"), ("address-again", "rules-again")] {
        for own in ["10.100.0.1/24", "169.254.169.254/32"] {
            assert!(text(address).contains(own), "{}", text(address));
        }
        let rule = "-A POSTROUTING -s 10.100.0.0/24 -j MASQUERADE";
        assert_eq!(text(rules).lines().filter(|line| *line == rule).count(), 1);
    }
    assert_eq!(text("forward"), "1\n1\n");
    let checked = Command::new("dnsmasq")
        .arg("--test")
        .arg(format!(
            "--conf-file={}",
            host.path("/etc/dnsmasq.d/gpu_subnet.conf").display()
        ))
        .output()
        .unwrap();
    assert!(
        checked.status.success(),
        "{}",
        String::from_utf8_lossy(&checked.stderr)
    );
}
