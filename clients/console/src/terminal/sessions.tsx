/** The terminal sessions of an allocation, and their recordings. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Dialog } from "radix-ui";
import { useEffect, useRef, useState } from "react";
import { between } from "../lib/time";
import { sentence } from "../lib/text";
import { Button, Card, Skeleton, Time } from "../ui/basics";
import { Segments } from "../ui/form";
import { Play, Square } from "../ui/icons";
import { Confirm } from "../ui/dialog";
import { MODAL } from "../ui/modal";
import { ProblemNote } from "../ui/problem";
import type { TerminalSession } from "../api/types";
import { isDenied } from "../api/problem";
import { useSession } from "../session/session";
import { endSession, listSessions, readRecording } from "./api";
import { type Cast, parseCast } from "./asciicast";
import { type Screen, useScreen } from "./screen";

const SPEEDS = [1, 2, 4];

function Player({ cast }: { cast: Cast }) {
  const screen = useRef<Screen>(null);
  const shown = useRef(0);
  const [at, setAt] = useState(0);
  const [playing, setPlaying] = useState(true);
  const [speed, setSpeed] = useState(1);
  const host = useScreen({ cols: cast.cols, rows: cast.rows, disableStdin: true, cursorInactiveStyle: "outline" }, (made) => {
    screen.current = made;
    setAt(0);
    return () => {
      screen.current = null;
    };
  });
  const seek = (time: number) => {
    if (time < at) {
      // what was shown cannot be taken back: from the beginning
      screen.current?.terminal.reset();
      shown.current = 0;
    }
    setAt(time);
  };
  useEffect(() => {
    const terminal = screen.current?.terminal;
    if (!terminal) return;
    for (let event = cast.events[shown.current]; event && event.at <= at; event = cast.events[++shown.current]) {
      const [cols, rows] = event.data.split("x").map(Number);
      if (event.kind === "o") terminal.write(event.data);
      else if (cols && rows) terminal.resize(cols, rows);
    }
  }, [at, cast]);
  useEffect(() => {
    if (!playing) return;
    let frame = 0;
    let before = performance.now();
    const step = (now: number) => {
      const passed = ((now - before) / 1000) * speed;
      before = now;
      setAt((time) => Math.min(time + passed, cast.length));
      frame = requestAnimationFrame(step);
    };
    frame = requestAnimationFrame(step);
    return () => cancelAnimationFrame(frame);
  }, [playing, speed, cast]);
  const over = at >= cast.length;
  return (
    <>
      <div className="screen replay" ref={host} />
      <div className="player">
        <Button
          small
          onClick={() => {
            if (over) seek(0);
            setPlaying(over || !playing);
          }}
        >
          {playing && !over ? <Square size={13} aria-hidden="true" /> : <Play size={14} aria-hidden="true" />}
          {over ? "Play again" : playing ? "Pause" : "Play"}
        </Button>
        <input type="range" aria-label="Position in seconds" min={0} max={cast.length} step="any" value={at} onChange={(event) => seek(Number(event.target.value))} />
        <span className="muted">
          {at.toFixed(0)} of {cast.length.toFixed(0)} s
        </span>
        <Segments label="Speed" options={SPEEDS.map((value) => ({ value, label: `${value}×` }))} value={speed} onChoose={setSpeed} />
      </div>
    </>
  );
}

function Recording({ session }: { session: TerminalSession }) {
  const recording = useQuery({ queryKey: ["recording", session.id], queryFn: () => readRecording(session.id ?? ""), retry: false });
  if (recording.isPending) return <Skeleton lines={6} label="Loading the recording" />;
  if (recording.error) return <ProblemNote error={recording.error} retry={() => recording.refetch()} />;
  const cast = parseCast(recording.data);
  if (!cast) return <p className="muted">The recording cannot be read.</p>;
  return <Player cast={cast} />;
}

function Replay({ session }: { session: TerminalSession }) {
  return (
    <Dialog.Root>
      <Dialog.Trigger asChild>
        <Button small kind="quiet">
          <Play size={13} aria-hidden="true" /> Replay
        </Button>
      </Dialog.Trigger>
      <Dialog.Portal>
        <Dialog.Overlay className="overlay" />
        <Dialog.Content className="dialog wide-dialog" {...MODAL} aria-describedby={undefined}>
          <div className="dialog-head">
            <Dialog.Title>Recording</Dialog.Title>
            <Dialog.Close asChild>
              <Button small>Close</Button>
            </Dialog.Close>
          </div>
          <Recording session={session} />
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

/** Ends one's own terminal, also one that was left open elsewhere. */
function End({ allocation_id, session }: { allocation_id: string; session: TerminalSession }) {
  const queries = useQueryClient();
  const run = async () => {
    await endSession(allocation_id, session.id ?? "");
    await queries.invalidateQueries({ queryKey: ["terminal-sessions", allocation_id] });
  };
  return (
    <Confirm
      danger
      trigger={
        <Button small kind="quiet">
          <Square size={13} aria-hidden="true" /> End
        </Button>
      }
      title="End this terminal?"
      action="End"
      run={run}
    >
      <p>The terminal and the programs in it end within seconds, also in another window.</p>
    </Confirm>
  );
}

export default function Sessions({ id }: { id: string }) {
  const own = useSession()?.principal;
  const sessions = useQuery({
    queryKey: ["terminal-sessions", id],
    queryFn: () => listSessions(id),
    refetchInterval: ({ state }) => (isDenied(state.error) ? false : 5000),
  });
  // who has a grant for the terminal alone does not see whose terminals there are
  if (sessions.isPending || isDenied(sessions.error)) return null;
  if (sessions.error) return <Card title="Terminals"><ProblemNote error={sessions.error} retry={() => sessions.refetch()} /></Card>;
  if (sessions.data.length === 0) return null;
  return (
    <Card title="Terminals">
      <ul className="sessions" aria-label="Terminals">
        {sessions.data.map((session) => (
          <li key={session.id}>
            <div>
              <strong>{session.principal}</strong>
              <small className="muted">
                {session.kind === "ssh_tunnel" && "SSH tunnel, "}
                <Time value={session.open_time} />
                {session.close_time && session.open_time
                  ? `, ${between(session.open_time, session.close_time, 0)}, ${sentence(session.close_reason ?? "").toLowerCase()}`
                  : session.end_request_time
                    ? ", ending"
                    : ", open"}
                {session.end_reason && `: ${session.end_reason}`}
              </small>
            </div>
            {own && session.principal === own && !session.close_time && !session.end_request_time && <End allocation_id={id} session={session} />}
            {session.recorded && <Replay session={session} />}
          </li>
        ))}
      </ul>
    </Card>
  );
}
