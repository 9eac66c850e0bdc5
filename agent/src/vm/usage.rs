//! What a VM used so far, as the hypervisor counts it (D-90). Nothing of it comes from the guest.
use virt::connect::Connect;
use virt::domain::Domain;
use virt::error::Error;

use super::Hypervisor;
use super::domain_xml::disk_name;
use crate::error::HostResult;

/// Bytes in and out, as the VM sees it, since its domain was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Transferred {
    /// Received, or read.
    pub inward: u64,
    /// Sent, or written.
    pub outward: u64,
}

/// Counters of one run of a VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// A number that this run of the VM has alone.
    pub run: u32,
    /// Time on CPUs in nanoseconds, that of its emulator included.
    pub cpu_nanos: u64,
    /// Virtual CPUs.
    pub vcpus: u32,
    /// On its network interface; none: it is not known.
    pub network: Option<Transferred>,
    /// On all its disks; none: it is not known.
    pub disk: Option<Transferred>,
}

impl Hypervisor {
    /// The counters of a domain whose port on the bridge has this name, and that has so many disks; none when it does not run.
    /// It does not wait for a libvirt that is down. `turn` is dropped when libvirt has let go of the call, which may be long after
    /// this has ended.
    ///
    /// # Errors
    /// libvirt does not answer.
    pub async fn usage(
        &self,
        name: &str,
        port: &str,
        disks: usize,
        turn: impl Send + Sync + 'static,
    ) -> HostResult<Option<Usage>> {
        let (name, port) = (name.to_owned(), port.to_owned());
        self.once("measure domain", move |connection| {
            let _until_then = &turn;
            measure(connection, &name, &port, disks)
        })
        .await
    }
}

fn measure(
    connection: &Connect,
    name: &str,
    port: &str,
    disks: usize,
) -> Result<Option<Usage>, Error> {
    let Some(domain) = super::hypervisor::found(Domain::lookup_by_name(connection, name))? else {
        return Ok(None);
    };
    // none: it does not run
    let Some(run) = domain.get_id() else {
        return Ok(None);
    };
    let info = domain.get_info()?;
    Ok(Some(Usage {
        run,
        cpu_nanos: info.cpu_time,
        vcpus: info.nr_virt_cpu,
        // a device that it has not is no reason to know nothing of the others
        network: network(&domain, port).ok(),
        disk: disk(&domain, disks).ok(),
    }))
}

/// libvirt turns the counters of the port on the bridge around: they are those of the VM.
fn network(domain: &Domain, port: &str) -> Result<Transferred, Error> {
    let stats = domain.interface_stats(port)?;
    Ok(Transferred {
        inward: counter(stats.rx_bytes),
        outward: counter(stats.tx_bytes),
    })
}

fn disk(domain: &Domain, disks: usize) -> Result<Transferred, Error> {
    let mut sum = Transferred::default();
    for index in 0..disks {
        let stats = domain.get_block_stats(&disk_name(index))?;
        sum.inward = sum.inward.saturating_add(counter(stats.rd_bytes));
        sum.outward = sum.outward.saturating_add(counter(stats.wr_bytes));
    }
    Ok(sum)
}

/// libvirt says -1 of what it does not count.
fn counter(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn d_90_the_counters_of_a_domain_on_libvirts_test_driver() {
        let hypervisor = Hypervisor::new("test:///default");
        let xml = "<domain type='test'><name>gpuaas-slice-u</name><memory>1024</memory><vcpu>3</vcpu>\
            <os><type>hvm</type></os><devices>\
            <disk type='file'><source file='/disk'/><target dev='vda' bus='virtio'/></disk>\
            <interface type='network'><source network='default'/><target dev='gsport'/></interface>\
            </devices></domain>";
        hypervisor.define(xml.to_owned()).await.unwrap();
        let usage = async |port, disks| {
            hypervisor
                .usage("gpuaas-slice-u", port, disks, ())
                .await
                .unwrap()
        };
        assert_eq!(usage("gsport", 1).await, None, "it does not run");
        let none = hypervisor.usage("gpuaas-none", "p", 1, ()).await;
        assert_eq!(none.unwrap(), None);
        hypervisor.start("gpuaas-slice-u").await.unwrap();
        let first = usage("gsport", 1).await.unwrap();
        assert_eq!(first.vcpus, 3);
        let later = usage("gsport", 1).await.unwrap();
        assert!(later.cpu_nanos >= first.cpu_nanos && later.run == first.run);
        assert!(first.network.is_some() && first.disk.is_some(), "{first:?}");
        // what it has not is not known, and takes nothing else along
        let other = usage("another", 2).await.unwrap();
        assert_eq!((other.network, other.disk), (None, None));
        hypervisor.destroy("gpuaas-slice-u").await.unwrap();
        hypervisor.start("gpuaas-slice-u").await.unwrap();
        assert_ne!(usage("gsport", 1).await.unwrap().run, first.run);
        hypervisor.destroy("gpuaas-slice-u").await.unwrap();
        hypervisor.undefine("gpuaas-slice-u").await.unwrap();
    }
}
