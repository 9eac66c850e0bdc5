/** Ports of the VM of an allocation that are exposed to the outside. */
import { useState } from "react";
import { useBounds } from "../../api/guardrails";
import { type IngressMapping, type IngressMappingConfig, type IngressProtocol, useClosePort, useIngressMappings, useOpenPort } from "../../api/ingress";
import type { Allocation } from "../../api/types";
import { forbidden } from "../../lib/forbidden";
import { sentence } from "../../lib/text";
import { useProjectMay } from "../../session/roles";
import { Button, Card, Code, Planned, Skeleton } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { Segments } from "../../ui/form";
import { ProblemNote } from "../../ui/problem";
import { TextField } from "../catalog/parts";
import { isBaremetal } from "./state";

/** Where a mapping is reached, such as "203.0.113.7:30017". */
export function externalOf({ status }: IngressMapping): string {
  return `${status?.external_address}:${status?.external_port}`;
}

/** A port as it is typed; undefined: it is none. */
export function portOf(text: string): number | undefined {
  const port = /^\d{1,5}$/.test(text.trim()) ? Number(text) : 0;
  return port >= 1 && port <= 65535 ? port : undefined;
}

/** What is sent; undefined while a port is none. */
export function configOf(protocol: IngressProtocol, vmPort: string, externalPort: string, sources: string): IngressMappingConfig | undefined {
  const [vm_port, external_port] = [portOf(vmPort), externalPort.trim() === "" ? 0 : portOf(externalPort)];
  if (vm_port === undefined || external_port === undefined) return undefined;
  const source_cidrs = sources.split(/[\s,]+/).filter((text) => text !== "");
  return { protocol, vm_port, ...(external_port ? { external_port } : {}), ...(source_cidrs.length > 0 ? { source_cidrs } : {}) };
}

function Open({ allocation }: { allocation: string }) {
  const open = useOpenPort(allocation);
  const [protocol, setProtocol] = useState<IngressProtocol>("tcp");
  const [vmPort, setVmPort] = useState("");
  const [externalPort, setExternalPort] = useState("");
  const [sources, setSources] = useState("");
  const config = configOf(protocol, vmPort, externalPort, sources);
  const wrong = (text: string) => (text.trim() !== "" && portOf(text) === undefined ? "A port is a number from 1 to 65535." : undefined);
  const run = async () => {
    if (config) await open.mutateAsync(config);
  };
  return (
    <Confirm trigger={<Button small>Open a port</Button>} title="Open a port of the VM" action="Open" ready={config !== undefined} run={run}>
      <p>Anyone who connects to the external port reaches the service in the VM: protect the service, or restrict the source networks.</p>
      <Segments
        label="Protocol"
        options={[
          { value: "tcp", label: "TCP" },
          { value: "udp", label: "UDP" },
        ]}
        value={protocol}
        onChoose={setProtocol}
      />
      <TextField label="Port of the VM" value={vmPort} onChange={setVmPort} problem={wrong(vmPort)} hint="For example 443" />
      <TextField label="External port (optional)" value={externalPort} onChange={setExternalPort} problem={wrong(externalPort)} hint="Empty: any free port" />
      <TextField label="Networks that may connect (optional)" value={sources} onChange={setSources} hint="IPv4, such as 198.51.100.0/24. Empty: everybody" />
    </Confirm>
  );
}

function Line({ mapping, mayChange, close }: { mapping: IngressMapping; mayChange: boolean; close: (id: string) => Promise<unknown> }) {
  const { id = "", config, status } = mapping;
  const { source_cidrs = [], protocol = "", vm_port, expire_time } = config ?? {};
  return (
    <div className="under-way-line">
      <div>
        <Code text={externalOf(mapping)} label="External address" />
        <small className="muted">
          {sentence(status?.state ?? "")}: {protocol.toUpperCase()} to port {vm_port} of the VM, for {source_cidrs.length > 0 ? source_cidrs.join(", ") : "everybody"}
          {expire_time && (
            <>
              , until <Planned value={expire_time} />
            </>
          )}
        </small>
        {status?.failure && <p className="field-problem">{status.failure}</p>}
      </div>
      {mayChange && status?.state !== "deleting" && (
        <Confirm trigger={<Button small>Close port</Button>} title={`Close ${externalOf(mapping)}?`} action="Close port" run={() => close(id)}>
          <p>Open connections end. Another project may get the external port.</p>
        </Confirm>
      )}
    </div>
  );
}

export function Ingress({ allocation }: { allocation: Allocation }) {
  const wanted = allocation.status?.state === "active" && !isBaremetal(allocation);
  const id = allocation.id ?? "";
  const project = allocation.config?.project_id;
  const mayRead = useProjectMay("read", undefined, project);
  const mayChange = useProjectMay("write", undefined, project);
  const listed = useIngressMappings(id, wanted && mayRead);
  const close = useClosePort(id);
  const bounds = useBounds({ project_id: project }).data;
  if (!wanted || !mayRead) return null;
  const title = "Ingress ports";
  if (listed.isPending || !bounds) return <Card title={title}><Skeleton lines={1} label="Loading the ingress ports" /></Card>;
  if (listed.error) return <Card title={title}><ProblemNote error={listed.error} retry={() => listed.refetch()} /></Card>;
  const refused = mayChange && forbidden(bounds, "ingress_mappings_disabled");
  return (
    <Card title={title} aside={mayChange && !refused && <Open allocation={id} />}>
      {refused && <p className="muted">{refused}</p>}
      {listed.data.length === 0 && <p className="muted">No port of the VM is exposed.</p>}
      {listed.data.map((one) => <Line key={one.id} mapping={one} mayChange={mayChange} close={close.mutateAsync} />)}
    </Card>
  );
}
