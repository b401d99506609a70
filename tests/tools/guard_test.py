#!/usr/bin/env python3
"""guard_test.py GUARD.cpp: the middleware that is in it, alone, with scopes as a server of ASGI makes them."""
import asyncio
import os
import re
import sys
import unittest


def load():
    source = re.search(r'R"py\((.*?)\)py"', open(sys.argv.pop(1)).read(), re.DOTALL)[1]
    module = {}
    exec(compile(source, "dgxmm_guard.py", "exec"), module)
    return module["Guard"]


os.environ["DGXMM_GUARD_SECRET"] = "s3cret"
Guard = load()


def answer(path, kind="http", headers=(), **more):
    """True: it was passed on. Else what was sent instead."""
    passed, sent = [], []

    async def application(scope, receive, send):
        passed.append(scope)

    async def send(message):
        sent.append(message)

    scope = {"type": kind, "path": path, "headers": list(headers), **more}
    asyncio.run(Guard(application)(scope, None, send))
    return True if passed else sent


SECRET = (b"x-dgxmm-secret", b"s3cret")


class GuardTest(unittest.TestCase):
    def refused(self, *arguments, **more):
        sent = answer(*arguments, **more)
        self.assertIsNot(sent, True)
        self.assertEqual(sent[0]["status"], 403)
        self.assertEqual(dict(sent[0]["headers"])[b"content-length"], str(len(sent[1]["body"])).encode())

    def test_what_serves_models_is_for_everybody(self):
        for path in ("/v1/models", "/v1/chat/completions", "/v2/rerank", "/health", "/metrics", "/metrics/", "/tokenize"):
            self.assertIs(answer(path), True, path)

    def test_everything_else_takes_the_secret(self):
        for path in ("/sleep", "/sleep/", "//sleep", "/v1", "/v1x/models", "/V1/models", "/healthz", "/metrics/x", "", "/",
                     "/collective_rpc", "/of/a/later/version"):
            self.refused(path)
            self.assertIs(answer(path, headers=[SECRET]), True, path)

    def test_a_wrong_secret_and_two_of_them_are_none(self):
        for headers in ([(b"x-dgxmm-secret", b"")], [(b"x-dgxmm-secret", b"s3cre")], [SECRET, SECRET],
                        [(b"x-dgxmm-secret", b"\xff\x00")]):
            self.refused("/sleep", headers=headers)

    def test_a_path_is_what_is_left_of_it_behind_the_root(self):
        self.refused("/v1/sleep", root_path="/v1")
        self.assertIs(answer("/v1/v1/models", root_path="/v1"), True)

    def test_web_sockets_are_closed_and_the_life_of_the_server_is_not_its_business(self):
        self.assertEqual(answer("/sleep", kind="websocket"), [{"type": "websocket.close", "code": 1008}])
        self.assertIs(answer("/v1/realtime", kind="websocket"), True)
        self.assertIs(answer("", kind="lifespan"), True)

    def test_without_a_secret_nobody_passes(self):
        os.environ["DGXMM_GUARD_SECRET"] = ""
        try:
            self.refused("/sleep", headers=[(b"x-dgxmm-secret", b"")])
        finally:
            os.environ["DGXMM_GUARD_SECRET"] = "s3cret"


if __name__ == "__main__":
    unittest.main()
