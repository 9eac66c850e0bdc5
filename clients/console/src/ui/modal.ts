/** What all dialogs that stand in front of the page have in common. */

/** Where the focus was when each of the dialogs that are open took it, the outermost first. */
const open: (Element | null)[] = [];

function update(): void {
  const page = document.getElementById("root");
  if (page) page.inert = open.length > 0;
}

/**
 * Of the content of a dialog: nothing behind it is reached by keyboard, or by software that reads the page, while it is open,
 * and the focus goes back to where it was, also where no button opened it.
 */
export const MODAL = {
  onOpenAutoFocus: () => {
    open.push(document.activeElement);
    update();
  },
  onCloseAutoFocus: () => {
    const before = open.pop();
    update();
    if (before instanceof HTMLElement && before !== document.body) before.focus();
  },
};
