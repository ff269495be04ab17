"""The words of a report, in a sentence each: shown where a word first appears, and in a section of their own."""

from __future__ import annotations

GLOSSARY = {
    "fidelity": "how often the copy and the model name the same class, on test inputs the attacker never saw; a copy "
    "that repeats the model's mistakes is a better copy",
    "query": "one input that the model answered; repeats count",
    "view": "what the API shows of an answer: labels, the top K classes, probabilities, logits, perhaps explanations",
    "arm": "all seeds of one attack under one view and one defense",
    "control": "an arm that is there to be compared with; it never decides the policy",
    "interval": "where the true value lies with 95% confidence: over all inputs, and over all seeds where seeds are "
    "averaged",
    "seed": "the number that fixes everything random in a run; several show how much luck there was",
    "budget": "the most queries an attack may ask",
    "untrained copy": "a network that learned nothing: what agreement costs no query at all",
    "white box": "an attacker who holds the model itself: the most that can be done",
    "probability moved": "how far the answers behind a defense are from those without it: half the summed difference "
    "of the probabilities, on average",
    "rate limit": "the most queries one client may ask in a day",
}
PLURALS = {"queries": "query"} | {f"{word}s": word for word in GLOSSARY if word != "query"}
