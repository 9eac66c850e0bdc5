/** What the VM of an allocation printed on its serial console: live, searched, downloaded. */
import { useMutation } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { client, refused } from "../../api/client";
import { MOST_LINES, NO_LOG, type Part, type SerialLog as Log, bytesOf, matching, shownLines, withParts } from "../../lib/serial-log";
import { saveFile } from "../../lib/csv";
import { clockTime, fullTime, zone } from "../../lib/time";
import { Button, Card, Empty, Skeleton } from "../../ui/basics";
import { SearchBox } from "../../ui/form";
import { ProblemNote } from "../../ui/problem";
import { LiveMark, WatchProblem } from "../../watch/live";
import { useWatch } from "../../watch/use-watch";

const PATH = "/api/v1/allocations/{allocation_id}/serial-log";
const paramsOf = (allocation_id: string) => ({ path: { allocation_id }, query: { follow: true, tail_lines: MOST_LINES } });
const fold = (log: Log, batch: { part?: Part }[]): Log => withParts(log, batch.flatMap(({ part }) => part ?? []));

/** All that is retained, as it was printed. */
async function whole(allocation_id: string): Promise<Blob> {
  const pieces: Uint8Array<ArrayBuffer>[] = [];
  try {
    for await (const { part } of client.watch(PATH, { path: { allocation_id } })) {
      if (part?.data) pieces.push(new Uint8Array(bytesOf(part.data)));
    }
  } catch (error) {
    throw refused(error);
  }
  return new Blob(pieces, { type: "text/plain" });
}

export default function SerialLog({ id, name }: { id: string; name: string }) {
  const watched = useWatch({ path: PATH, params: paramsOf(id), empty: NO_LOG, fold });
  const [search, setSearch] = useState("");
  const [times, setTimes] = useState(false);
  const [follow, setFollow] = useState(true);
  const screen = useRef<HTMLDivElement>(null);
  const save = useMutation({ mutationFn: async () => saveFile(`${name}-serial.log`, await whole(id)) });
  const all = watched.view ? shownLines(watched.view) : [];
  const lines = matching(all, search);
  useEffect(() => {
    if (follow && screen.current) screen.current.scrollTop = screen.current.scrollHeight;
  });
  return (
    <Card
      title="Serial log"
      aside={
        <span className="page-actions">
          <LiveMark watched={watched} />
          <Button small onClick={() => save.mutate()} disabled={save.isPending || all.length === 0}>
            {save.isPending ? "Downloading…" : "Download"}
          </Button>
        </span>
      }
    >
      <div className="serial-tools">
        <SearchBox label="Search the serial log" placeholder="Search these lines" value={search} onChange={setSearch} />
        <label>
          <input type="checkbox" checked={follow} onChange={(event) => setFollow(event.target.checked)} /> Follow
        </label>
        <label>
          <input type="checkbox" checked={times} onChange={(event) => setTimes(event.target.checked)} /> Times
        </label>
        {times && <span className="muted">in {zone}</span>}
        {search && (
          <span className="muted" role="status">
            {lines.length} of {all.length} lines
          </span>
        )}
      </div>
      {save.error && <ProblemNote error={save.error} />}
      <WatchProblem watched={watched} />
      {!watched.view && !watched.problem && <Skeleton lines={8} label="Loading the serial log" />}
      {watched.view && all.length === 0 && <Empty title="Nothing printed yet">The output of the serial console of the VM appears here.</Empty>}
      {all.length > 0 && (
        <div className="serial-log" ref={screen} role="region" aria-label="Lines of the serial log" tabIndex={0}>
          <pre>
            {lines.map(({ text, time }, index) => (
              <span key={index}>
                {times && time && (
                  <time dateTime={time} title={fullTime(time)}>
                    {clockTime(time)}
                  </time>
                )}
                {text}
                {"\n"}
              </span>
            ))}
          </pre>
        </div>
      )}
      {all.length >= MOST_LINES && <p className="muted">The last {MOST_LINES.toLocaleString("en")} lines. Download the log to see all that is retained.</p>}
    </Card>
  );
}
