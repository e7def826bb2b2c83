/** Messages and events as the document says them, for readers: they change nothing, and tell the parts of a message apart. */

import type * as document from './schema.ts';

/** What is read stays as it is. */
type Frozen<T> = [document.Json] extends [T]
  ? T
  : T extends readonly (infer Item)[]
    ? readonly Frozen<Item>[]
    : T extends object
      ? { readonly [Name in keyof T]: Frozen<T[Name]> }
      : T;

export type { CardStatus, Json, ModelErrorKind, Timestamp, ToolCallStatus, ToolErrorCode } from './schema.ts';

export type ApprovalCard = Frozen<document.ApprovalCard>;
export type AssistantMessage = Frozen<document.AssistantMessage>;
export type CallResult = Frozen<document.CallResult>;
export type Content = Frozen<document.Content>;
export type Decided = Frozen<document.Decided>;
export type Event = Frozen<document.Event>;
export type ExhaustedReason = document.ExhaustedReason;
export type IterationUsage = Frozen<document.IterationUsage>;
export type Message = Frozen<document.Message>;
export type ModelError = Frozen<document.ModelError>;
export type Outcome = Frozen<document.Outcome>;
export type Part = Frozen<document.Part>;
export type SystemMessage = Frozen<document.SystemMessage>;
export type TurnEnd = Frozen<document.TurnEnd>;
export type UserMessage = Frozen<document.UserMessage>;

/** The part of a message of one kind. */
type PartOf<Type extends Part['type']> = Extract<Part, { readonly type: Type }>;

export type InputPart = PartOf<'input'>;
export type TextPart = PartOf<'text'>;
export type ThinkingPart = PartOf<'thinking'>;
export type ToolCallPart = PartOf<'tool_call'>;

/** What tells events apart. */
export type EventType = Event['type'];
