/** Reads the format of a reply from the parameters of each API. Schemas are passed to the engine, which refuses unsupported keywords. */
import { type Constraint, InputError } from "@tinklet/engine";
import { Refusal } from "../../queue/refusal.ts";
import { type Body, badField, objectField, textField, unsupported } from "./fields.ts";

/** A format, and the parameters that errors about it name. */
export interface ResponseFormat {
  readonly constraint: Constraint;
  /** The parameter that holds the format or its schema. */
  readonly param: string;
  /** The parameter that limits the tokens of the reply. */
  readonly roomParam: string;
  /** Used where this format has keywords that the grammar does not support. @defaultValue they are an error */
  readonly looser?: () => ResponseFormat;
}

/** `response_format` of OpenAI's API. @throws {@link Refusal} 400 */
export function readResponseFormat(body: Body): ResponseFormat | undefined {
  const value = body["response_format"];
  if (value === undefined || value === null) return undefined;
  const format = objectField(value, "response_format");
  const roomParam = roomParamOf(body);
  switch (format["type"]) {
    case "text":
      return undefined;
    case "json_object":
      return { constraint: { type: "json_object" }, param: "response_format", roomParam };
    case "json_schema": {
      const jsonSchema = objectField(format["json_schema"], "response_format.json_schema");
      textField(jsonSchema["name"], "response_format.json_schema.name", longestName);
      const { schema } = jsonSchema;
      const param = "response_format.json_schema.schema";
      return { constraint: { type: "json_schema", schema: objectField(schema, param) }, param, roomParam };
    }
    default:
      throw unsupported("response_format.type", "must be text, json_object or json_schema");
  }
}

/** The parameter that limits the tokens of a reply. */
export const roomParamOf = (body: Body): string =>
  body["max_completion_tokens"] == null ? "max_tokens" : "max_completion_tokens";

/** `output_config.format` of Anthropic's API, also under its older name `output_format`. @throws {@link Refusal} 400 */
export function readOutputFormat(body: Body): ResponseFormat | undefined {
  const { output_config: config, output_format: older } = body;
  const newer = config === undefined || config === null ? undefined : objectField(config, "output_config")["format"];
  if (newer != null && older != null) {
    throw badField("output_format", "must not be set together with output_config.format; leave it out");
  }
  const at = newer != null ? "output_config.format" : "output_format";
  const value = newer ?? older;
  if (value === undefined || value === null) return undefined;
  const { type, schema } = objectField(value, at);
  if (type !== "json_schema") throw unsupported(`${at}.type`, "must be json_schema");
  const param = `${at}.schema`;
  return { constraint: { type, schema: objectField(schema, param) }, param, roomParam: "max_tokens" };
}

/** Characters, as in OpenAI's API. */
const longestName = 64;

/** Converts the engine's error about a format to a 400 that names the client's parameter; returns other errors unchanged. */
export function formatRefusal(error: unknown, { param, roomParam }: ResponseFormat): unknown {
  if (!(error instanceof InputError)) return error;
  const { field, code, message } = error;
  const problem = message.slice(field.length + 2);
  if (code === "no_room_for_format") return badField(roomParam, problem, code);
  const [, inner] = /^params\.constraint(?:\.schema)?(.*)$/s.exec(field) ?? [];
  return inner === undefined ? error : new Refusal(400, code, `${param}${inner}: ${problem}`, { param });
}
