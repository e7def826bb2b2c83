export { Backoff, isOver, sleep } from './backoff.ts';
export { createClient, unwrap, type Client, type ClientOptions } from './client.ts';
export { describe, isPassing, Problem, Unreachable } from './problem.ts';
export type {
  ApprovalCard,
  AssistantMessage,
  CallResult,
  Content,
  Decided,
  Event,
  EventType,
  InputPart,
  IterationUsage,
  Message,
  ModelError,
  Outcome,
  Part,
  SystemMessage,
  TextPart,
  ThinkingPart,
  ToolCallPart,
  TurnEnd,
  UserMessage,
} from './events.ts';
export type * from './schema.ts';
export { FrameParser, framesOf, type Frame } from './sse.ts';
export {
  follow,
  openEvents,
  toldBy,
  watch,
  Watcher,
  type FollowOptions,
  type OpenStream,
  type Told,
  type WatcherHandlers,
  type WatchOptions,
  type WatchState,
} from './watch.ts';
