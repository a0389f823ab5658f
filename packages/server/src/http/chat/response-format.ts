/** The format that a client asks a reply to have, in the words of each API. Schemas are read by the engine, which knows what it can honour. */
import { type Constraint, InputError } from "@tinklet/engine";
import { Refusal } from "../../queue/refusal.ts";
import { type Body, badField, objectField, textField, unsupported } from "./fields.ts";

/** A format, and where the client asked for it. */
export interface ResponseFormat {
  readonly constraint: Constraint;
  /** The parameter that holds it, or its schema. */
  readonly param: string;
  /** The parameter that leaves room for it. */
  readonly roomParam: string;
}

/** `response_format` of OpenAI's API. @throws {@link Refusal} 400 */
export function readResponseFormat(body: Body): ResponseFormat | undefined {
  const given = body["response_format"];
  if (given === undefined || given === null) return undefined;
  const format = objectField(given, "response_format");
  const roomParam = body["max_completion_tokens"] == null ? "max_tokens" : "max_completion_tokens";
  switch (format["type"]) {
    case "text":
      return undefined;
    case "json_object":
      return { constraint: { type: "json_object" }, param: "response_format", roomParam };
    case "json_schema": {
      const described = objectField(format["json_schema"], "response_format.json_schema");
      textField(described["name"], "response_format.json_schema.name", longestName);
      const { schema } = described;
      const param = "response_format.json_schema.schema";
      return { constraint: { type: "json_schema", schema: objectField(schema, param) }, param, roomParam };
    }
    default:
      throw unsupported("response_format.type", "only text, json_object and json_schema can be honoured");
  }
}

/** `output_config.format` of Anthropic's API, also under its older name `output_format`. @throws {@link Refusal} 400 */
export function readOutputFormat(body: Body): ResponseFormat | undefined {
  const { output_config: config, output_format: older } = body;
  const newer = config === undefined || config === null ? undefined : objectField(config, "output_config")["format"];
  if (newer != null && older != null) throw badField("output_format", "is given twice: output_config.format is enough");
  const at = newer != null ? "output_config.format" : "output_format";
  const given = newer ?? older;
  if (given === undefined || given === null) return undefined;
  const { type, schema } = objectField(given, at);
  if (type !== "json_schema") throw unsupported(`${at}.type`, "only json_schema can be honoured");
  const param = `${at}.schema`;
  return { constraint: { type, schema: objectField(schema, param) }, param, roomParam: "max_tokens" };
}

/** As in OpenAI's API. */
const longestName = 64;

/** What the engine refuses about a format, as a 400 that names the client's parameter; other errors as they are. */
export function formatRefusal(error: unknown, { param, roomParam }: ResponseFormat): unknown {
  if (!(error instanceof InputError)) return error;
  const { field, code, message } = error;
  const problem = message.slice(field.length + 2);
  if (code === "no_room_for_format") return badField(roomParam, problem, code);
  const [, inner] = /^params\.constraint(?:\.schema)?(.*)$/s.exec(field) ?? [];
  return inner === undefined ? error : new Refusal(400, code, `${param}${inner}: ${problem}`, { param });
}
