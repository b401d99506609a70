#include "core/engine/guard.h"

namespace dgxmm::engine {

// vLLM's calls for developers are at the root, in 0.10.2 to 0.32 (vllm/entrypoints: serve/dev, rl/online): six at
// first, thirty by now. So what is not known to be for everybody is refused.
const PythonModule kGuard{
    .name = "dgxmm_guard",
    .source =
        R"py("""Keeps the calls that control this engine for dgxmm. Written by dgxmm at each start; changes are lost."""
import hmac
import os

PUBLIC_FOLDERS = ("/v1/", "/v2/")
PUBLIC_PATHS = frozenset((
    "/health", "/ping", "/version", "/load", "/metrics", "/metrics/", "/tokenize", "/detokenize", "/pooling",
    "/classify", "/score", "/rerank", "/invocations", "/openapi.json"))
HEADER = b"x-dgxmm-secret"
REFUSAL = b'{"error":{"message":"this call is kept for dgxmm, which manages this engine","code":403}}'


class Guard:
    def __init__(self, app):
        self.app = app
        self.secret = os.environ.get("DGXMM_GUARD_SECRET", "").encode()

    def lets_through(self, scope):
        path = scope["path"].removeprefix(scope.get("root_path", ""))  # what routes are found by
        if path in PUBLIC_PATHS or path.startswith(PUBLIC_FOLDERS):
            return True
        given = [value for name, value in scope["headers"] if name == HEADER]
        return bool(self.secret) and len(given) == 1 and hmac.compare_digest(given[0], self.secret)

    async def __call__(self, scope, receive, send):
        if scope["type"] not in ("http", "websocket") or self.lets_through(scope):
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await send({"type": "http.response.start", "status": 403,
                        "headers": [(b"content-type", b"application/json"),
                                    (b"content-length", str(len(REFUSAL)).encode())]})
            await send({"type": "http.response.body", "body": REFUSAL})
)py"};

std::string python_path(std::string_view folder, std::string_view before) {
  std::string path{folder};
  // An empty entry would be the working folder.
  if (!before.empty()) path.append(":").append(before);
  return path;
}

}  // namespace dgxmm::engine
