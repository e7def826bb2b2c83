// Before the first paint, so that a chosen theme does not flash. A file of its own, since inline scripts are forbidden.
try {
  const theme = localStorage.getItem('turnbuckle.theme');
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
} catch {
  // Without storage the theme is the system's.
}
