/** A terminal in the page: a shell in the VM that survives lost connections. */
import { useState } from "react";
import { Badge, Button, type Tone } from "../ui/basics";
import { ProblemNote } from "../ui/problem";
import { openTicket } from "./api";
import { Connection, type Ending, type Phase, type Ready, type Socket } from "./connection";
import { useScreen } from "./screen";

const PHASES: Record<Phase, [Tone, string]> = {
  connecting: ["busy", "Connecting"],
  ready: ["good", "Connected"],
  lost: ["warn", "Disconnected, reconnecting"],
  ended: ["idle", "Ended"],
};

const ENDINGS: Record<string, string> = {
  exited: "The shell has ended.",
  closed_by_client: "You closed the terminal.",
  idle: "Closed after a long time without input.",
  time_limit: "The session reached its time limit.",
  taken_over: "The session continues in another window.",
  allocation_ended: "The allocation is no longer running.",
};

function socket(path: string, subprotocol: string): Socket {
  const address = new URL(path, location.href);
  address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
  return new WebSocket(address, subprotocol);
}

interface State {
  phase: Phase;
  ready?: Ready | undefined;
  ending?: Ending | undefined;
  error?: unknown;
}

function Session({ id, again, close }: { id: string; again: () => void; close: () => void }) {
  const [state, setState] = useState<State>({ phase: "connecting" });
  const [dropped, setDropped] = useState(0);
  const host = useScreen({ cursorBlink: true }, ({ terminal, fit }) => {
    fit.fit();
    const typed = new TextEncoder();
    const connection = new Connection(
      { allocationId: id, ticket: () => openTicket(id), connect: socket },
      {
        output: (data, shown) => terminal.write(data, shown),
        gap: (from, to) => {
          setDropped((bytes) => bytes + to - from);
          terminal.write(`\r\n\x1b[33m[${to - from} bytes of output lost]\x1b[0m\r\n`);
        },
        phase: (phase, ready, ending) => setState((before) => ({ ...before, phase, ready, ending })),
      },
      { cols: terminal.cols, rows: terminal.rows },
    );
    connection.start().catch((error: unknown) => setState({ phase: "ended", error }));
    terminal.onData((text) => connection.type(typed.encode(text)));
    terminal.onBinary((text) => connection.type(Uint8Array.from(text, (c) => c.charCodeAt(0))));
    terminal.onResize(({ cols, rows }) => connection.resize({ cols, rows }));
    terminal.attachCustomKeyEventHandler((event) => {
      // the way out for people without a mouse
      if (event.type === "keydown" && event.ctrlKey && event.shiftKey && event.key === "Home") {
        terminal.blur();
        document.getElementById("terminal-close")?.focus();
        return false;
      }
      return true;
    });
    const watcher = new ResizeObserver(() => fit.fit());
    if (terminal.element?.parentElement) watcher.observe(terminal.element.parentElement);
    terminal.focus();
    return () => {
      watcher.disconnect();
      connection.close();
    };
  });
  const [tone, word] = PHASES[state.phase];
  const { ending } = state;
  return (
    <>
      <header>
        <h2>
          Terminal <Badge tone={tone}><span role="status">{word}</span></Badge>
          {state.ready?.recorded && <Badge tone="bad" title="The project records this terminal.">Recorded</Badge>}
        </h2>
        <div className="page-actions">
          <small className="muted optional">Press Ctrl+Shift+Home to leave the terminal</small>
          {state.phase === "ended" && (
            <Button small kind="primary" onClick={again}>
              New session
            </Button>
          )}
          <Button id="terminal-close" small onClick={close}>
            Close
          </Button>
        </div>
      </header>
      {state.error !== undefined && <ProblemNote error={state.error} retry={again} />}
      {ending && (
        <p className="terminal-ending" role="status">
          {ending.message || ENDINGS[ending.reason] || `Closed: ${ending.reason}.`}
        </p>
      )}
      <div className="screen" ref={host} data-phase={state.phase} data-dropped={dropped} />
    </>
  );
}

export default function TerminalPanel({ id, close }: { id: string; close: () => void }) {
  const [attempt, setAttempt] = useState(0);
  return (
    <section className="card terminal-card" aria-label="Terminal">
      <Session key={attempt} id={id} again={() => setAttempt(attempt + 1)} close={close} />
    </section>
  );
}
