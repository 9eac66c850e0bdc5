/** What to do where somebody else changed meanwhile what one wanted to change: look at it as it is now. */
import { notifyManager, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Button } from "./basics";

export function Reload({ done }: { /** What the page shows is as it is now. */ done: (() => void) | undefined }) {
  const queries = useQueryClient();
  const [busy, setBusy] = useState(false);
  const reload = async () => {
    setBusy(true);
    await queries.invalidateQueries();
    // the page hears of it a moment later
    notifyManager.schedule(() => {
      setBusy(false);
      done?.();
    });
  };
  return (
    <Button small busy={busy} onClick={() => void reload()}>
      Reload
    </Button>
  );
}

/** Says in a form what happened meanwhile; what was typed stays until the reader has the new values loaded. */
export function Changed({ load }: { load: () => void }) {
  return (
    <div className="notice" role="status">
      <p>Somebody else changed it meanwhile. Load the new values, and make your change again.</p>
      <Button small onClick={load}>
        Load the new values
      </Button>
    </div>
  );
}
