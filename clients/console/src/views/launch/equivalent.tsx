/** The launch as a command, as a call of the API and with the SDKs, to repeat it without the form. */
import { useState } from "react";
import { useSession } from "../../session/session";
import { CopyButton } from "../../ui/basics";
import { Segments } from "../../ui/form";
import { cliOf, curlOf } from "./commands";
import { pythonOf, typescriptOf } from "./sdk-calls";
import type { Order } from "./use-launch";

type Way = "cli" | "curl" | "python" | "typescript";
const WAYS: { value: Way; label: string }[] = [
  { value: "cli", label: "CLI" },
  { value: "curl", label: "curl" },
  { value: "python", label: "Python" },
  { value: "typescript", label: "TypeScript" },
];
const NOTES: Record<Way, string> = {
  cli: "Uses the credentials of your profile.",
  curl: "Set the variable GPUAAS_TOKEN to your token.",
  python: "Set the variable GPUAAS_TOKEN to your token. The package is gpuaas.",
  typescript: "Set the variable GPUAAS_TOKEN to your token. The package is @gpuaas/sdk.",
};

export function Equivalent({ order, name }: { order: Order; /** The common part of the names. */ name: string }) {
  const [way, setWay] = useState<Way>("cli");
  const [open, setOpen] = useState(false);
  const session = useSession();
  const project = (session?.projects.length ?? 0) > 1 ? session?.projects.find(({ id }) => id === order.project_id)?.slug : undefined;
  const text = { cli: () => cliOf(order, name, project), curl: () => curlOf(order, location.origin, Date.now()), python: () => pythonOf(order, location.origin, Date.now()), typescript: () => typescriptOf(order, location.origin, Date.now()) }[way]();
  return (
    <details className="equivalent" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Show as CLI, curl or SDK call</summary>
      {open && (
        <>
          <div className="equivalent-head">
            <Segments label="Tool" options={WAYS} value={way} onChoose={setWay} />
            <CopyButton text={text} label={`Copy the ${way === "cli" ? "command" : "call"}`} />
          </div>
          <pre tabIndex={0} role="region" aria-label={way === "cli" ? "Command" : "Call"}>
            {text}
          </pre>
          <p className="field-hint">{NOTES[way]}</p>
        </>
      )}
    </details>
  );
}
