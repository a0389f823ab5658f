"""Tests of what the second edition's text is made by: `python -m unittest test_second` in tools/pretrain, about ten seconds. The
chat template and the graders have tests in test/integration/pretrain."""

import json
import random
import re
import tempfile
import unittest
from pathlib import Path

import chat_teacher
import contamination
from corpus import talk, tool_chat
from corpus.talk import calls, everyday, sampled, schemas

COUNT = 1000


def of_type(value: object, schema: dict) -> bool:
    kinds = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}
    if not isinstance(value, kinds[schema["type"]]) or (schema["type"] == "integer" and isinstance(value, bool)):
        return False
    if schema["type"] == "array":
        return all(of_type(each, schema["items"]) for each in value)
    if schema["type"] == "object":
        return set(value) == set(schema["properties"]) and all(of_type(value[key], each) for key, each in schema["properties"].items())
    return value in schema.get("enum", [value])


class Contamination(unittest.TestCase):
    def test_every_prompt_is_found_in_chat_in_lower_case_and_in_a_sentence(self):
        for prompt in contamination.prompts():
            self.assertTrue(contamination.found_in(f"<|im_start|>user\n{prompt}<|im_end|>\n"), prompt)
            self.assertTrue(contamination.found_in(f"Q: {prompt.lower()}\nA: Yes."), prompt)
            self.assertTrue(contamination.found_in(f"Hello.\n{prompt.upper()} Yes, it is."), prompt)

    def test_other_text_is_kept(self):
        for text in ("What color is the grass of your neighbor?", "Once upon a time there was a fox.", "I will call Peter tomorrow."):
            self.assertEqual(contamination.found_in(text), set(), text)
        self.assertEqual(contamination.without(["A fox.", "What color is grass? Green."]), ["A fox."])

    def test_few_documents_of_each_domain_contain_a_prompt(self):
        for domain in talk.DOCUMENTS:
            texts = talk.shard(domain, 5, COUNT, "train")
            self.assertGreater(len(contamination.without(texts)), 0.95 * COUNT, domain)


class Documents(unittest.TestCase):
    def test_a_shard_is_a_function_of_its_arguments_and_its_sides_are_disjoint(self):
        for domain in talk.DOCUMENTS:
            one, two = (talk.shard(domain, 3, 60, "train") for _ in range(2))
            self.assertEqual(one, two)
            self.assertFalse(set(talk.shard(domain, 3, 400, "train")) & set(talk.shard(domain, 3, 60, "heldout")), domain)

    def test_objects_fit_their_schemas_and_their_values_are_in_the_text(self):
        rng = random.Random(1)
        for _ in range(COUNT):
            text, schema, value = schemas.task(rng)
            self.assertTrue(of_type(value, schema), (text, schema, value))
            for each in value.values():
                if isinstance(each, int) and not isinstance(each, bool) and "star" not in text:
                    self.assertIn(str(each), text)

    def test_calls_name_an_offered_tool_and_give_all_its_fields_with_values_of_the_request(self):
        rng = random.Random(2)
        seen = 0
        for _ in range(COUNT):
            text = calls.call_document(rng)
            tools = [json.loads(line) for line in text.split("Tools:\n")[1].split("\nTo call one")[0].split("\n")]
            self.assertTrue(1 <= len(tools) <= 3)
            conversation = text.split("<|im_end|>", 1)[1]
            for call in re.findall(r"<tool_call>\n(.*?)\n</tool_call>", conversation):
                seen += 1
                read = json.loads(call)
                offered = {tool["name"]: tool["parameters"] for tool in tools}
                self.assertTrue(of_type(read["arguments"], offered[read["name"]]), text)
                asked = conversation.split(call)[0].lower()
                for each in read["arguments"].values():
                    self.assertTrue(str(each).lower() in asked or each in ("on", "off"), text)
        self.assertGreater(seen, 0.6 * COUNT)

    def test_a_refusal_never_follows_a_request_that_a_tool_fits(self):
        rng = random.Random(3)
        refused = [text for _ in range(COUNT) if any(reply in (text := calls.call_document(rng)) for reply in calls.NOTHING_FITS)]
        self.assertGreater(len(refused), 0.08 * COUNT)
        for text in refused:
            self.assertNotIn("<tool_call>", text.split("<|im_end|>", 1)[1])

    def test_the_knowledge_tables_parse(self):
        rng = random.Random(4)
        for kind in set(everyday.KINDS):
            for _ in range(200):
                question, answer = kind(rng)
                self.assertNotIn("|", question + answer)
                self.assertNotIn("{", question + answer)
                self.assertTrue(answer.endswith((".", "!")), (question, answer))


class Teacher(unittest.TestCase):
    ASK = sampled.Ask("explain", "What is a ladder?", (), "ladder")

    def test_a_good_pair_is_kept_and_the_shorter_reply_chosen(self):
        kept = sampled.chosen(self.ASK, "A ladder is a tool with steps to climb up high.", "A ladder is a thing with steps that you use to climb up to high places.")
        self.assertEqual(kept, ("A ladder is a tool with steps to climb up high.", "kept"))

    def test_each_rule_rejects(self):
        good = "A ladder is a tool with steps to climb up high."
        wrong = {
            "": "length",
            "A ladder is a tool with steps to climb": "form",
            "As an AI assistant I like a ladder.": "mannerism",
            "A ladder is a ladder is a ladder is a ladder is a ladder.": "repetition",
            "Ladders constitute indispensable construction equipment facilitating vertical transportation.": "long words",
            "It is what a ladder is.": "echo",
            "The moon shines bright at night.": "off topic",
        }
        for reply, reason in wrong.items():
            self.assertEqual(sampled.chosen(self.ASK, good, reply), (None, reason), reply)
        self.assertEqual(sampled.chosen(self.ASK, good, "A ladder is an animal that eats grass in fields."), (None, "disagreement"))

    def test_pieces_join_to_the_same_bytes_and_damage_is_an_error(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "whole").write_bytes(bytes(range(256)) * 40)
            parts = chat_teacher.split(folder / "whole", folder / "parts", 4096)
            self.assertEqual([part.stat().st_size for part in parts], [4096, 4096, 2048])
            chat_teacher.join(folder / "parts", folder / "again")
            self.assertEqual((folder / "again").read_bytes(), (folder / "whole").read_bytes())
            parts[1].write_bytes(b"x")
            self.assertRaisesRegex(ValueError, "SHA-256", chat_teacher.join, folder / "parts", folder / "again")
            parts[2].unlink()
            self.assertRaisesRegex(ValueError, "part.02", chat_teacher.join, folder / "parts", folder / "again")


class Template(unittest.TestCase):
    def test_the_corpus_writes_what_the_fixture_recorded(self):
        fixture = Path(__file__).parent.parent.parent / "test" / "fixtures" / "base-model" / "chat-template.json"
        for case in json.loads(fixture.read_text()):
            self.assertEqual(tool_chat.render(case["messages"], case["tools"], case["addGenerationPrompt"]), case["text"])


if __name__ == "__main__":
    unittest.main()
