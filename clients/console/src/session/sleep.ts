/** Notices that the computer slept: timers stand still meanwhile, and a page that is in sight all the time is told nothing. */

const TICK_MS = 10_000;
/** Longer than a browser holds back the timers of a tab that nobody sees. */
const SLEPT_MS = 120_000;

/** Calls `woken` once after each sleep; returns what stops that. */
export function onWake(woken: () => void): () => void {
  let last = Date.now();
  const look = () => {
    const slept = Date.now() - last;
    last = Date.now();
    if (slept > SLEPT_MS) woken();
  };
  const timer = setInterval(look, TICK_MS);
  document.addEventListener("visibilitychange", look);
  return () => {
    clearInterval(timer);
    document.removeEventListener("visibilitychange", look);
  };
}
