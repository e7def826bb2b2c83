export type * from '@turnbuckle/client/events';
export { sameJson } from './equal';
export { emptyTurn, foldTurn, FoldError, type TurnFold } from './turn';
export * from './session';
