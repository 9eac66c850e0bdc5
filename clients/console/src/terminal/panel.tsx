/** A terminal in the page: a shell in the VM that survives lost connections. */
import { type TerminalConnection, type TerminalEnding, type TerminalPhase, type TerminalReady, terminalConnection } from "@gpuaas/sdk";
import { useEffect, useRef, useState } from "react";
import { client, refused } from "../api/client";
import { useSession } from "../session/session";
import { Badge, Button, type Tone } from "../ui/basics";
import { ProblemNote } from "../ui/problem";
import { type Left, Transcript, leave, takeLeft } from "./left";
import { SIZES, controlOf, saveSize, savedSize, stepped } from "./keys";
import { type Screen, useScreen } from "./screen";
import { SizeButtons, TouchKeys } from "./tools";

const PHASES: Record<TerminalPhase, [Tone, string]> = {
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
  powered_off: "The VM was stopped or rebooted.",
};

interface State {
  phase: TerminalPhase;
  ready?: TerminalReady | undefined;
  ending?: TerminalEnding | undefined;
  error?: unknown;
}

/** Leaves what a full-screen program left behind, and says where the next session begins. */
const NEXT_SESSION = "\x1b[?1049l\x1b[!p\r\n\x1b[2m[new session]\x1b[0m\r\n";

export default function TerminalPanel({ id, isRunning, close }: { id: string; /** The VM runs, so that a session can begin. */ isRunning: boolean; close: () => void }) {
  const principal = useSession()?.principal ?? "";
  const [state, setState] = useState<State>({ phase: "connecting" });
  const [dropped, setDropped] = useState(0);
  const begin = useRef<() => void>(() => {});
  const runs = useRef(isRunning);
  runs.current = isRunning;
  const shown = useRef<Screen>(undefined);
  const [full, setFull] = useState(false);
  const [ctrl, setCtrl] = useState(false);
  const held = useRef(ctrl);
  held.current = ctrl;
  const resize = (by: number) => {
    const { terminal, fit } = shown.current ?? {};
    if (!terminal) return;
    terminal.options.fontSize = stepped(terminal.options.fontSize ?? SIZES.usual, by);
    saveSize(terminal.options.fontSize);
    fit?.fit();
  };
  const send = (text: string) => {
    shown.current?.terminal.input(text);
    shown.current?.terminal.focus();
  };
  const host = useScreen({ cursorBlink: true, fontSize: savedSize() }, (screen) => {
    const { terminal, fit } = screen;
    shown.current = screen;
    fit.fit();
    const typed = new TextEncoder();
    const transcript = new Transcript();
    let connection: TerminalConnection | undefined;
    const connect = (left?: Left) => {
      const made = terminalConnection(
        client,
        id,
        {
          output: (data, shown) => {
            transcript.add(data);
            terminal.write(data, shown);
          },
          gap: (from, to) => {
            setDropped((bytes) => bytes + to - from);
            terminal.write(`\r\n\x1b[33m[${to - from} bytes of output lost]\x1b[0m\r\n`);
          },
          phase: (phase, ready, ending) => {
            // the shell of the page before is gone: a new one, as at the first opening
            if (left && runs.current && ending?.reason === "session_gone") return begin.current();
            setState({ phase, ready, ending });
          },
        },
        { cols: terminal.cols, rows: terminal.rows },
      );
      connection = made;
      if (left) made.resumeFrom(left.saved);
      else made.start().catch((error: unknown) => setState({ phase: "ended", error: refused(error) }));
    };
    begin.current = () => {
      terminal.write(NEXT_SESSION);
      transcript.clear();
      setState({ phase: "connecting" });
      connect();
      terminal.focus();
    };
    const left = takeLeft(principal, id, Date.now());
    if (left) {
      transcript.add(left.output);
      terminal.write(left.output);
      connect(left);
    } else if (isRunning) connect();
    else setState({ phase: "ended" });
    terminal.onData((text) => {
      connection?.type(typed.encode(held.current ? controlOf(text) : text));
      if (held.current) setCtrl(false);
    });
    terminal.onBinary((text) => connection?.type(Uint8Array.from(text, (c) => c.charCodeAt(0))));
    terminal.onResize(({ cols, rows }) => connection?.resize({ cols, rows }));
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
    // on a phone and in a low window it opens below what is in sight
    terminal.element?.scrollIntoView({ block: "nearest" });
    const keep = () => {
      const saved = connection?.save();
      if (saved) leave(principal, id, { saved, output: transcript.bytes() });
    };
    window.addEventListener("pagehide", keep);
    return () => {
      window.removeEventListener("pagehide", keep);
      watcher.disconnect();
      shown.current = undefined;
      connection?.close();
    };
  });
  // what was refused while the VM was off is possible again
  useEffect(() => {
    if (isRunning) setState((before) => ({ ...before, error: undefined }));
  }, [isRunning]);
  const [tone, word] = PHASES[state.phase];
  const { ending } = state;
  const isOver = state.phase === "ended";
  return (
    <section className={full ? "card terminal-card full" : "card terminal-card"} aria-label="Terminal">
      <header>
        <h2>
          Terminal <Badge tone={tone}><span role="status">{word}</span></Badge>
          {state.ready?.recorded && <Badge tone="bad" title="The project records this terminal.">Recorded</Badge>}
        </h2>
        <div className="page-actions">
          <small className="muted optional">Press Ctrl+Shift+Home to leave the terminal</small>
          {isOver && (
            <Button small kind="primary" onClick={() => begin.current()} disabled={!isRunning}>
              New session
            </Button>
          )}
          <SizeButtons change={resize} full={full} setFull={setFull} />
          <Button id="terminal-close" small onClick={close}>
            Close
          </Button>
        </div>
      </header>
      {state.error !== undefined && <ProblemNote error={state.error} retry={() => begin.current()} />}
      {ending && !(ending.reason === "powered_off" && !isRunning) && (
        <p className="terminal-ending" role="status">
          {ending.message || ENDINGS[ending.reason] || `Closed: ${ending.reason}.`}
        </p>
      )}
      {isOver && !isRunning && <p className="terminal-ending">The VM is not running. Start it to open a new session.</p>}
      <TouchKeys send={send} ctrl={ctrl} setCtrl={setCtrl} />
      <div className="screen" ref={host} data-phase={state.phase} data-dropped={dropped} />
    </section>
  );
}
