/** Opens the command palette, whose code is loaded when it is first opened. */
import { Suspense, lazy, useEffect, useState } from "react";
import { Search } from "./icons";

const Palette = lazy(() => import("./palette"));

/** Apple's keyboards have a key of their own for it. */
const isApple = typeof navigator !== "undefined" && /Mac|iPhone|iPad/.test(navigator.platform);

/** Whether a key belongs to a terminal, whose shell knows Ctrl-K too. */
function isTerminal(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest(".screen") !== null;
}

export function PaletteButton() {
  const [open, setOpen] = useState(false);
  const [wanted, setWanted] = useState(false);
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== "k" || !(isApple ? event.metaKey : event.ctrlKey) || event.shiftKey || event.altKey) return;
      if (isTerminal(event.target)) return;
      event.preventDefault();
      setWanted(true);
      setOpen((before) => !before);
    };
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, []);
  const show = () => {
    setWanted(true);
    setOpen(true);
  };
  return (
    <>
      <button type="button" className="palette-button" onClick={show} aria-keyshortcuts={isApple ? "Meta+K" : "Control+K"}>
        <Search size={15} aria-hidden="true" /> <span>Go to…</span> <kbd aria-hidden="true">{isApple ? "⌘K" : "Ctrl K"}</kbd>
      </button>
      {wanted && (
        <Suspense fallback={null}>
          <Palette open={open} setOpen={setOpen} />
        </Suspense>
      )}
    </>
  );
}
