import { createStore, useStore } from '../state/store';

export type Theme = 'system' | 'light' | 'dark';

const key = 'dgxmm.theme';

function stored(): Theme {
  try {
    const value = localStorage.getItem(key);
    return value === 'light' || value === 'dark' ? value : 'system';
  } catch {
    return 'system';
  }
}

const theme = createStore<Theme>('system');

function show(value: Theme): void {
  if (value === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = value;
}

/** Before the first paint, so that nothing flashes. */
export function startTheme(): void {
  theme.set(() => stored());
  show(theme.get());
}

export function setTheme(value: Theme): void {
  try {
    if (value === 'system') localStorage.removeItem(key);
    else localStorage.setItem(key, value);
  } catch {
    // kept until the page is closed, then
  }
  show(value);
  theme.set(() => value);
}

export function useTheme(): Theme {
  return useStore(theme, (value) => value);
}
