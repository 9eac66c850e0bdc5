/** The launch as a command, as a call of the API and with the SDKs, to repeat it without the form. */
import { useState } from "react";
import { type Project, useSession } from "../../session/session";
import { CopyButton } from "../../ui/basics";
import { Segments } from "../../ui/form";
import { cliOf, curlOf, keyNotes } from "./commands";
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

/** How the command names the project: by its slug, by its id where several have the slug; not at all where it is the only one. */
export function projectFlag(projects: Project[], id = ""): string | undefined {
  const slug = projects.find((one) => one.id === id)?.slug;
  if (projects.length < 2 || slug === undefined) return undefined;
  return projects.filter((other) => other.slug === slug).length > 1 ? id : slug;
}

export function Equivalent({ order, name }: { order: Order; /** The common part of the names. */ name: string }) {
  const [way, setWay] = useState<Way>("cli");
  const [open, setOpen] = useState(false);
  const session = useSession();
  const project = projectFlag(session?.projects ?? [], order.project_id);
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
          {way === "cli" &&
            keyNotes(order.each).map((note) => (
              <p key={note} className="field-hint">
                {note}
              </p>
            ))}
        </>
      )}
    </details>
  );
}
