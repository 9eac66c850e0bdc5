/** A question before something that cannot be undone. */
import { AlertDialog } from "radix-ui";
import { type FormEvent, type ReactNode, useState } from "react";
import { type Right, may } from "../session/rights";
import { useSession } from "../session/session";
import { Button } from "./basics";
import { MODAL } from "./modal";
import { ProblemNote } from "./problem";
import { Changed } from "./reload";

export function Confirm({
  trigger,
  title,
  children,
  action,
  danger = false,
  ready = true,
  needs,
  changed = false,
  long = false,
  reset,
  run,
}: {
  trigger: ReactNode;
  title: string;
  children: ReactNode;
  action: string;
  danger?: boolean;
  ready?: boolean;
  /** Not offered to who lacks this right on the platform. */
  needs?: Right;
  /** What the draft was begun from has changed since: `reset` begins it from what is there now. */
  changed?: boolean;
  /** The call can take long, and goes on when the dialog is closed. */
  long?: boolean;
  /** Begins a draft anew, which was about what had been read then: on opening, and when all was loaded anew on the reader's wish. */
  reset?: (reloaded: boolean) => void;
  run: () => Promise<unknown>;
}) {
  const [open, setOpen] = useState(false);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const role = useSession()?.platformRole;
  if (needs && !may(role, needs)) return null;
  const confirm = async (event: FormEvent) => {
    event.preventDefault();
    // a form that the dialog was opened in is not sent with it
    event.stopPropagation();
    if (!ready || busy) return;
    setBusy(true);
    setError(undefined);
    try {
      await run();
      setOpen(false);
    } catch (failure) {
      setError(failure);
    } finally {
      setBusy(false);
    }
  };
  const begin = (reloaded: boolean) => {
    setError(undefined);
    reset?.(reloaded);
  };
  const change = (next: boolean) => {
    // what becomes of a call that runs is seen here, and leaving would not take it back
    if (busy && !long) return;
    if (next) begin(false);
    else setError(undefined);
    setOpen(next);
  };
  return (
    <AlertDialog.Root open={open} onOpenChange={change}>
      <AlertDialog.Trigger asChild>{trigger}</AlertDialog.Trigger>
      <AlertDialog.Portal>
        <AlertDialog.Overlay className="overlay" />
        <AlertDialog.Content className="dialog" {...MODAL}>
          <form onSubmit={confirm}>
            <AlertDialog.Title>{title}</AlertDialog.Title>
            <AlertDialog.Description asChild>
              <div className="dialog-text">{children}</div>
            </AlertDialog.Description>
            {changed && !busy && error === undefined && <Changed load={() => begin(true)} />}
            {error !== undefined && <ProblemNote error={error} reloaded={() => begin(true)} />}
            <footer>
              <AlertDialog.Cancel asChild>
                <Button disabled={busy && !long}>{busy && long ? "Close" : "Cancel"}</Button>
              </AlertDialog.Cancel>
              <Button type="submit" kind={danger ? "danger" : "primary"} busy={busy} disabled={!ready}>
                {action}
              </Button>
            </footer>
          </form>
        </AlertDialog.Content>
      </AlertDialog.Portal>
    </AlertDialog.Root>
  );
}
