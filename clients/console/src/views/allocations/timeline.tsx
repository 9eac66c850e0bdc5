/** The timeline of an allocation by operation, the newest first. */
import type { TimelineEntry } from "../../api/types";
import { between, clockTime, dayText, fullTime, zone } from "../../lib/time";
import { Card, Empty, Progress } from "../../ui/basics";
import { Check, TriangleAlert } from "../../ui/icons";
import { useNow } from "../../ui/use-now";
import { actorText, operationsOf } from "./operations";

const WORTH_SHOWING_MS = 50;

function Entry({ entry, now }: { entry: TimelineEntry; now: number }) {
  const { time = "", end_time, state, message, error, percent = 0, reason } = entry;
  const actor = actorText(entry);
  const took = (end_time ? Date.parse(end_time) : now) - Date.parse(time);
  return (
    <li className={`entry ${state}`}>
      <span className="entry-mark" aria-hidden="true">
        {state === "running" ? <span className="spinner" /> : state === "failed" ? <TriangleAlert size={13} /> : <Check size={13} />}
      </span>
      <div>
        <p>
          {message}
          {state === "failed" && <span className="visually-hidden"> Failed.</span>}
        </p>
        {actor && (
          <p className="muted">
            By {actor}
            {reason && `: ${reason}`}
          </p>
        )}
        {state === "running" && percent > 0 && <Progress value={percent} label={message ?? "Progress"} />}
        {error && <p className="entry-error">{error.message}</p>}
      </div>
      <span className="entry-time">
        <time dateTime={time} title={fullTime(time)}>
          {clockTime(time)}
        </time>
        {(state === "running" || took >= WORTH_SHOWING_MS) && <small>{between(time, end_time, now)}</small>}
      </span>
    </li>
  );
}

export function Timeline({ entries }: { entries: TimelineEntry[] }) {
  const now = useNow(1000);
  return (
    <Card title="Timeline" aside={entries.length > 0 && <small className="muted">Times in {zone}</small>}>
      {entries.length === 0 && <Empty title="No entries yet">Each step of the launch appears here as it happens.</Empty>}
      <div className="operations" role="group" aria-label="Timeline">
        {operationsOf(entries)
          .toReversed()
          .map(({ title, entries: own }) => (
            <section key={own[0]?.sequence}>
              <h3>
                {title} {own[0]?.time && <small className="muted">{dayText(Date.parse(own[0].time))}</small>}
              </h3>
              <ol className="timeline" aria-label={`Timeline of ${title}`}>
                {own.toReversed().map((entry) => (
                  <Entry key={entry.sequence} entry={entry} now={now} />
                ))}
              </ol>
            </section>
          ))}
      </div>
    </Card>
  );
}
