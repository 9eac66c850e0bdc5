/** Filters of a list that people write: a text, a time. */
import { useState } from "react";
import { fromField } from "../lib/time";
import { Field } from "./form";

/** A text that is asked for when it is complete: on Enter, or when the field is left. */
export function TextFilter({ label, placeholder, value, onChange }: { label: string; placeholder: string; value: string; onChange: (value: string) => void }) {
  const [typed, setTyped] = useState(value);
  const [known, setKnown] = useState(value);
  // the address changed by itself: the filters were cleared, or the browser went back
  if (known !== value) {
    setKnown(value);
    setTyped(value);
  }
  const commit = () => typed.trim() !== value && onChange(typed.trim());
  return (
    <Field label={label}>
      {({ id }) => (
        <input
          id={id}
          type="search"
          placeholder={placeholder}
          value={typed}
          onChange={(event) => setTyped(event.target.value)}
          onBlur={commit}
          onKeyDown={(event) => event.key === "Enter" && commit()}
        />
      )}
    </Field>
  );
}

export function TimeFilter({ label, value, onChange }: { label: string; value: string; onChange: (value: string) => void }) {
  return <Field label={label}>{({ id }) => <input id={id} type="datetime-local" value={value} onChange={(event) => onChange(event.target.value)} />}</Field>;
}

/** The time of a field as the API takes it; empty where there is none. */
export function moment(field: string): string {
  const time = fromField(field);
  return time === undefined ? "" : new Date(time).toISOString();
}
