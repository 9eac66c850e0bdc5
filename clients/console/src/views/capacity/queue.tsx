/** The queued requests, in the order in which they are placed. */
import { useState } from "react";
import { useQueue } from "../../api/capacity";
import { useProjects, useRegions } from "../../api/queries";
import type { Region, QueuedRequest } from "../../api/types";
import { nodesOf, useFleetWatch } from "../../api/watches";
import { plural, sentence, shortId } from "../../lib/text";
import { Badge, Button, Empty, Time, type Tone } from "../../ui/basics";
import { Select } from "../../ui/form";
import { Hourglass, ListOrdered } from "../../ui/icons";
import { Loaded } from "../../ui/loaded";
import { NoRegions } from "../../ui/no-regions";
import { ProjectName } from "../../ui/project";
import { useQueryState } from "../../ui/use-query-state";
import { type Column, TableCard } from "../../ui/table";
import { firstRegion, optionsOf } from "../launch/choice";
import { SetPriority, projectText } from "./priority";

const COLUMNS: Column[] = ["Position", "Project", "Priority", "Request", "Reason", ["Backfill reservation", "optional"], ["Waiting since", "number"], ["Deadline", "number"]];
const TONES: Record<string, Tone> = { high: "warn", normal: "busy", low: "idle" };

export function Row({ request, hosts, notify }: { request: QueuedRequest; hosts: Map<string, string>; notify: (text: string) => void }) {
  const projects = useProjects();
  const { position, slot_class, project_id = "", priority = "unspecified", gpus = 0, allocation_ids = [], since, deadline, reason = "", backfill_node_ids = [] } = request;
  return (
    <tr>
      <td className="tight">
        <strong>{position}</strong> <span className="muted">{slot_class}</span>
      </td>
      <td>
        <ProjectName id={project_id} />
      </td>
      <td className="tight">
        <Badge tone={TONES[priority] ?? "idle"}>{sentence(priority)}</Badge>
        <SetPriority
          project={project_id}
          notify={notify}
          trigger={
            <Button kind="quiet" small aria-label={`Change the priority of project ${projectText(project_id, projects)}`}>
              Change
            </Button>
          }
        />
      </td>
      <td title={allocation_ids.map(shortId).join(", ")}>
        {plural(gpus, "GPU")} <span className="muted">in {plural(allocation_ids.length, "allocation")}</span>
      </td>
      <td>{sentence(reason.toLowerCase()) || "–"}</td>
      <td className="optional">{backfill_node_ids.map((id) => hosts.get(id) ?? shortId(id)).join(", ") || "–"}</td>
      <td className="number">
        <Time value={since} />
      </td>
      <td className="number">
        <Time value={deadline} />
      </td>
    </tr>
  );
}

function Requests({ regions }: { regions: Region[] }) {
  const [wanted, setWanted] = useQueryState("region");
  const [notice, setNotice] = useState("");
  const region = wanted || firstRegion(regions);
  const queue = useQueue(region);
  const total = queue.data?.pages[0]?.total ?? 0;
  const fleet = useFleetWatch().view;
  const hosts = new Map((fleet ? nodesOf(fleet) : []).map(({ id = "", config }) => [id, config?.hostname ?? id]));
  return (
    <Loaded of={[queue]} lines={4} label="Loading the queue">
      {({ pages }) => (
        <>
          <p className="lead">
            <span className="muted">The first request is placed as soon as it fits; a backfill reservation may keep nodes free for it. Each hour in the queue raises a request by one priority level.</span>
            <span className="page-actions">
              <Select label="Region" value={region} onChoose={setWanted} options={optionsOf(regions)} />
              <SetPriority
                notify={setNotice}
                trigger={
                  <Button>
                    <ListOrdered size={15} aria-hidden="true" /> Set priority
                  </Button>
                }
              />
            </span>
          </p>
          <p className="announcement" role="status">
            {notice}
          </p>
          {total === 0 ? (
            <Empty icon={<Hourglass size={28} />} title="The queue is empty">
              Launches that do not fit now and may be queued appear here until they are placed or reach their deadline.
            </Empty>
          ) : (
            <TableCard
              label="Queue"
              columns={COLUMNS}
              foot={
                <>
                  <span className="muted" role="status">
                    {plural(total, "queued request")}.
                  </span>
                  {queue.hasNextPage && (
                    <Button small busy={queue.isFetchingNextPage} onClick={() => queue.fetchNextPage()}>
                      Show more
                    </Button>
                  )}
                </>
              }
            >
              {once(pages.flatMap(({ requests = [] }) => requests)).map((request) => (
                // keyed by id and not by position, so that an open dialog stays with its request
                <Row key={request.allocation_ids?.[0]} request={request} hosts={hosts} notify={setNotice} />
              ))}
            </TableCard>
          )}
        </>
      )}
    </Loaded>
  );
}

/** Each request once: a request that moved back between two pages appears on both. */
export function once(requests: QueuedRequest[]): QueuedRequest[] {
  const seen = new Set<string | undefined>();
  return requests.filter(({ allocation_ids }) => seen.size < seen.add(allocation_ids?.[0]).size);
}

export function Queue() {
  return (
    <Loaded of={[useRegions()]} lines={4} label="Loading regions">
      {(regions) => (regions.length === 0 ? <NoRegions /> : <Requests regions={regions} />)}
    </Loaded>
  );
}
