/** Registers a node and shows the token of its agent, once. */
import { useMutation } from "@tanstack/react-query";
import { Dialog } from "radix-ui";
import { type FormEvent, useEffect, useState } from "react";
import { useOnce } from "../../api/attempt";
import { type NewNode, createEnrolmentToken, createNode } from "../../api/catalog";
import { useRegions } from "../../api/queries";
import { useMay } from "../../session/rights";
import { Button, Code, Planned } from "../../ui/basics";
import { Plus } from "../../ui/icons";
import { MODAL } from "../../ui/modal";
import { ProblemNote } from "../../ui/problem";
import { SelectField, TextField, countOf } from "../catalog/parts";

const HOSTNAME = /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/;

/** A node is made once, also when its token is asked for again. */
function useRegister() {
  const [made, setMade] = useState({ hostname: "", id: "" });
  const create = useOnce("node", createNode);
  return useMutation({
    mutationFn: async (body: NewNode) => {
      const id = made.hostname === body.hostname ? made.id : ((await create(body)).id ?? "");
      setMade({ hostname: body.hostname, id });
      return createEnrolmentToken(id);
    },
  });
}

function Form({ done, hold }: { done: () => void; /** Whether a token is there, or on its way. */ hold: (held: boolean) => void }) {
  const regions = useRegions().data ?? [];
  const [hostname, setHostname] = useState("");
  const [region, setRegion] = useState("");
  const [mode, setMode] = useState("slice");
  const [rack, setRack] = useState("");
  const [most, setMost] = useState("0");
  const register = useRegister();
  const isHeld = register.isPending || register.isSuccess;
  useEffect(() => hold(isHeld), [hold, isHeld]);
  const code = region || (regions[0]?.code ?? "");
  const max = countOf(most, 0);
  const ready = HOSTNAME.test(hostname) && code !== "" && max !== undefined;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (ready && !register.isPending) register.mutate({ hostname, region_code: code, mode, max_vms_per_node: max, rack: rack.trim() });
  };
  if (register.data) {
    const { token = "", expire_time } = register.data;
    return (
      <>
        <Dialog.Title>{hostname} is registered</Dialog.Title>
        <Dialog.Description asChild>
          <div className="dialog-text">
            <p>
              On the host, write this token into the file that <code>agent.enrolment.token_file</code> names (<code>/etc/gpuaas/enrolment-token</code> in the package’s example), mode 0600, then start <code>gpuaas-node-agent</code>. <strong>The token is shown once</strong>, works once, and expires <Planned value={expire_time} />.
            </p>
            <Code text={token} label="enrolment token" />
            <p>The node becomes schedulable once its agent has enrolled, its checks pass, you have approved its slots, and their first wipe is done.</p>
          </div>
        </Dialog.Description>
        <footer>
          <Button kind="primary" onClick={done}>
            I have saved it
          </Button>
        </footer>
      </>
    );
  }
  return (
    <form onSubmit={submit}>
      <Dialog.Title>Register a node</Dialog.Title>
      <Dialog.Description asChild>
        <div className="dialog-text">
          <p>You get a token to enrol the agent of the node.</p>
          <TextField label="Hostname" mono value={hostname} onChange={setHostname} problem={hostname === "" || HOSTNAME.test(hostname) ? undefined : "Lowercase letters, digits, dots and hyphens."} />
          <SelectField label="Region" value={code} onChange={setRegion} options={regions.map((one): [string, string] => [one.code, one.display_name || one.code])} hint={regions.length === 0 ? "No region yet. Add one in the catalog first." : undefined} />
          <SelectField label="Mode" value={mode} onChange={setMode} options={[["slice", "Slices (virtual machines)"], ["baremetal", "Bare metal"]]} />
          <TextField label="Rack (optional)" value={rack} onChange={setRack} />
          <TextField label="Maximum VMs" numeric value={most} onChange={setMost} hint="0: no limit." problem={max === undefined ? "Enter a whole number, 0 or more." : undefined} />
        </div>
      </Dialog.Description>
      {register.error && <ProblemNote error={register.error} />}
      <footer>
        <Dialog.Close asChild>
          <Button disabled={register.isPending}>Cancel</Button>
        </Dialog.Close>
        <Button type="submit" kind="primary" busy={register.isPending} disabled={!ready}>
          Register
        </Button>
      </footer>
    </form>
  );
}

export function RegisterNode() {
  const [open, setOpen] = useState(false);
  const [held, setHeld] = useState(false);
  if (!useMay("operate")) return null;
  return (
    <Dialog.Root open={open} onOpenChange={(next) => setOpen(next || held)}>
      <Dialog.Trigger asChild>
        <Button kind="primary">
          <Plus size={16} aria-hidden="true" /> Register a node
        </Button>
      </Dialog.Trigger>
      <Dialog.Portal>
        <Dialog.Overlay className="overlay" />
        {/* neither a click beside it, nor Escape, nor Cancel must lose the token */}
        <Dialog.Content className="dialog" {...MODAL} onInteractOutside={(event) => event.preventDefault()}>
          <Form done={() => setOpen(false)} hold={setHeld} />
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
