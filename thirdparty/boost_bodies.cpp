// The bodies of Boost's header-only libraries, compiled once for the whole project.
#include <boost/asio/impl/src.hpp>
#include <boost/beast/src.hpp>
#include <boost/json/src.hpp>
