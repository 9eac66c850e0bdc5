/** Small parts that every view uses. */
import { type ComponentProps, type ReactNode, useEffect, useState } from "react";
import { type Amount, exact, placesOf, rounded } from "../lib/money";
import { fullTime, plannedShortTime, plannedTime, relativeTime } from "../lib/time";
import { useNow } from "./use-now";
import { Check, Copy } from "./icons";

type ButtonProps = ComponentProps<"button"> & {
  kind?: "primary" | "plain" | "quiet" | "danger";
  busy?: boolean;
  small?: boolean;
};

export function Button({ kind = "plain", busy = false, small = false, className = "", children, ...rest }: ButtonProps) {
  return (
    <button
      type="button"
      {...rest}
      className={`button ${kind} ${small ? "small" : ""} ${className}`}
      // a disabled button loses the focus
      aria-disabled={busy || undefined}
      aria-busy={busy || undefined}
      onClick={busy ? (event) => event.preventDefault() : rest.onClick}
    >
      {busy && <span className="spinner" aria-hidden="true" />}
      {children}
    </button>
  );
}

export type Tone = "good" | "busy" | "warn" | "bad" | "idle";

export function Badge({ tone, children, title }: { tone: Tone; children: ReactNode; title?: string }) {
  return (
    <span className={`badge ${tone}`} title={title}>
      <span className="dot" aria-hidden="true" />
      {children}
    </span>
  );
}

/** Marks what is emulated, so that it is not taken for a GPU. */
export function LabMark() {
  return (
    <span className="lab-mark" title="Emulated for development: there is no GPU behind it.">
      lab
    </span>
  );
}

/** A relative time, with the exact one as tooltip. */
export function Time({ value }: { value: string | undefined }) {
  useNow(15_000);
  if (!value) return <span className="muted">–</span>;
  return (
    <time dateTime={value} title={fullTime(value)}>
      {relativeTime(value, Date.now())}
    </time>
  );
}

/** A planned time as a date, since people compare them. */
export function Planned({ value, short = false }: { value: string | undefined; short?: boolean }) {
  if (!value) return <span className="muted">–</span>;
  return (
    <time dateTime={value} title={fullTime(value)}>
      {short ? plannedShortTime(value, Date.now()) : plannedTime(value)}
    </time>
  );
}

/** Money with the digits that matter, and the exact amount on hover. `places` keeps a column in line. */
export function MoneyText({ amount, places = placesOf(amount) }: { amount: Amount; places?: number }) {
  return (
    <span className="money" title={exact(amount)}>
      {rounded(amount, places)}
    </span>
  );
}

const COPIED_MS = 1600;

/** Fails, too, where a browser gives a page no clipboard, as one that came by plain HTTP. */
export async function toClipboard(text: string): Promise<void> {
  await navigator.clipboard.writeText(text);
}

export function CopyButton({ text, label }: { text: string; label: string }) {
  const [state, setState] = useState<"idle" | "copied" | "failed">("idle");
  useEffect(() => {
    if (state === "idle") return;
    const timer = setTimeout(() => setState("idle"), COPIED_MS);
    return () => clearTimeout(timer);
  }, [state]);
  const copy = () =>
    toClipboard(text).then(
      () => setState("copied"),
      () => setState("failed"),
    );
  const word = { idle: "Copy", copied: "Copied", failed: "Copy failed" }[state];
  return (
    <Button kind="quiet" small onClick={copy} aria-label={state === "idle" ? label : `${word}. ${label}`}>
      {state === "copied" ? <Check size={15} /> : <Copy size={15} />}
      <span role="status">{word}</span>
    </Button>
  );
}

export function Code({ text, label }: { text: string; label: string }) {
  return (
    <div className="code">
      <code role="group" aria-label={label}>
        {text}
      </code>
      <CopyButton text={text} label={`Copy ${label}`} />
    </div>
  );
}

export function Card({ title, aside, children, className = "" }: { title?: ReactNode; aside?: ReactNode; children: ReactNode; className?: string }) {
  return (
    <section className={`card ${className}`}>
      {title && (
        <header>
          <h2>{title}</h2>
          {aside}
        </header>
      )}
      {children}
    </section>
  );
}

export function Empty({ title, children, action, icon }: { title: string; children?: ReactNode; action?: ReactNode; icon?: ReactNode }) {
  return (
    <div className="empty">
      {icon && <div className="empty-icon">{icon}</div>}
      <h2>{title}</h2>
      {children && <p>{children}</p>}
      {action}
    </div>
  );
}

/** Placeholder while data loads. */
export function Skeleton({ lines = 3, label }: { lines?: number; label: string }) {
  return (
    <div className="skeleton" role="status" aria-label={label}>
      {Array.from({ length: lines }, (_, line) => (
        <div key={line} />
      ))}
    </div>
  );
}

export function Progress({ value, label }: { value: number; label: string }) {
  return (
    <div className="progress" role="progressbar" aria-valuemin={0} aria-valuemax={100} aria-valuenow={Math.round(value)} aria-label={label}>
      <div style={{ transform: `scaleX(${Math.min(1, Math.max(0.02, value / 100))})` }} />
    </div>
  );
}

export function Facts({ rows }: { rows: [string, ReactNode][] }) {
  return (
    <dl className="facts">
      {rows.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
