//! What the agent calls libvirt for: domains, from their definition to their end. How it is called is [`super::calls`]'s.
use virt::connect::Connect;
use virt::domain::Domain as VirtDomain;
use virt::error::ErrorNumber;
use virt::sys;

use super::calls::Hypervisor;
use super::domain::{Domain, PowerState, describe};
use crate::error::HostResult;
use crate::host::recording::observe;

/// What libvirt's in-memory driver calls itself.
const IN_MEMORY: &str = "TEST";

impl Hypervisor {
    /// libvirt's version, as proof that it answers now; it does not wait for one that is down.
    pub async fn version(&self) -> HostResult<u32> {
        observe(
            "libvirt-version",
            self.once("get version", Connect::get_lib_version),
        )
        .await
    }

    /// All domains, running and shut off.
    pub async fn domains(&self) -> HostResult<Vec<Domain>> {
        let listed = self.call("list domains", |connection| {
            let mut domains = Vec::new();
            for domain in connection.list_all_domains(0)? {
                // A domain may vanish between the list and the query; then it uses nothing.
                if let Some(domain) = found(describe(connection, &domain))? {
                    domains.push(domain);
                }
            }
            Ok(domains)
        });
        observe("libvirt-domains", listed).await
    }

    /// Names of the domains that run, each with a number that it has for this run alone; it does not wait for a libvirt that is
    /// down.
    pub async fn running(&self) -> HostResult<Vec<(String, u32)>> {
        let list = |connection: &Connect| -> Result<Vec<(String, u32)>, virt::error::Error> {
            let mut running = Vec::new();
            for domain in connection.list_all_domains(sys::VIR_CONNECT_LIST_DOMAINS_RUNNING)? {
                // none: it ended between the list and the query
                if let Some(run) = domain.get_id() {
                    running.push((domain.get_name()?, run));
                }
            }
            Ok(running)
        };
        observe("libvirt-running", self.once("list running domains", list)).await
    }

    /// State of a domain, `None` when there is none of this name.
    pub async fn state(&self, name: &str) -> HostResult<Option<PowerState>> {
        let name = name.to_owned();
        self.call("look up domain", move |connection| {
            let domain = found(VirtDomain::lookup_by_name(connection, &name))?;
            let state = domain
                .map(|domain| found(domain.get_state()))
                .transpose()?
                .flatten();
            Ok(state.map(|(state, _)| PowerState::of(state)))
        })
        .await
    }

    /// Defines a domain, or defines it again with the same name and UUID. Returns its UUID.
    pub async fn define(&self, xml: String) -> HostResult<String> {
        self.call("define domain", move |connection| {
            VirtDomain::define_xml(connection, &xml)?.get_uuid_string()
        })
        .await
    }

    /// Starts a domain; one that runs already is left alone.
    pub async fn start(&self, name: &str) -> HostResult<()> {
        let name = name.to_owned();
        self.call_start("start domain", move |connection| {
            let domain = VirtDomain::lookup_by_name(connection, &name)?;
            if !domain.is_active()? {
                domain.create()?;
            }
            Ok(())
        })
        .await
    }

    /// Asks the guest to shut down, by its power button.
    pub async fn shutdown(&self, name: &str) -> HostResult<()> {
        let name = name.to_owned();
        self.call("shut domain down", move |connection| {
            let Some(domain) = found(VirtDomain::lookup_by_name(connection, &name))? else {
                return Ok(());
            };
            ended(domain.shutdown().map(|_| ()))
        })
        .await
    }

    /// Stops a domain hard; one that does not run or does not exist is left alone.
    pub async fn destroy(&self, name: &str) -> HostResult<()> {
        let name = name.to_owned();
        self.call("destroy domain", move |connection| {
            let Some(domain) = found(VirtDomain::lookup_by_name(connection, &name))? else {
                return Ok(());
            };
            if domain.is_active()? {
                ended(domain.destroy())
            } else {
                Ok(())
            }
        })
        .await
    }

    /// Takes what is in a CD drive out of it, now and in the stored description, also when the guest holds it; an empty
    /// drive stays empty.
    pub async fn eject(&self, name: &str, device: &str, bus: &str) -> HostResult<()> {
        let name = name.to_owned();
        let empty = format!(
            "<disk type='file' device='cdrom'><target dev='{device}' bus='{bus}'/><readonly/></disk>"
        );
        self.call("eject the seed", move |connection| {
            let Some(domain) = found(VirtDomain::lookup_by_name(connection, &name))? else {
                return Ok(());
            };
            // libvirt's in-memory driver has no drives
            if connection.get_type()? == IN_MEMORY {
                return Ok(());
            }
            let mut flags = sys::VIR_DOMAIN_AFFECT_CONFIG | sys::VIR_DOMAIN_DEVICE_MODIFY_FORCE;
            if domain.is_active()? {
                flags |= sys::VIR_DOMAIN_AFFECT_LIVE;
            }
            domain.update_device_flags(&empty, flags).map(|_| ())
        })
        .await
    }

