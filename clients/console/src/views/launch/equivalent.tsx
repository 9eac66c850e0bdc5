/** The launch as a command and as a call of the API, to repeat it without the form. */
import { useState } from "react";
import { useSession } from "../../session/session";
import { CopyButton } from "../../ui/basics";
import { Segments } from "../../ui/form";
import { cliOf, curlOf } from "./commands";
import type { Order } from "./use-launch";

const WAYS = [
  { value: "cli", label: "CLI" },
  { value: "curl", label: "curl" },
];

export function Equivalent({ order, name }: { order: Order; /** The common part of the names. */ name: string }) {
  const [way, setWay] = useState("cli");
  const [open, setOpen] = useState(false);
  const session = useSession();
  const project = (session?.projects.length ?? 0) > 1 ? session?.projects.find(({ id }) => id === order.project_id)?.slug : undefined;
  const text = way === "cli" ? cliOf(order, name, project) : curlOf(order, location.origin, Date.now());
  return (
    <details className="equivalent" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>The same with CLI or API</summary>
      {open && (
        <>
          <div className="equivalent-head">
            <Segments label="Way" options={WAYS} value={way} onChoose={setWay} />
            <CopyButton text={text} label={`Copy the ${way === "cli" ? "command" : "call"}`} />
          </div>
          <pre tabIndex={0} role="region" aria-label={way === "cli" ? "Command" : "Call"}>
            {text}
          </pre>
          <p className="field-hint">{way === "cli" ? "Uses the credentials of your profile." : "Set the variable GPUAAS_TOKEN to your token."}</p>
        </>
      )}
    </details>
  );
}
