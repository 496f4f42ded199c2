// One entry in the history for each action of the user: what the app writes into the address by itself, before or after
// that, changes the entry that is there.
(() => {
  if (window.mrcDocument) return;
  window.mrcDocument = true;
  const push = history.pushState.bind(history);
  let acted = false;
  // not pointerdown: what the app writes between that and the click would make an entry of its own
  for (const kind of ["click", "keydown"]) addEventListener(kind, () => (acted = true), true);
  addEventListener("popstate", () => (acted = false), true);
  history.pushState = (state, title, address) => {
    if (acted) push(state, title, address);
    else history.replaceState(state, title, address);
    acted = false;
  };

  // Copying needs a click that the browser saw; without https there is no clipboard, but the older command.
  const copyByCommand = (text) => {
    const field = Object.assign(document.createElement("textarea"), { value: text });
    document.body.append(field);
    field.select();
    const copied = document.execCommand("copy");
    field.remove();
    if (!copied) prompt("", text);
  };
  addEventListener("click", (event) => {
    if (!event.target.closest?.('[class*="st-key-copy_link"] button')) return;
    const copying = navigator.clipboard?.writeText(location.href);
    if (copying) copying.catch(() => copyByCommand(location.href));
    else copyByCommand(location.href);
  }, true);
})();
