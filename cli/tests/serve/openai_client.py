"""The official OpenAI client against a service. Arguments: base URL, API key. Every assertion is about what the client hands to its user."""

import struct
import sys
import threading

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

# Log-probabilities of the prompt, by echo and by an extension; the bits beside the decimals.
echo = client.completions.create(
    model=MODEL, prompt="In the beginning", max_tokens=2, temperature=0, logprobs=1, echo=True, extra_body={"prompt_logprobs": 1}
)
choice = echo.choices[0]
assert choice.text == "In the beginning" + client.completions.create(
    model=MODEL, prompt="In the beginning", max_tokens=2, temperature=0
).choices[0].text
assert choice.logprobs.token_logprobs[0] is None and all(p <= 0 for p in choice.logprobs.token_logprobs[1:])
assert len(choice.logprobs.tokens) == echo.usage.prompt_tokens + 2
bits = choice.logprobs.model_extra["lastbit_bits"]
for decimal, hexadecimal in list(zip(choice.logprobs.token_logprobs, bits))[1:]:
    assert struct.unpack(">f", bytes.fromhex(hexadecimal))[0] == decimal, (decimal, hexadecimal)
places = choice.model_extra["prompt_logprobs"]
assert places[0] is None and len(places) == echo.usage.prompt_tokens
for place, hexadecimal in list(zip(places, bits))[1:]:
    assert hexadecimal in [known["bits"] for known in place.values()]

# Bias, penalties, filters.
first = client.completions.create(model=MODEL, prompt="In the beginning", max_tokens=1, temperature=0, logprobs=0)
token = first.choices[0].logprobs.model_extra["lastbit_ids"][0]
free = dict(model=MODEL, prompt="In the beginning", max_tokens=16, temperature=0)
text = client.completions.create(**free).choices[0].text
other = client.completions.create(**free, logit_bias={str(token): -100}).choices[0]
assert not other.text.startswith(first.choices[0].text) or other.text[: len(text)] != text, other
assert client.completions.create(**free, presence_penalty=2.0, frequency_penalty=2.0).choices[0].text != text
assert client.completions.create(**free, extra_body={"repetition_penalty": 5.0}).choices[0].text != text
likeliest = client.completions.create(**{**free, "temperature": 1.0}, seed=3, extra_body={"min_p": 1.0}).choices[0]
assert likeliest.text == text, (likeliest.text, text)

# The best of several, ranked by what is on record.
best = client.completions.create(model=MODEL, prompt="And the LORD", max_tokens=5, temperature=1.3, seed=2, n=2, best_of=4)
told, rest = best.model_extra["lastbit"]["choices"], best.model_extra["lastbit"]["others"]
assert len(best.choices) == len(told) == len(rest) == 2
means = [c["mean_logprob"] for c in told + rest]
assert means == sorted(means, reverse=True), means

# Errors by the client's classes.
assert refused(openai.BadRequestError, presence_penalty=3.0).param == "presence_penalty"
assert refused(openai.BadRequestError, logit_bias={"x": 1}).param == "logit_bias"
assert refused(openai.BadRequestError, n=2, best_of=1).param == "best_of"
assert refused(openai.BadRequestError, n=1000).param == "n"
assert refused(openai.BadRequestError, suffix="x").code == "unsupported_parameter"
assert refused(openai.BadRequestError, max_tokens=5000).code == "context_length_exceeded"
assert refused(openai.NotFoundError, model="gpt-4").code == "model_not_found"
client.api_key = "not-a-key-0123456789"
refused(openai.AuthenticationError)
client.api_key = KEY

# A full queue: 429 with Retry-After, which the client follows when it may.
long = dict(model=MODEL, prompt="In the beginning", max_tokens=900, temperature=0)
busy = client.completions.create(**long, n=4, stream=True)
next(iter(busy))
full = refused(openai.RateLimitError)
assert full.code == "queue_full" and int(full.response.headers["retry-after"]) >= 1, full
threading.Timer(1.5, busy.close).start()
patient = client.with_options(max_retries=20).completions.create(model=MODEL, prompt="Amen", max_tokens=1)
assert patient.choices[0].finish_reason in ("length", "stop")

# Chat: an answer where the model has a template, a clear error where it has none.
messages = [{"role": "user", "content": "Who created the heaven?"}]
try:
    chat = client.chat.completions.create(model=MODEL, messages=messages, max_tokens=4, temperature=0)
    assert chat.choices[0].message.role == "assistant" and chat.choices[0].finish_reason in ("length", "stop")
except openai.BadRequestError as error:
    assert "no chat template" in error.message, error

print("the client is content")