    /// Removes a domain with its NVRAM (D-72, D-79, INC-26); one that does not exist is fine.
    pub async fn undefine(&self, name: &str) -> HostResult<()> {
        let name = name.to_owned();
        self.call("undefine domain", move |connection| {
            let Some(domain) = found(VirtDomain::lookup_by_name(connection, &name))? else {
                return Ok(());
            };
            let mut flags =
                sys::VIR_DOMAIN_UNDEFINE_MANAGED_SAVE | sys::VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA;
            // libvirt's in-memory driver stores no NVRAM, and refuses its configuration
            if connection.get_type()? != IN_MEMORY {
                flags |= sys::VIR_DOMAIN_UNDEFINE_NVRAM;
            }
            found(domain.undefine_flags(flags)).map(|_| ())
        })
        .await
    }
}

/// Turns "no such domain" into `None`.
pub(super) fn found<T>(
    result: Result<T, virt::error::Error>,
) -> Result<Option<T>, virt::error::Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.code() == ErrorNumber::NoDomain => Ok(None),
        Err(error) => Err(error),
    }
}

/// Stopping a domain that has just ended by itself is no error.
fn ended(result: Result<(), virt::error::Error>) -> Result<(), virt::error::Error> {
    match result {
        Err(error)
            if matches!(
                error.code(),
                ErrorNumber::NoDomain | ErrorNumber::OperationInvalid
            ) =>
        {
            Ok(())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::vm::calls::Limits;
    use crate::vm::calls::busy::Busy;

    /// The virtual slice host needed 69 seconds for a start, and real ones with hundreds of GiB to pin need as long.
    #[tokio::test]
    async fn d_47_d_53_a_start_has_more_time_than_any_other_call() {
        let limits = Limits::default();
        assert!(limits.start >= 4 * limits.call, "{limits:?}");
        let limits = Limits {
            call: Duration::from_millis(20),
            ..limits
        };
        let hypervisor = Hypervisor::with_limits("test:///default", limits);
        // libvirt is busy with others, so that no call is answered before they end
        let busy = Busy::all(&hypervisor).await;
        let starting = hypervisor.start("test");
        tokio::pin!(starting);
        let late = tokio::select! {
            biased;
            started = &mut starting => panic!("the start did not wait: {started:?}"),
            state = hypervisor.state("test") => state.unwrap_err(),
        };
        assert!(late.message.contains("did not answer within"), "{late}");
        busy.end().await;
        starting.await.unwrap();
    }

    #[tokio::test]
    async fn the_life_of_a_domain_on_libvirts_test_driver() {
        let hypervisor = Hypervisor::new("test:///default");
        assert!(hypervisor.version().await.unwrap() > 0);
        let xml = "<domain type='test'><name>gpuaas-slice-t</name><memory>1024</memory><os><type>hvm</type></os></domain>";
        assert_eq!(hypervisor.state("gpuaas-slice-t").await.unwrap(), None);
        hypervisor.define(xml.to_owned()).await.unwrap();
        assert_eq!(
            hypervisor.state("gpuaas-slice-t").await.unwrap(),
            Some(PowerState::ShutOff)
        );
        hypervisor.start("gpuaas-slice-t").await.unwrap();
        hypervisor.start("gpuaas-slice-t").await.unwrap();
        assert_eq!(
            hypervisor.state("gpuaas-slice-t").await.unwrap(),
            Some(PowerState::Running)
        );
        assert!(
            hypervisor
                .domains()
                .await
                .unwrap()
                .iter()
                .any(|domain| domain.name == "gpuaas-slice-t")
        );
        hypervisor.destroy("gpuaas-slice-t").await.unwrap();
        hypervisor.destroy("gpuaas-slice-t").await.unwrap();
        assert_eq!(
            hypervisor.state("gpuaas-slice-t").await.unwrap(),
            Some(PowerState::ShutOff)
        );
        hypervisor.undefine("gpuaas-slice-t").await.unwrap();
        hypervisor.undefine("gpuaas-slice-t").await.unwrap();
        assert_eq!(hypervisor.state("gpuaas-slice-t").await.unwrap(), None);
    }
}
