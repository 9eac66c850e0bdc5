/** In place of the form, for a project whose members cannot reserve. */
import { Empty } from "../../ui/basics";
import { CalendarClock } from "../../ui/icons";
import { raise } from "../../lib/text";
import { useMay } from "../../session/rights";

export function NoLimit() {
  const admin = useMay("manage");
  return (
    <Empty icon={<CalendarClock size={28} />} title="This project cannot reserve GPUs yet">
      Its reservation limit is 0: {raise("the reservation limit", admin)}, or {admin ? "reserve GPUs for the project there" : "to reserve GPUs for the project"}.
    </Empty>
  );
}
