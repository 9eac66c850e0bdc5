/** What is unusual about an allocation now, such as a lost host. */
import type { Allocation } from "../../api/types";
import { nameOf } from "../../lib/allocation-name";
import { sentence } from "../../lib/text";
import { Time } from "../../ui/basics";
import { TriangleAlert } from "../../ui/icons";
import { ForceRelease } from "./force-release";
import { isHostLost } from "./state";

export function Conditions({ allocation }: { allocation: Allocation }) {
  const { id = "", status } = allocation;
  return status?.conditions?.map(({ type = "", message, since }) => (
    <div key={type} className="problem condition" role="alert">
      <TriangleAlert size={18} aria-hidden="true" />
      <div>
        <p className="problem-message">{sentence(type)}</p>
        <p>
          {message} <span className="muted">Since <Time value={since} />.</span>
        </p>
      </div>
      {isHostLost(allocation) && <ForceRelease id={id} name={nameOf(allocation)} />}
    </div>
  ));
}
