import { createContext } from 'react';

/** What pages may do with the frame around them. */
export interface ShellPort {
  readonly toggleSidebar: () => void;
  readonly openDrawer: () => void;
}

export const Shell = createContext<ShellPort>({ toggleSidebar: () => undefined, openDrawer: () => undefined });
