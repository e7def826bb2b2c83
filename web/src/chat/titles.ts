import { createContext } from 'react';

/** Tools' names for people, by their names for the model. */
export const ToolTitles = createContext<ReadonlyMap<string, string>>(new Map());
