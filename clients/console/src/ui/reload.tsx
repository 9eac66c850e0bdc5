/** What to do where somebody else changed meanwhile what one wanted to change: look at it as it is now. */
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Button } from "./basics";

export function Reload({ done }: { /** What the page shows is as it is now. */ done: (() => void) | undefined }) {
  const queries = useQueryClient();
  const [busy, setBusy] = useState(false);
  const reload = async () => {
    setBusy(true);
    await queries.invalidateQueries();
    setBusy(false);
    done?.();
  };
  return (
    <Button small busy={busy} onClick={() => void reload()}>
      Reload
    </Button>
  );
}
