//! Parts of a lab host that are killed and come back as systemd would start them.
use std::collections::VecDeque;
use std::time::Duration;

use gpuaas_dev::lab::Lab;

use crate::hold::Hold;
use crate::system::TIMEOUT;
use crate::until::until;

/// Longest wait for a process that was killed to be gone.
const GONE: Duration = Duration::from_secs(20);

/// A part of a lab host that its VMs need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// libvirtd.
    Libvirt,
    /// The VM's own QEMU.
    Qemu,
    /// dnsmasq.
    Dhcp,
    /// ovs-vswitchd.
    Switch,
}

/// How a part that was killed had been started.
pub struct Killed {
    part: Part,
    command: Vec<String>,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Libvirt, Self::Qemu, Self::Dhcp, Self::Switch];

    fn pid_file(self, lab: &Lab, vm: &str) -> String {
        match self {
            Self::Libvirt => "/run/libvirt/libvirtd.pid".to_owned(),
            Self::Qemu => format!("/run/libvirt/qemu/{vm}.pid"),
            Self::Dhcp => lab.folder().join("run/dnsmasq.pid").display().to_string(),
            Self::Switch => "/run/openvswitch/ovs-vswitchd.pid".to_owned(),
        }
    }

    /// Kills it by SIGKILL and waits until it is gone; none when it does not run, as a VM before its start.
    ///
    /// # Panics
    /// When it cannot be killed, or does not run though it must: only a VM may be off, and only where every step has its kill.
    pub async fn kill(self, lab: &Lab, vm: &str) -> Option<Killed> {
        let found = lab.exec("cat", &[&self.pid_file(lab, vm)]).and_then(|pid| {
            let pid = pid.trim().to_owned();
            let line = lab.exec("cat", &[&format!("/proc/{pid}/cmdline")])?;
            Ok((pid, line))
        });
        let may_be_off = self == Self::Qemu && every_step();
        let (pid, line) = match found {
            Err(_) if may_be_off => return None,
            found => found.unwrap_or_else(|error| panic!("{self:?} does not run: {error}")),
        };
        let words = line.split_terminator('\0').map(str::to_owned).collect();
        lab.exec("kill", &["-9", &pid]).expect("it is killed");
        until("it to be gone", GONE, async || {
            lab.exec("kill", &["-0", &pid]).err()
        })
        .await;
        Some(Killed {
            part: self,
            command: words,
        })
    }
}

impl Killed {
    /// Starts it again; nobody starts a VM again but its owner.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start(&self, lab: &Lab) {
        if self.part == Part::Qemu {
            return;
        }
        let run = |program: &str, arguments: &[&str]| {
            lab.exec(program, arguments).expect("it starts");
        };
        let (program, arguments) = self.command.split_first().expect("a program");
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        run(program, &arguments);
        if self.part == Part::Switch {
            for address in ["10.100.0.1/24", "169.254.169.254/32"] {
                run("ip", &["addr", "replace", address, "dev", "ovsbr0"]);
            }
            run("ip", &["link", "set", "ovsbr0", "up"]);
        }
    }
}

/// Whether parts are killed in every step of an operation, as in `make test-chaos`, and not in one.
pub fn every_step() -> bool {
    std::env::var_os("GPUAAS_EVERY_STEP").is_some()
}

/// A part that is killed while the host is in a step.
pub type Kill = (Part, &'static str);

/// Kills in steps of one operation that has not begun yet, in the order of its steps.
pub struct Kills<'a> {
    lab: &'a Lab,
    left: &'a mut VecDeque<Kill>,
    next: Option<(Part, Hold<'a>)>,
}

impl<'a> Kills<'a> {
    /// Has the agent stay before the first of these steps.
    pub fn order(lab: &'a Lab, left: &'a mut VecDeque<Kill>) -> Self {
        let mut kills = Self {
            lab,
            left,
            next: None,
        };
        kills.order_next();
        kills
    }

    fn order_next(&mut self) {
        let next = self.left.pop_front();
        self.next = next.map(|(part, step)| (part, Hold::order(self.lab, step)));
    }

    /// Carries them out, as far as the operation comes before it has ended. What is left then is for another one.
    ///
    /// # Panics
    /// When the operation neither comes to a step nor ends.
    pub async fn carry_out(mut self, what: &str, vm: &str, has_ended: impl AsyncFn() -> bool) {
        while let Some((part, hold)) = self.next.take() {
            let what = format!("{what} before {}", hold.step);
            let is_held = until(&what, 2 * TIMEOUT, async || {
                let ended = has_ended().await;
                match hold.is_held() {
                    true => Some(true),
                    false => ended.then_some(false),
                }
            });
            if !is_held.await {
                self.left.push_front((part, hold.step));
                hold.take_back();
                break;
            }
            let killed = part.kill(self.lab, vm).await;
            println!("{what}: {part:?} is killed: {}", killed.is_some());
            // the order of the next stop first: the agent goes on at once
            self.order_next();
            hold.let_go();
            if let Some(killed) = killed {
                killed.start(self.lab);
            }
        }
    }
}
