/** Parts of the pages of projects and organisations. */
import { Dialog } from "radix-ui";
import type { ReactNode } from "react";
import { type MemberRole, ROLES } from "../../api/tenancy";
import { Badge, Button, Code, type Tone } from "../../ui/basics";
import { SelectField } from "../catalog/parts";
import { Field } from "../../ui/form";
import { MODAL } from "../../ui/modal";

const TONES: Record<string, Tone> = { active: "good", suspended: "warn", closed: "idle" };
const WORDS: Record<string, string> = { active: "Active", suspended: "Suspended", closed: "Closed" };

export function TenantBadge({ state = "active" }: { state?: string | undefined }) {
  return <Badge tone={TONES[state] ?? "idle"}>{WORDS[state] ?? state}</Badge>;
}

export function roleWord(role: string | undefined): string {
  return ROLES.find(([value]) => value === role)?.[1] ?? "–";
}

export function RoleField({ value, onChange, without = [] }: { value: MemberRole; onChange: (role: MemberRole) => void; without?: MemberRole[] }) {
  const meaning = ROLES.find(([role]) => role === value)?.[2];
  return <SelectField label="Role" value={value} onChange={onChange} options={ROLES.filter(([role]) => !without.includes(role)).map(([role, word]): [MemberRole, string] => [role, word])} hint={meaning && `${meaning.charAt(0).toUpperCase()}${meaning.slice(1)}.`} />;
}

export function ReasonField({ value, onChange, optional = false }: { value: string; onChange: (value: string) => void; optional?: boolean }) {
  return <Field label={optional ? "Reason (optional)" : "Reason"} hint="Shown to the members.">{({ id, describedBy }) => <input id={id} aria-describedby={describedBy} value={value} maxLength={500} autoComplete="off" onChange={(event) => onChange(event.target.value)} />}</Field>;
}

/** A secret that nobody can see again; it goes with a button only, since a click beside it would lose it. */
export function Secret({ title, label, text, close, children }: { title: string; label: string; text: string; close: () => void; children: ReactNode }) {
  return (
    <Dialog.Root open>
      <Dialog.Portal>
        <Dialog.Overlay className="overlay" />
        <Dialog.Content className="dialog" {...MODAL} onInteractOutside={(event) => event.preventDefault()} onEscapeKeyDown={(event) => event.preventDefault()}>
          <Dialog.Title>{title}</Dialog.Title>
          <Dialog.Description asChild>
            <div className="dialog-text">{children}</div>
          </Dialog.Description>
          <Code text={text} label={label} />
          <footer>
            <Button kind="primary" onClick={close}>
              I have saved it
            </Button>
          </footer>
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
