from tests.known_answers.victims import audit as audit
