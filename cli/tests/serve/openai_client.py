"""The official OpenAI client against a service. Arguments: base URL, API key. Every assertion is about what the client hands to its user."""

import sys

import openai
from openai import OpenAI

BASE, KEY = sys.argv[1:3]
client = OpenAI(base_url=BASE + "/v1", api_key=KEY, max_retries=0, timeout=120)
MODEL = client.models.list().data[0].id
assert client.models.retrieve(MODEL).id == MODEL


def refused(kind, **asked):
    try:
        client.completions.create(**{"model": MODEL, "prompt": "Amen", "max_tokens": 1, **asked})
    except kind as error:
        return error
    raise AssertionError(f"{asked} was not refused")


# Completions, usage, what is on record.
whole = client.completions.create(model=MODEL, prompt="In the beginning", max_tokens=8, temperature=0)
assert whole.choices[0].finish_reason == "length" and whole.usage.completion_tokens == 8, whole
record = whole.model_extra["lastbit"]["choices"][0]
assert record["receipt"].count("\n") >= 3 and record["record"]["digest"].startswith("sha256:"), record

# Streaming says the same.
pieces = client.completions.create(
    model=MODEL, prompt="In the beginning", max_tokens=8, temperature=0, stream=True, stream_options={"include_usage": True}
)
text, ends, usage, receipts = "", [], None, 0
for chunk in pieces:
    usage = chunk.usage or usage
    receipts += "lastbit" in (chunk.model_extra or {})
    for choice in chunk.choices:
        text += choice.text
        ends += [choice.finish_reason] if choice.finish_reason else []
assert (text, ends, receipts) == (whole.choices[0].text, ["length"], 1), (text, ends)
assert usage.total_tokens == whole.usage.total_tokens

# Seeds, several choices.
seeded = [client.completions.create(model=MODEL, prompt="And the LORD", max_tokens=6, seed=11, n=2) for _ in range(2)]
assert [c.text for c in seeded[0].choices] == [c.text for c in seeded[1].choices]
assert [c.index for c in seeded[0].choices] == [0, 1] and seeded[0].choices[0].text != seeded[0].choices[1].text

# Stop strings.
stop = whole.choices[0].text[4:9]
stopped = client.completions.create(model=MODEL, prompt="In the beginning", max_tokens=8, temperature=0, stop=[stop])
assert stopped.choices[0].finish_reason == "stop"
assert stopped.choices[0].text == whole.choices[0].text.split(stop)[0], stopped

# Log-probabilities.
known = client.completions.create(model=MODEL, prompt="In the beginning", max_tokens=3, temperature=0, logprobs=2)
logprobs = known.choices[0].logprobs
assert len(logprobs.tokens) == len(logprobs.token_logprobs) == 3 and all(p <= 0 for p in logprobs.token_logprobs)
assert all(max(top.values()) == own for top, own in zip(logprobs.top_logprobs, logprobs.token_logprobs))

# Errors by the client's classes.
assert refused(openai.BadRequestError, presence_penalty=1.0).param == "presence_penalty"
assert refused(openai.BadRequestError, max_tokens=5000).code == "context_length_exceeded"
assert refused(openai.NotFoundError, model="gpt-4").code == "model_not_found"
client.api_key = "not-a-key-0123456789"
refused(openai.AuthenticationError)
client.api_key = KEY

# Chat: an answer where the model has a template, a clear error where it has none.
messages = [{"role": "user", "content": "Who created the heaven?"}]
try:
    chat = client.chat.completions.create(model=MODEL, messages=messages, max_tokens=4, temperature=0)
    assert chat.choices[0].message.role == "assistant" and chat.choices[0].finish_reason in ("length", "stop")
except openai.BadRequestError as error:
    assert "no chat template" in error.message, error

print("the client is content")
