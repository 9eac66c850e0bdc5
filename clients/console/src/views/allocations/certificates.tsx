/** What proves that the disks of an allocation that has ended are wiped. */
import { useWipeCertificates } from "../../api/queries";
import type { Allocation, WipeCertificate } from "../../api/types";
import { download } from "../../lib/csv";
import { sentence } from "../../lib/text";
import { Button, Card, Skeleton, Time } from "../../ui/basics";
import { ProblemNote } from "../../ui/problem";
import { isBaremetal, isEnded } from "./state";

/** Name of the file that a certificate is saved as, the same as the command line's. */
export function fileOf({ slot_id, slot_generation }: WipeCertificate): string {
  return `wipe-${slot_id}-${slot_generation}.json`;
}

function Line({ certificate, alone }: { certificate: WipeCertificate; alone: boolean }) {
  const { document: text, erase_method, policy, accept_time } = certificate;
  return (
    <div className="under-way-line">
      <span>
        {alone ? "Disk wiped" : `Disk of slot ${certificate.slot_id?.slice(-6)} wiped`} by {sentence(erase_method || policy || "").toLowerCase()}, <Time value={accept_time} />
      </span>
      {text ? (
        <Button small onClick={() => download(fileOf(certificate), text, "application/json")}>
          Download certificate
        </Button>
      ) : (
        <span className="muted">The wipe is proven, but the signature of the host is not valid, possibly because its clock was wrong. Your operator can show the evidence.</span>
      )}
    </div>
  );
}

export function WipeCertificates({ allocation }: { allocation: Allocation }) {
  const wanted = isEnded(allocation) && !isBaremetal(allocation);
  const listed = useWipeCertificates(allocation.id ?? "", wanted);
  if (!wanted) return null;
  if (listed.isPending) return <Card title="Wipe certificates"><Skeleton lines={1} label="Loading the wipe certificates" /></Card>;
  if (listed.error) return <Card title="Wipe certificates"><ProblemNote error={listed.error} retry={() => listed.refetch()} /></Card>;
  if (listed.data.length === 0) return null;
  return (
    <Card title="Wipe certificates">
      {listed.data.map((one) => <Line key={fileOf(one)} certificate={one} alone={listed.data.length === 1} />)}
    </Card>
  );
}
