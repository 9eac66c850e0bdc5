// Runs before the first paint, so that a chosen theme does not flash.
try {
  var theme = localStorage.getItem("gpuaas.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch (_) {
  // storage may be denied; then the system's theme stays
}
