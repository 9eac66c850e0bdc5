/** The command palette: pages, allocations, nodes, projects and themes by a few letters. */
import { Dialog } from "radix-ui";
import { type KeyboardEvent, useId, useMemo, useState } from "react";
import { useLocation } from "wouter";
import { usePlacements } from "../api/queries";
import { useAllocationsWatch } from "../api/watches";
import { may, useMay } from "../session/rights";
import { projectOf, roleMay } from "../session/roles";
import { chooseProject, useSession } from "../session/session";
import { MODAL } from "./modal";
import { PLATFORM, placesFor } from "./nav";
import { type Command, allocationCommand, matching, projectCommands } from "./palette-match";
import { chooseTheme } from "./theme";

const MOST = 12;

interface Action extends Command {
  run: () => void;
}

function NodeCommands({ children }: { children: (nodes: { id: string; hostname: string }[]) => React.ReactNode }) {
  const found = usePlacements().data;
  return <>{children([...(found?.values() ?? [])].map(({ node_id = "", hostname = "" }) => ({ id: node_id, hostname })))}</>;
}

function Found({ nodes, close }: { nodes: { id: string; hostname: string }[]; close: () => void }) {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const list = useId();
  const [, navigate] = useLocation();
  const session = useSession();
  const allocations = useAllocationsWatch().view;
  const commands = useMemo((): Action[] => {
    const go = (to: string) => () => navigate(to);
    const places = [...placesFor(session && projectOf(session), session?.platformRole), ...(may(session?.platformRole, "read") ? PLATFORM : [])];
    const projects = (session?.projects.length ?? 0) > 1 ? (session?.projects ?? []) : [];
    return [
      ...places.map(({ to, title }) => ({ key: to, title, kind: "Page", run: go(to) })),
      ...Object.values(allocations ?? {}).map((one) => ({ ...allocationCommand(one), run: go(`/allocations/${one.id}`) })),
      ...nodes.map(({ id, hostname }) => ({ key: id, title: hostname, kind: "Node", also: id, run: go(`/admin/nodes/${id}`) })),
      ...projectCommands(projects).map(({ id, ...command }) => ({ ...command, run: () => chooseProject(id) })),
      ...(session && projectOf(session) && roleMay(projectOf(session)?.role, "read") ? [{ key: "health-events", title: "Health events", kind: "Page", also: "gpu unhealthy degraded failed repair break-fix", run: go("/health-events") }] : []),
      { key: "reference", title: "API reference", kind: "Page", also: "openapi help documentation", run: () => location.assign("/reference") },
      ...(["light", "system", "dark"] as const).map((theme) => ({ key: theme, title: `${theme.charAt(0).toUpperCase()}${theme.slice(1)} theme`, kind: "Setting", run: () => chooseTheme(theme) })),
    ];
  }, [session, allocations, nodes, navigate]);
  const found = matching(commands, text, MOST);
  const chosen = found[Math.min(at, found.length - 1)];
  const run = (action: Action | undefined) => {
    if (!action) return;
    close();
    action.run();
  };
  const press = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      setAt((before) => (found.length === 0 ? 0 : (Math.min(before, found.length - 1) + step + found.length) % found.length));
    } else if (event.key === "Enter") {
      event.preventDefault();
      run(chosen);
    }
  };
  return (
    <>
      <input
        role="combobox"
        aria-expanded={found.length > 0}
        aria-controls={found.length > 0 ? list : undefined}
        aria-activedescendant={chosen && `${list}-${found.indexOf(chosen)}`}
        aria-label="Go to a page, an allocation or a node"
        placeholder="Page, allocation, node…"
        value={text}
        autoComplete="off"
        spellCheck={false}
        onKeyDown={press}
        onChange={(event) => {
          setText(event.target.value);
          setAt(0);
        }}
      />
      {found.length > 0 && (
        <ul role="listbox" id={list} aria-label="Results">
          {found.map((action, index) => (
            <li key={action.key} role="option" id={`${list}-${index}`} aria-selected={action === chosen} onMouseMove={() => setAt(index)} onClick={() => run(action)}>
              <span>{action.title}</span>
              <small>{action.kind}</small>
            </li>
          ))}
        </ul>
      )}
      <p className="muted" role="status">
        {found.length === 0 ? "Nothing found. Try a part of a name." : "Enter opens, Escape closes."}
      </p>
    </>
  );
}

export default function Palette({ open, setOpen }: { open: boolean; setOpen: (open: boolean) => void }) {
  const close = () => setOpen(false);
  const operator = useMay("read");
  return (
    <Dialog.Root open={open} onOpenChange={setOpen}>
      <Dialog.Portal>
        <Dialog.Overlay className="overlay" />
        <Dialog.Content className="dialog palette" {...MODAL} aria-describedby={undefined}>
          <Dialog.Title className="visually-hidden">Go to</Dialog.Title>
          {operator ? <NodeCommands>{(nodes) => <Found nodes={nodes} close={close} />}</NodeCommands> : <Found nodes={NO_NODES} close={close} />}
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

const NO_NODES: { id: string; hostname: string }[] = [];
