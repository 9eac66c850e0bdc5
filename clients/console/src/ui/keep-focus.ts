/** Keeps people who use the keyboard where they are. */

/**
 * When the focused element leaves the page, as a link does that led to another view, the browser lets the focus fall to
 * the body, and Tab begins at the top again. Then it goes to `target`.
 */
export function keepFocus(target: () => HTMLElement | null): void {
  let last: Element | null = null;
  document.addEventListener("focusin", ({ target: focused }) => {
    if (focused instanceof Element) last = focused;
  });
  const check = () => {
    if (!last || last.isConnected || document.activeElement !== document.body) return;
    target()?.focus({ preventScroll: true });
  };
  // a dialog that has just left keeps the page from taking the focus a moment longer
  new MutationObserver(check).observe(document.body, { childList: true, subtree: true, attributes: true, attributeFilter: ["inert"] });
}
