/** Who waits for capacity, in the order in which they are served. */
import { useState } from "react";
import { useLine } from "../../api/capacity";
import { useRegions } from "../../api/queries";
import type { Region, QueuedRequest } from "../../api/types";
import { nodesOf, useFleetWatch } from "../../api/watches";
import { plural, sentence, shortId } from "../../lib/words";
import { Badge, Button, Empty, Time, type Tone } from "../../ui/basics";
import { Select } from "../../ui/form";
import { Hourglass, ListOrdered } from "../../ui/icons";
import { Loaded } from "../../ui/loaded";
import { NoRegions } from "../../ui/no-regions";
import { ProjectName } from "../../ui/project";
import { type Column, TableCard } from "../../ui/table";
import { firstRegion, optionsOf } from "../launch/choice";
import { SetPriority, projectText } from "./priority";

const COLUMNS: Column[] = ["Place", "Project", "Class", "Wants", "Waits because", "Nodes kept", ["Since", "number"], ["Gives up", "number"]];
const TONES: Record<string, Tone> = { high: "warn", normal: "busy", low: "idle" };

export function Row({ request, hosts, told }: { request: QueuedRequest; hosts: Map<string, string>; told: (text: string) => void }) {
  const { position, slot_class, project_id = "", priority = "unspecified", gpus = 0, allocation_ids = [], since, deadline, reason = "", backfill_node_ids = [] } = request;
  return (
    <tr>
      <td className="tight">
        <strong>{position}</strong> <span className="muted">in line {slot_class}</span>
      </td>
      <td>
        <ProjectName id={project_id} />
      </td>
      <td className="tight">
        <Badge tone={TONES[priority] ?? "idle"}>{sentence(priority)}</Badge>
        <SetPriority
          project={project_id}
          told={told}
          trigger={
            <Button kind="quiet" small aria-label={`Change the class of project ${projectText(project_id)}`}>
              Change
            </Button>
          }
        />
      </td>
      <td title={allocation_ids.map(shortId).join(", ")}>
        {plural(gpus, "GPU")} <span className="muted">in {plural(allocation_ids.length, "allocation")}</span>
      </td>
      <td>{sentence(reason.toLowerCase()) || "–"}</td>
      <td>{backfill_node_ids.map((id) => hosts.get(id) ?? shortId(id)).join(", ") || "–"}</td>
      <td className="number">
        <Time value={since} />
      </td>
      <td className="number">
        <Time value={deadline} />
      </td>
    </tr>
  );
}

function Waiting({ regions }: { regions: Region[] }) {
  const [wanted, setWanted] = useState("");
  const [told, setTold] = useState("");
  const region = wanted || firstRegion(regions);
  const line = useLine(region);
  const total = line.data?.pages[0]?.total ?? 0;
  const fleet = useFleetWatch().view;
  const hosts = new Map((fleet ? nodesOf(fleet) : []).map(({ id = "", config }) => [id, config?.hostname ?? id]));
  return (
    <Loaded of={[line]} lines={4} label="Loading who waits">
      {({ pages }) => (
        <>
          <p className="lead">
            <span className="muted">The first is served as soon as it fits; nodes may be kept for it. Every hour of waiting raises a request by one class.</span>
            <span className="page-actions">
              <Select label="Region" value={region} onChoose={setWanted} options={optionsOf(regions)} />
              <SetPriority
                told={setTold}
                trigger={
                  <Button>
                    <ListOrdered size={15} aria-hidden="true" /> Set a priority
                  </Button>
                }
              />
            </span>
          </p>
          <p className="told" role="status">
            {told}
          </p>
          {total === 0 ? (
            <Empty icon={<Hourglass size={28} />} title="Nobody waits here">
              A launch that does not fit now, and that may wait, stands here until it is served or its deadline is over.
            </Empty>
          ) : (
            <TableCard
              label="Who waits"
              columns={COLUMNS}
              foot={
                <>
                  <span className="muted" role="status">
                    {plural(total, "request")} in line.
                  </span>
                  {line.hasNextPage && (
                    <Button small busy={line.isFetchingNextPage} onClick={() => line.fetchNextPage()}>
                      Show more
                    </Button>
                  )}
                </>
              }
            >
              {once(pages.flatMap(({ requests = [] }) => requests)).map((request) => (
                // by what it is, not by its place: a question that is open stays with it
                <Row key={request.allocation_ids?.[0]} request={request} hosts={hosts} told={setTold} />
              ))}
            </TableCard>
          )}
        </>
      )}
    </Loaded>
  );
}

/** Each request once: one that moved back while pages were read is on two of them. */
export function once(requests: QueuedRequest[]): QueuedRequest[] {
  const seen = new Set<string | undefined>();
  return requests.filter(({ allocation_ids }) => seen.size < seen.add(allocation_ids?.[0]).size);
}

export function Line() {
  return (
    <Loaded of={[useRegions()]} lines={4} label="Loading the regions">
      {(regions) => (regions.length === 0 ? <NoRegions /> : <Waiting regions={regions} />)}
    </Loaded>
  );
}
