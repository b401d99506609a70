#pragma once
#include "adapters/net/asio_event_loop.h"
#include "ports/http_client.h"

#include <functional>
#include <string_view>

namespace dgxmm::net {

/// One connection per call, no redirects, no compression. Codes beside those of the port: `bad_request` for a call that
/// cannot be written down (a space in the path), `body_too_large`.
///
/// `stream`: pieces are the body of a 2xx answer only; the body of any other comes in the reply, as for `call`.
class AsioHttpClient final : public ports::HttpClient {
 public:
  /// The loop must outlive the client and its calls, which end with `cancelled` when the loop stops.
  explicit AsioHttpClient(AsioEventLoop& loop) : loop_(loop) {}

  ports::Task<Result<ports::HttpReply>> call(ports::HttpCall request) override;
  ports::Task<Result<ports::HttpReply>> stream(ports::HttpCall request,
                                               std::function<bool(std::string_view)> on_piece) override;

 private:
  AsioEventLoop& loop_;
};

}  // namespace dgxmm::net
