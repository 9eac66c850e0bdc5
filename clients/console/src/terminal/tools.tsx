/** Size and full screen of a terminal, and a row of keys for phones. */
import { Button } from "../ui/basics";
import { Maximize2, Minimize2 } from "../ui/icons";
import { KEYS } from "./keys";

export function SizeButtons({ change, full, setFull }: { change: (by: number) => void; full: boolean; setFull: (full: boolean) => void }) {
  const word = full ? "Leave full screen" : "Full screen";
  return (
    <>
      <Button small kind="quiet" title="Smaller text" onClick={() => change(-1)}>
        A−<span className="visually-hidden">, smaller text</span>
      </Button>
      <Button small kind="quiet" title="Larger text" onClick={() => change(1)}>
        A+<span className="visually-hidden">, larger text</span>
      </Button>
      <Button small kind="quiet" className="icon-only" aria-label={word} title={word} onClick={() => setFull(!full)}>
        {full ? <Minimize2 size={15} /> : <Maximize2 size={15} />}
      </Button>
    </>
  );
}

/** Shown where the pointer is a finger. Pressing one leaves the focus in the terminal, so that the keyboard stays open. */
export function TouchKeys({ send, ctrl, setCtrl }: { send: (text: string) => void; /** Ctrl is held for the next letter. */ ctrl: boolean; setCtrl: (held: boolean) => void }) {
  const keep = (event: React.PointerEvent) => event.preventDefault();
  return (
    <div className="touch-keys" role="group" aria-label="Keys">
      <button type="button" aria-pressed={ctrl} onPointerDown={keep} onClick={() => setCtrl(!ctrl)}>
        Ctrl
      </button>
      {KEYS.map(([label, name, sent]) => (
        <button key={label} type="button" onPointerDown={keep} onClick={() => send(sent)}>
          <span aria-hidden="true">{label}</span>
          <span className="visually-hidden">{name}</span>
        </button>
      ))}
    </div>
  );
}
