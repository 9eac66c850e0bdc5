/** Protection of a launch from release, and the time of its release. */
import { fromField, zone } from "../../lib/time";
import { Card } from "../../ui/basics";
import { Field } from "../../ui/form";

/** As in the form: the time as its field has it, empty for none. */
export interface End {
  isProtected: boolean;
  at: string;
}

/** What is sent; undefined while the time is not one to come. */
export function endOf({ isProtected, at }: End, now: number): { termination_protection?: boolean; auto_release_time?: string } | undefined {
  if (isProtected) return { termination_protection: true };
  if (at === "") return {};
  const time = fromField(at);
  return time !== undefined && time > now ? { auto_release_time: new Date(time).toISOString() } : undefined;
}

export function EndChoice({ end, setEnd, problem }: { end: End; setEnd: (end: End) => void; problem: string | undefined }) {
  const { isProtected, at } = end;
  return (
    <Card title="Termination protection and scheduled release">
      <label className="check">
        <input type="checkbox" checked={isProtected} onChange={(event) => setEnd({ ...end, isProtected: event.target.checked })} /> <span>Protect from release</span>
      </label>
      <Field label="Release at (optional)" hint={isProtected ? "A protected allocation has no scheduled release." : `Times in ${zone}. Billing ends and its disks are wiped then.`} problem={problem}>
        {({ id, describedBy }) => <input id={id} aria-describedby={describedBy} type="datetime-local" disabled={isProtected} value={isProtected ? "" : at} onChange={(event) => setEnd({ ...end, at: event.target.value })} />}
      </Field>
    </Card>
  );
}
