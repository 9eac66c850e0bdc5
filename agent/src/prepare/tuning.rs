//! The named tuning profile of the host's network (I-73, I-74, I-102, I-103). It changes host-wide behaviour: opt-in.
use super::{Machine, Plan};
use crate::error::HostResult;

/// Its name, and the version of its values.
// partly I-103: no benchmark of the profile ran: what it tunes has no effect under emulation
pub const PROFILE: &str = "throughput-1";

const SYSCTL: (&str, &str) = (
    "/etc/sysctl.d/91-gpuaas-slice-tuning.conf",
    "# Tuning profile throughput-1 of gpuaas-node-agent net-baseline.\n\
     net.core.rmem_max = 268435456\n\
     net.core.wmem_max = 268435456\n\
     net.ipv4.tcp_rmem = 4096 131072 134217728\n\
     net.ipv4.tcp_wmem = 4096 65536 134217728\n\
     net.core.netdev_max_backlog = 250000\n",
);
const IPOIB: (&str, &str) = (
    "/etc/modprobe.d/gpuaas-ib-ipoib.conf",
    "# Tuning profile throughput-1 of gpuaas-node-agent net-baseline; counts from the module's next load on.\n\
     options ib_ipoib send_queue_size=8192 recv_queue_size=8192\n",
);
const MEMLOCK: (&str, &str) = (
    "/etc/security/limits.d/90-gpuaas-memlock.conf",
    "# Tuning profile throughput-1 of gpuaas-node-agent net-baseline.\n\
     * soft memlock unlimited\n\
     * hard memlock unlimited\n",
);

/// Its files, and the sysctl values now.
///
/// # Errors
/// A file cannot be read.
pub fn plan(machine: &Machine, plan: &mut Plan) -> HostResult<()> {
    let reason = format!("tuning profile {PROFILE}");
    for (path, text) in [IPOIB, MEMLOCK] {
        plan.file(machine, path, (text, 0o644), None, &reason)?;
    }
    let (path, text) = SYSCTL;
    let is_written = plan.file(machine, path, (text, 0o644), None, &reason)?;
    if is_written || !is_in_force(machine, text) {
        plan.run("sysctl", &["--quiet", "--load", path], reason);
    }
    Ok(())
}

/// Whether the kernel has these values. One that it does not show is none that loading them would change.
fn is_in_force(machine: &Machine, text: &str) -> bool {
    let mut values = text.lines().filter_map(|line| line.split_once(" = "));
    values.all(|(key, value)| {
        let now = machine
            .root
            .read_value(format!("/proc/sys/{}", key.replace('.', "/")));
        now.is_none_or(|now| now.split_whitespace().eq(value.split_whitespace()))
    })
}
